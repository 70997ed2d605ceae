"""Read a run, finished or running, without changing it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import orjson

from medstress.core.calls import FROM_CACHE, Chosen, Generated, StoredCall
from medstress.core.errors import StoreError
from medstress.core.outcomes import Verdict
from medstress.core.reading import check_regular, refuse_linked
from medstress.store.chain import KeptRoot, commits_after, current_root, kept_roots
from medstress.store.codec import decode_answer, decode_item
from medstress.store.counts import VICTIM, Counts, Spending, count, read_spending
from medstress.store.database import FILE, INQUIRIES, make_views
from medstress.store.opening import (
    NeverBeganError,
    interpreting,
    no_run,
    open_for_reading,
    restrict,
)
from medstress.store.reviews import Review, in_order, stored_reviews
from medstress.store.shapes import MANIFEST, check_shape

R = TypeVar("R")
ArmKey: TypeAlias = tuple[str, str, str, str, int | None]
"""Data set, group, victim, label of the attack, seed."""

_PLACE = ("id", "dataset", "group", "victim", "attack", "seed", "item_id")
_CONSUMED = "SELECT key FROM calls WHERE error IS NULL"
_WORK = """
SELECT t.id, t.trial_id, a.dataset, a.grp, a.victim, a.attack, a.spec, a.seed, t.item, t.repeat,
       COALESCE(v.id, 0), v.verdict,
       (SELECT COUNT(*) FROM main.verdicts WHERE trial = t.id AND verdict IS NULL), v.result
FROM main.trials t JOIN main.arms a ON a.id = t.arm LEFT JOIN main.verdicts v
ON v.id = (SELECT MAX(id) FROM main.verdicts WHERE trial = t.id) WHERE t.id = ?
"""
_CLEAN = """
SELECT e.trial, e.body FROM calls e JOIN trials t ON t.id = e.trial JOIN arms a ON a.id = t.arm
WHERE a.victim = ? AND e.role = 'victim' AND e.purpose = 'baseline' AND e.body IS NOT NULL
ORDER BY e.trial, e.seq
"""


class Moment(NamedTuple):
    """What a run held after one of its commits."""

    items: int
    """How many there were."""
    verdicts: int
    is_complete: bool


class StoredTrial(NamedTuple):
    """One finished trial, as stored."""

    trial: int
    """Its row."""
    trial_id: str
    arm: int
    """Row of its arm (`RunReader.arms`)."""
    item: int
    """Row of its item (`RunReader.items`)."""
    repeat: int
    verdict: str
    result: dict[str, Any]
    n_paid: int
    n_cached: int
    n_failed: int


@dataclass(frozen=True, slots=True)
class StoredWork:
    """A trial, inquiry or study and how its latest attempt ended, as stored, without findings."""

    row: int
    trial_id: str
    dataset: str
    group: str
    victim: str
    attack: str
    spec: str
    seed: int | None
    item: int
    repeat: int
    ended: int
    """The row of `verdicts`; 0 while it goes on."""
    verdict: str | None
    attempt: int
    """How often it began again."""
    result: dict[str, Any]

    @property
    def arm(self) -> ArmKey:
        """Its row of the ledger."""
        return self.dataset, self.group, self.victim, self.attack, self.seed


@dataclass(frozen=True, slots=True)
class StoredInquiry:
    """One finished inquiry or study of an analysis; see `medstress.engine.inquiry`."""

    dataset: str
    group: str
    victim: str
    attack: str
    seed: int | None
    item_id: str
    purpose: str
    spec: dict[str, Any]
    outcomes: list[str]
    reached: bool | None
    note: str | None
    findings: dict[str, Any] | None
    calls: int = 0
    """Calls that it consumed, of models and roles."""
    id: str = ""
    """As it was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExchange:
    """One call that a trial consumed, or one computed ahead and never consumed."""

    trial: int
    trial_id: str
    victim: str
    item: int
    role: str
    purpose: str
    query: int | None
    call: int | None
    key: bytes
    edits: str | None
    request: str | None
    answer: str | None
    cached: bool
    seconds: float | None
    tokens_in: int | None
    tokens_out: int | None
    error: str | None


