"""Questions from files of rows: what strangers' rows hold besides, and one row, validated once.

A row of the documented format holds `id`; `question`, or `context` and `stem`; `options`, a list or
``{"A": ...}``; the key as `answer_idx`, a letter or a 0-based position; and optionally `passage`
and `mentions`. A null counts as absent. Further fields become metadata. Rows of other forms, an
answer as a text among them, are turned into this one by `medstress.datasets.layouts`.

Strangers' files repeat the options in the question, fill an absent option with "N/A", refer to a
figure that is not there, and explain answers by their letters. An edit would leave such an original
readable, or a victim would be told the answer, so what is recognised is taken out and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import pairwise
from sys import intern
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from medstress.core.errors import DataError, did_you_mean
from medstress.core.items import LETTERS, Mention, Question, check_words
from medstress.core.resources import DECIDES
from medstress.core.tables import (
    Row,
    Table,
    plain,
    plain_name,
    raise_error,
    shown,
    wrong,
)
from medstress.core.words import plural
from medstress.datasets.layouts import Case, content_id, understand
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    collect,
    hash_files,
    table_of,
)

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
_RECORD = (
    r"(?:ECG|EKG|electrocardiogra(?:m|ph)|X-?rays?|radiograph|CT|MRI|scan|sonogram|ultrasound|"
    r"angiogram|smear|slide|tracing)s?"
)
_SHOWN = r"(?:shown|pictured|depicted|displayed|provided|attached|given)(?!\s+(?:to|that)\b)"
_FIGURE = re.compile(
    rf"\b(?:see|refer to)\s+(?:the\s+)?(?:\w+\s+)?{_PICTURE}\b"
    rf"|\b(?:shown|depicted|pictured|seen|displayed|illustrated)\s+in\s+(?:the\s+)?(?:\w+\s+)?{_PICTURE}"
    rf"|\b{_PICTURE}\b[^.?!]{{0,40}}"
    r"\b(?:below|above|(?<!has )(?<!have )(?<!had )shown|provided|attached)\b"
    rf"|\b(?:below|following|attached|accompanying)\s+{_PICTURE}\b"
    rf"|\b(?:the|this|these)\s+{_PICTURE}\s+(?:above\s+|below\s+)?"
    r"(?:shows?|demonstrates?|depicts?|reveals?|represents?)\b"
    rf"|\brefer\s+to\s+(?:the|this)\s+(?:[\w-]+\s+){{0,2}}?{_RECORD}\b"
    rf"|\b{_RECORD}\s+(?:(?:is|are)\s+)?(?:{_SHOWN}|(?:below|above)\b(?!\s+(?:the|a)\b))"
    r"|\bfig(?:ure|\.)\s*\d",
    re.IGNORECASE,
)
_HEAD = r"[*_]{0,2}(?:(?:answer\s+)?(?:choices|options)|answers)\s*(?:are|is)?\s*[:\-][*_]{0,2}"
_NUMBER = r"(?:[A-Ja-j]|\d\d?|[ivxIVX]{1,4})"
_MARK = rf"[*_]{{0,2}}['\"(\[]?{_NUMBER}['\"]?(?:[)\].:]|\s-\s|\t)[*_]{{0,2}}\s*['\"]?"
"""What is before an option of a list: (A), A., A:, 1), (ii), **A.**, 'A': '"""
_FIRST = re.compile(r"[\W_]*[Aa01Ii][\W_]*")
"""The mark of the first option."""
_BETWEEN = re.compile(rf"(?:[\W_]|\b(?:{_NUMBER}|or|and)\b)*", re.IGNORECASE)
_BEFORE = re.compile(
    rf"(?:(?:^|(?<=\s)){_HEAD})?[\s*_'\"({{\[•–-]*(?:(?<=\s)[A1I]\s+)?$", re.IGNORECASE
)
_AFTER = re.compile(r"[\s\]})'\"*_.,;?|/]*")
"""What is between, before and after the options of a list, besides marks."""
_BREAKS = re.compile(
    r"</?(?:br|li|p|div|ol|ul|option|td|tr|table)\b[^<>]{0,40}>|\\n", re.IGNORECASE
)
_CIRCLED = re.compile(r"[\u2460-\u2468]\s")
_WIDE = str.maketrans("（）［］．：、，；", "()[].:.,;")
"""How lists are marked besides."""
_ANY_ITEM = re.compile(rf"(?:^|[\s(\[{{])({_MARK})(\S[^\n]*?)\s*(?=$|\n|\s{_MARK}\S)")
_LAST_ITEM = re.compile(rf"(?:^|\n)\s*(?:[-*•–]|{_MARK})[^\n]*$")
_MORE = re.compile(rf"(?:\s*{_MARK}\S[^\n]*)+\s*")
_TAIL = re.compile(r"(?:(?:the\s+)?(?:correct\s+)?answer(?:\s+is)?\s*:?)?\s*", re.IGNORECASE)
_NEEDS_FIGURE = "the question needs a figure"
"""Begins what is said of a row that is left out for it, which a note counts."""
AGAIN = "asked again under another id"
"""Part of what is said of questions that come again."""
_SENTENCES = {
    "list": "{k:,} of {n:,} questions repeat their options as a list in the text (first: {first}); "
    "the list is cut, so that an edit leaves no original",
    "sentence": "{k:,} of {n:,} questions name all options in a sentence (first: {first}), where "
    "an edit leaves the original readable",
    "padding": "options that are padding, such as {first!r}, are left out: {k:,}",
    "figure": "{k:,} of {n:,} questions need a figure (first: {first}) and are asked without it; "
    'on_bad_row = "skip" leaves them out',
    "left out": "{k:,} of {n:,} questions need a figure (first: {first}) and are left out",
    "again": f"{{k:,}} of {{n:,}} questions are {AGAIN}, such as {{first}}; each is an item of its "
    "own, and intervals count only different ones",
    "contradicted": "{k:,} of {n:,} questions are asked again with another right answer, such as "
    "{first}; one of the two is wrong",
    "hint": "{k:,} of {n:,} questions have a passage that names an option by its letter, such as "
    "{first!r}; those words are left out",
    "empty": "{k:,} of {n:,} questions have a passage without text, which counts as none",
}
"""What is found in the rows of a file -> the sentence about it."""


