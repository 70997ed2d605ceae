"""How a file says which option is right: letter, number from 0 or 1, text, or the option's name.

The form is one for the whole file: the one that every filled cell fits, or, where rows are broken,
most of them. A form that fits as well and says otherwise makes the file ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medstress.core.errors import DataError
from medstress.core.items import LETTERS
from medstress.datasets.forms.naming import is_nothing, plain_name
from medstress.datasets.forms.options import Options, are_letters
from medstress.datasets.values import shown

_LETTER = re.compile(
    r"[\s(\[\"']*(?:option|choice|answer)?[\s:]*([A-Ja-j])[\s)\].:,\"']*", re.IGNORECASE
)
_WITH_TEXT = re.compile(r"\(?([A-Ja-j])[).:\-]\s*(\S.*)", re.DOTALL)
_NUMBER = re.compile(r"\(?\s*(-?\d{1,9})(?:\.0+)?\s*[).]?")

_YES_FIRST = (("true", "false"), ("yes", "no"))
"""Two options of which the first, number 0, is what 1 often stands for."""

Form = Literal["label", "letter", "text", "number"]
_TOLD: dict[Form, str] = {
    "label": "names of options",
    "letter": "letters",
    "text": "texts of options",
    "number": "numbers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row as far as the answer needs it."""

    place: str
    """Such as ``line 3``."""
    value: Any
    """The cell that holds the answer."""
    options: Options
    """Its options."""


