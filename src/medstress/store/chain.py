"""Chain the commits of a database by hash, so that a changed row shows.

Every commit that added rows appends a row to `commits` in the same transaction: the last row of
each chained table, and a digest over the digest before it and the rows added since. Rows are only
added, and their numbers have no gaps. A row is hashed as the JSON array of its values, blobs in
hex and numbers in the shortest form that reads back the same; JSON says where each value ends.

A table may be hashed apart (`Chained.apart`): its digest stands in the commit too, so that links
can be checked without reading that table.

A trial has digests of its own: of what it consumed, and of the whole of it. They leave out what
depends on scheduling or speed: the rows of answers, times, tokens, which call was paid and which
computed ahead. Equal trials with equal answers have equal digests.

Who can write the file can also make its chain again. What binds is a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

DIGEST_BYTES = 16
_PAGE = 2_000
"""Rows that are hashed together; the digest does not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chained:
    """The tables of one kind of file that its chain covers."""

    tables: Mapping[str, str]
    """Table -> its columns, as SQL, in the order in which they are hashed."""
    apart: str | None = None
    """The table whose rows are hashed apart."""
    apart_column: str = ""
    """The column of `commits` with that digest; null in a commit that added none of its rows."""


RUN_CHAIN = Chained(
    tables={
        "manifest": "id, key, value",
        "items": "id, dataset, item_id, hash, body",
        "renewals": "id, item, body",
        "arms": "id, dataset, grp, victim, attack, spec, seed",
        "trials": "id, trial_id, arm, item, repeat, place",
        "verdicts": "id, trial, hex(digest)",
        "findings": "id, trial, name, value",
        "answers": "id, hex(key), trial, body, seconds, tokens_in, tokens_out",
    },
    apart="answers",
    apart_column="answered",
)
"""What a run chains; the digest of a trial is over its result and the digest of its exchanges."""
REVIEW_CHAIN = Chained(
    tables={
        "rooms": "id, room, body",
        "verdicts": "id, case_id, trial_id, control, control_of, reviewer, role, answers, note, "
        "time",
    }
)
"""What a file of reviews chains: the samples that people were given, and what they say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first place where a file does not agree with what stands elsewhere in it."""

    table: str
    """The table that does not agree."""
    row: int
    """Its row; of `commits` where a digest differs, else the row that is missing or too much."""
    expected: str
    """What the chain says."""
    found: str
    """What is there."""

    def __str__(self) -> str:
        # A file that is no ledger has no rows.
        is_file = not self.row and "." in self.table
        where = self.table if is_file else f"table {self.table}, row {self.row}"
        return f"{where}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """One row of `commits`."""

    id: int
    digest: bytes
    apart: bytes | None
    last: tuple[int, ...]
    """The last row of each chained table."""


class _GapError(Exception):
    """A row is missing: its table, its number."""


def link(db: sqlite3.Connection, chained: Chained) -> None:
    """Append a commit to the chain if rows were added since the last one.

    Call it inside the transaction, before it is committed.
    """
    last = _last_rows(db, chained)
    found = db.execute(f"{_select(chained)} ORDER BY id DESC LIMIT 1").fetchone()
    before = _commit(found) if found else _first(chained)
    if last == before.last:
        return
    rows = {
        table: _rows(db, chained, table, was)
        for table, was, now in zip(chained.tables, before.last, last, strict=True)
        if now > was
    }
    apart = _digest_apart(chained, rows, before.last, last)
    digest = _digest(chained, rows, before, last, apart)
    values = (before.id + 1, digest, *([apart] if chained.apart else ()), *last)
    db.execute(f"INSERT INTO commits VALUES ({', '.join('?' * len(values))})", values)


def head(db: sqlite3.Connection, schema: str = "main") -> str | None:
    """Return the digest of the last commit, in hex; None if there is none."""
    last = f"SELECT hex(digest) FROM {schema}.commits ORDER BY id DESC LIMIT 1"
    found = db.execute(last).fetchone()
    return str(found[0]).lower() if found else None


def commits_after(db: sqlite3.Connection, digest: str) -> int | None:
    """Return how many commits came after the one with a digest; None if there is no such commit."""
    own = "SELECT id FROM main.commits WHERE digest = ?"
    try:
        found = db.execute(own, (bytes.fromhex(digest),)).fetchone()
    except ValueError:
        return None
    last = "SELECT MAX(id) FROM main.commits"
    return None if found is None else int(db.execute(last).fetchone()[0]) - int(found[0])


def first_break(db: sqlite3.Connection, chained: Chained, *, whole: bool) -> Break | None:
    """Return the first place where the chain does not hold, or None.

    Args:
        db: the file, with a known schema.
        chained: what its chain covers.
        whole: also hash the table apart; else the digests of its rows are taken from the commits.
    """
    return next(_breaks(db, chained, whole), None)


def _breaks(db: sqlite3.Connection, chained: Chained, whole: bool) -> Iterator[Break]:
    rows = {table: _rows(db, chained, table) for table in chained.tables}
    before = _first(chained)
    try:
        for row in db.execute(f"{_select(chained)} ORDER BY id"):
            now = _commit(row)
            if now.id != before.id + 1:
                yield Break(
                    table="commits",
                    row=before.id + 1,
                    expected="a commit",
                    found=f"commit {now.id}",
                )
            for table, was, last in zip(chained.tables, before.last, now.last, strict=True):
                if last < was:
                    expected = f"at least {was} rows in {table}"
                    yield Break(table="commits", row=now.id, expected=expected, found=str(last))
            apart = now.apart
            if whole:
                apart = _digest_apart(chained, rows, before.last, now.last)
                if apart != now.apart:
                    assert chained.apart is not None
                    span = _span(chained, chained.apart, before, now)
                    yield _differs(now, now.apart, apart, span)
            elif chained.apart and (apart is None) != _stays(chained, before.last, now.last):
                expected = "digests of its rows"
                yield Break(table="commits", row=now.id, expected=expected, found="others")
            digest = _digest(chained, rows, before, now.last, apart)
            if digest != now.digest:
                spans = [_span(chained, table, before, now) for table in chained.tables]
                yield _differs(now, now.digest, digest, ", ".join(filter(None, spans)))
            before = now
    except _GapError as gap:
        table, row = gap.args
        yield Break(table=table, row=row, expected="a row", found="none")
    for table, last in zip(chained.tables, before.last, strict=True):
        count = f"SELECT COUNT(*), COALESCE(MAX(id), 0) FROM main.{table}"
        n, ends = db.execute(count).fetchone()
        if n != ends:
            numbers = db.execute(f"SELECT id FROM main.{table} ORDER BY id")
            row = next(place for place, (row,) in enumerate(numbers, 1) if row != place)
            yield Break(table=table, row=row, expected="a row", found="none")
        if ends != last:
            expected, row = f"the chain's last row {last}", min(ends, last) + 1
            yield Break(table=table, row=row, expected=expected, found=f"rows up to {ends}")


def _differs(now: _Commit, expected: bytes | None, found: bytes | None, spans: str) -> Break:
    return Break(
        table="commits",
        row=now.id,
        expected=f"digest {(expected or b'').hex() or 'none'}",
        found=f"{(found or b'').hex() or 'none'} ({spans or 'no rows'})",
    )


def _span(chained: Chained, table: str, before: _Commit, now: _Commit) -> str:
    """Name the rows of a table that a commit added; empty if it added none."""
    at = list(chained.tables).index(table)
    first, last = before.last[at] + 1, now.last[at]
    if last < first:
        return ""
    return f"{table} {first}" if first == last else f"{table} {first} to {last}"


def _stays(chained: Chained, before: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Return whether a commit added no row to the table apart."""
    at = list(chained.tables).index(str(chained.apart))
    return before[at] == last[at]


