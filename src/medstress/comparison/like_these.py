"""Which names trials asked, read from the run, for the interval over items and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from medstress.attacks.protocol import rebuilt
from medstress.comparison.attacked import stored_spec
from medstress.comparison.contrasts import Contrast
from medstress.comparison.names import (
    Asked,
    Names,
    cluster_names,
    for_names_like_these,
    names_of,
)
from medstress.comparison.rows import Row
from medstress.comparison.sides import Arm
from medstress.core.attacked import NAME as ATTACKED
from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.load import StoredRun
from medstress.results.queries import TrialSubstitutions, substitutions
from medstress.results.rows import trial_rows

NO_NAMES = "the attack draws no names"
SEVERAL = "an edit of these stored attacks puts in several names, and which one decides is unknown"
DETERMINISTIC = "the attack is deterministic: it draws no other names from the same vocabulary"


@dataclass(slots=True)
class NameReader:
    """Reads the names of two runs when a row needs them."""

    runs: tuple[StoredRun, StoredRun]
    """The runs of A and B."""
    _known: dict[tuple[int, bool], Asked] = field(default_factory=dict)

    def like_these(self, row: Row, contrast: Contrast) -> tuple[Estimate | None, str | None]:
        """Return the difference of a row for names like these; or None, and why."""
        if reason := self._reason(row):
            return None, reason
        is_stored = self._stored(row) is not None
        asked = [self._asked(i, first_only=is_stored) for i in (0, 1)]
        if is_stored and any(len(names) > 1 for side in asked for names in _of_pairs(row, side)):
            return None, SEVERAL
        sign = 1 if contrast.is_rate_of_good else -1
        return for_names_like_these(
            cluster_names(row.pairs),
            [(names_of(pair.a, asked[0]), names_of(pair.b, asked[1])) for pair in row.pairs],
            [sign * (contrast.good(p.b) - contrast.good(p.a)) for p in row.pairs],
        )

    def _stored(self, row: Row) -> Mapping[str, Any] | None:
        """Return the stored attack of either arm: then only the first edit of each item counts."""
        specs = (
            stored_spec(run.manifest["attacks"].get(arm.attack, {}))
            for run, arm in zip(self.runs, (row.a, row.b), strict=True)
        )
        return next((spec for spec in specs if spec is not None), None)

    def _reason(self, row: Row) -> str | None:
        if not row.pairs:
            return "no pair"
        stored = self._stored(row)
        if stored is not None and (reason := _why_nameless(stored)):
            return reason
        if stored is None and not all(map(self._draws, (0, 1), (row.a, row.b))):
            return NO_NAMES
        if all(pair.a.seed is None and pair.b.seed is None for pair in row.pairs):
            return DETERMINISTIC
        return None

    def _draws(self, side: int, arm: Arm) -> bool:
        group = self.runs[side].manifest["groups"].get(arm.group, {})
        return bool(group.get("n_names"))

    def _asked(self, side: int, *, first_only: bool) -> Asked:
        run = self.runs[side]
        key = id(run), first_only
        if key not in self._known:
            self._known[key] = {
                one.row.trial_id: _first_names(one) if first_only else _all_names(one)
                for one in substitutions(run, trial_rows(run))
            }
        return self._known[key]


def _all_names(one: TrialSubstitutions) -> frozenset[str]:
    return frozenset().union(*one.names.values())


def _first_names(one: TrialSubstitutions) -> frozenset[str]:
    return frozenset(edit.replacement.casefold() for edit in one.first[1])


def _of_pairs(row: Row, asked: Asked) -> Iterator[Names]:
    for pair in row.pairs:
        for trial in (pair.a, pair.b):
            yield asked.get(trial.trial_id, ())


def _why_nameless(spec: Mapping[str, Any]) -> str | None:
    """Return why stored edits put in no names that were drawn; None if they do."""
    while spec.get("name") == ATTACKED and "of" in spec:
        spec = spec["of"]
    attack = rebuilt(spec)
    if attack is None:
        return f"the attack that was stored, {spec.get('name')!r}, is not installed"
    return None if attack.traits.needs_entities else NO_NAMES
