"""Chain the commits of a database by hash, so that a changed row shows.

Every commit that added rows appends a row to `commits` in the same transaction: the last row of
each chained table, and a digest over the digest before it and the rows added since. Rows are only
added, and their numbers have no gaps. A row is hashed as the JSON array of its values, blobs in
hex and numbers in the shortest form that reads back the same; JSON says where each value ends.

A table may be hashed apart (`Chained.apart`): its digest stands in the commit too, so that links
can be checked without reading that table.

Who can write the file can also make its chain again. What binds is a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


def link(db: sqlite3.Connection, chained: Chained) -> None:
    """Append a commit to the chain if rows were added since the last one.

    Call it inside the transaction, before it is committed.
    """
    last = _last_rows(db, chained)
    found = db.execute(f"{_select(chained)} ORDER BY id DESC LIMIT 1").fetchone()
    before = _commit(found) if found else _first(chained)
    if last == before.last:
        return
    apart = _digest_apart(db, chained, before.last, last)
    digest = _digest(db, chained, before, last, apart)
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
    before = _first(chained)
    for row in db.execute(f"{_select(chained)} ORDER BY id"):
        now = _commit(row)
        if now.id != before.id + 1:
            yield Break(
                table="commits", row=before.id + 1, expected="a commit", found=f"commit {now.id}"
            )
        for table, was, last in zip(chained.tables, before.last, now.last, strict=True):
            if last < was:
                yield Break(
                    table="commits",
                    row=now.id,
                    expected=f"at least {was} rows in {table}",
                    found=str(last),
                )
            if table != chained.apart or whole:
                yield from _gaps(db, table, was, last)
        apart = now.apart
        if whole:
            apart = _digest_apart(db, chained, before.last, now.last)
            if apart != now.apart:
                assert chained.apart is not None
                yield _differs(now, now.apart, apart, _span(chained, chained.apart, before, now))
        elif chained.apart and (now.apart is None) != _stays(chained, chained.apart, before, now):
            yield Break(table="commits", row=now.id, expected="digests of its rows", found="others")
        digest = _digest(db, chained, before, now.last, apart)
        if digest != now.digest:
            spans = [_span(chained, table, before, now) for table in chained.tables]
            yield _differs(now, now.digest, digest, ", ".join(filter(None, spans)))
        before = now
    for table, chain_ends, ends in zip(
        chained.tables, before.last, _last_rows(db, chained), strict=True
    ):
        if ends > chain_ends:
            yield Break(
                table=table,
                row=chain_ends + 1,
                expected=f"the chain's last row {chain_ends}",
                found=f"rows up to {ends}",
            )
        if ends < chain_ends:
            yield Break(
                table=table,
                row=ends + 1,
                expected=f"rows up to {chain_ends}",
                found=f"rows up to {ends}",
            )
        (n,) = db.execute(f"SELECT COUNT(*) FROM main.{table}").fetchone()
        if n != ends:
            yield next(_gaps(db, table, 0, ends), None) or Break(
                table=table, row=ends, expected=f"{ends} rows", found=f"{n}"
            )


def _gaps(db: sqlite3.Connection, table: str, after: int, last: int) -> Iterator[Break]:
    """Yield the first missing row of a range."""
    if last <= after:
        return
    count = f"SELECT COUNT(*) FROM main.{table} WHERE id > ? AND id <= ?"
    if db.execute(count, (after, last)).fetchone()[0] == last - after:
        return
    expected = after + 1
    for (row,) in db.execute(
        f"SELECT id FROM main.{table} WHERE id > ? AND id <= ? ORDER BY id", (after, last)
    ):
        if row != expected:
            break
        expected += 1
    yield Break(table=table, row=expected, expected="a row", found="none")


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


def _stays(chained: Chained, table: str, before: _Commit, now: _Commit) -> bool:
    at = list(chained.tables).index(table)
    return before.last[at] == now.last[at]


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
    db: sqlite3.Connection,
    chained: Chained,
    before: _Commit,
    last: tuple[int, ...],
    apart: bytes | None,
) -> bytes:
    state = hashlib.blake2b(before.digest, digest_size=DIGEST_BYTES)
    # Where each table ends, so that no row can pass for one of another table.
    state.update(orjson.dumps([*before.last, *last, (apart or b"").hex()]))
    for table, was, now in zip(chained.tables, before.last, last, strict=True):
        if table != chained.apart:
            hash_rows(state, rows_between(db, chained, table, was, now))
    return state.digest()


def _digest_apart(
    db: sqlite3.Connection, chained: Chained, before: tuple[int, ...], last: tuple[int, ...]
) -> bytes | None:
    if chained.apart is None:
        return None
    at = list(chained.tables).index(chained.apart)
    if before[at] == last[at]:
        return None
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    hash_rows(state, rows_between(db, chained, chained.apart, before[at], last[at]))
    return state.digest()


def rows_between(
    db: sqlite3.Connection, chained: Chained, table: str, after: int, last: int
) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows of a table after one and up to another, page by page."""
    query = f"SELECT {chained.tables[table]} FROM main.{table} WHERE id > ? AND id <= ? ORDER BY id"
    if last <= after:
        return
    cursor = db.execute(query, (after, last))
    while page := cursor.fetchmany(_PAGE):
        yield page


def text_digest(text: bytes) -> str:
    """Return the digest of a text, in hex."""
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def hash_rows(state: hashlib.blake2b, pages: Iterator[list[tuple[object, ...]]]) -> None:
    """Hash rows, each as a JSON array; how they are divided into pages does not matter."""
    for page in pages:
        state.update(orjson.dumps(page)[1:-1])
        state.update(b",")
