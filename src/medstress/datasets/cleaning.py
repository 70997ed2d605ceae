"""What rows of questions hold beside the question: padding, lists, figures, hints at letters.

Strangers' files repeat the options in the question, fill an absent option with "N/A", refer to a
figure that is not there, and explain answers by their letters. An edit would leave such an original
readable, or a victim would be told the answer, so what is recognised is taken out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from medstress.core.errors import DataError
from medstress.core.items import LETTERS, Mention, Question
from medstress.datasets.tables import Row, plain_name, shown

# -- padding, lists of options, figures ------------------------------------------------------------

_EMPTY = re.compile(r"n/a|#n/a|nan|null", re.IGNORECASE)
"""What spreadsheets and programs write for an option that a question does not have."""
_DASH = re.compile(r"[-\u2010-\u2015]+")
"""Written so too; but it is also a sign, among others such as + and ++."""
_IMAGES = re.compile(r"(?:image|img|figure|picture|photo)s?(?:path|file|filename|url|id|name)?\d?")
_NO_IMAGE = ("", "0", "no", "none", "nan", "false", "n/a", "null", "-", "[]")
_PICTURE = (
    r"(?:figure|fig\.|image|picture|photo(?:graph|micrograph)?|illustration|diagram|exhibit)s?"
)
_FIGURE = re.compile(
    rf"\b(?:see|refer to)\s+(?:the\s+)?(?:\w+\s+)?{_PICTURE}\b"
    rf"|\b(?:shown|depicted|pictured|seen|displayed|illustrated)\s+in\s+(?:the\s+)?(?:\w+\s+)?{_PICTURE}"
    rf"|\b{_PICTURE}\b[^.?!]{{0,40}}\b(?:below|above|is shown|are shown|provided|attached)\b"
    rf"|\b(?:below|following|attached|accompanying)\s+{_PICTURE}\b"
    r"|\b[Ff]ig(?:ure|\.)\s*\d",
    re.IGNORECASE,
)
_HEAD = r"(?:(?:answer\s+)?(?:choices|options)|answers)\s*(?:are|is)?\s*[:\-]"
_MARK = r"[*_]{0,2}['\"(\[]?(?:[A-Ja-j]|\d\d?)['\"]?(?:[)\].:]|\s-\s)[*_]{0,2}\s*['\"]?"
"""What is before an option of a list: (A), A., A:, 1), **A.**, 'A': '"""
_ANY_ITEM = re.compile(rf"(?:^|[\s(\[{{])({_MARK})(\S[^\n]*?)\s*(?=$|\n|\s{_MARK}\S)")
_MORE = re.compile(rf"(?:\s*{_MARK}\S[^\n]*)+\s*")
_TAIL = re.compile(
    r"[\s}\])*]*(?:(?:the\s+)?(?:correct\s+)?answer(?:\s+is)?\s*:?)?\s*", re.IGNORECASE
)
NEEDS_FIGURE = "the question needs a figure"
"""Begins what is said of a row that is left out for it."""
_SHOWN_AS = {"image": "an image", "letters": "options that are letters", "text": "words about one"}