class RunReader:
    """Reads a run folder, also while another process writes it."""

    def __init__(self, folder: Path, *, check: Literal["all", "form"] = "all") -> None:
        """Open a run folder; `check` as in `open_for_reading`.

        Raises:
            StoreError: there is no run in the folder, or it is not as medstress writes it.
        """
        self.folder = folder
        path = folder / FILE
        refuse_linked(folder)
        if check_regular(path) is None:
            raise no_run(folder)
        self._opened = open_for_reading(path, check=check)
        self.db = self._opened.db
        try:
            if self._opened.is_empty:
                raise NeverBeganError(folder)
            with interpreting(path):
                make_views(self.db)
                restrict(self.db)
        except BaseException:
            self.db.close()
            raise

    def check_unchanged(self) -> None:
        """Check that no run began to write the folder while it was read.

        Raises:
            StoreError: one did, so the values read may be inconsistent.
        """
        if not self._opened.is_unchanged():
            raise StoreError(
                f"a run began to write {self.folder} while it was read; repeat the command"
            )

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Manifest of the run.

        Raises:
            ValueError: an entry has another shape than medstress gives it.
        """
        rows = self.db.execute("SELECT * FROM manifest")
        values = {key: json.loads(value) for key, value in rows}
        if not values:
            raise NeverBeganError(self.folder)
        check_shape(values, MANIFEST, "the manifest")
        return values

    def commits_after(self, digest: str) -> int | None:
        """Return how many links the chain has after one; None if it has no such link."""
        return commits_after(self.db, digest)

    def root(self) -> str | None:
        """Return the root of a complete run; None while it goes on."""
        kept = current_root(self.db)
        return None if kept is None else kept.root

    def roots(self) -> list[KeptRoot]:
        """Return every root that the run once had, the earliest first."""
        return list(kept_roots(self.db))

    def items(self) -> dict[int, tuple[str, Any]]:
        """Return row -> (data set, item)."""
        rows = self.db.execute("SELECT id, dataset, body FROM items ORDER BY id")
        return {row: (dataset, decode_item(body)) for row, dataset, body in rows}

    def item_names(self) -> Iterator[tuple[int, str, str]]:
        """Yield (row, identifier, hash) of every item, as the columns have them."""
        yield from self.db.execute("SELECT id, item_id, hash FROM items")

    @cached_property
    def arms(self) -> dict[int, ArmKey]:
        """Row of an arm -> data set, group, victim, label of the attack and seed."""
        rows = self.db.execute("SELECT id, dataset, grp, victim, attack, seed FROM arms")
        return {row: (dataset, *rest) for row, dataset, *rest in rows}

    def specs(self) -> dict[int, str]:
        """Return row of an arm -> the parameters of its attack, as JSON."""
        return dict(self.db.execute("SELECT id, spec FROM arms"))

    @cached_property
    def _counts(self) -> Counts:
        return count(self.db)

    def n_trials(self) -> int:
        """Return the number of finished trials."""
        count = f"SELECT COUNT(*) FROM trials WHERE verdict NOT IN {INQUIRIES}"
        return int(self.db.execute(count).fetchone()[0])

    def trials(self) -> Iterator[StoredTrial]:
        """Yield all finished trials in the plan's order."""
        queries = self._counts.queries.tolist()
        rows = self.db.execute(
            "SELECT id, trial_id, arm, item, repeat, verdict, result FROM trials "
            f"WHERE verdict NOT IN {INQUIRIES} ORDER BY id"
        )
        for *row, result in rows:
            yield StoredTrial._make((*row, orjson.loads(result), *queries[row[0]]))

    def ended(self) -> dict[int, int]:
        """Return trial -> its last row of `verdicts`."""
        return dict(self.db.execute("SELECT trial, MAX(id) FROM main.verdicts GROUP BY trial"))

    def moments(self) -> list[Moment]:
        """Return what the run held after each commit, in order."""
        complete = (
            "SELECT value FROM main.manifest WHERE key = 'complete' AND id <= c.manifest "
            "ORDER BY id DESC LIMIT 1"
        )
        rows = self.db.execute(
            f"SELECT items, verdicts, ({complete}) = 'true' FROM main.commits c ORDER BY id"
        )
        return [Moment(items, verdicts, bool(is_complete)) for items, verdicts, is_complete in rows]

    def findings(self) -> list[tuple[int, int, str, Any]]:
        """Return (row, trial, name, value) of all that was found about trials after they ended."""
        rows = self.db.execute("SELECT id, trial, name, value FROM main.findings ORDER BY id")
        return [(row, trial, name, json.loads(value)) for row, trial, name, value in rows]

    def encoders(self) -> set[str]:
        """Return the hashes of all encoders of prompts that the run ever named."""
        hashes = "SELECT json_extract(value, '$.hash') FROM main.manifest WHERE key = 'similarity'"
        return {hash_ for (hash_,) in self.db.execute(hashes)}

    def inquiries(self) -> Iterator[StoredInquiry]:
        """Yield all finished inquiries and studies, answered or not, in the order of asking."""
        rows = self.db.execute(
            "SELECT t.trial_id, a.dataset, a.grp, a.victim, a.attack, a.seed, i.item_id, "
            "(SELECT COUNT(*) FROM exchanges e WHERE e.trial = t.id), t.result "
            "FROM trials t JOIN arms a ON a.id = t.arm JOIN items i ON i.id = t.item "
            f"WHERE t.id IN (SELECT trial FROM main.verdicts WHERE verdict IN {INQUIRIES}) "
            f"AND t.verdict IN {INQUIRIES} ORDER BY t.id"
        )
        for *place, calls, result in rows:
            one: dict[str, Any] = json.loads(result)
            yield StoredInquiry(
                **dict(zip(_PLACE, place, strict=True)),
                purpose=one["purpose"],
                spec=one["told"],
                outcomes=one["outcomes"],
                reached=one.get("reached"),
                note=one.get("note"),
                findings=one.get("found"),
                calls=calls,
            )

    def trials_of_analyses(self) -> dict[str, str]:
        """Return id of a finished inquiry or study -> id of the trial it is about."""
        rows = self.db.execute(
            "SELECT trial_id, json_extract(result, '$.told.trial') FROM trials "
            f"WHERE verdict IN {INQUIRIES}"
        )
        return {own: about for own, about in rows if about is not None}

    def answered_follow_ups(self) -> set[str]:
        """Return the ids of the inquiries and studies whose every call was answered."""
        rows = self.db.execute("SELECT trial_id FROM trials WHERE verdict = 'asked'")
        return {own for (own,) in rows}

    def reviews(self) -> list[Review]:
        """Return what experts say, each one's latest about a case, by trial and reviewer."""
        return in_order(stored_reviews(self.folder))

    def attack_edits(self, trial: int | None = None) -> Iterator[tuple[int, int, str]]:
        """Yield (trial, query, edits) of every perturbed query that attacks consumed, in order, of
        one trial or of all."""
        yield from self.db.execute(
            "SELECT trial, query, edits FROM exchanges WHERE purpose = 'attack' "
            f"AND role = 'victim' AND edits IS NOT NULL {'' if trial is None else 'AND trial = ?'} "
            "ORDER BY trial, attempt, seq",
            () if trial is None else (trial,),
        )

    def probes(self) -> frozenset[tuple[int, int]]:
        """Return (trial, query) of the queries that only ranked words or spans."""
        rows = self.db.execute(
            "SELECT trial, query FROM exchanges WHERE json_extract(flags, '$.probe')"
        )
        return frozenset(rows)

    def result(self, trial: int) -> dict[str, Any]:
        """Return the result of a finished trial, as stored."""
        (text,) = self.db.execute("SELECT result FROM trials WHERE id = ?", (trial,)).fetchone()
        return cast("dict[str, Any]", json.loads(text))

    def answered_queries(self, trial: int) -> Iterator[tuple[int, str | None, str, int, int]]:
        """Yield (query, edits, answer, tokens in, tokens out) of each answered call of a trial's
        perturbed queries, in order."""
        yield from self.db.execute(
            "SELECT query, edits, body, tokens_in, tokens_out FROM calls WHERE trial = ? "
            "AND purpose = 'attack' AND role = 'victim' AND body IS NOT NULL AND error IS NULL "
            "ORDER BY seq",
            (trial,),
        )

    def work_rows(self) -> dict[str, int]:
        """Return id -> row of all trials, inquiries and studies, open ones too."""
        return dict(self.db.execute("SELECT trial_id, id FROM main.trials ORDER BY id"))

    def work(self, row: int) -> StoredWork:
        """Return a trial, inquiry or study."""
        values = self.db.execute(_WORK, (row,)).fetchone()
        return StoredWork(*(*values[:-1], orjson.loads(values[-1] or "{}")))

    def earlier(self, work: StoredWork) -> Iterator[StoredWork]:
        """Yield how the earlier attempts of a trial ended, the first first."""
        ended = self.db.execute(
            "SELECT id, verdict, result FROM main.verdicts WHERE trial = ? AND id < ? "
            "AND verdict IS NOT NULL ORDER BY id",
            (work.row, work.ended),
        )
        for attempt, (row, verdict, result) in enumerate(ended):
            yield replace(
                work, ended=row, verdict=verdict, attempt=attempt, result=orjson.loads(result)
            )

    def consumed(self, work: StoredWork) -> list[StoredCall]:
        """Return the calls that an attempt of a trial consumed, in order."""
        rows = self.db.execute(
            "SELECT role, purpose, query, call, COALESCE(s.key, e.key), edits, flags, request, "
            "error, body, tokens_in, tokens_out FROM main.exchanges e LEFT JOIN main.answers s "
            "ON s.id = e.answer WHERE e.trial = ? AND e.attempt = ? ORDER BY e.seq",
            (work.row, work.attempt),
        )
        return [
            StoredCall(*(*row[:9], None if row[8] or row[9] is None else decode_answer(*row[9:])))
            for row in rows
        ]

    def requests(self, trial: int, purpose: str, query: int) -> list[str]:
        """Return the fully stored calls of one query of a victim, as JSON, in order."""
        rows = self.db.execute(
            "SELECT request FROM exchanges WHERE trial = ? AND purpose = ? AND query = ? "
            "AND role = 'victim' AND request IS NOT NULL ORDER BY seq",
            (trial, purpose, query),
        )
        return [request for (request,) in rows]

    def other_counts(self) -> dict[ArmKey, dict[str, int]]:
        """Return (data set, group, victim, attack, seed) -> counts of `baseline`, `other`, `ahead`
        and `interrupted`, which are no queries of the attack.

        A journalled call counts as interrupted only if its process is gone; the next writer
        decides that when it opens the folder.
        """
        counts: dict[ArmKey, dict[str, int]] = {}
        interrupted = "SELECT t.arm FROM interrupted i JOIN main.trials t ON t.id = i.trial"
        rows = [row for (row,) in self.db.execute(interrupted)]
        n_arms = max(self.arms, default=0) + 1
        of_arms = {**self._counts.others, "interrupted": np.bincount(rows, minlength=n_arms)}
        for name, numbers in of_arms.items():
            for row in np.flatnonzero(numbers).tolist():
                counts.setdefault(self.arms[row], {})[name] = int(numbers[row])
        return counts

    def n_from_cache(self) -> int:
        """Return the number of calls that only the shared cache answered."""
        return self._counts.n_from_cache

    def spending(self) -> list[Spending]:
        """Return computed calls and tokens by victim and role."""
        return read_spending(self.db)

    def clean_replies(self, victim: str, n: int) -> list[str]:
        """Return the raw replies of a victim about the first n clean items; of a conversation, the
        last."""
        last: dict[int, str] = {}
        for trial, body in self.db.execute(_CLEAN, (victim,)):
            if trial not in last and len(last) == n:
                break
            last[trial] = body
        return [_raw(body) for body in last.values()]

    def exchanges(self) -> Iterator[StoredExchange]:
        """Yield all consumed calls in the plan's order, then calls ahead never consumed."""
        consumed = (
            "SELECT e.trial, t.trial_id, a.victim, t.item, e.role, e.purpose, e.query, e.call, "
            "e.key, e.edits, e.request, e.body, ROW_NUMBER() OVER ("
            "  PARTITION BY e.key ORDER BY e.error IS NOT NULL, e.trial, e.seq) > 1 "
            f"OR COALESCE(MAX(e.answered_for) OVER (PARTITION BY e.key) = {FROM_CACHE}, 0), "
            "e.seconds, e.tokens_in, e.tokens_out, e.error "
            "FROM calls e JOIN trials t ON t.id = e.trial JOIN arms a ON a.id = t.arm "
            "ORDER BY e.trial, e.seq"
        )
        ahead = (
            "SELECT s.trial, t.trial_id, a.victim, t.item, 'victim', 'ahead', NULL, NULL, s.key, "
            "NULL, NULL, s.body, 0, s.seconds, s.tokens_in, s.tokens_out, NULL "
            "FROM answers s JOIN trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm "
            f"WHERE s.key NOT IN ({_CONSUMED}) ORDER BY s.trial, s.key"
        )
        for row in chain(self.db.execute(consumed), self.db.execute(ahead)):
            columns = dict(zip(StoredExchange.__slots__, row, strict=True))
            columns["cached"] = bool(columns["cached"])
            yield StoredExchange(**columns)