class Cleaning:
    """Takes out of the rows of one file what is no part of the questions, and counts it."""

    def __init__(self, *, skips_figures: bool = False) -> None:
        """Begin a file; `skips_figures`: a question that needs a figure is a bad row."""
        self._skips_figures = skips_figures
        self._noted: dict[str, list[str]] = {kind: [] for kind in _SENTENCES}

    def notes(self, n: int) -> tuple[str, ...]:
        """Return one sentence for each kind of what was found in `n` rows."""
        return tuple(
            sentence.format(k=len(ids), n=n, first=ids[0])
            for kind, sentence in _SENTENCES.items()
            if (ids := self._noted[kind])
        )

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
            kind = "left out" if self._skips_figures else "figure"
            self._noted[kind].append(f"{place}, {sign}")
            if self._skips_figures:
                raise DataError(f"{_NEEDS_FIGURE} ({sign})")
        return row

    def passage(self, item: Question) -> Question:
        """Remove hints at letters from a passage; one without text becomes none."""
        text, places = without_hints(item.passage)
        if places:
            start, end = places[0]
            self._noted["hint"].append(item.passage[start:end].strip())
        if item.passage and not text.strip():
            self._noted["empty"].append(item.id)
            text = ""
        if text == item.passage:
            return item
        mentions = []
        for mention in item.mentions:
            if mention.field != "passage":
                mentions.append(mention)
            elif text and all(end <= mention.start or mention.end <= at for at, end in places):
                shift = sum(end - start for start, end in places if end <= mention.start)
                new = replace(mention, start=mention.start - shift, end=mention.end - shift)
                mentions.append(new)
        return replace(item, passage=text, mentions=tuple(mentions))

    def again(self, questions: Sequence[Question]) -> None:
        """Find questions that come again, and those with another key."""
        first: dict[tuple[str, ...], tuple[str, str]] = {}
        for item in questions:
            key, question, passage, *options = map(
                _plain, (item.key_text, item.question, item.passage, *item.options)
            )
            name, right = first.setdefault((question, passage, *sorted(options)), (item.id, key))
            if name != item.id and right == key:
                self._noted["again"].append(f"{item.id!r}, which is {name!r}")
            elif name != item.id:
                self._noted["contradicted"].append(f"{item.id!r} and {name!r}")

    def _without_padding(self, row: Row, options: Sequence[str]) -> Row:
        if not any(
            not text or _DASH.fullmatch(text) or _EMPTY.fullmatch(text)
            for text in map(str.strip, options)
        ):
            return row
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
                self._noted["padding"] += [text] if text else []
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
            ends = (run[-1].end() for run in _in_a_row(_in_ascii(text), row["options"]))
            is_named = any(re.match(r"\s*(?:[^\w\s]|$)", text[end:]) for end in ends)
            self._noted["sentence"] += [place] * (is_named and len(row["options"]) > 2)
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
        self._noted["list"].append(place)
        return {**row, name: f"{kept} {rest}".strip() if rest else kept}