@dataclass(slots=True)
class Cleaning:
    """What was taken out of the rows of one file, counted."""

    skips_figures: bool = False
    """Whether a question that needs a figure is a bad row."""
    lists: list[str] = field(default_factory=list)
    """The place of each question that repeated its options."""
    sentences: list[str] = field(default_factory=list)
    """The place of each question that names all its options in a sentence, which stays."""
    padding: list[str] = field(default_factory=list)
    """The text of each option that was none."""
    figures: list[tuple[str, str]] = field(default_factory=list)
    """Place and sign of each question that needs a figure."""

    def row(self, place: str, row: Row) -> Row:
        """Return a row in the documented format without what is no part of the question.

        Raises:
            DataError: a list of other options in the question, or a mention in what is cut; a
                figure, if such rows are to be skipped.
        """
        options = row.get("options")
        if not isinstance(options, list) or not all(isinstance(text, str) for text in options):
            return row
        row = self._without_padding(row, options)
        for name in ("question", "context", "stem"):
            if isinstance(text := row.get(name), str):
                row = self._without_list(place, row, name, text)
        if sign := _figure(row):
            self.figures.append((place, sign))
            if self.skips_figures:
                raise DataError(f"{NEEDS_FIGURE} ({_SHOWN_AS[sign]})")
        return row

    def notes(self, n: int) -> list[str]:
        """Return one sentence for each kind of change, of `n` questions."""
        notes = []
        if self.lists:
            notes.append(
                f"{len(self.lists)} of {n} questions repeat their options as a list in the text "
                f"(first: {self.lists[0]}); the list is cut, so that an edit leaves no original"
            )
        if k := len(self.sentences):
            notes.append(
                f"{k} of {n} questions name{'s' * (k == 1)} all options in a sentence (first: "
                f"{self.sentences[0]}), where an edit leaves the original readable"
            )
        if k := len(self.padding):
            notes.append(
                f"{k} option{'s' * (k > 1)} such as {self.padding[0]!r} "
                f"{'are' if k > 1 else 'is'} padding and left out"
            )
        if self.figures:
            place, sign = self.figures[0]
            rest = (
                "are left out"
                if self.skips_figures
                else ('are asked without it; on_bad_row = "skip" leaves them out')
            )
            notes.append(
                f"{len(self.figures)} of {n} questions need a figure (first: {place}, "
                f"{_SHOWN_AS[sign]}) and {rest}"
            )
        return notes

    def _without_padding(self, row: Row, options: Sequence[str]) -> Row:
        key = row.get("answer_idx")
        right = LETTERS.find(key) if isinstance(key, str) and key else key
        kept = list(range(len(options)))
        has_signs = any(
            not re.search(r"\w", text) and not _DASH.fullmatch(text.strip()) for text in options
        )
        for at in reversed(range(len(options))):
            text = options[at].strip()
            is_last = at == kept[-1]
            is_empty = not text and is_last
            is_dash = bool(_DASH.fullmatch(text)) and is_last and not has_signs
            if (is_empty or is_dash or _EMPTY.fullmatch(text)) and at != right and len(kept) > 2:
                kept.remove(at)
                self.padding += [text] if text else []
        if len(kept) == len(options) or not isinstance(right, int):
            return row
        new = {LETTERS[old]: LETTERS[at] for at, old in enumerate(kept)}
        row = {
            **row,
            "options": [options[at] for at in kept],
            "answer_idx": new.get(LETTERS[right]),
        }
        if isinstance(mentions := row.get("mentions"), list):
            gone = set(LETTERS[: len(options)]) - set(new)
            row["mentions"] = [
                {**one, "field": new.get(str(one.get("field")), one.get("field"))}
                for one in mentions
                if isinstance(one, dict) and one.get("field") not in gone
            ]
        return row

    def _without_list(self, place: str, row: Row, name: str, text: str) -> Row:
        span = list_of_options(text, row["options"])
        if span is None:
            self.sentences += [place] if in_a_row(text, row["options"]) else []
            return row
        start, end = span
        rest = text[end:].strip()
        kept = text[:start].rstrip()
        if not kept + rest:
            raise DataError(f"field {name!r}: expected a question, got the list of its options")
        for one in row.get("mentions") or ():
            where = one.get("field") if isinstance(one, dict) else None
            if where in ("question", "context", "stem") and (
                where != name or not isinstance(one.get("end"), int) or one["end"] > len(kept)
            ):
                raise DataError(
                    f"field 'mentions': expected none in {where!r}, which repeats the options as a "
                    "list that has to be cut; cut it, and count the characters again"
                )
        self.lists.append(place)
        return {**row, name: f"{kept} {rest}".strip() if rest else kept}


