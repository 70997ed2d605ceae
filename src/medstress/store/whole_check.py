"""The whole check of a run's file: everything that its digests say, answers and exchanges too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from medstress.core.outcomes import Verdict
from medstress.store.chain import (
    REVIEW_CHAIN,
    RUN_CHAIN,
    Break,
    first_break,
    wrong_exchanges,
    wrong_rows,
)
from medstress.store.codec import decode_answer, decode_item
from medstress.store.database import FILE
from medstress.store.opening import REVIEWS, RUN, interpreting, open_for_reading, restrict
from medstress.store.reviews import FILE as REVIEW_FILE
from medstress.store.root import (
    KeptRoot,
    answers_before_criteria,
    bound_manifest,
    compute_root,
    kept_roots,
    last_rows,
)
from medstress.store.views import UNFINISHED

_PAYERS = (
    "SELECT id FROM main.answers WHERE trial > 0 AND trial NOT IN (SELECT id FROM main.trials)"
)
_VERDICTS = (*(each.value for each in Verdict), "asked", "unanswered")
"""How a trial ends, or a question of an analysis."""
_MOST_SHOWN = 80
_EXCHANGES = "SELECT trial, attempt, seq FROM main.exchanges ORDER BY trial, attempt, seq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What the digests of a file say."""

    broken: Break | None
    """The first place that does not agree."""
    roots: tuple[KeptRoot, ...] = ()
    """The roots that the run once had, the earliest first; each was computed again."""
    is_current: bool = False
    """Whether the last of them is of all that the file holds."""
    last: tuple[tuple[str, int], ...] = ()
    """The last row of every table that a root is about."""
    n_open: int = 0
    """Exchanges of trials that go on, which have no digest yet."""


def check_whole(folder: Path) -> Whole:
    """Check all digests of a run's file and of its reviews.

    Raises:
        StoreError: a file is damaged, is none of ours, or cannot be opened.
    """
    broken = None
    with interpreting(folder / FILE):
        opened = open_for_reading(folder / FILE, RUN, check="form")
        with closing(opened.db) as db:
            if opened.is_empty:
                return Whole(broken=None)
            restrict(db)
            broken = next(_breaks(db), None)
            broken = broken or _broken_reviews(folder)
            if broken is not None:
                return Whole(broken=broken)
            roots, last = tuple(kept_roots(db)), last_rows(db)
            return Whole(
                broken=None,
                roots=roots,
                is_current=bool(roots) and roots[-1].last == last,
                last=tuple(last.items()),
                n_open=_n_open(db),
            )


def _breaks(db: sqlite3.Connection) -> Iterator[Break]:
    for row, stored, found in wrong_rows(db):
        yield Break(table="verdicts", row=row, expected=_digest(stored), found=found)
    if (broken := first_break(db, RUN_CHAIN, whole=True)) is not None:
        yield broken
    for table, row, other, _ in db.execute("PRAGMA main.foreign_key_check"):
        yield Break(table=table, row=row or 0, expected=f"a row of {other}", found="none")
    for (row,) in db.execute(f"{_PAYERS} ORDER BY id LIMIT 1"):
        yield Break(table="answers", row=row, expected="a row of trials", found="none")
    yield from _odd_values(db)
    yield from _odd_verdicts(db)
    yield from _stray_exchanges(db)
    for trial, stored, found in wrong_exchanges(db):
        yield Break(table="exchanges", row=trial, expected=_digest(stored), found=found)
    now = last_rows(db)
    if n := answers_before_criteria(db, bound_manifest(db, now["manifest"])):
        expected = "criteria before the first answer"
        yield Break(table="manifest", row=0, expected=expected, found=f"{n} answers before them")
    for kept in kept_roots(db):
        if kept.last["manifest"] != kept.row or any(kept.last[name] > now[name] for name in now):
            expected = f"the last rows of a moment, up to row {kept.row}"
            yield Break(table="manifest", row=kept.row, expected=expected, found=str(kept.last))
        if (found := compute_root(db, kept.last)) != kept.root:
            yield Break(
                table="manifest", row=kept.row, expected=f"root {kept.root}", found=f"root {found}"
            )