@contextmanager
def opened(folder: Path, *, check: Literal["all", "form"] = "all") -> Iterator[RunReader]:
    """Open a run folder for some reading; `check` as in `open_for_reading`.

    Raises:
        StoreError: there is no run in the folder, it is not as medstress writes it, or another
            process began to write to it meanwhile.
    """
    with interpreting(folder / FILE), closing(RunReader(folder, check=check)) as reader:
        yield reader
        reader.check_unchanged()


def read(folder: Path, question: Callable[[RunReader], R]) -> R:
    """Return what is read from the file of a run folder, as `opened`."""
    with opened(folder) as reader:
        return question(reader)


def stored_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run folder; empty if the folder holds no run, or one without rows.

    Raises:
        StoreError: see `read`.
    """
    if check_regular(folder / FILE) is None:
        return {}
    try:
        return read(folder, lambda reader: reader.manifest)
    except NeverBeganError:  # its first process was killed before its first commit
        return {}


def _raw(body: str) -> str:
    answer = decode_answer(body, 0, 0)
    if isinstance(answer, Generated):
        thought = f"<think>{answer.reasoning}" if answer.reasoning else ""
        thought += "</think>" if thought and answer.text else ""
        return f"{thought}{answer.text or answer.note or ''}"
    return str(answer.text) if isinstance(answer, Chosen) and answer.text is not None else body


_SAME = ("template", "answer_by", "decoding", "prompted")
"""Parts of a victim's task that its answers' lengths depend on."""
_OF_VICTIM = """
SELECT a.spec LIKE '%"control_of":%', t.verdict, COUNT(*),
       TOTAL(json_extract(t.result, '$.n_asked'))
