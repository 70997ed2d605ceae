"""Tables without a header, such as MMLU's own files, whose first question would be lost as one."""

from __future__ import annotations

import re

from medstress.core.errors import DataError
from medstress.core.items import LETTERS
from medstress.datasets.forms.naming import (
    ANSWERS,
    IDS,
    OPTION_LISTS,
    QUESTIONS,
    WEAK_QUESTIONS,
    called,
    columns_of,
)
from medstress.datasets.forms.options import option_columns
from medstress.datasets.tables.table import Table
from medstress.datasets.values import shown

_HEADED = (".csv", ".tsv", ".xlsx")
_NAMES = (*QUESTIONS, *WEAK_QUESTIONS, *OPTION_LISTS, *ANSWERS, *IDS)
_KEY = re.compile(r"[A-Ja-j]|[0-9]")


def check_header(table: Table) -> None:
    """Refuse a table whose first row is a question.

    It is one if its last column is called by a letter or digit, all rows hold a letter or digit
    there, and no column goes by a name that questions, options, answers or ids have.

    Raises:
        DataError: the first row is no header.
    """
    rows = [row for _, row in table.rows if isinstance(row, dict)]
    columns = columns_of(rows)
    if table.path.suffix.lower() not in _HEADED or len(columns) < 4:
        return
    last = columns[-1]
    if called(columns, _NAMES) or option_columns(columns):
        return
    if _KEY.fullmatch(last) and all(_KEY.fullmatch(str(row.get(last) or "")) for row in rows):
        names = ["question", *LETTERS[: len(columns) - 2], "answer"]
        raise DataError(
            f"{table.path}: expected a header with the names of the columns, got what looks like a "
            f"question ({shown(columns[0])}); add a first row such as {','.join(names)}"
        )
