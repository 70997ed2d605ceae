"""Chain the commits of a database by hash, so that a changed row shows.

Every commit that added rows appends a row to `commits` in the same transaction: the last row of
each chained table, and a digest over the digest before it and the rows added since. Rows are only
added, and their numbers have no gaps. A row is hashed as the JSON array of its values, blobs in
hex and numbers in the shortest form that reads back the same; JSON says where each value ends.

A table may be hashed apart (`Chained.apart`): its digest is in the commit too, so that links
can be checked without reading that table.

A trial has digests of its own: of what it consumed, and of the whole of it. They leave out what
depends on scheduling or speed: the rows of answers, times, tokens, which call was paid and which
computed ahead. Equal trials with equal answers have equal digests.

Who can write the file can also make its chain again. What binds is a digest kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import hexdigits
from typing import Any, NamedTuple

import orjson

from medstress.core.errors import UsageError
from medstress.core.hashing import DIGEST_BYTES, canonical_bytes, hasher

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


@dataclass(frozen=True, slots=True)
class Break:
    """The first place where a file does not agree with another place in it."""

    table: str
    """The table or file that does not agree."""
    row: int
    """Its row; of `commits` where a digest differs, else the row that is missing or too much; 0:
    no single one."""
    expected: str
    """What the chain says."""
    found: str
    """What is there."""

    def __str__(self) -> str:
        where = f"table {self.table}, row {self.row}" if self.row else self.table
        return f"{where}: expected {self.expected}, found {self.found}"


class _Commit(NamedTuple):
    """One row of `commits`."""

    id: int
    digest: bytes
    apart: bytes | None
    last: dict[str, int]
    """Table -> its last row then."""


class _GapError(Exception):
    """A row is missing: its table, its number."""


def link(db: sqlite3.Connection, chained: Chained) -> None:
    """Append a commit to the chain if rows were added since the last one.

    Call it inside the transaction, before it is committed.
    """
    last = last_rows(db, chained.tables)
    *_, before = _commits(db, chained, "DESC LIMIT 1")
    if last == before.last:
        return
    digest, apart = _digests(db, chained, before, last)
    values = (before.id + 1, digest, *([apart] if chained.apart else ()), *last.values())
    db.execute(f"INSERT INTO commits VALUES ({', '.join('?' * len(values))})", values)


def head(db: sqlite3.Connection, schema: str = "main") -> str | None:
    """Return the digest of the last commit, in hex; None if there is none."""
    last = f"SELECT hex(digest) FROM {schema}.commits ORDER BY id DESC LIMIT 1"
    row = db.execute(last).fetchone()
    return str(row[0]).lower() if row else None


def commits_after(db: sqlite3.Connection, digest: str) -> int | None:
    """Return how many commits came after the one with a digest; None if there is no such commit."""
    count = "SELECT (SELECT MAX(id) FROM main.commits) - id FROM main.commits WHERE hex(digest) = ?"
    row = db.execute(count, (digest.upper(),)).fetchone()
    return None if row is None else int(row[0])


def last_rows(db: sqlite3.Connection, tables: Iterable[str]) -> dict[str, int]:
    """Return the last row of each table."""
    names = list(tables)
    parts = (f"COALESCE((SELECT MAX(id) FROM main.{name}), 0)" for name in names)
    return dict(zip(names, db.execute(f"SELECT {', '.join(parts)}").fetchone(), strict=True))


def first_break(db: sqlite3.Connection, chained: Chained, *, whole: bool) -> Break | None:
    """Return the first place where the chain does not hold, or None.

    Args:
        db: the file, with a known schema.
        chained: what its chain covers.
        whole: also hash the table apart; else the digests of its rows are taken from the commits.
    """
    return next(_breaks(db, chained, whole), None)


def _breaks(db: sqlite3.Connection, chained: Chained, whole: bool) -> Iterator[Break]:
    commits = _commits(db, chained)
    before = next(commits)
    try:
        for now in commits:
            if now.id != before.id + 1:
                yield Break("commits", before.id + 1, "a commit", f"commit {now.id}")
            digest, apart = _digests(db, chained, before, now.last, None if whole else now)
            if (digest, apart) != (now.digest, now.apart):
                spans = (_span(table, before.last[table], last) for table, last in now.last.items())
                where = ", ".join(filter(None, spans)) or "no rows"
                expected = f"digest {now.digest.hex()}"
                yield Break("commits", now.id, expected, f"{digest.hex()} ({where})")
            before = now
    except _GapError as gap:
        table, row = gap.args
        yield Break(table, row, "a row", "none")
    for table, ends in last_rows(db, chained.tables).items():
        (n,) = db.execute(f"SELECT COUNT(*) FROM main.{table} NOT INDEXED").fetchone()
        if n != ends:
            numbers = db.execute(f"SELECT id FROM main.{table} ORDER BY id")
            row = next(place for place, (row,) in enumerate(numbers, 1) if row != place)
            yield Break(table, row, "a row", "none")
        if ends != (last := before.last[table]):
            expected, row = f"the chain's last row {last}", min(ends, last) + 1
            yield Break(table, row, expected, f"rows up to {ends}")


def _span(table: str, before: int, last: int) -> str:
    """Name the rows of a table that a commit added; empty if it added none."""
    if last <= before:
        return ""
    return f"{table} {last}" if last == before + 1 else f"{table} {before + 1} to {last}"


def _commits(db: sqlite3.Connection, chained: Chained, order: str = "") -> Iterator[_Commit]:
    """Yield what comes before the first commit, then the commits."""
    yield _Commit(0, b"", None, dict.fromkeys(chained.tables, 0))
    columns = f"id, digest, {chained.apart_column or 'NULL'}, {', '.join(chained.tables)}"
    for id_, digest, apart, *last in db.execute(
        f"SELECT {columns} FROM commits ORDER BY id {order}"
    ):
        yield _Commit(id_, digest, apart, dict(zip(chained.tables, last, strict=True)))


def _digests(
    db: sqlite3.Connection,
    chained: Chained,
    before: _Commit,
    last: Mapping[str, int],
    stored: _Commit | None = None,
) -> tuple[bytes, bytes | None]:
    """Return the digest of a commit, and that of the rows it added to the table apart, if any.

    Args:
        db: the file.
        chained: what its chain covers.
        before: the commit before.
        last: table -> its last row with this commit.
        stored: where the digest of the table apart is taken from; None: its rows are hashed.
    """
    apart = None if stored is None else stored.apart
    if stored is None and chained.apart and last[chained.apart] > before.last[chained.apart]:
        state = hasher()
        _hash_next(db, chained, chained.apart, before, last, state)
        apart = state.digest()
    state = hasher(before.digest)
    # Where each table ends, so that no row can pass for one of another table.
    state.update(orjson.dumps([*before.last.values(), *last.values(), (apart or b"").hex()]))
    for table in last:
        if table != chained.apart:
            _hash_next(db, chained, table, before, last, state)
    return state.digest(), apart


def _hash_next(
    db: sqlite3.Connection,
    chained: Chained,
    table: str,
    before: _Commit,
    last: Mapping[str, int],
    state: hashlib.blake2b,
) -> None:
    """Hash the rows that a commit added to a table.

    Raises:
        _GapError: one is missing.
    """
    after, end = before.last[table], last[table]
    if after >= end:
        return
    columns = chained.tables[table]
    rows = db.execute(
        f"SELECT {columns} FROM main.{table} WHERE id > ? AND id <= ? ORDER BY id", (after, end)
    )
    while after < end:
        page = rows.fetchmany(_PAGE)
        if not page or page[-1][0] != after + len(page):
            numbers = {row[0] for row in page}
            raise _GapError(table, next(n for n in range(after + 1, end + 1) if n not in numbers))
        after += len(page)
        state.update(orjson.dumps(page)[1:-1] + b",")


_CONSUMED = """
SELECT e.seq, e.role, e.purpose, e.query, e.call, hex(COALESCE(s.key, e.key)), e.edits, e.flags,
       e.request, e.error, s.body