class Unsettled(DataError):
    """More than one reading of a column of answers fits; the message names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """How one column says the answer."""

    column: str
    """The column."""
    form: Form
    """What its cells hold."""
    base: int = 0
    """The number of the first option."""
    shown_by: str = ""
    """The place of the only 0, where numbers count from 0 for it alone."""
    doubt: Unsettled | None = None
    """What a few rows leave open, unless another column says the same as this one."""

    @property
    def told(self) -> str:
        """In words."""
        of = f" from {self.base}" if self.form == "number" else ""
        of += f" (0 only in {self.shown_by})" if self.shown_by else ""
        return f"answers in {self.column!r} as {_TOLD[self.form]}{of}"

    def position(self, value: Any, options: Options) -> int:
        """Return the position of the right option.

        Raises:
            DataError: no answer, or one that is none of the options.
        """
        n = len(options.texts)
        letters = LETTERS[:n]
        if is_nothing(value):
            raise DataError(
                f"field {self.column!r}: expected the right option, got nothing; fill it, or leave "
                'such rows out with on_bad_row = "skip"'
            )
        found = _READERS[self.form](value, options)
        if found is not None and self.form == "number":
            found -= self.base
        if found is not None and 0 <= found < n:
            return found
        expected = {
            "letter": f"one of the letters {', '.join(letters)}",
            "number": f"a number from {self.base} to {self.base + n - 1}",
            "text": "the text of one option",
            "label": f"one of {', '.join(options.labels or letters)}",
        }[self.form]
        raise DataError(
            f"field {self.column!r}: expected {expected}, as the file's other answers are "
            f"{_TOLD[self.form]}, got {shown(value)}; fix the row, or leave such rows out with "
            'on_bad_row = "skip"'
        )


def find_form(
    column: str, cases: Sequence[Case], base: int | None, only: frozenset[Form] | None = None
) -> AnswerForm | None:
    """Find how a column says the answers; None if it does not.

    Args:
        column: its name.
        cases: all rows whose options can be read.
        base: the user's `answer_base`, or None.
        only: the forms to consider; None: all.

    Raises:
        Unsettled: several readings fit, or a base is needed.
    """
    filled = [case for case in cases if not is_nothing(case.value)]
    if not filled:
        return None
    read: dict[Form, list[int | None]] = {
        form: [reader(case.value, case.options) for case in filled]
        for form, reader in _READERS.items()
        if only is None or form in only
    }
    if "number" in read:
        # A number beyond the options speaks for no number of an option.
        read["number"] = [
            n if n is not None and 0 <= n <= len(case.options.texts) else None
            for n, case in zip(read["number"], filled, strict=True)
        ]
    fits = {form: sum(found is not None for found in each) for form, each in read.items()}
    best = max(fits.values(), default=0)
    if best <= len(filled) / 2:
        return None
    if base is not None and fits.get("number", 0) == best:
        return AnswerForm(column=column, form="number", base=base)
    forms = [form for form in read if fits[form] > len(filled) / 2]
    if fits.get("label") == len(filled):
        forms = [form for form in forms if form != "number"]  # the options' own numbers
    leading = next(form for form in forms if fits[form] == best)
    rivals = [form for form in forms if form != leading]
    first, shown_by = 0, ""
    if "number" in forms:
        others = [form for form in forms if form != "number"]
        first = _base(column, filled, read["number"], others)
        zeros = [c.place for c, n in zip(filled, read["number"], strict=True) if n == 0]
        shown_by = zeros[0] if len(zeros) == 1 and leading == "number" else ""
        read["number"] = [None if n is None else n - first for n in read["number"]]
    for rival in rivals:
        for case, a, b in zip(filled, read[leading], read[rival], strict=True):
            if a is not None and b is not None and a != b:
                raise _two_readings(column, case, leading, rival)
    return AnswerForm(
        column=column,
        form=leading,
        base=first,
        shown_by=shown_by,
        doubt=_doubt(column, filled, leading, read),
    )


def _doubt(
    column: str, cases: Sequence[Case], leading: Form, read: Mapping[Form, Sequence[int | None]]
) -> Unsettled | None:
    """Return the error about a text that names one option in the file's form, and is another.

    Only of cells that are texts: a number of a JSON file is no text of an option.
    """
    rival: Form = "letter" if leading == "text" else "text"
    if rival in read:
        for case, a, b in zip(cases, read[leading], read[rival], strict=True):
            if isinstance(case.value, str) and a is not None and b is not None and a != b:
                return _two_readings(column, case, leading, rival)
    return None


def _base(
    column: str, cases: Sequence[Case], numbers: Sequence[int | None], rivals: Sequence[Form]
) -> int:
    """Return the number of the first option, as far as the file shows it.

    Raises:
        Unsettled: it shows neither, or both.
    """
    pairs = [(case, n) for case, n in zip(cases, numbers, strict=True) if n is not None]
    if all(tuple(map(_same, case.options.texts)) in _YES_FIRST for case, _ in pairs):
        case, n = pairs[0]
        raise Unsettled(
            f"field {column!r}: expected the texts {' and '.join(case.options.texts)}, got {n} in "
            f"{case.place}, which may be the number of an option, or 1 for "
            f"{case.options.texts[0]}; write the texts, or give answer_base = 0 or answer_base = "
            "1 if it is the number"
        )
    zero = next((case for case, n in pairs if n == 0), None)
    top = next((case for case, n in pairs if n == len(case.options.texts)), None)
    if rivals and (zero is None) == (top is None):
        raise _two_readings(column, pairs[0][0], rivals[0], "number")
    settle = "give answer_base = 0 or answer_base = 1"
    if zero is not None and top is not None:
        n = len(top.options.texts)
        raise Unsettled(
            f"field {column!r}: expected numbers from 0 or from 1, got 0 in {zero.place} and {n} "
            f"of {n} options in {top.place}; fix the one that is wrong, and {settle}"
        )
    if zero is None and top is None:
        seen = sorted({n for _, n in pairs})
        which = f"{seen[0]} to {seen[-1]}" if len(seen) > 1 else f"{seen[0]}"
        most = max(len(case.options.texts) for case, _ in pairs)
        raise Unsettled(
            f"field {column!r}: expected answers that show whether numbers count from 0 or from 1, "
            f"got {which} for {most} options ({pairs[0][1]} in {pairs[0][0].place}), which both "
            f"fit; {settle}"
        )
    return 0 if zero is not None else 1


def _two_readings(column: str, case: Case, one: Form, other: Form) -> Unsettled:
    keys: dict[Form, str] = {
        "number": "answer_base = 0 or answer_base = 1 if it is a number",
        "letter": f'columns = {{answer_idx = "{column}"}} if it is a letter',
        "text": f'columns = {{answer_text = "{column}"}} if it is the text of an option',
        "label": "letters as answers if it is the name of an option",
    }
    return Unsettled(
        f"field {column!r}: expected answers that can be read in one way, got {shown(case.value)} "
        f"in {case.place}, which fits as one of the {_TOLD[one]} and as one of the "
        f"{_TOLD[other]}; give {keys[one]}, or {keys[other]}"
    )


def _label(value: Any, options: Options) -> int | None:
    """The position of an option by what the file calls it, a letter where it calls it nothing."""
    if not options.labels:
        return _letter(value, options)
    names = [plain_name(label) for label in options.labels]
    name = plain_name(str(value)) if isinstance(value, str | int) else ""
    return names.index(name) if name and names.count(name) == 1 else None


def _letter(value: Any, options: Options) -> int | None:
    if not isinstance(value, str):
        return None
    own = options.labels if are_letters(options.labels) else LETTERS
    if match := _LETTER.fullmatch(value):
        letter = match[1].upper()
        return own.index(letter) if letter in own else LETTERS.index(letter)
    if match := _WITH_TEXT.fullmatch(value.strip()):
        letter = match[1].upper()
        at = own.index(letter) if letter in own else len(options.texts)
        if at < len(options.texts) and _same(options.texts[at]) == _same(match[2]):
            return at
    return None


def _number(value: Any, options: Options) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(match[1]) if match else None


def _text(value: Any, options: Options) -> int | None:
    if not isinstance(value, str | int | float):  # of true and false too: TRUE is Excel's True
        return None
    text = str(value)
    if options.texts.count(text) == 1:
        return options.texts.index(text)
    same = [_same(each) for each in options.texts]
    return same.index(_same(text)) if same.count(_same(text)) == 1 else None


def _same(text: str) -> str:
    return " ".join(text.split()).casefold()


_READERS: dict[Form, Callable[[Any, Options], int | None]] = {
    "letter": _letter,
    "label": _label,
    "text": _text,
    "number": _number,
}