def list_of_options(text: str, options: Sequence[str]) -> tuple[int, int] | None:
    """Return where a question repeats its options as a list, or None.

    A list is marked (A., 1), (ii)), in lines, in brackets, behind a heading, or what follows the
    last sentence.

    Raises:
        DataError: it has a list of which only a part are its options.

    >>> text = "Which? (A) Codeine (B) Aspirin"
    >>> start, end = list_of_options(text, ["Aspirin", "Codeine"])
    >>> text[:start], text[end:]
    ('Which?', '')
    """
    text = _in_ascii(text)
    whole = _plain(text)
    n = sum(_plain(option) in whole for option in options)
    if n < max(2, len(options) / 2):
        return None
    for run in _in_a_row(text, options):
        first, last = run[0].start(), run[-1].end()
        start = next(_BEFORE.finditer(text, 0, first)).start()
        before, lead = text[:start].rstrip(), text[start:first]
        is_marked = all(m["mark"] for m in run) and _FIRST.fullmatch(run[0]["mark"]) is not None
        end = _end(_AFTER, text, last)
        after = text[last:end]
        end = _end(_MORE, text, end) if is_marked else end
        end = tail if (tail := _end(_TAIL, text, end)) == len(text) else end
        rest = text[end:]
        next_line = rest.partition("\n")[0]
        inner = [text[one.end() : two.start()] for one, two in pairwise(run)]
        in_lines = all("\n" in gap for gap in (f"{lead}\n" if not before else lead, *inner)) and (
            "\n" in after or not rest
        )
        bracket = re.search(r"[(\[{]", lead)
        is_behind = not rest and (bracket or not before or before[-1] in ".?!:")
        is_headed = re.match(_HEAD, lead, re.IGNORECASE) or (bracket and bracket[0] != "(")
        if not (is_marked or in_lines or is_headed or is_behind):
            continue
        goes_on = (
            (bracket and not re.search(r"[)\]}]", after))
            or (rest and re.search(r"[,;/|]\s*$", after))
            or re.match(r"(?:or|and)\b", rest)
            or (in_lines and _LAST_ITEM.search(before))
            or (in_lines and rest and not re.search(r"[.?!:]", next_line))
        )
        if goes_on and not is_marked:
            raise _other_list(rest or before.rpartition("\n")[2])
        return len(before), end
    items = [(m[1].strip("*_'\"([ ")[:1].upper(), _plain(m[2])) for m in _ANY_ITEM.finditer(text)]
    marks = "".join(mark for mark, _ in items)
    alike = {words.rstrip(" .,;") for _, words in items} & {_plain(option) for option in options}
    if marks.startswith(("ABC", "123")) and len(alike) >= max(2, len(options) / 2):
        raise _other_list(items[0][1])
    return None


def _other_list(example: str) -> DataError:
    return DataError(
        "field 'question': expected no list of options in the text, got one that is not that "
        f"of the row, such as {shown(example)}; take it out of the text"
    )


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _in_a_row(text: str, options: Sequence[str]) -> Iterator[list[re.Match[str]]]:
    """Yield where all options follow each other with only marks, letters, numbers in between."""
    texts = {option.rstrip(" .,;") or option for option in options}
    wanted, whole = set(map(_plain, texts)), _plain(text)
    if not all(option in whole for option in wanted):  # nearly always; a pattern takes long
        return
    forms = (re.escape(" ".join(o.split())).replace(r"\ ", r"\s+") for o in texts)
    one = "|".join(sorted(forms, key=len, reverse=True))
    item = rf"(?:(?<!\w)(?P<mark>{_MARK}))?(?<!\w)(?P<text>{one})(?!\w)"
    found = list(re.finditer(item, text, re.IGNORECASE))
    for at in range(len(found) - len(wanted) + 1):
        run = found[at : at + len(wanted)]
        if {_plain(m["text"]) for m in run} == wanted and all(
            _BETWEEN.fullmatch(text, one.end(), two.start()) for one, two in pairwise(run)
        ):
            yield run


@lru_cache(maxsize=16)
def _in_ascii(text: str) -> str:
    """Return a text in which wide and circled marks, tags and written line breaks of a list are
    plain ones; places stay what they were."""
    text = _BREAKS.sub(lambda found: f"\n{' ' * (len(found[0]) - 1)}", text)
    return _CIRCLED.sub(lambda found: f"{ord(found[0][0]) - 0x245F})"[:2], text.translate(_WIDE))


