"""A run without words: digests, verdicts and readings (letters, scores), and what they prove.

The ledger is a file of lines, each a JSON array that begins with its kind:

* `plan`, `item`, `finding`: parts of the root (`medstress.store.root.root_parts`);
* `trial`: a trial with the digests of its texts, from which its own digest follows, then what its
  answers were read as.

So the root can be computed again, and verdicts judged again from readings. That a reading is that
of a reply, no one can check without the reply.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

from medstress.attacks.controls.same_type import NAME as SAME_TYPE
from medstress.audit.asked import Readings, queries_of
from medstress.audit.attacks import NotJudgedError, attack_of
from medstress.audit.verification import Verification
from medstress.core.outcomes import Outcome, Prediction, Replaced, Verdict
from medstress.core.text import WHOLE, Edit
from medstress.engine.requests import Purpose
from medstress.kinds import kind_of
from medstress.results.load import StoredRun
from medstress.results.queries import Probes
from medstress.results.root import with_reviews
from medstress.store.chain import Break
from medstress.store.odd_rows import interpreting
from medstress.store.review_store import reviews_digests
from medstress.store.root import checked_root, root_over
from medstress.store.trial_digest import digest_of_ended
from medstress.summary.summary import summarise_run

LEDGER, NUMBERS = "run/ledger.jsonl", "run/numbers.json"
"""Entries of a bundle."""
_COUNTS = ("n_trials", "n_flipped", "n_held", "n_already_wrong", "n_not_attackable")
_PLACE = ("dataset", "group", "victim", "attack", "seed")
_STATES = {"n_flipped": "flipped", "n_held": "held"}
_STATES |= {"n_already_wrong": "already_wrong", "n_not_attackable": "not_attackable"}


def write_redacted(run: StoredRun, place: Path) -> dict[str, Path]:
    """Write a run without words, and return entry -> file."""
    readers = _Readers(run)
    with (place / LEDGER).open("wb") as stream:
        for part in run.root_parts():
            line = [*part] if part[0] != "trial" else readers.line(part)
            stream.write(orjson.dumps(line) + b"\n")
    reviews = reviews_digests(run.folder)
    rows = summarise_run(run)["results"]
    numbers = {
        "reviews": reviews[-1] if reviews else None,
        "reviews_before": reviews[:-1],
        "n_trials": run.n_trials(),
        "rows": [{name: row[name] for name in (*_PLACE, *_COUNTS)} for row in rows],
    }
    (place / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", "utf-8", newline="")
    return {LEDGER: place / LEDGER, NUMBERS: place / NUMBERS}


class _Readers:
    """Makes the lines of trials."""

    def __init__(self, run: StoredRun) -> None:
        self._run, self._readings, self._probes = run, Readings(run.manifest), Probes(run)
        self._trials = {trial.trial_id: trial for trial in run.trials()}

    def line(self, part: tuple[str, ...]) -> list[Any]:
        """Return a trial or a question of an analysis."""
        trial_id = part[1]
        ended = self._run.ended(trial_id)
        trial = self._trials.get(trial_id)
        return ["trial", *part[1:], *ended, None if trial is None else self._read(trial)]

    def _read(self, trial: Any) -> dict[str, Any]:
        item = self._run.items()[trial.item][1]
        unit = kind_of(item).with_unit(item, trial.result.get("unit", WHOLE))
        try:
            in_turns = attack_of(json.loads(trial.spec)).traits.in_turns
        except NotJudgedError:
            in_turns = False
        asked = []
        for (purpose, number), query in queries_of(self._run.consumed(trial.trial)).items():
            try:
                found = self._readings.prediction(
                    (trial.victim, trial.dataset), unit, query, in_turns=in_turns
                )
            except Exception:  # noqa: BLE001 - a reading that failed then fails again
                found = None
            is_probe = self._probes.marks(trial.trial, number, query.edits_text)
            fields = sorted({edit.field for edit in query.edits})
            asked.append([purpose, number, is_probe, fields, _reading(found)])
        told = trial.result
        return {
            "key": kind_of(item).key(unit),
            "letters": list(kind_of(item).letters(unit)),
            "is_judged": unit.is_judged,
            "n_asked": told.get("n_asked", 0),
            "first_success": told.get("first_success"),
            "counted": told.get("counted"),
            "at": told.get("at"),
            "asked": asked,
        }


def _reading(found: Prediction | None) -> list[Any] | None:
    if found is None:
        return None
    return [found.outcome.value, found.answer, found.scores, found.finish_reason]


def verify_redacted(place: Path, head: Mapping[str, Any], root: str | None) -> Verification:
    """Check what a run without words can show.

    Raises:
        StoreError: its files are not as medstress writes them.
    """
    found = Verification(what="")
    root = None if root is None else checked_root(root)
    with interpreting(place / LEDGER):
        numbers = json.loads((place / NUMBERS).read_text("utf-8"))
        counts: Counter[tuple[Any, ...]] = Counter()
        try:
            own = root_over(_parts(place / LEDGER, found, counts))
        except _Odd as odd:
            found.broken = odd.broken
            return found
        last, before = numbers["reviews"], numbers.get("reviews_before")
        # Without reviews the last is None, too; bundles of earlier versions know the last alone.
        digests = [last] if before is None else list(dict.fromkeys([None, *before, last]))
        found.roots = [with_reviews(own, each) for each in digests]
        found.root = found.roots[-1]
        if found.root != head.get("root"):
            found.broken = Break(
                table=LEDGER,
                row=0,
                expected=f"root {head.get('root')}",
                found=f"root {found.root}",
            )
        elif root is not None and root not in found.roots:
            found.broken = Break(
                table=LEDGER, row=0, expected=f"root {root}", found=f"root {found.root}"
            )
        elif (odd_count := _odd_count(numbers, counts)) is not None:
            found.broken = odd_count
        elif root is not None:
            found.asked_root = root
            found.added = {"reviews": len(found.roots) - 1 - found.roots.index(root)}
        found.notes.append(
            "not checked, for want of the words: the chain of commits, whether successes are "
            "valid, how replies were read, the summary but for its counts, and so the verdicts on "
            "criteria; the bundle made without --redact shows them"
        )
    return found


class _Odd(Exception):
    def __init__(self, row: int, expected: str, found: str) -> None:
        super().__init__(expected)
        self.broken = Break(table=LEDGER, row=row, expected=expected, found=found)


def _parts(
    file: Path, found: Verification, counts: Counter[tuple[Any, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield the parts of the root, and judge every trial on the way."""
    with file.open("rb") as stream:
        for row, text in enumerate(stream, start=1):
            line = orjson.loads(text)
            if line[0] != "trial":
                yield tuple(line)
                continue
            _, trial_id, digest, identity, verdict, result, exchanges, told = line
            own = digest_of_ended(tuple(identity), verdict, result, exchanges).hex().upper()
            if own != digest or identity[-1] != trial_id:
                raise _Odd(row, f"digest {own} of {identity[-1]}", f"{digest} of {trial_id}")
            if (verdict in Verdict.__members__.values()) != (told is not None):
                expected = ("readings of a trial", "none")[told is not None]
                raise _Odd(row, expected, f"{verdict} with {'none' if told is None else 'some'}")
            if told is not None:
                _check_readings(row, told)
                counts[(*identity[:4], identity[5], verdict)] += 1
                try:
                    _judge(row, verdict, json.loads(identity[4]), told)
                except NotJudgedError as error:
                    found.not_judged[str(error)] += 1
                else:
                    found.n_redacted += 1
            else:
                found.n_analyses += 1
            yield "trial", trial_id, digest