def list_of_options(text: str, options: Sequence[str]) -> tuple[int, int] | None:
    """Return where a question repeats its options as a list, or None.

    Raises:
        DataError: it has a list of which only a part are its options.

    >>> text = "Which? (A) Codeine (B) Aspirin"
    >>> start, end = list_of_options(text, ["Aspirin", "Codeine"])
    >>> text[:start], text[end:]
    ('Which?', '')
    """
    lower = " ".join(text.split()).casefold()
    n = sum(" ".join(option.split()).casefold() in lower for option in options)
    if n < max(2, len(options) / 2):
        return None
    forms = sorted(
        {re.escape(" ".join(o.split())).replace(r"\ ", r"\s+") for o in options}, key=len
    )
    one = f"({'|'.join(reversed(forms))})"
    after = r"['\"*_]{0,3}[ \t]*[.,;]?(?=\s|$|[}\])])"
    marked = rf"(?:\s*{_MARK}{one}{after})"
    lined = rf"(?:(?:^|\n)[ \t\r]*(?:[-*•–][ \t]*)?{one}[ \t]*[.,;]?[ \t\r]*(?=\n|$))"
    listed = rf"(?:\s*{one}\s*(?:[,;|/.]|\bor\b|\band\b|$)*)"
    for item, before in (
        (marked, rf"(?:{_HEAD})?\s*[{{\[]?"),
        (lined, rf"(?:{_HEAD})?"),
        (listed, _HEAD),
    ):
        run = re.compile(
            rf"(?:^|(?<=\s)|(?=\n))\s*{before}{item}{{{len(options)},}}", re.IGNORECASE
        )
        for match in run.finditer(text):
            texts = {_plain(m[1]) for m in re.finditer(item, match[0], re.IGNORECASE)}
            if texts == {_plain(option) for option in options}:
                end = match.end()
                more = _MORE.match(text, end) if item == marked else None
                end = more.end() if more else end
                tail = _TAIL.match(text, end)
                end = tail.end() if tail and tail.end() == len(text) else end
                return len(text[: match.start()].rstrip()), end
    before, end = in_a_row(text, options) or ("", 0)
    if before.endswith(":"):
        return len(before), end
    items = [(m[1].strip("*_'\"([ ")[:1].upper(), _plain(m[2])) for m in _ANY_ITEM.finditer(text)]
    marks = "".join(mark for mark, _ in items)
    alike = {words.rstrip(" .,;") for _, words in items} & {_plain(option) for option in options}
    if marks.startswith(("ABC", "123")) and len(alike) >= max(2, len(options) / 2):
        raise DataError(
            "field 'question': expected no list of options in the text, got one that is not that "
            f"of the row, such as {shown(items[0][1])}; take it out of the text"
        )
    return None


def in_a_row(text: str, options: Sequence[str]) -> tuple[str, int] | None:
    """Return what is before all options one after the other, and where they end; None if not so.

    >>> in_a_row("Is it codeine, aspirin or quinine?", ["Aspirin", "Quinine", "Codeine"])
    ('Is it', 34)
    """
    forms = (re.escape(" ".join(o.split())).replace(r"\ ", r"\s+") for o in options)
    one = f"({'|'.join(sorted(set(forms), key=len, reverse=True))})"
    item = rf"(?:\s*\b{one}\s*(?:(?:[,;|/?.]|\bor\b|\band\b)\s*|$)+)"
    for match in re.finditer(rf"{item}{{{max(3, len(options))},}}", text, re.IGNORECASE):
        texts = {_plain(m[1]) for m in re.finditer(item, match[0], re.IGNORECASE)}
        if texts == {_plain(option) for option in options}:
            return text[: match.start()].rstrip(), match.end()
    return None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _figure(row: Row) -> str | None:
    """Return what says that a question needs a figure, or None."""
    for name, value in row.items():
        is_image = value and _IMAGES.fullmatch(plain_name(name))
        if is_image and str(value).strip().casefold() not in _NO_IMAGE:
            return "image"
    options = row["options"]
    if len(options) > 2 and [text.strip().upper() for text in options] == list(
        LETTERS[: len(options)]
    ):
        return "letters"
    texts = (row.get(name) for name in ("question", "context", "stem"))
    return "text" if any(isinstance(t, str) and _FIGURE.search(t) for t in texts) else None


# -- passages --------------------------------------------------------------------------------------