@lru_cache(maxsize=64)  # those of a row are needed several times
def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


@lru_cache(maxsize=4096)
def _is_of_images(column: str) -> bool:
    return _IMAGES.fullmatch(plain_name(column)) is not None


def _figure(row: Row) -> str | None:
    """Return what says that a question needs a figure, or None."""
    for name, value in row.items():
        is_image = value and _is_of_images(name)
        if is_image and str(value).strip().casefold() not in _NO_IMAGE:
            return "an image"
    options = row["options"]
    if len(options) > 2 and [text.strip().upper() for text in options] == list(
        LETTERS[: len(options)]
    ):
        return "options that are letters"
    texts = (row.get(name) for name in ("question", "context", "stem"))
    return (
        "words about one" if any(isinstance(t, str) and _FIGURE.search(t) for t in texts) else None
    )


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
    places = tuple(match.span() for match in HINT.finditer(passage))
    pieces, at = [], 0
    for start, end in places:
        pieces.append(passage[at:start])
        at = end
    return "".join([*pieces, passage[at:]]), places


# -- one row, validated ---------------------------------------------------------------------------

Finish = Callable[[int, Question], Question]
"""Gets the number of a row, from 0, and its question, returns what becomes of it; raises
`DataError` about the row."""

_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list of objects",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "missing": "a value",
}
"""Pydantic's name of a fault -> what was expected."""