FROM main.exchanges e LEFT JOIN main.answers s ON s.id = e.answer
WHERE e.trial = ? AND e.attempt = ? ORDER BY e.seq
"""
_ARM = "json_array(a.dataset, a.grp, a.victim, a.attack, a.spec, a.seed)"
_REST = """
json_array(i.item_id, i.hash)
|| json_array(t.repeat, t.trial_id, {verdict}, lower(hex({exchanges}))) || {result}
"""
"""What the digest of a trial is over: its arm, then its item, what is its own, and its result."""
_OF_ONE = f"""
SELECT {_ARM} || {_REST.format(verdict=":verdict", exchanges=":exchanges", result=":result")}
FROM main.trials t JOIN main.arms a ON a.id = t.arm JOIN main.items i ON i.id = t.item
WHERE t.id = :trial
"""
_ENDED = f"""
SELECT v.id, v.digest, t.arm, CAST({
    _REST.format(verdict="v.verdict", exchanges="v.exchanges", result="COALESCE(v.result, '')")
} AS BLOB)
FROM main.verdicts v JOIN main.trials t ON t.id = v.trial
LEFT JOIN main.items i ON i.id = t.item
WHERE COALESCE(v.verdict, v.result, v.exchanges, v.digest) NOT NULL ORDER BY v.id
"""
"""Rows of `verdicts` and what their digests are over after the arm. Without a value, a trial begins
again."""


def exchanges_digest(db: sqlite3.Connection, trial: int, attempt: int) -> bytes:
    """Return the digest of the calls that one attempt of a trial consumed, with their answers."""
    rows = db.execute(_CONSUMED, (trial, attempt)).fetchall()
    return hasher(orjson.dumps(rows)).digest()


def finish(db: sqlite3.Connection, trial: int, attempt: int, verdict: str, result: str) -> None:
    """Append how a trial ended; everything that it consumed is stored before."""
    exchanges = exchanges_digest(db, trial, attempt)
    values = {"trial": trial, "verdict": verdict, "result": result, "exchanges": exchanges}
    (text,) = db.execute(_OF_ONE, values).fetchone()
    db.execute(
        "INSERT INTO main.verdicts (trial, verdict, result, exchanges, digest) "
        "VALUES (:trial, :verdict, :result, :exchanges, :digest)",
        {**values, "digest": hasher(text.encode()).digest()},
    )


def wrong_rows(db: sqlite3.Connection) -> Iterator[Break]:
    """Yield the rows of `verdicts` whose digest is not that of their trial."""
    arms = db.execute(f"SELECT a.id, {_ARM} FROM main.arms a").fetchall()
    begun = {arm: hasher(text.encode()) for arm, text in arms}  # a few, each of many trials
    for row, stored, arm, rest in db.execute(_ENDED):
        digest = None
        if arm in begun:
            state = begun[arm].copy()
            state.update(rest)
            digest = state.digest()
        if digest != stored:
            yield _other_digest("verdicts", row, stored, digest)


def wrong_exchanges(db: sqlite3.Connection) -> Iterator[Break]:
    """Yield the trials whose exchanges have another digest than theirs.

    Every attempt is checked; the exchanges of the last attempt of a trial that goes on have no
    digest yet.
    """
    attempts: dict[int, int] = {}
    rows = db.execute("SELECT trial, verdict, exchanges FROM main.verdicts ORDER BY id")
    for trial, verdict, stored in rows:
        attempt = attempts.get(trial, 0)
        if verdict is None:
            attempts[trial] = attempt + 1
        elif (digest := exchanges_digest(db, trial, attempt)) != stored:
            yield _other_digest("exchanges", trial, stored, digest)


def _other_digest(table: str, row: int, stored: bytes | None, digest: bytes | None) -> Break:
    expected, found = ((each or b"").hex() or "none" for each in (stored, digest))
    return Break(table, row, f"digest {expected}", found)


# -- The root of a run ----------------------------------------------------------------------------
ROOT = "root"
"""Key of the manifest under which roots are kept."""
PLAN: Mapping[str, tuple[str, ...]] = {
    "parts": (),
    "attacks": (),
    "records": (),
    "controls": (),
    "fixed_family": (),
    "require": (),
    "slices": (),
    "tests": (),
    "similarity": (),
    "surrogates": (),
    "tuning": (),
    "victims": (
        *("model", "model_hash", "parameters", "family", "group", "task", "prompt"),
        *("by_dataset", "part_of", "backend"),
    ),
    "roles": ("model", "model_hash", "decoding", "backend"),
    "datasets": ("n_items", "n_rows", "hash", "passages"),
    "groups": ("n_names", "vocabulary_hash", "embedding", "distance", "n_undefined", "hash"),
}
"""Manifest entries that the root covers; of a table of parts, only these keys of each, if any are
named. Names, notes, paths, prices, times, versions, commands and verdicts that came early are left
out."""
_MAY_BE_PATHS = ("model", "embedding")
"""Keys that may hold a path, of which only the last component counts."""
_TABLES = tuple(name for name in RUN_CHAIN.tables if name != RUN_CHAIN.apart)

SUPERSEDED = "superseded"
"""Manifest entry: ids of follow-ups that another one has replaced, because an extension changed
what is asked. They stay readable, and are no part of the root nor asked again."""
SUPERSEDED_IDS = f"""
SELECT value FROM json_each(COALESCE((SELECT value FROM main.manifest WHERE key = '{SUPERSEDED}'
AND id <= :manifest ORDER BY id DESC LIMIT 1), '[]'))
"""
_ITEMS = """
SELECT i.dataset, i.item_id, i.hash, COALESCE(r.body, i.body) FROM main.items i
LEFT JOIN (
    SELECT item, MAX(id) AS id FROM main.renewals WHERE id <= :renewals GROUP BY item
) last ON last.item = i.id
LEFT JOIN main.renewals r ON r.id = last.id
WHERE i.id <= :items ORDER BY i.dataset, i.item_id
"""
_DIGESTS = "SELECT trial, digest FROM main.verdicts WHERE id <= :verdicts ORDER BY id"
_LEFT_OUT = f"SELECT id FROM main.trials WHERE trial_id IN ({SUPERSEDED_IDS})"
_FINDINGS = f"""
SELECT t.trial_id, f.name, f.value FROM main.findings f JOIN main.trials t ON t.id = f.trial
WHERE f.id IN (SELECT MAX(id) FROM main.findings WHERE id <= :findings GROUP BY trial, name)
AND t.trial_id NOT IN ({SUPERSEDED_IDS}) ORDER BY t.trial_id, f.name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRoot:
    """A root that a run once had."""

    root: str
    """The digest, in hex."""
    row: int
    """The row of the manifest that holds it."""
    last: Mapping[str, int]
    """Table -> its last row then."""