def _check_readings(row: int, told: Mapping[str, Any]) -> None:
    """Check that every reading is of an answer that there is, and right only if it is the key."""
    letters, key = told["letters"], told["key"]
    if letters and key not in letters:
        raise _Odd(row, f"a key of {', '.join(letters)}", key)
    for purpose, number, *_, reading in told["asked"]:
        if purpose == Purpose.FLIP_CHECK and not 0 < number <= told["n_asked"]:
            raise _Odd(row, f"a check of one of {told['n_asked']} queries", f"of query {number}")
        if reading is None or not letters:
            continue
        outcome, answer, scores, _ = reading
        if answer is not None and answer not in letters:
            raise _Odd(row, f"an answer of {', '.join(letters)}", str(answer))
        expected = Outcome.RIGHT if answer == key else Outcome.WRONG
        expected = Outcome.UNREADABLE if answer is None else expected
        if outcome != expected:
            raise _Odd(row, f"{expected.value} at {purpose} {number}", str(outcome))
        if scores is not None and len(scores) != len(letters):
            raise _Odd(row, f"{len(letters)} scores at {purpose} {number}", str(len(scores)))


def _judge(row: int, verdict: str, spec: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Judge a verdict again from readings."""
    asked = {(purpose, number): rest for purpose, number, *rest in told["asked"]}
    attacks = [number for purpose, number in asked if purpose == "attack"]
    if attacks != list(range(1, told["n_asked"] + 1)):
        raise _Odd(row, f"{len(attacks)} queries", f"n_asked {told['n_asked']}")
    before = _prediction((asked.get(("baseline", 0)) or [None])[-1])
    if before is None or verdict in ("not_attackable", "failed", "cut_short"):
        if verdict not in ("not_attackable", "failed", "cut_short"):
            raise _Odd(row, "an answer to the clean item", "none")
        return
    expected = {Outcome.WRONG: Verdict.ALREADY_WRONG, Outcome.UNREADABLE: Verdict.UNREADABLE}
    if (lost := expected.get(before.outcome)) is not None:
        if verdict != lost:
            raise _Odd(row, lost.value, verdict)
        return
    first = _first_success(spec, told, before, attacks, asked)
    kept = (Verdict.HELD, Verdict.MEASURED)
    if (first is None) != (verdict in kept) or first != told["first_success"]:
        raise _Odd(row, f"first success {first}", f"{verdict}, first {told['first_success']}")


def _first_success(
    spec: Mapping[str, Any],
    told: Mapping[str, Any],
    before: Prediction,
    attacks: list[int],
    asked: Mapping[tuple[str, int], list[Any]],
) -> int | None:
    attack = attack_of(spec)
    goal: Any = attack.goal_for(SimpleNamespace(is_judged=told["is_judged"]))
    relative = getattr(goal, "relative_to", None)
    goal = goal if relative is None else relative(before)
    if isinstance(goal, Replaced) and told.get("counted") is not None:
        goal = replace(goal, options=frozenset(told["counted"]))
    elif isinstance(goal, Replaced) and "control_of" in spec and spec["name"] != SAME_TYPE:
        stored: int | None = told["first_success"]
        return stored  # an earlier version did not tell which options count beside a control
    for number in attacks:
        is_probe, fields, reading = asked["attack", number]
        found = _prediction(reading)
        edits = [Edit(field=name, start=0, end=0, replacement="") for name in fields]
        if found is not None and not is_probe and goal.reached(found, edits):
            return number
    return None


def _prediction(reading: list[Any] | None) -> Prediction | None:
    if reading is None:
        return None
    outcome, answer, scores, ended = reading
    return Prediction(
        outcome=Outcome(outcome),
        answer=answer,
        scores=None if scores is None else tuple(scores),
        finish_reason=ended,
    )


def _odd_count(numbers: Mapping[str, Any], counts: Counter[tuple[Any, ...]]) -> Break | None:
    """Return where the numbers are not those that the verdicts give, row by row both ways."""
    if (n_trials := sum(counts.values())) != numbers["n_trials"]:
        found = str(numbers["n_trials"])
        return Break(table=NUMBERS, row=0, expected=f"n_trials {n_trials}", found=found)
    places = Counter(key[:-1] for key in counts)
    told = Counter(tuple(row[name] for name in _PLACE) for row in numbers["rows"])
    for place in places | told:
        if told[place] != min(places[place], 1):
            expected = f"{min(places[place], 1)} rows of {', '.join(map(str, place))}"
            return Break(table=NUMBERS, row=0, expected=expected, found=str(told[place]))
    for n, row in enumerate(numbers["rows"], start=1):
        place = tuple(row[name] for name in _PLACE)
        own = {key[-1]: count for key, count in counts.items() if key[:-1] == place}
        now = {name: own.get(state, 0) for name, state in _STATES.items()}
        now["n_trials"] = sum(own.values())
        for name in _COUNTS:
            if row[name] != now[name]:
                return Break(
                    table=NUMBERS, row=n, expected=f"{name} {now[name]}", found=str(row[name])
                )
    return None
