"""What the documented format leaves open in a file: refused, or said in one line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medstress.core.errors import DataError
from medstress.datasets.forms.answers import Case, Unsettled, find_form
from medstress.datasets.forms.options import Options, is_reordered
from medstress.datasets.rows import question_from_row
from medstress.datasets.tables.table import Row
from medstress.datasets.values import shown

Rows = Sequence[tuple[str, Row]]


def check_documented(path: Path, rows: Rows) -> None:
    """Refuse rows in the documented format that can be read in two ways.

    Raises:
        DataError: positions that can only count from 1, an answer that is the letter of one option
            and the text of another, or letters before the options in another order.
    """
    _check_positions(path, rows)
    cases = []
    for place, row in rows:
        try:
            texts = question_from_row(row).options
        except DataError:
            continue
        if isinstance(row["options"], list) and is_reordered(texts):
            raise DataError(
                f"{path}, {place}: field 'options': expected the letters before the options in the "
                f"order A, B, C, ..., got {shown(list(texts))}; write an object, such as "
                '{"A": "aspirin", "B": "codeine"}'
            )
        if row.get("answer_idx") is None:
            cases.append(Case(place=place, value=row["answer"], options=Options(texts=texts)))
    try:
        form = find_form("answer", cases, None)
        if form is not None and form.doubt is not None:
            raise form.doubt
    except Unsettled as error:
        raise DataError(f"{path}: {error}") from error


def documented_told(rows: Rows) -> str:
    """Return how numbers in `answer_idx` were read; empty if there are none."""
    numbers = [n for _, n, _ in _positions(rows)]
    if not numbers:
        return ""
    found = "the documented format, answer_idx counts from 0"
    return found if 0 in numbers else f"{found} (no row has 0; answer_base = 1 if it counts from 1)"


def _positions(rows: Rows) -> list[tuple[str, int, int]]:
    """Return place, `answer_idx` and number of options of the rows that say it as a number."""
    return [
        (place, index, len(row.get("options") or ()))
        for place, row in rows
        if isinstance(index := row.get("answer_idx"), int)
        and not isinstance(index, bool)
        and isinstance(row.get("options"), list | dict)
    ]


def _check_positions(path: Path, rows: Rows) -> None:
    """Refuse positions in `answer_idx` that can only count from 1."""
    numbers = _positions(rows)
    if len(numbers) <= len(rows) / 2 or any(index == 0 for _, index, _ in numbers):
        return
    for place, index, n in numbers:
        if index == n:
            raise DataError(
                f"{path}, {place}: field 'answer_idx': expected a position from 0 to {n - 1}, got "
                f"{n} of {n} options, and no row has 0; give answer_base = 1 if the positions "
                "count from 1, else answer_base = 0"
            )
