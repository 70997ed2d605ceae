"""A small pattern language for texts: words, prefixes, lists of words, and gaps.

Lists of clinical words are long and keep growing; in this language they stay readable. A text is
looked up word by word, so the length of a list costs nothing.

- `word` is that word; `word*` any with this prefix of at least two letters.
- `<name>` is any entry of the list of that name, and `#` a number or an amount in words.
- `this/that` is any one of these.
- `..` is a gap of at most `MAX_GAP` words.
- `one + another` is both, in either order, at most `MAX_APART` words between them; so on for more.

Case, possessive 's, commas, hyphens and brackets do not count; no match crosses the end of a
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_GAP = 4
MAX_APART = 7
_TOKEN = re.compile(r"\d+(?:[.,/:]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?|[%°]|[.;:!?]")
_END = frozenset(".;:!?")
_HIDDEN = "_"
_SPELLED = (
    "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty "
    "sixty hundred several few couple dozen half many dozens"
)
_NUMBERS = frozenset(_SPELLED.split())

Span = tuple[int, int]
Atom = tuple[str, ...]
Part = tuple[Atom, ...]
Pattern = tuple[Part, ...]


class Words:
    """A text split into words."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Replace one character by one, so that offsets stay valid.
        alike = text.replace("’", "'").replace("µ", "μ")  # two signs for micro
        plain = "".join(c.lower() if len(c.lower()) == 1 else c for c in alike)
        found = list(_TOKEN.finditer(plain))
        self.tokens = [match.group().removesuffix("'s") for match in found]
        self.places = [match.span() for match in found]
        self.lists: dict[str, dict[int, set[int]]] = {}

    def text_of(self, span: Span) -> str:
        """Return the words of a span as they are written."""
        return self._text[self.places[span[0]][0] : self.places[span[1] - 1][1]]

    def hide(self, spans: Iterable[Span]) -> None:
        """Exclude these spans from further matches."""
        for start, end in spans:
            self.tokens[start:end] = [_HIDDEN] * (end - start)
        self.lists.clear()

    @property
    def shown(self) -> str:
        """The text with hidden words masked; offsets stay valid."""
        shown = list(self._text)
        for token, (start, end) in zip(self.tokens, self.places, strict=True):
            if token == _HIDDEN:
                shown[start:end] = ";" * (end - start)
        return "".join(shown)


def parse(pattern: str) -> Pattern:
    """Read one pattern.

    >>> parse("cough* + blood")
    ((('cough*',),), (('blood',),))
    >>> parse("his/her mother .. died")
    ((('his', 'her'), ('mother',), ('..',), ('died',)),)
    """
    return tuple(
        tuple(tuple(one.removesuffix("'s") for one in word.split("/")) for word in part.split())
        for part in pattern.split(" + ")
    )


@dataclass(slots=True)
class Patterns:
    """Patterns, indexed by the first word of each."""

    sources: Sequence[str]
    """As written; see the module docstring."""
    lists: Mapping[str, Patterns]
    """What `<name>` stands for."""
    _by_word: dict[str, list[Pattern]] = field(init=False, default_factory=dict)
    _of_lists: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        for source in self.sources:
            pattern = parse(source)
            for first in pattern[0][0]:
                self._by_word.setdefault(first, []).append(pattern)
        self._of_lists = tuple(key for key in self._by_word if key[0] == "<")

    def find(self, words: Words, *, heads: bool = False) -> Iterator[Span]:
        """Yield the matches as (first, one past the last) word, earliest first.

        With `heads`, yield only the part before the first `+`; the other parts must match too.
        """
        for start, token in enumerate(words.tokens):
            if token in _END or token == _HIDDEN:
                continue
            for key in self._keys(words, start, token):
                for pattern in self._by_word[key]:
                    left, *others = pattern
                    for end in sorted(self._ends(words, left, start), reverse=True):
                        taken = [(start, end)]
                        for part in others:
                            if (one := self._beside(words, part, taken)) is None:
                                break
                            taken.append(one)
                        else:
                            yield (start, end) if heads else _around(taken)

    def _keys(self, words: Words, start: int, token: str) -> Iterator[str]:
        if token in self._by_word:
            yield token
        for length in range(2, len(token) + 1):
            if (key := f"{token[:length]}*") in self._by_word:
                yield key
        if "#" in self._by_word and _is_number(token):
            yield "#"
        for key in self._of_lists:
            if self._listed(words, key, start):
                yield key

    def _ends(self, words: Words, part: Part, start: int) -> set[int]:
        """Return the places where a part that begins at `start` may end."""
        ends = {start}
        for atom in part:
            ends = {later for end in ends for later in self._atom_ends(words, atom, end)}
        return ends

    def _atom_ends(self, words: Words, atom: Atom, start: int) -> set[int]:
        if atom == ("..",):
            return set(_reach(words.tokens, start, MAX_GAP))
        if start >= len(words.tokens):
            return set()
        ends: set[int] = set()
        for one in atom:
            if one[0] == "<":
                ends |= self._listed(words, one, start)
            elif _fits(one, words.tokens[start]):
                ends.add(start + 1)
        return ends

    def _listed(self, words: Words, key: str, start: int) -> set[int]:
        if key not in words.lists:
            known: dict[int, set[int]] = {}
            for first, end in self.lists[key[1:-1]].find(words):
                known.setdefault(first, set()).add(end)
            words.lists[key] = known
        return words.lists[key].get(start, set())

    def _beside(self, words: Words, part: Part, taken: Sequence[Span]) -> Span | None:
        """Return the first match of another part, after or between those found, else before."""
        first, last = _around(taken)
        ahead = _reach(words.tokens, first, last - first + MAX_APART)
        for at in (*ahead, *_reach_back(words.tokens, first)):
            for end in sorted(self._ends(words, part, at), reverse=True):
                is_near = first - end <= MAX_APART
                if is_near and all(end <= start or at >= stop for start, stop in taken):
                    return at, end
        return None


def _around(spans: Iterable[Span]) -> Span:
    starts, ends = zip(*spans, strict=True)
    return min(starts), max(ends)


def _reach(tokens: Sequence[str], start: int, most: int) -> Iterator[int]:
    """Yield the places from `start` on within a sentence, skipping at most `most` words."""
    for at in range(start, min(start + most, len(tokens) - 1) + 1):
        yield at
        if tokens[at] in _END:
            return


def _reach_back(tokens: Sequence[str], start: int) -> Iterator[int]:
    # A few more, because a part may have several words.
    for at in range(start - 1, max(start - MAX_APART - 3, 0) - 1, -1):
        if tokens[at] in _END:
            return
        yield at


def _fits(one: str, token: str) -> bool:
    if one == "#":
        return _is_number(token)
    return token.startswith(one[:-1]) if one[-1] == "*" else token == one


def _is_number(token: str) -> bool:
    return token[0].isdigit() or token in _NUMBERS