def _select(chained: Chained) -> str:
    apart = chained.apart_column or "NULL"
    return f"SELECT id, digest, {apart}, {', '.join(chained.tables)} FROM commits"


def _commit(row: tuple[int | bytes, ...]) -> _Commit:
    id_, digest, apart, *last = row
    return _Commit(id=id_, digest=digest, apart=apart, last=tuple(last))  # type: ignore[arg-type]


def _first(chained: Chained) -> _Commit:
    """What stands before the first commit."""
    return _Commit(id=0, digest=b"", apart=None, last=(0,) * len(chained.tables))


def _last_rows(db: sqlite3.Connection, chained: Chained) -> tuple[int, ...]:
    parts = (f"COALESCE((SELECT MAX(id) FROM main.{table}), 0)" for table in chained.tables)
    return tuple(db.execute(f"SELECT {', '.join(parts)}").fetchone())


def _digest(
    chained: Chained,
    rows: Mapping[str, sqlite3.Cursor],
    before: _Commit,
    last: tuple[int, ...],
    apart: bytes | None,
) -> bytes:
    state = hashlib.blake2b(before.digest, digest_size=DIGEST_BYTES)
    # Where each table ends, so that no row can pass for one of another table.
    state.update(orjson.dumps([*before.last, *last, (apart or b"").hex()]))
    for table, was, now in zip(chained.tables, before.last, last, strict=True):
        if table != chained.apart and now > was:
            hash_rows(state, _pages(rows[table], table, was, now))
    return state.digest()