def _odd_values(db: sqlite3.Connection) -> Iterator[Break]:
    """Yield values that medstress does not write, though every digest fits."""
    rows = "SELECT id, verdict, result FROM main.verdicts WHERE verdict IS NOT NULL ORDER BY id"
    for row, verdict, result in db.execute(rows):
        if verdict not in _VERDICTS:
            expected = f"one of {', '.join(_VERDICTS)}"
            yield Break(table="verdicts", row=row, expected=expected, found=_short(verdict))
        if not _is_result(result):
            expected = "a result as a JSON object"
            yield Break(table="verdicts", row=row, expected=expected, found=_short(result))
    for table, decode, what in (
        ("items", decode_item, "an item"),
        ("answers", _decoded, "an answer"),
    ):
        for row, body in db.execute(f"SELECT id, body FROM main.{table} ORDER BY id"):
            try:
                decode(body)
            except Exception:  # noqa: BLE001 - whatever it is, medstress has not written it
                expected = f"{what} as medstress stores it"
                yield Break(table=table, row=row, expected=expected, found=_short(body))


def _is_result(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def _decoded(body: str) -> object:
    return decode_answer(body, 0, 0)


def _short(text: object) -> str:
    shown = " ".join(str(text).split())
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."


def _odd_verdicts(db: sqlite3.Connection) -> Iterator[Break]:
    """Yield verdicts that follow a verdict without a new beginning between them, and beginnings of
    trials that had no reason to begin again."""
    ended: dict[int, str] = {}
    for row, trial, verdict in db.execute(
        "SELECT id, trial, verdict FROM main.verdicts ORDER BY id"
    ):
        before = ended.pop(trial, None)
        if verdict is not None:
            ended[trial] = verdict
            if before is not None:
                yield Break(table="verdicts", row=row, expected="no verdict", found=verdict)
        elif before is None:
            yield Break(table="verdicts", row=row, expected="a verdict", found="none")
        elif before not in UNFINISHED:
            expected = f"nothing more of trial {trial}, which ended as {before}"
            yield Break(table="verdicts", row=row, expected=expected, found="a new beginning")


def _stray_exchanges(db: sqlite3.Connection) -> Iterator[Break]:
    """Yield exchanges of no trial or attempt, or out of order."""
    attempts, ended = _attempts(db)
    before = (0, 0, -1)
    for trial, attempt, seq in db.execute(_EXCHANGES):
        name = f"attempt {attempt} seq {seq}"
        if trial not in attempts:
            yield Break(table="exchanges", row=trial, expected="a trial", found="none")
        if attempt > attempts[trial]:
            expected = f"at most attempt {attempts[trial]}"
            yield Break(table="exchanges", row=trial, expected=expected, found=name)
        expected_seq = before[2] + 1 if before[:2] == (trial, attempt) else 0
        if seq != expected_seq and (attempt, trial) in ended:
            expected = f"attempt {attempt} seq {expected_seq}"
            yield Break(table="exchanges", row=trial, expected=expected, found=name)
        before = (trial, attempt, seq)


def _attempts(db: sqlite3.Connection) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """Return trial -> its last attempt, and (attempt, trial) of those that ended."""
    attempts = {trial: 0 for (trial,) in db.execute("SELECT id FROM main.trials")}
    ended: set[tuple[int, int]] = set()
    for trial, verdict in db.execute("SELECT trial, verdict FROM main.verdicts ORDER BY id"):
        if verdict is None:
            attempts[trial] += 1
        else:
            ended.add((attempts[trial], trial))
    return attempts, ended


def _n_open(db: sqlite3.Connection) -> int:
    attempts, ended = _attempts(db)
    open_ = [trial for trial, attempt in attempts.items() if (attempt, trial) not in ended]
    count = "SELECT COUNT(*) FROM main.exchanges WHERE trial = ? AND attempt = ?"
    return sum(db.execute(count, (trial, attempts[trial])).fetchone()[0] for trial in open_)


def _broken_reviews(folder: Path) -> Break | None:
    path = folder / REVIEW_FILE
    if not path.is_file() or not path.stat().st_size:
        return None
    with interpreting(path):
        opened = open_for_reading(path, REVIEWS, check="form")
        with closing(opened.db) as db:
            if opened.is_empty:
                return None
            found = first_break(db, REVIEW_CHAIN, whole=True)
    if found is None:
        return None
    return Break(
        table=f"{found.table} of {REVIEW_FILE}",
        row=found.row,
        expected=found.expected,
        found=found.found,
    )


def _digest(stored: str | None) -> str:
    return f"digest {stored or 'none'}"
