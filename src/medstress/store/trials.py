"""What a run folder stores, decoded: items, arms, trials, inquiries and counts."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from medstress.core.arms import Arm, AttackRecord, Place
from medstress.core.clusters import clusters_by_dataset
from medstress.core.errors import StoreError
from medstress.core.frozen import rare_collections
from medstress.core.outcomes import Verdict
from medstress.core.text import WHOLE, Edit, edits_of
from medstress.core.trials import Answer, Queries, Success, Trial, Validity
from medstress.core.validity import REVIEW, Evidence, after_success
from medstress.store.counts import Spending
from medstress.store.reader import ArmKey, RunReader, StoredInquiry, StoredTrial, opened, read
from medstress.store.reviews import Review, reviews_digests, stored_rooms, with_reviews

Span: TypeAlias = tuple[str, int, int]
"""Field, start and end of the text that an edit replaces."""
R = TypeVar("R")
_VERDICTS = {one.value: one for one in Verdict}
_TEXT, _LIST, _NUMBER = (str, NoneType), (list, NoneType), (float, int, NoneType)
_TYPES: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("unit", "at", "note", "overtime", "variant_class", "validity_reason"), str),
    **dict.fromkeys(("n_asked", "n_unreadable", "n_length", "n_unchanged", "n_ties"), int),
    **dict.fromkeys(("first_success", "first_unrefuted_success", "first_success_attempt"), int),
    **dict.fromkeys(("corrected", "repeats", "first_repeats", "valid"), bool | None),
    **dict.fromkeys(("edits", "first_edits", "evidence", "first_evidence", "answers"), list),
    **dict.fromkeys(("records", "probes", "listings", "counted", "prompt_similarity"), list),
    "n_excluded": dict,
}
"""What a stored result holds; its answers are read by `_answer`."""
MANY = 0.25
"""Share of the trials from which on all are read at once, not each by a query of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Substitutions:
    """What perturbed queries put in: a line for each edit, in the order of trials and queries.

    Of attacks that draw names every query of an eligible trial is here, of other attacks the first;
    controls are not, nor queries that delete text, as probes do. Numbers stand for texts, because
    millions of queries put in the same few thousand names.
    """

    trial: NDArray[np.int64]
    """Number of the trial, shape (n,), as all arrays."""
    query: NDArray[np.int64]
    span: NDArray[np.int64]
    """Place in `spans`."""
    name: NDArray[np.int64]
    """Place in `names`."""
    spans: Sequence[Span]
    names: Sequence[str]
    """As they were put in, case included."""

    @classmethod
    def of(
        cls, trials: Iterable[Trial], queries: Iterable[tuple[int, int, str | bytes]]
    ) -> Substitutions:
        """Collect (number of the trial, query, its edits as JSON), in order."""
        wanted = {
            t.number: t.arm.attack.draws_names
            for t in trials
            if t.is_eligible and not t.arm.is_control
        }
        spans: dict[Span, int] = {}
        names: dict[str, int] = {}
        trial, query_of, span_of, name_of = (array("q") for _ in range(4))
        last = -1
        for number, query, text in queries:
            every = wanted.get(number)
            if every is None or not (every or number != last):
                continue
            edits = orjson.loads(text)
            if not edits or not all(edit[3] for edit in edits):
                continue
            last = number
            for field, start, end, name in edits:
                trial.append(number)
                query_of.append(query)
                span_of.append(spans.setdefault((field, start, end), len(spans)))
                name_of.append(names.setdefault(name, len(names)))
        return cls(
            trial=np.frombuffer(trial, dtype=np.int64),
            query=np.frombuffer(query_of, dtype=np.int64),
            span=np.frombuffer(span_of, dtype=np.int64),
            name=np.frombuffer(name_of, dtype=np.int64),
            spans=[*spans],
            names=[*names],
        )