def _digest_apart(
    chained: Chained,
    rows: Mapping[str, sqlite3.Cursor],
    before: tuple[int, ...],
    last: tuple[int, ...],
) -> bytes | None:
    if chained.apart is None or _stays(chained, before, last):
        return None
    at = list(chained.tables).index(chained.apart)
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    hash_rows(state, _pages(rows[chained.apart], chained.apart, before[at], last[at]))
    return state.digest()


def _rows(
    db: sqlite3.Connection, chained: Chained, table: str, after: int | None = None
) -> sqlite3.Cursor:
    """Return the rows of a table in order, from the first one on unless `after` is given."""
    where = "" if after is None else f"WHERE id > {after}"
    return db.execute(f"SELECT {chained.tables[table]} FROM main.{table} {where} ORDER BY id")


def _pages(
    rows: sqlite3.Cursor, table: str, after: int, last: int
) -> Iterator[list[tuple[object, ...]]]:
    """Yield the next rows, which have the numbers after one and up to another, page by page.

    Raises:
        _GapError: one is missing.
    """
    while after < last:
        page = rows.fetchmany(min(_PAGE, last - after))
        if not page or page[-1][0] != after + len(page):
            numbers = {row[0] for row in page}
            raise _GapError(table, next(n for n in range(after + 1, last + 1) if n not in numbers))
        after += len(page)
        yield page


def text_digest(text: bytes) -> str:
    """Return the digest of a text, in hex."""
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def hash_rows(state: hashlib.blake2b, pages: Iterator[list[tuple[object, ...]]]) -> None:
    """Hash rows, each as a JSON array; how they are divided into pages does not matter."""
    for page in pages:
        state.update(orjson.dumps(page)[1:-1])
        state.update(b",")


_CONSUMED = """
SELECT e.seq, e.role, e.purpose, e.query, e.call, hex(COALESCE(s.key, e.key)), e.edits, e.flags,
       e.request, e.error, s.body
FROM main.exchanges e LEFT JOIN main.answers s ON s.id = e.answer
WHERE e.trial = ? AND e.attempt = ? ORDER BY e.seq
"""
_IDENTITY = """
a.dataset, a.grp, a.victim, a.attack, a.spec, a.seed, i.item_id, i.hash, t.repeat, t.trial_id
"""
"""What a trial is, as columns of `arms` a, `items` i and `trials` t."""
_IDENTITY_OF = f"""
SELECT {_IDENTITY} FROM main.trials t JOIN main.arms a ON a.id = t.arm
JOIN main.items i ON i.id = t.item WHERE t.id = ?
"""