_LETTER = r"[A-Ja-j]"
_IE = r"(?:\s*,?\s*i\.?\s?e\.?\s*,?)?"
_QUOTED = rf"(?:\(\s*{_LETTER}\s*\)|['\"‘“`]\s*{_LETTER}\s*(?:>\s*{_LETTER}\s*)*['\"’”`])"
_BEFORE_IE = rf"[^\w\n]{{0,3}}\d?{_LETTER}(?:\s*>\s*{_LETTER})*[^\w\n]{{0,4}}(?=i\.?\s?e\b)"
_BARE = rf"(?:{_LETTER}(?=\s*(?:[.,:;)\]\-(#>]|Ref\b|$))|[A-J](?=\s+[A-Z]))"
"""A letter that is no article, to judge by what follows it."""
_ANSWER = (
    r"\b(?i:(?:the\s+)?(?:(?:correct|right|best)\s+)?(?:ans|answer|correct)s?)\b[\s.,:)\-=*_]*"
    r"(?:is|are|was|(?:will|would|must|should)\s+be)?[\s.:\-=*_]*"
    rf"(?:{_QUOTED}|{_BEFORE_IE}|{_BARE}|(?i:option)\s*\d\b){_IE}"
)
_NAMED = rf"(?:\(\s*{_LETTER}\s*\)|['\"‘“`]?(?:[A-Jb-j]|\d|a(?=\W?[^\w\s]|\W*$))\b['\"’”`]?)"
_VERDICT = (
    r"(?:(?<=^)|(?<=[.;:\n]\s)|(?<=\b[Ss]o\s))"
    r"[A-J](?:\s*(?:,|&|/|and|or)\s*[A-J])*\s+(?:is|are)\s+(?:the\s+)?"
    r"(?:right|correct|wrong|incorrect|false)"
    r"(?:\s+(?:answer|option|choice)s?\b|(?=\s*(?:[.,;:)]|$|because\b|since\b|as\b)))"
)
_OPTION = (
    r"\b(?i:(?:(?:correct|right|best)\s+)?(?:option|choice|opt)\.?s?)\s*(?:is\s+|[:\-]\s*)?"
    rf"{_NAMED}(?:\s*(?:,|&|/|and|or)\s*{_NAMED})*"
)
_LISTED = (
    r"(?:(?<=^)|(?<=[.;:\n]\s))"
    rf"(?:\(\s*{_LETTER}\s*\)|{_LETTER}\)|[A-J]\s+(?=i\.?\s?e\b)){_IE}"
)
HINT = re.compile(
    rf"(?:{_ANSWER}|{_VERDICT}|\(\s*{_OPTION}\s*\)|{_OPTION}|{_LISTED})"
    r"(?:\s*[.,:;\-]+(?=\s|$|[A-Z(]))?\s*"
)
"""Words that name an option by its letter, with the punctuation after them."""


def without_hints(passage: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Leave out the words of a passage that name an option by its letter.

    Returns:
        The rest, and the places of what was left out in the original.

    >>> without_hints("Ans. is 'b' i.e., Etomidate. Thiopental (choice C) does not.")[0]
    'Etomidate. Thiopental does not.'
    """
    places = tuple(found.span() for found in HINT.finditer(passage))
    pieces, at = [], 0
    for start, end in places:
        pieces.append(passage[at:start])
        at = end
    return "".join([*pieces, passage[at:]]), places


def clean_passages(questions: Sequence[Question]) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """Remove hints at letters from passages, and passages without text.

    Returns:
        The questions, and one sentence for each kind of change, with its count.
    """
    found, examples, n_empty = [], [], 0
    for item in questions:
        text, places = without_hints(item.passage)
        if places:
            start, end = places[0]
            examples.append(item.passage[start:end].strip())
        if item.passage and not text.strip():
            n_empty, text = n_empty + 1, ""
        if text != item.passage:
            mentions = tuple(_moved(item.mentions, places)) if text else _elsewhere(item.mentions)
            item = replace(item, passage=text, mentions=mentions)
        found.append(item)
    notes = []
    if examples:
        notes.append(
            f"{len(examples)} of {len(questions)} questions have a passage that names an option "
            f"by its letter, such as {examples[0]!r}; those words are left out"
        )
    if n_empty:
        notes.append(
            f"{n_empty} of {len(questions)} questions have a passage without text, which counts "
            "as none"
        )
    return tuple(found), tuple(notes)


def _elsewhere(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    return tuple(mention for mention in mentions if mention.field != "passage")


def _moved(mentions: Iterable[Mention], places: Sequence[tuple[int, int]]) -> Iterable[Mention]:
    """Yield mentions at their new places, without those that a removed place touches."""
    for mention in mentions:
        if mention.field != "passage":
            yield mention
        elif all(end <= mention.start or mention.end <= start for start, end in places):
            shift = sum(end - start for start, end in places if end <= mention.start)
            yield replace(mention, start=mention.start - shift, end=mention.end - shift)