class Folder:
    """What a run folder stores, read once; its exchanges only when somebody asks for them.

    Nothing here knows what a number means: people's words on a success and prompts are added by
    those who show them.
    """

    def __init__(self, path: Path) -> None:
        """Read a folder.

        Raises:
            StoreError: it holds no run, is damaged, was not written by medstress, or another
                process began to write to it meanwhile.
        """
        self.path = path
        with rare_collections(), opened(path) as reader:
            self.manifest: Mapping[str, Any] = reader.manifest
            self.root: str | None = _root(reader, path)
            """Of the run and its reviews; None while it goes on."""
            stored = reader.items()
            self.items: Mapping[tuple[str, str], Any] = {
                (dataset, item.id): item for dataset, item in stored.values()
            }
            self.trials: Sequence[Trial] = _trials(reader, stored)
            self.inquiries: Sequence[StoredInquiry] = list(reader.inquiries())
            self.reviews: Sequence[Review] = reader.reviews()
            self.rooms: Sequence[Mapping[str, Any]] = list(stored_rooms(path).values())
            """The samples that people were given."""
            self.other_counts: Mapping[Any, Mapping[str, int]] = reader.other_counts()
            """Queries besides `asked`: `baseline`, `other`, `ahead`, `interrupted`."""
            self.n_from_cache = reader.n_from_cache()

    @cached_property
    def spending(self) -> Sequence[Spending]:
        """Computed calls and tokens, by victim and role."""
        return read(self.path, RunReader.spending)

    def clean_replies(self, victim: str, n: int) -> list[str]:
        """Return the raw replies of a model, thoughts too, about the first n clean items."""
        return self.read(lambda reader: reader.clean_replies(victim, n))

    @cached_property
    def edits(self) -> Mapping[int, Sequence[tuple[int, tuple[Edit, ...]]]]:
        """Number of a trial -> (query, edits) of its perturbed queries, in order."""

        def collect(reader: RunReader) -> _Asked:
            queries = defaultdict(list)
            for number, query, edits in reader.attack_edits():
                queries[number].append((query, edits))
            return _Asked(queries)

        return read(self.path, collect)

    @cached_property
    def repeats(self) -> Mapping[int, Sequence[int]]:
        """Number of a trial -> its queries that asked a variant of it again, if any."""

        def collect(reader: RunReader) -> dict[int, list[int]]:
            # The answer to a repeat comes from a cache.
            cached = {trial.number for trial in self.trials if trial.queries.cached}
            is_few = len(cached) < MANY * len(self.trials)
            lines = chain.from_iterable(
                map(reader.attack_edits, sorted(cached) if is_few else [None])
            )
            repeats = {}
            for number, own in groupby(lines, key=itemgetter(0)):
                # Several calls may make one query.
                queries = {query: edits for _, query, edits in own} if number in cached else {}
                if len(set(queries.values())) < len(queries):
                    firsts = {edits: query for query, edits in reversed(queries.items())}
                    repeats[number] = [q for q, edits in queries.items() if firsts[edits] != q]
            return repeats

        return read(self.path, collect)

    def read(self, question: Callable[[RunReader], R]) -> R:
        """Return what is read from the run's file, opened again for it."""
        return read(self.path, question)

    @cached_property
    def substitutions(self) -> Substitutions:
        """What the perturbed queries of attacks put in."""

        return read(self.path, lambda reader: Substitutions.of(self.trials, reader.attack_edits()))

    @cached_property
    def names(self) -> Mapping[int, frozenset[str]]:
        """Number of a trial -> the names that its queries put in, case-folded.

        Queries that delete text, as probes do, put in none.
        """

        def collect(reader: RunReader) -> dict[int, frozenset[str]]:
            names: dict[int, set[str]] = defaultdict(set)
            same: dict[str, str] = {}  # one object for each of the few thousand names
            for number, _, text in reader.attack_edits():
                edits = orjson.loads(text)
                if all(edit[3] for edit in edits):
                    folded = (edit[3].casefold() for edit in edits)
                    names[number].update(same.setdefault(name, name) for name in folded)
            return {number: frozenset(drawn) for number, drawn in names.items()}

        return read(self.path, collect)