def exchanges_digest(db: sqlite3.Connection, trial: int, attempt: int) -> bytes:
    """Return the digest of the calls that one attempt of a trial consumed, with their answers."""
    rows = db.execute(_CONSUMED, (trial, attempt)).fetchall()
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    hash_rows(state, iter([rows] if rows else []))
    return state.digest()


def trial_digest(identity: tuple[Any, ...], verdict: str, result: str, exchanges: bytes) -> bytes:
    """Return the digest of a trial.

    Args:
        identity: the values of `_IDENTITY`.
        verdict: how it ended.
        result: its result, as stored.
        exchanges: the digest of what it consumed.
    """
    values = [*identity, verdict, text_digest(result.encode()), exchanges.hex()]
    return hashlib.blake2b(orjson.dumps(values), digest_size=DIGEST_BYTES).digest()


def finish(db: sqlite3.Connection, trial: int, attempt: int, verdict: str, result: str) -> None:
    """Append how a trial ended; everything that it consumed is stored before."""
    exchanges = exchanges_digest(db, trial, attempt)
    identity = db.execute(_IDENTITY_OF, (trial,)).fetchone()
    db.execute(
        "INSERT INTO main.verdicts (trial, verdict, result, exchanges, digest) "
        "VALUES (?, ?, ?, ?, ?)",
        (trial, verdict, result, exchanges, trial_digest(identity, verdict, result, exchanges)),
    )


def wrong_rows(
    db: sqlite3.Connection, digests: dict[int, str] | None = None
) -> Iterator[tuple[int, str, str]]:
    """Yield (row of `verdicts`, digest as stored, digest as it should be) where these differ.

    Args:
        db: the run's file.
        digests: is given trial -> the digest of its last verdict, in upper case as SQL writes it.
    """
    # As `trial_digest`, with the part that all trials of an arm share hashed once.
    begun = {
        arm: hashlib.blake2b(orjson.dumps(values)[:-1] + b",", digest_size=DIGEST_BYTES)
        for arm, *values in db.execute(
            "SELECT id, dataset, grp, victim, attack, spec, seed FROM main.arms"
        )
    }
    items = {
        row: orjson.dumps(of)[1:-1] + b","
        for row, *of in db.execute("SELECT id, item_id, hash FROM main.items")
    }
    rows = db.execute(
        "SELECT v.id, t.id, COALESCE(v.verdict, v.result, v.exchanges, v.digest) IS NULL, "
        "v.digest, t.arm, t.item, CAST(COALESCE(v.result, '') AS BLOB), v.exchanges, v.verdict, "
        "t.repeat, t.trial_id FROM main.verdicts v JOIN main.trials t ON t.id = v.trial "
        "ORDER BY v.id"
    )
    digests = {} if digests is None else digests
    for row, trial, begins, digest, arm, item, result, exchanges, verdict, *own in rows:
        if begins:  # it begins again
            digests[trial] = ""
            continue
        state = begun[arm].copy()
        state.update(items[item])
        values = *own, verdict, text_digest(result), (exchanges or b"").hex()
        state.update(orjson.dumps(values)[1:])
        if (expected := state.digest()) != digest:
            yield row, (digest or b"").hex(), expected.hex()
        digests[trial] = expected.hex().upper()


def wrong_exchanges(db: sqlite3.Connection) -> Iterator[tuple[int, str, str]]:
    """Yield (trial, digest of its exchanges as stored, as found) where these differ.

    Every attempt is checked; the exchanges of the last attempt of a trial that goes on have no
    digest yet.
    """
    attempts: dict[int, int] = {}
    rows = db.execute("SELECT trial, verdict, exchanges FROM main.verdicts ORDER BY id")
    for trial, verdict, stored in rows:
        attempt = attempts.get(trial, 0)
        if verdict is None:
            attempts[trial] = attempt + 1
            continue
        if (found := exchanges_digest(db, trial, attempt)) != stored:
            yield trial, (stored or b"").hex(), found.hex()