FROM trials t JOIN arms a ON a.id = t.arm WHERE a.victim = ? GROUP BY 1, 2
"""
_ATTACKED = (Verdict.HELD, Verdict.FLIPPED)
_LOST = (Verdict.ALREADY_WRONG, Verdict.UNREADABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswers:
    """Counts of one victim in one run."""

    n_calls: int
    """Computed calls."""
    tokens_in: int
    """Tokens they read."""
    tokens_out: int
    """Tokens they wrote."""
    seconds: float
    """Seconds that workers spent on them."""
    n_right: int
    """Attacked trials: right at baseline."""
    n_lost: int
    """Trials that were wrong or unreadable at baseline."""
    asked: tuple[int, int]
    """Queries with an edit: of attacks, of controls."""
    flipped: tuple[int, int]
    """Trials that flipped: of attacks, of controls."""
    datasets: frozenset[str]
    """Hashes of the run's data sets."""
    in_turns: bool
    """Whether an attack of the run asked in conversations."""


def earlier_answers(
    folder: Path, model_hash: str, task: Mapping[str, Any]
) -> EarlierAnswers | None:
    """Return the counts of a model that a run asked in the same way; None if it did not.

    Args:
        folder: a folder, which need not hold a run; one that cannot be read counts as none.
        model_hash: the model's identity.
        task: the specification of the victim's task.
    """
    return _read_from(folder, lambda reader: _earlier(reader, model_hash, task))