class _Asked(Mapping[int, Sequence[tuple[int, tuple[Edit, ...]]]]):
    """Edits of queries, kept as text and decoded when they are wanted: there are millions."""

    def __init__(self, queries: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        self._queries = queries

    def __getitem__(self, number: int) -> Sequence[tuple[int, tuple[Edit, ...]]]:
        return [(query, edits_of(orjson.loads(text))) for query, text in self._queries[number]]

    def __iter__(self) -> Iterator[int]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)


def _root(reader: RunReader, path: Path) -> str | None:
    root = reader.root()
    if root is None:
        return None
    return with_reviews(root, next(reversed(reviews_digests(path)), None))


def _trials(reader: RunReader, stored: Mapping[int, tuple[str, Any]]) -> list[Trial]:
    """Decode the finished trials, in the plan's order."""
    records = reader.manifest["records"]
    embedder = (reader.manifest.get("similarity") or {}).get("hash")
    clusters = clusters_by_dataset(stored.values())
    specs = reader.specs()
    arms = {
        row: arm_of(key, json.loads(specs[row]), records.get(key[3], {}))
        for row, key in reader.arms.items()
    }
    units: dict[tuple[int, str], tuple[Any, str]] = {}
    trials = []
    for row in reader.trials():
        at = row.item, row.result.get("unit", WHOLE)
        unit = units.get(at)
        if unit is None:
            dataset, whole = stored[row.item]
            units[at] = unit = whole.of_unit(at[1]), clusters[dataset][whole.id]
        trials.append(trial_of(row, arms[row.arm], *unit, embedder))
    return trials


def arm_of(key: ArmKey, spec: Mapping[str, Any], record: Mapping[str, Any]) -> Arm:
    """Return an arm.

    Args:
        key: where it is.
        spec: the parameters of its attack.
        record: what the manifest says of its attack.
    """
    *place, label, seed = key
    name, goal = spec["name"], spec.get("goal") or "untargeted"
    if not (isinstance(name, str) and isinstance(goal, str)):
        raise ValueError(f"the name or goal of attack {label} is no text")
    attack = AttackRecord(
        label=label,
        name=name,
        budget=int(spec.get("budget") or 1),
        params=spec,
        goal=goal,
        draws_names=bool(record.get("draws_names")),
        whole_copy=bool(record.get("whole_copy")),
        judged=bool(record.get("judged", True)),
        attempts=spec.get("attempts"),
    )
    control_of = record.get("control_of")
    return Arm(place=Place(*place), attack=attack, seed=seed, control_of=control_of)


def trial_of(
    row: StoredTrial, arm: Arm, item: Any, cluster: str, embedder: str | None = None
) -> Trial:
    """Decode a stored trial.

    Args:
        row: the trial.
        arm: its arm.
        item: the unit that it is about.
        cluster: of the item.
        embedder: hash of the one whose similarities of prompts count.

    Raises:
        StoreError: its counts contradict the ledger.
        ValueError: its result is not as medstress stores it.
    """
    for name, value in row.result.items():
        if not isinstance(value, _TYPES.get(name, object)):
            raise ValueError(f"{name} of trial {row.trial_id} is of another kind")
    get, verdict, first, pick = row.result.get, _VERDICTS[row.verdict], None, None
    if verdict is Verdict.FLIPPED:
        first, pick = _successes(row, embedder)
    # The answer about a perturbed copy is whole; the last of a search that held is rounded.
    last, after = get("last"), get("after")
    last = (after or last) if arm.attack.whole_copy else (last or after)
    return Trial(
        id=row.trial_id,
        number=row.trial,
        arm=arm,
        item=item,
        cluster=cluster,
        repeat=row.repeat,
        verdict=verdict,
        before=_answer(get("before")),
        first=first,
        pick=pick,
        last=pick.answer if pick is not None else _answer(last or None),
        edits=pick.edits if pick is not None else edits_of(get("edits") or ()),
        queries=_shared(_queries(row)),
        at=get("at"),
        corrected=get("corrected"),
        answers=tuple(get("answers") or ()),
        excluded=get("n_excluded"),
        records=tuple(get("records") or ()),
        note=get("note"),
    )


