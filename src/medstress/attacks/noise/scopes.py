"""Which words a noise may change: the key `scope` and what belongs to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from medstress.attacks.choices import BY_CHOICES, CHOICES, check_word
from medstress.attacks.noise.parameters import Parameters
from medstress.attacks.noise.protocol import NoiseResources
from medstress.core.errors import UsageError
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.core.text import tokenise

Scope: TypeAlias = Literal["lexicon", "entities", "all", "recognised", "words"]

GAZETTEER = "gazetteer"
"""The recogniser that needs no model: the names of the shipped tables."""
PUBLISHED = "en_core_sci_sm"
"""The paper says a biomedical spaCy model, not which; this is scispaCy's smallest."""


def word_key(word: str) -> str:
    """Return the key of a word, or of several in a row, in word lists.

    >>> word_key("Beta-blocker"), word_key("beta blocker")
    ('beta - blocker', 'beta blocker')
    """
    return " ".join(tokenise(word.lower()))


def listed_places(tokens: Sequence[str], known: Collection[str], most: int) -> list[int]:
    """Return the tokens that are in a word list, alone or as part of a run, in order.

    Whole tokens are compared, however the corpus is tokenised: `beta-blocker` is one token or
    three.

    Args:
        tokens: of a sentence.
        known: the words, as `word_key` writes them.
        most: the most parts that one of them has.

    >>> listed_places(("Beta-blocker", "beta", "-", "blocker", "beta", "blocker"),
    ...               {"beta - blocker"}, 3)
    [0, 1, 2, 3]
    """
    keys = [word_key(token).split() for token in tokens]
    found: set[int] = set()
    for start in range(len(keys)):
        parts: list[str] = []
        for end in range(start, len(keys)):
            parts += keys[end]
            if len(parts) > most:
                break
            if " ".join(parts) in known:
                found.update(range(start, end + 1))
    return sorted(found)


@dataclass(frozen=True, kw_only=True)
class Scoped(Parameters):
    """Base of noises that choose words: where they choose them from."""

    scope: Scope = BY_CHOICES
    """Which words: those of the `lexicon` wherever they stand (METHODS 4.2), those of gold
    `entities`, `all`, those of `recognised` mentions or of your list of `words`, also wherever they
    stand; default `lexicon`, as_published and as_released `recognised`."""
    words: str | None = None
    """scope = "words": a file with one word, or several in a row, per line."""
    recogniser: str | None = None
    """scope = "recognised": `gazetteer`, or a spaCy pipeline by name or folder, every entity of
    which counts whatever its label; default `gazetteer`, as_published and as_released scispaCy's
    `en_core_sci_sm`."""
    choices: str = "default"
    """`default`, `as_published` or `as_released`: the defaults of scope and recogniser (METHODS
    section 7, row 22). No code was released, so both are what the paper says."""

    def __post_init__(self) -> None:
        check_word(self.name, "choices", self.choices, CHOICES)
        is_default = self.choices == "default"
        if self.scope is BY_CHOICES:
            object.__setattr__(self, "scope", "lexicon" if is_default else "recognised")
        check_word(self.name, "scope", self.scope, get_args(Scope))
        self._check("words", "words")
        self._check("recogniser", "recognised")
        if self.scope == "words" and self.words is None:
            raise UsageError(
                f'{self.name}: scope = "words" needs a list: add words = "FILE", one word per line'
            )
        if self.scope == "recognised" and self.recogniser is None:
            object.__setattr__(self, "recogniser", GAZETTEER if is_default else PUBLISHED)

    @property
    def word_list(self) -> str | None:
        """Key of its words in `NoiseResources.words`; None if it reads none."""
        named = {"words": self.words, "recognised": self.recogniser}.get(self.scope)
        return None if named is None else f"{self.scope} {named}"

    def in_scope(self, item: TaggedText, resources: NoiseResources) -> Sequence[int]:
        """Return the tokens in scope, in order."""
        words = enumerate(zip(item.tokens, item.labels, strict=True))
        if self.scope == "all":
            return range(len(item.tokens))
        if self.scope == "entities":
            return [n for n, (_, label) in words if label != OUTSIDE]
        listed = self.word_list
        if listed is not None:
            return listed_places(item.tokens, resources.words[listed], resources.most_parts[listed])
        return [n for n, (token, _) in words if token.lower() in resources.lexicon]

    def _check(self, key: str, scope: str) -> None:
        value = getattr(self, key)
        if value is not None and (self.scope != scope or not isinstance(value, str) or not value):
            raise UsageError(
                f'{self.name}: {key}: expected a name or a path, with scope = "{scope}", got '
                f"{value!r} with scope = {self.scope!r}"
            )


def check_rate(name: str, rate: Any) -> None:
    """Raise if a rate is not in (0, 1].

    Raises:
        UsageError: it is not.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise UsageError(f"{name}: rate: expected a number above 0 and up to 1, got {rate!r}")