def spent_in(folder: Path) -> list[Spending]:
    """Return what the run in a folder has used up; nothing if none can be read."""
    return _read_from(folder, RunReader.spending) or []


def _read_from(folder: Path, question: Callable[[RunReader], R]) -> R | None:
    with suppress(StoreError):
        return read(folder, question) if (folder / FILE).is_file() else None
    return None


def _earlier(reader: RunReader, model_hash: str, task: Mapping[str, Any]) -> EarlierAnswers | None:
    manifest = reader.manifest
    labels = [
        label
        for label, victim in manifest["victims"].items()
        if victim["model_hash"] == model_hash and _is_same(victim["task"], task)
    ]
    spent = [s for s in reader.spending() if (s.role, s.victim) == (VICTIM, *labels[:1])]
    if not spent:
        return None
    asked, flipped, right, lost = [0, 0], [0, 0], 0, 0
    for of_control, verdict, n, n_asked in reader.db.execute(_OF_VICTIM, labels[:1]):
        if verdict in _ATTACKED:
            right += n
            asked[of_control] += int(n_asked)
            flipped[of_control] += n * (verdict == Verdict.FLIPPED)
        elif verdict in _LOST:
            lost += n
    return EarlierAnswers(
        n_calls=spent[0].n_calls,
        tokens_in=spent[0].tokens_in,
        tokens_out=spent[0].tokens_out,
        seconds=spent[0].seconds,
        n_right=right,
        n_lost=lost,
        asked=(asked[0], asked[1]),
        flipped=(flipped[0], flipped[1]),
        datasets=frozenset(str(one.get("hash")) for one in manifest["datasets"].values()),
        in_turns=any("reasoning_tokens" in spec for spec in manifest["attacks"].values()),
    )


def _is_same(stored: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    # The task may hold tuples where the manifest holds lists.
    return all(json.dumps(stored.get(key)) == json.dumps(task.get(key)) for key in _SAME)
