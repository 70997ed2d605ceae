"""How far a run is: counts, rates, and the success of every arm so far.

Nothing here draws or waits: `read_progress` reads a folder once, `pace` compares readings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from medstress.core.errors import StoreError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.text import WHOLE
from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan.spending import describe_spending
from medstress.kinds import kind_of
from medstress.metrics.counts import is_eligible, is_flipped
from medstress.results.load import StoredRun, open_run
from medstress.results.names import Names, names_of
from medstress.store.copying import copied
from medstress.store.reader import StoredTrial
from medstress.viewing.liveness import Liveness, liveness

Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""

_WINDOW = 12
"""Readings over which the speed is measured that foretells the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProgress:
    """One attack on one victim, data set and group, so far."""

    place: Place
    """Its labels."""
    is_control: bool
    """Whether it is the control of an attack."""
    n_ended: int
    """Trials that have ended."""
    n_eligible: int
    """Those that were right before any change."""
    n_lost: int
    """Those of them that the attack flipped."""
    is_judged: bool = True
    """False if it only moves scores, none of which is right or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A run at one moment."""

    at: float
    """When it was read, in seconds since 1970."""
    name: str
    """Name of the experiment."""
    names: Names
    """Names in words."""
    n_planned: int
    """Trials that are planned."""
    n_ended: int
    """Trials that have ended, failed ones among them."""
    n_calls: int
    """Calls that were computed."""
    tokens_in: int
    """Tokens read."""
    tokens_out: int
    """Tokens written."""
    usd: float | None
    """What the calls cost; None without prices."""
    seconds: float | None
    """How long the run has asked so far, in all its processes; None where that is not known."""
    is_complete: bool
    """Whether every planned trial and analysis has ended."""
    command: str | None
    """The command that started it."""
    limits: tuple[str, ...]
    """Keys of its limits, which may have ended it."""
    arms: tuple[ArmProgress, ...]
    """Every arm with a trial that has ended, in the order of the plan."""
    n_failed: int
    """Trials that failed."""
    failures: tuple[tuple[str, int], ...]
    """Why, with how many of them, the most frequent first."""
    process: Liveness
    """Whether a process works on it; seen before anything was read."""
    doubt: str | None = None
    """Where the folder does not agree with its chain, if it is read all the same."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come: complete, or nobody works on it."""
        return self.is_complete or not self.process.is_alive(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a run is; None where too little was seen."""

    trials_per_second: float | None
    """Between the last two readings."""
    calls_per_second: float | None
    """Between the last two readings."""
    over_seconds: float | None
    """Seconds between them."""
    trials_in_all: float | None
    """Trials per second over the whole run."""
    calls_in_all: float | None
    """Calls per second over the whole run."""
    seconds_left: float | None
    """When it will have ended at the speed of the last dozen readings, else of the whole run."""


def pace(readings: Sequence[Progress]) -> Pace:
    """Return the speed of a run.

    Args:
        readings: of one run, the earliest first; at least one.
    """
    last = readings[-1]
    before = readings[-2] if len(readings) > 1 else None
    recent = readings[-_WINDOW:]
    speed = _speed(recent[0], last)[0]
    trials, calls = (None, None) if before is None else _speed(before, last)
    in_all = _over(last.n_ended, last.seconds), _over(last.n_calls, last.seconds)
    speed = speed or in_all[0]
    left = max(0, last.n_planned - last.n_ended)
    return Pace(
        trials_per_second=trials,
        calls_per_second=calls,
        over_seconds=None if before is None else last.at - before.at,
        trials_in_all=in_all[0],
        calls_in_all=in_all[1],
        seconds_left=left / speed if speed else None,
    )


def _speed(first: Progress, last: Progress) -> tuple[float | None, float | None]:
    seconds = last.at - first.at
    return (
        _over(last.n_ended - first.n_ended, seconds),
        _over(last.n_calls - first.n_calls, seconds),
    )


def _over(n: int, seconds: float | None) -> float | None:
    return n / seconds if seconds and seconds > 0 else None


def read_progress(folder: Path, now: float) -> Progress:
    """Read a run, finished or running; nothing is written and no lock is taken.

    Args:
        folder: the run folder.
        now: the time, in seconds since 1970.

    Raises:
        StoreError: there is no run in the folder, or it cannot be read.
    """
    # Seen first: a process that ends after this has written its last word before it is read.
    process = liveness(folder)
    if not process.has_log:
        with open_run(folder) as run:
            return progress_of(run, now, process)
    with copied(folder) as place:
        try:
            with open_run(place) as run:
                return progress_of(run, now, process)
        except StoreError as error:
            # Nobody knows the copy.
            raise type(error)(str(error).replace(str(place), str(folder))) from error


def progress_of(run: StoredRun, now: float, process: Liveness) -> Progress:
    """Return how far an open run is.

    Args:
        run: the run.
        now: the time, in seconds since 1970.
        process: what was seen of its process before the run was opened.
    """
    manifest, totals = run.manifest, run.totals()
    ended = list(run.trials())
    usd, _ = describe_spending(run.spending(), manifest)
    failed = [one for one in ended if one.verdict == Verdict.FAILED.value]
    reasons = Counter(str(one.result.get("note") or "no reason is stored") for one in failed)
    settings = manifest["config"]["experiment"]
    return Progress(
        at=now,
        name=settings["name"],
        names=names_of(manifest),
        n_planned=int(manifest.get("n_planned") or len(ended)),
        n_ended=len(ended),
        n_calls=totals["calls"],
        tokens_in=totals["tokens_in"],
        tokens_out=totals["tokens_out"],
        usd=usd,
        seconds=_seconds(manifest, now, process),
        is_complete=bool(manifest.get("complete")),
        command=manifest.get("command"),
        limits=tuple(key for key in LIMITS if settings.get(key) is not None),
        arms=tuple(_arms(run, ended)),
        n_failed=len(failed),
        failures=tuple(reasons.most_common()),
        process=process,
        doubt=run.doubt,
    )


def _seconds(manifest: Mapping[str, Any], now: float, process: Liveness) -> float | None:
    """Return how long a run has asked: earlier processes tell, the one at work has to be seen."""
    earlier = float((manifest.get("performance") or {}).get("wall_seconds") or 0.0)
    if manifest.get("complete") or not process.is_alive(now):
        return earlier or None
    if not earlier:
        with suppress(KeyError, TypeError, ValueError):
            return max(0.0, now - datetime.fromisoformat(manifest["started"]).timestamp())
    return None if process.process_seconds is None else earlier + process.process_seconds


def _arms(run: StoredRun, ended: Sequence[StoredTrial]) -> Iterator[ArmProgress]:
    """Yield every arm."""
    items = run.items()
    specs: Mapping[str, Any] = run.manifest.get("attacks") or {}
    by_arm: dict[Place, list[TrialRow]] = {}
    for one in sorted(ended, key=lambda one: one.trial):
        place = (one.dataset, one.group, one.victim, one.attack)
        by_arm.setdefault(place, []).append(_row(one, items[one.item][1]))
    for place, rows in by_arm.items():
        yield ArmProgress(
            place=place,
            is_control="control_of" in (specs.get(place[3]) or {}),
            n_ended=len(rows),
            n_eligible=sum(map(is_eligible, rows)),
            n_lost=sum(map(is_flipped, rows)),
            is_judged=all(row.verdict != Verdict.MEASURED for row in rows),
        )


def _row(trial: StoredTrial, item: Any) -> TrialRow:
    """Return what rates read of a trial; its texts and prompts are left out, for they take time."""
    result = trial.result
    answer: Sequence[Any] = result.get("first_after") or result.get("after") or (None,)
    known: dict[str, Any] = {
        "trial_id": trial.trial_id,
        "dataset": trial.dataset,
        "group": trial.group,
        "item_id": item.id,
        "unit": result.get("unit", WHOLE),
        "victim": trial.victim,
        "attack": trial.attack,
        "seed": trial.seed,
        "repeat": trial.repeat,
        "verdict": Verdict(trial.verdict),
        "at": result.get("at"),
        "n_options": len(kind_of(item).letters(item)),
        "n_asked": result.get("n_asked", 0),
        "n_failed": trial.n_failed,
        "n_unreadable": result.get("n_unreadable", 0),
        "first_success": result.get("first_success"),
        "first_success_answer": answer[0],
    }
    return TrialRow(**{**_BLANK, **known})


_BLANK: Mapping[str, Any] = dict.fromkeys(each.name for each in fields(TrialRow))