def compute_root(db: sqlite3.Connection, last: Mapping[str, int] | None = None) -> str:
    """Return the root of a run of today's format.

    Args:
        db: the run's file.
        last: table -> the last row that counts, for the root that the run had then; default: all.
    """
    now = root_rows(db)
    last = now if last is None else {name: int(last[name]) for name in now}
    manifest = bound_manifest(db, last["manifest"])
    state = hasher(canonical_bytes(plan_of(manifest)))
    state.update(orjson.dumps(["criteria", answers_before_criteria(db, manifest)]))
    for kind, rows in (("item", _ITEMS), ("finding", _FINDINGS)):
        for row in db.execute(rows, last):
            state.update(orjson.dumps((kind, *row)))
    trials = dict(db.execute(_DIGESTS, last))
    for (row,) in db.execute(_LEFT_OUT, last):
        trials.pop(row, None)
    # Sorted, because an extension registers its trials in another order than a run at once.
    ended = sorted(filter(None, trials.values()))
    state.update(orjson.dumps(["trials", len(ended)]))
    state.update(b"".join(ended))
    return state.hexdigest()


def answers_before_criteria(db: sqlite3.Connection, manifest: Mapping[str, Any]) -> int | None:
    """Return how many answers the run had bought before its criteria were fixed; None without any.

    The commits say it: they hold the last row of the manifest and of the answers.
    """
    criteria = manifest.get("require")
    if criteria is None:
        return None
    rows = db.execute("SELECT id, value FROM main.manifest WHERE key = 'require' ORDER BY id")
    fixed = next(row for row, value in rows if _hash_of(value) == criteria["hash"])
    (last,) = db.execute(
        "SELECT COALESCE(MAX(answers), 0) FROM main.commits WHERE manifest < ?", (fixed,)
    ).fetchone()
    count = "SELECT COUNT(*) FROM main.answers WHERE id <= ? AND trial > 0"
    return int(db.execute(count, (last,)).fetchone()[0])