def _identifier(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _options(value: Any) -> Any:
    """Return the options of an object keyed by letter as a list."""
    if not isinstance(value, Mapping):
        return list(value) if isinstance(value, tuple) else value
    letters = sorted(map(str, value))
    if letters != list(LETTERS[: len(letters)]):
        raise DataError(
            f"field 'options': expected the letters {', '.join(LETTERS[: len(letters)])}, got "
            f"{', '.join(letters)}"
        )
    return [value[letter] for letter in letters]


class MentionRow(BaseModel):
    """One mention as a row writes it."""

    model_config = ConfigDict(strict=True)

    field: str
    start: int
    end: int
    type: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class QuestionRow(BaseModel):
    """One question as a row writes it; other fields are metadata."""

    model_config = ConfigDict(strict=True, extra="allow")

    id: Annotated[str, BeforeValidator(_identifier)]
    question: str | None = None
    context: str | None = None
    stem: str | None = None
    passage: str | None = None
    passage_decides: bool | None = None
    options: Annotated[list[str], BeforeValidator(_options)]
    answer_idx: Any = None
    mentions: Annotated[list[MentionRow], BeforeValidator(lambda value: value or [])] = []


def question_from_row(row: Mapping[str, Any]) -> Question:
    """Turn one row into a question.

    Raises:
        DataError: names the field, what was expected and what came, but not file or line.

    >>> item = question_from_row({"id": 7, "question": "Febrile. Why?", "options": ["Flu", "Cold"],
    ...                           "answer_idx": 1, "year": 2024})
    >>> item.id, item.context, item.stem, item.key, item.metadata
    ('7', 'Febrile.', 'Why?', 'B', {'year': 2024})
    """
    for name, expected in (("id", "a text or a whole number"), ("options", "2 to 10 options")):
        if row.get(name) is None:
            others = [one for one in row if one not in QuestionRow.model_fields]
            raise wrong(name, expected, None, f"fill it{did_you_mean(name, others)}")
    try:
        made = QuestionRow.model_validate(row)
    except ValidationError as error:
        raise _fault(error) from error
    if not made.id.strip():
        raise wrong("id", "a text or a whole number", made.id)
    if not 2 <= len(made.options) <= len(LETTERS):
        raise DataError(f"field 'options': expected 2 to 10 options, got {len(made.options)}")
    context, stem = _context_and_stem(made, row)
    options = tuple(made.options)
    metadata = {name: plain(value) for name, value in (made.model_extra or {}).items()}
    if DECIDES in row:
        metadata[DECIDES] = row[DECIDES]
    passage = made.passage or ""
    item = Question(
        id=made.id,
        context=context,
        stem=stem,
        passage=" " if passage and not passage.strip() else passage,
        options=options,
        key=_key(made.answer_idx, LETTERS[: len(options)]),
        # Interned: all mentions of all items share a few types.
        mentions=tuple(
            Mention(field=one.field, start=one.start, end=one.end, type=intern(one.type))
            for one in made.mentions
        ),
        metadata=metadata,
    )
    check_words(item)
    return item


def _fault(error: ValidationError) -> DataError:
    """Return the first fault in our words."""
    fault = error.errors()[0]
    first, *rest = fault["loc"]
    where = "".join(f", {one!r}" if isinstance(one, str) else f", entry {one + 1}" for one in rest)
    if first == "options" and fault["type"] == "list_type":
        expected = "a list or an object keyed by letter"
    else:
        expected = _EXPECTED.get(fault["type"], fault["msg"])
    came = "nothing" if fault["type"] == "missing" else shown(fault["input"])
    return DataError(f"field {first!r}{where}: expected {expected}, got {came}")


def row_from_question(item: Question) -> dict[str, Any]:
    """Return the row that `question_from_row` reads as this question, without metadata."""
    return {
        "id": item.id,
        **({"passage": item.passage} if item.passage else {}),
        "context": item.context,
        "stem": item.stem,
        "options": dict(zip(item.letters, item.options, strict=True)),
        "answer_idx": item.key,
        "mentions": [asdict(mention) for mention in item.mentions],
    }


def split_question(text: str) -> tuple[str, str]:
    """Split a question at the last ``". "`` into context and stem.

    Context, one space and stem joined give exactly the question. Differs from the rule of Xian et
    al. (METHODS 1.1) in two points: the context keeps its full stop, and white space at the very
    end is ignored, since it would leave an empty stem.

    >>> split_question("A man coughs. He smokes. What is next?")
    ('A man coughs. He smokes.', 'What is next?')
    >>> split_question("What is next?")
    ('', 'What is next?')
    """
    at = text.rfind(". ", 0, len(text.rstrip()))
    return ("", text) if at < 0 else (text[: at + 1], text[at + 2 :])


def _context_and_stem(made: QuestionRow, row: Mapping[str, Any]) -> tuple[str, str]:
    question, context, stem = made.question, made.context, made.stem
    if question is None and stem is None:
        name = "question" if context is None else "stem"
        others = [one for one in row if one not in QuestionRow.model_fields]
        expected = "a text ('question', or 'context' and 'stem')"
        raise wrong(name, expected, None, f"fill it{did_you_mean(name, others)}")
    if stem is None:
        if context is not None:
            raise DataError("field 'context': expected it with 'stem', got it with 'question'")
        return split_question(question or "")
    if question is not None and question != (f"{context} {stem}" if context else stem):
        expected = "'context', one space and 'stem' joined"
        raise wrong("question", expected, question, "leave it out, or those two")
    return context or "", stem


def _key(index: Any, letters: str) -> str:
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(letters):
        return letters[index]
    if isinstance(index, str) and len(index) == 1 and index in letters:
        return index
    expected = f"one of {', '.join(letters)} or a position from 0 to {len(letters) - 1}"
    raise wrong("answer_idx", expected, index)


# -- files ---------------------------------------------------------------------------------------


def load(options: DatasetOptions) -> Loaded:
    """Read questions from a file of rows.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file, rows that fit no layout or two, or a bad row, if `on_bad_row` is
            ``error``.
    """
    return read_questions(table_of("table", options, "columns", "answer_base"), options)


def read_questions(table: Table, options: DatasetOptions, finish: Finish | None = None) -> Loaded:
    """Turn the rows of a file into questions; see `load`.

    Args:
        table: the rows.
        options: the keys `columns`, `answer_base` and `on_bad_row`.
        finish: changes the questions.
    """
    layout, rows = understand(table, options.columns, options.answer_base)
    cleaning = Cleaning(skips_figures=options.on_bad_row == "skip")
    numbers: Counter[str] = Counter()

    def convert(numbered: tuple[int, Case | DataError]) -> Question:
        number, case = numbered[0], raise_error(numbered[1])
        row = cleaning.row(case.place, layout.row(case))
        if layout.identifier is None:
            name = content_id(row)
            numbers[name] += 1
            row["id"] = name if numbers[name] == 1 else f"{name}-{numbers[name]}"
        item = cleaning.passage(question_from_row(row))
        return finish(number, item) if finish else item

    placed = ((place, (number, one)) for number, (place, one) in enumerate(rows))
    questions, skipped = collect(table.path, placed, convert, options.on_bad_row)
    cleaning.again(questions)
    how = layout.words(options.columns)
    unusual = f" ({table.unusual})" if table.unusual else ""
    n = plural(len(questions), "question")
    return Loaded(
        items=questions,
        skipped=tuple(sentence for sentence in skipped if _NEEDS_FIGURE not in sentence),
        source_hash=hash_files(table.path),
        notes=cleaning.notes(len(rows)),
        understood=(
            ""
            if layout.is_documented and not unusual
            else f"{table.path.name}{unusual}: {n}; {how}"
        ),
    )
