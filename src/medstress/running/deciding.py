"""`stop_when = "decided"`: stop asking once every criterion is met or missed for certain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, KeysView, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from medstress.core.clusters import clusters_of
from medstress.core.controls import BETWEEN, arm_label
from medstress.core.rows import TrialRow
from medstress.engine.trial import Trial
from medstress.experiment.plan.plan import Prepared
from medstress.metrics.criteria import PLACE, Place, is_arm
from medstress.metrics.watching import EARLY, Rank, Watch, rank
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.running.criteria import KEY, batch_of, controls_of
from medstress.store.run_store import RunStore

DECIDED = "decided"
"""Manifest entry: the verdicts that came early, and whether the run ended by its own rule."""
_FIRST_LOOK = 32
_GROWTH = 20
"""Looks follow after so many trials, and after a 20th more than at the last."""


@dataclass(slots=True)
class _Unit:
    """The trials of one document or item, by id."""

    trials: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Row:
    """A criterion on one row."""

    criterion: int
    place: Place
    watch: Watch
    units: list[_Unit]
    n_taken: int = 0

    def catch_up(self, ended: Mapping[str, TrialRow]) -> None:
        """Take the units that have ended, up to the first that has not."""
        while self.watch.verdict is None and self.n_taken < len(self.units):
            unit = self.units[self.n_taken]
            if not all(trial in ended for trial in (*unit.trials, *unit.controls)):
                return
            self.watch.take(
                [ended[trial] for trial in unit.trials], [ended[trial] for trial in unit.controls]
            )
            self.n_taken += 1


class Decider:
    """Yields the trials of a run until its criteria are decided.

    Args:
        store: the folder, whose manifest holds the criteria.
        prepared: the experiment, with its victims open.
    """

    def __init__(self, store: RunStore, prepared: Prepared) -> None:
        self._store, self._prepared = store, prepared
        self._criteria = store.manifest()[KEY]["criteria"]
        self._added = store.manifest()[KEY].get("added", [])
        self._ended: KeysView[str] = {}.keys()
        self._rows = self._watched()
        self._needed: dict[tuple[str, ...], list[_Row]] = defaultdict(list)
        for row in self._rows:
            *place, attack = row.place
            # Controls are asked as long as their attack is.
            names = ["", *(f"{BETWEEN}{name}" for name in controls_of(prepared, attack))]
            for name in names:
                self._needed[(*place, f"{attack}{name}")].append(row)

    def trials(self) -> Iterator[Trial]:
        """Yield the trials that still matter, in the order in which items were drawn."""
        next_look = 0
        for n, trial in enumerate(self._planned()):
            if n >= next_look:
                self._look()
                next_look = n + max(_FIRST_LOOK, n // _GROWTH)
            if self._is_over():
                return
            if self._matters(trial):
                yield trial

    def entry(self, *, is_limited: bool) -> dict[str, Any]:
        """Return the manifest entry, after a last look.

        Args:
            is_limited: whether a limit of the run ended it.
        """
        self._look()
        found: list[dict[str, Any] | None] = []
        for number, criterion in enumerate(self._criteria):
            rows = [row for row in self._rows if row.criterion == number]
            verdict = self._verdict(number)
            if verdict is None:
                found.append(None)
                continue
            missed = [row for row in rows if row.watch.verdict is False]
            worst = max(missed or rows, key=lambda row: _distance(row.watch.ends, criterion))
            found.append(
                {
                    "met": verdict,
                    "ends": list(worst.watch.ends),
                    "n_units": worst.watch.n,
                    "row": dict(zip(PLACE, worst.place, strict=True)),
                }
            )
        return {DECIDED: {"criteria": found, "final": self._is_over() or not is_limited}}

    def is_whole(self) -> bool:
        """Return whether all planned trials have ended, as in a run merged from shards."""
        return all(trial.id in self._ended for trial in self._planned())

    def _planned(self) -> Iterator[Trial]:
        return self._prepared.trials(order=self._order)

    def _order(self, dataset: Any) -> list[Any]:
        """Return a data set's items in the order in which they enter."""
        ranks = self._ranks(dataset)
        return sorted(
            dataset.questions,
            key=lambda item: min(each[item.id] for each in ranks.values()) if ranks else (),
        )

    def _ranks(self, dataset: Any) -> dict[str, dict[str, Rank]]:
        """Return group -> item -> rank."""
        clusters = clusters_of(dataset.questions)
        return {
            group.label: {
                item.id: rank(
                    batch_of(self._added, dataset.label, group.label, item), clusters[item.id]
                )
                for item in dataset.questions
            }
            for group in self._prepared.groups
        }

    def _watched(self) -> list[_Row]:
        """Plan which trials each criterion reads, unit by unit."""
        ranks = {part.label: self._ranks(part) for part in self._prepared.datasets}
        units: dict[Place, dict[Rank, list[str]]] = defaultdict(lambda: defaultdict(list))
        for trial in self._planned():
            place = (trial.dataset, trial.group, trial.victim.label, trial.attack_label)
            item = self._prepared.kind.whole(trial.item)
            units[place][ranks[trial.dataset][trial.group][item.id]].append(trial.id)
        budgets = {part.label: part.traits.budget for part in self._prepared.attacks}
        rows = []
        for number, criterion in enumerate(self._criteria):
            for place, own in units.items():
                if not _is_about(criterion, place, list(budgets)):
                    continue
                control = self._control_place(criterion, place)
                theirs = units.get(control, {}) if control is not None else {}
                rows.append(
                    _Row(
                        criterion=number,
                        place=place,
                        watch=Watch(criterion, budgets[place[3]], EARLY),
                        units=[_Unit(own[at], theirs.get(at, [])) for at in sorted(own)],
                    )
                )
        return rows

    def _control_place(self, criterion: Mapping[str, Any], place: Place) -> Place | None:
        if criterion["metric"] not in ("control", "asr_net"):
            return None
        name = criterion.get("control") or next(iter(controls_of(self._prepared, place[3])), None)
        return None if name is None else (*place[:3], arm_label(place[3], name))

    def _look(self) -> None:
        """Read the trials that have ended, and let them enter."""
        self._store.commit()
        with closing(StoredRun(self._store.folder)) as run:
            ended = {row.trial_id: row for row in trial_rows(run)}
        self._ended = ended.keys()
        for row in self._rows:
            row.catch_up(ended)

    def _verdict(self, number: int) -> bool | None:
        """Return the verdict on a criterion: one row may miss it, all have to meet it."""
        found = [row.watch.verdict for row in self._rows if row.criterion == number]
        if False in found:
            return False
        return True if found and all(found) else None

    def _is_over(self) -> bool:
        return all(self._verdict(number) is not None for number in range(len(self._criteria)))

    def _matters(self, trial: Trial) -> bool:
        place = (trial.dataset, trial.group, trial.victim.label, trial.attack_label)
        rows = self._needed.get(place)
        if not rows:
            return True
        return any(
            row.watch.verdict is None and self._verdict(row.criterion) is None for row in rows
        )


def _distance(ends: tuple[float, float], criterion: Mapping[str, Any]) -> float:
    """Return how far an interval is from meeting a limit."""
    if "max_high" in criterion:
        return ends[1] - float(criterion["max_high"])
    return float(criterion["min_low"]) - ends[0]


def _is_about(criterion: Mapping[str, Any], place: Place, labels: list[str]) -> bool:
    where = criterion.get("where", {})
    if is_arm(place[3], labels) and where.get("attack") != place[3]:
        return False
    return all(place[PLACE.index(key)] == label for key, label in where.items())
