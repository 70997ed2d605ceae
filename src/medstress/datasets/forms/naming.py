"""Names that columns of questions go by, and the user's own names for them (`columns`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.datasets.tables.table import Row

NAMED = (
    "answer",
    "answer_idx",
    "answer_text",
    "context",
    "id",
    "options",
    "passage",
    "question",
    "stem",
)
"""Fields that `columns` may name."""
QUESTIONS = (
    "question",
    "questiontext",
    "questionstem",
    "stem",
    "query",
    "prompt",
    "qtext",
    "sent1",
)
WEAK_QUESTIONS = (
    "questions",
    "q",
    "problem",
    "item",
    "vignette",
    "casevignette",
    "case",
    "scenario",
    "leadin",
    "text",
    "input",
)
"""Names that hold the question, or a part of it beside a column of `QUESTIONS`."""
CASES = ("vignette", "casevignette", "case", "scenario")
"""Names of the first part of a question."""
OPTION_LISTS = (
    "options",
    "choices",
    "answeroptions",
    "answerchoices",
    "optionlist",
    "alternatives",
    "candidates",
    "endings",
    "answers",
    "ops",
)
ANSWERS = (
    "answeridx",
    "answer",
    "answerkey",
    "correctoption",
    "correctanswer",
    "answerindex",
    "answerletter",
    "correctchoice",
    "correctletter",
    "correctindex",
    "correctidx",
    "correct",
    "goldanswer",
    "gold",
    "goldlabel",
    "rightanswer",
    "rightoption",
    "answertext",
    "correctanswertext",
    "correctoptiontext",
    "solution",
    "cop",
    "ra",
    "ans",
    "answerid",
    "answerlabel",
    "answers",
    "correctlabel",
    "target",
    "label",
    "key",
)
WEAK_ANSWERS = ("target", "label", "key", "solution", "gold", "goldlabel")
"""Names that may as well hold something else than the answer."""
FLAGS = (*WEAK_ANSWERS, "correct")
"""Names that hold the answer only if no other column could."""
IDS = (
    "id",
    "questionid",
    "qid",
    "itemid",
    "uid",
    "uuid",
    "guid",
    "exampleid",
    "sampleid",
    "caseid",
    "recordid",
    "pubid",
    "pmid",
    "pairid",
    "idx",
    "index",
)


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name without case, spaces, underscores and punctuation.

    >>> plain_name("Correct_Option "), plain_name("Option A")
    ('correctoption', 'optiona')
    """
    return re.sub(r"[\W_]+", "", str(name)).casefold()


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return the columns of all rows, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def filled_columns(rows: Sequence[Row], above: float = 0) -> list[str]:
    """Return the columns in which more than `above` rows have a value."""
    filled = (name for row in rows for name, value in row.items() if not is_nothing(value))
    return [name for name, n in Counter(filled).items() if n > above]


def is_nothing(value: Any) -> bool:
    """Return whether a cell holds nothing: a null, or text without characters."""
    return value is None or (isinstance(value, str) and not value.strip())


def called(columns: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the columns that go by one of `names`, in the order of `names`."""
    by_name: dict[str, list[str]] = {}
    for column in columns:
        by_name.setdefault(plain_name(column), []).append(column)
    return [column for name in names for column in by_name.get(name, ())]


def renaming(
    source: str, columns: Mapping[str, str | Sequence[str]], fields: Sequence[str] = NAMED
) -> Callable[[Row], Row]:
    """Return what gives the fields of a row their names here, by the key `columns`.

    Args:
        source: the data set's name, for messages.
        columns: name here -> name in the file; a list (of `options`) stays as it is.
        fields: the names that may be given.

    Raises:
        UsageError: a name here is unknown, or a list names anything but options. The result raises
            `DataError` if a row lacks a named field.
    """
    for name, own in columns.items():
        if name not in fields:
            raise UsageError(
                f"dataset {source!r}: columns: expected fields of {', '.join(fields)}, got "
                f"{name!r}{did_you_mean(name, fields)}"
            )
        if not isinstance(own, str) and name != "options":
            raise UsageError(f"columns: expected one name for {name!r}, got {list(own)!r}")
    single = {name: own for name, own in columns.items() if isinstance(own, str)}
    needed = [
        *single.values(),
        *(c for own in columns.values() if not isinstance(own, str) for c in own),
    ]

    def renamed(row: Row) -> Row:
        for own in needed:
            if own not in row:
                raise DataError(
                    f"columns: expected the field {own!r}, got {', '.join(row)}"
                    f"{did_you_mean(own, row)}"
                )
        rest = {name: value for name, value in row.items() if name not in single.values()}
        return {**rest, **{name: row[own] for name, own in single.items()}}

    return renamed