def _hash_of(value: str) -> str | None:
    return (json.loads(value) or {}).get("hash")


def plan_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the root covers of a manifest."""
    entries: dict[str, Any] = {}
    for name, keys in PLAN.items():
        value = manifest.get(name)
        if keys:
            parts = dict(value or {})
            value = {
                label: {key: _anywhere(key, part[key]) for key in keys if part.get(key) is not None}
                for label, part in parts.items()
            }
        if value:
            entries[name] = value
    if "seeds" in (known := entries.get("parts", {})):
        # Their order says only which trials come first.
        entries["parts"] = {**known, "seeds": sorted(known["seeds"])}
    return entries


def _anywhere(key: str, value: Any) -> Any:
    """Return a value of the manifest without the folder that it may name."""
    if key not in _MAY_BE_PATHS or not isinstance(value, str):
        return value
    return value.replace("\\", "/").rstrip("/").rpartition("/")[2]


def keep_root(db: sqlite3.Connection) -> str:
    """Append the root of a complete run to its manifest, unless the last one still holds.

    Call it inside the transaction that completes the run or adds to it.
    """
    kept = current_root(db)
    if kept is not None:
        return kept.root
    root, last = compute_root(db), root_rows(db)
    last["manifest"] += 1  # the row of the root itself
    value = json.dumps({"root": root, "last": last})
    db.execute("INSERT INTO main.manifest (key, value) VALUES (?, ?)", (ROOT, value))
    return root


def kept_roots(db: sqlite3.Connection) -> Iterator[KeptRoot]:
    """Yield every root that the run once had, the earliest first."""
    rows = db.execute("SELECT id, value FROM main.manifest WHERE key = ? ORDER BY id", (ROOT,))
    for row, value in rows:
        stored = json.loads(value)
        yield KeptRoot(root=stored["root"], row=row, last=stored["last"])


def current_root(db: sqlite3.Connection) -> KeptRoot | None:
    """Return the last root if nothing was added since, else None."""
    kept = list(kept_roots(db))
    return kept[-1] if kept and kept[-1].last == root_rows(db) else None


def checked_root(text: str) -> str:
    """Return a root as it is compared.

    Raises:
        UsageError: the text is no digest.

    >>> checked_root(" 0F3A" + "0" * 28)
    '0f3a0000000000000000000000000000'
    """
    root = text.strip().lower()
    if len(root) != 2 * DIGEST_BYTES or not set(root) <= set(hexdigits):
        raise UsageError(
            f"--root {text}: expected a digest of {2 * DIGEST_BYTES} hex digits, as in "
            f"the summary; got {len(root)} characters"
        ).with_flag("--root", None)
    return root


def root_rows(db: sqlite3.Connection) -> dict[str, int]:
    """Return the last row of every table that a root is about."""
    return last_rows(db, _TABLES)


def bound_manifest(db: sqlite3.Connection, last: int) -> dict[str, Any]:
    """Return the entries that a root covers, as they were up to a row of the manifest."""
    names = ", ".join("?" * len(PLAN))
    rows = db.execute(
        f"SELECT key, value FROM main.manifest WHERE key IN ({names}) AND id <= ? ORDER BY id",
        (*PLAN, last),
    )
    return {key: json.loads(value) for key, value in rows}