def _queries(row: StoredTrial) -> Queries:
    """Return a trial's queries.

    Raises:
        StoreError: they contradict the ledger.
    """
    get = row.result.get
    asked, records = get("n_asked", 0), get("records")
    in_ledger = row.n_paid + row.n_cached + row.n_failed
    if not 0 <= asked <= in_ledger:
        raise StoreError(
            f"trial {row.trial_id} counts {asked} queries, but the ledger has {in_ledger}; the run "
            "was damaged or changed"
        )
    first = get("first_success")
    if first is not None and not 1 <= first <= asked:
        raise StoreError(
            f"trial {row.trial_id} has query {first} of {asked} as its first success; the run was "
            "damaged or changed"
        )
    return Queries(
        asked,
        *row[-3:],
        get("n_unreadable") or 0,
        get("n_length") or 0,
        get("n_unchanged") or 0,
        get("n_ties") or 0,
        len(get("probes") or ()),
        _n_rejected(records) if records else 0,
    )


def _n_rejected(records: Sequence[Mapping[str, Any]]) -> int:
    """Count the attempts that were never asked: an attempt's answer names its query."""
    made = {record["attempt"] for record in records if record.get("attempt")}
    asked = {record["attempt"] for record in records if record.get("query")}
    return len(made - asked)


def _answer(stored: Sequence[Any] | None) -> Answer | None:
    """Decode a prediction: [answer, scores, mass, text, "length" if it was cut off].

    Raises:
        ValueError: it is none.
    """
    if stored is None:
        return None
    answer, scores, mass, text, ended = (*stored, None, None, None, None)[:5]
    if not (
        isinstance(stored, list)
        and isinstance(answer, _TEXT)
        and isinstance(scores, _LIST)
        and isinstance(mass, _NUMBER)
        and isinstance(text, _TEXT)
    ):
        raise ValueError(f"{stored} is no answer")
    known = None if scores is None else tuple(map(float, scores))
    read = Answer(answer, known, mass, text, ended is not None)
    shared: Answer = _shared(read) if scores is None else read
    return shared


@lru_cache(maxsize=1 << 12)
def _shared(value: Any) -> Any:
    """Return one object for equal values: most trials have the counts and answers of others."""
    return value


def _successes(row: StoredTrial, embedder: str | None) -> tuple[Success, Success]:
    """Return the first success and the pick: one object unless the search went on after it."""
    result = row.result
    similar = result.get("prompt_similarity") or (None, None)
    pick = Success(
        query=result.get("first_unrefuted_success") or result["first_success"],
        edits=edits_of(result.get("edits", ())),
        answer=_answer(result.get("after")) or Answer(None),
        attempt=result.get("first_success_attempt"),
        validity=_validity(
            result.get("valid"), result.get("validity_reason"), result.get("evidence")
        ),
        variant=result.get("variant_class"),
        repeats=result.get("repeats"),
        similarity=similar[1] if similar[0] == embedder else None,
    )
    if "first_edits" not in result:
        return pick, pick
    # The search went on: because a rule refuted the first success, or for a smaller edit.
    is_refuted = result.get("variant_class") is not None or bool(result.get("first_evidence"))
    first = replace(
        pick,
        query=result["first_success"],
        edits=edits_of(result["first_edits"]),
        answer=_answer(result.get("first_after")) or Answer(None),
        validity=_validity(
            False if is_refuted else None,
            "rule" if is_refuted else None,
            result.get("first_evidence"),
        ),
        repeats=result.get("first_repeats"),
    )
    attempts = {record.get("query"): record["attempt"] for record in result.get("records", ())}
    return first, replace(pick, attempt=attempts.get(pick.query, pick.attempt))


def _validity(valid: bool | None, reason: str | None, pieces: Sequence[Any] | None) -> Validity:
    """Return what is known without people: rules refute."""
    evidence = tuple(Evidence(kind=k, source=s, valid=v) for k, s, v in pieces or ())
    evidence = after_success(evidence, reason, valid)
    vouched = None if valid or reason == REVIEW else valid
    return Validity(vouched, reason, evidence)
