"""The whole check of a run's file: everything that its digests say, answers and exchanges too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from medstress.core.outcomes import Verdict
from medstress.core.reading import check_regular
from medstress.store.chain import (
    REVIEW_CHAIN,
    RUN_CHAIN,
    Break,
    KeptRoot,
    answers_before_criteria,
    bound_manifest,
    compute_root,
    first_break,
    kept_roots,
    root_rows,
    wrong_exchanges,
    wrong_rows,
)
from medstress.store.codec import decode_answer, decode_item
from medstress.store.database import FILE, MAY_END_OTHERWISE
from medstress.store.opening import REVIEWS, reading, restrict
from medstress.store.reviews import FILE as REVIEW_FILE

_VERDICTS = (*(one.value for one in Verdict), "asked", "unanswered")
"""How a trial ends, or a question of an analysis."""
_MOST_SHOWN = 80
_ATTEMPTS = """
(SELECT e.*, COALESCE(v.begun, 0) AS begun, COALESCE(v.ended, 0) AS ended FROM (
    SELECT trial, attempt, COUNT(*) AS n, MIN(seq) AS first, MAX(seq) AS last
    FROM main.exchanges GROUP BY trial, attempt) e
LEFT JOIN (
    SELECT trial, COUNT(*) - COUNT(verdict) AS begun, COUNT(verdict) AS ended
    FROM main.verdicts GROUP BY trial) v ON v.trial = e.trial)
"""
_ODD = (
    (
        "answers",
        "SELECT id, 'a row of trials', 'none' FROM main.answers WHERE trial > 0 "
        "AND trial NOT IN (SELECT id FROM main.trials)",
    ),
    (
        "verdicts",
        f"SELECT id, 'one of {', '.join(_VERDICTS)}', verdict FROM main.verdicts "
        f"WHERE verdict NOT IN {_VERDICTS}",
    ),
    (
        "verdicts",
        "SELECT id, 'a result as a JSON object', result FROM main.verdicts WHERE verdict NOT NULL "
        "AND NOT CASE WHEN json_valid(result) THEN json_type(result) = 'object' ELSE 0 END",
    ),
    (
        "verdicts",
        f"""
        SELECT id, CASE WHEN verdict NOT NULL THEN 'no verdict' WHEN before IS NULL THEN 'a verdict'
            ELSE 'nothing more of trial ' || trial || ', which ended as ' || before END,
            COALESCE(verdict, IIF(before IS NULL, 'none', 'a new beginning'))
        FROM (SELECT *, LAG(verdict) OVER ended AS before,
            LAG({MAY_END_OTHERWISE}) OVER ended AS may_begin_again
            FROM main.verdicts WINDOW ended AS (PARTITION BY trial ORDER BY id))
        WHERE IIF(verdict IS NULL, NOT COALESCE(may_begin_again, 0), before NOT NULL)
        """,
    ),
    (
        "exchanges",
        "SELECT trial, 'a trial', 'none' FROM main.exchanges "
        "WHERE trial NOT IN (SELECT id FROM main.trials)",
    ),
    (
        "exchanges",
        "SELECT trial, 'no key of call ' || seq || ', whose answer has it', 'one' "
        "FROM main.exchanges WHERE answer NOT NULL AND key NOT NULL",
    ),
    (
        "exchanges",
        "SELECT trial, 'at most attempt ' || begun, 'attempt ' || attempt "
        f"FROM {_ATTEMPTS} WHERE attempt > begun",
    ),
    (
        "exchanges",
        "SELECT trial, n || ' calls from 0 in attempt ' || attempt, first || ' to ' || last "
        f"FROM {_ATTEMPTS} WHERE attempt < ended AND (first, last) != (0, n - 1)",
    ),
)
"""Table, and a query for its rows that medstress does not write though every digest fits: the row,
what should be there, and what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What the digests of a file say."""

    broken: Break | None
    """The first place that does not agree."""
    roots: tuple[KeptRoot, ...] = ()
    """The roots that the run once had, the earliest first; each was computed again."""
    last: tuple[tuple[str, int], ...] = ()
    """The last row of every table that a root is about."""
    n_open: int = 0
    """Exchanges of trials that go on, which have no digest yet."""


def check_whole(folder: Path) -> Whole:
    """Check all digests of a run's file and of its reviews.

    Raises:
        StoreError: a file is damaged, is none of ours, or cannot be opened.
    """
    with reading(folder / FILE, check="form") as db:
        if db is None:
            return Whole(broken=None)
        restrict(db)
        broken = next(_breaks(db), None) or _broken_reviews(folder)
        if broken is not None:
            return Whole(broken=broken)
        roots, last = tuple(kept_roots(db)), root_rows(db)
        (n_open,) = db.execute(
            f"SELECT COALESCE(SUM(n), 0) FROM {_ATTEMPTS} WHERE attempt >= ended"
        ).fetchone()
        return Whole(
            broken=None,
            roots=roots,
            last=tuple(last.items()),
            n_open=n_open,
        )


def _breaks(db: sqlite3.Connection) -> Iterator[Break]:
    yield from wrong_rows(db)
    if (broken := first_break(db, RUN_CHAIN, whole=True)) is not None:
        yield broken
    for table, row, other, _ in db.execute("PRAGMA main.foreign_key_check"):
        yield Break(table, row or 0, f"a row of {other}", "none")
    for table, query in _ODD:
        for row, expected, actual in db.execute(f"{query} ORDER BY 1 LIMIT 1"):
            yield Break(table, row, expected, _short(actual))
    yield from _unreadable(db)
    yield from wrong_exchanges(db)
    now = root_rows(db)
    if n := answers_before_criteria(db, bound_manifest(db, now["manifest"])):
        yield Break("manifest", 0, "criteria before the first answer", f"{n} answers before them")
    for kept in kept_roots(db):
        if kept.last["manifest"] != kept.row or any(kept.last[name] > now[name] for name in now):
            expected = f"the last rows of a moment, up to row {kept.row}"
            yield Break("manifest", kept.row, expected, str(kept.last))
        if (root := compute_root(db, kept.last)) != kept.root:
            yield Break("manifest", kept.row, f"root {kept.root}", f"root {root}")


def _unreadable(db: sqlite3.Connection) -> Iterator[Break]:
    for table, decode, what in (
        ("items", decode_item, "an item"),
        ("answers", lambda body: decode_answer(body, 0, 0), "an answer"),
    ):
        for row, body in db.execute(f"SELECT id, body FROM main.{table} ORDER BY id"):
            try:
                decode(body)
            except Exception:  # noqa: BLE001 - whatever it is, medstress has not written it
                yield Break(table, row, f"{what} as medstress stores it", _short(body))


def _short(text: object) -> str:
    shown = " ".join(str(text).split())
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."


def _broken_reviews(folder: Path) -> Break | None:
    path = folder / REVIEW_FILE
    if not check_regular(path):
        return None
    with reading(path, REVIEWS, check="form") as db:
        broken = None if db is None else first_break(db, REVIEW_CHAIN, whole=True)
    return broken and replace(broken, table=f"{broken.table} of {REVIEW_FILE}")
