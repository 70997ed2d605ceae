"""Which names trials asked, read from the run, for the interval over items and names."""

from __future__ import annotations

from dataclasses import dataclass, field

from medstress.comparison.contrasts import Contrast
from medstress.comparison.names import Asked, cluster_names, for_names_like_these, names_of
from medstress.comparison.rows import Row
from medstress.comparison.sides import Arm
from medstress.results.load import StoredRun
from medstress.results.queries import substitutions
from medstress.results.rows import trial_rows
from medstress.stats.estimates import Estimate

NO_NAMES = "the attack draws no names"
DETERMINISTIC = "the attack is deterministic: it draws no other names from the same vocabulary"


@dataclass(slots=True)
class NameReader:
    """Reads the names of two runs when a row needs them."""

    runs: tuple[StoredRun, StoredRun]
    """The runs of A and B."""
    _known: dict[int, Asked] = field(default_factory=dict)

    def like_these(self, row: Row, contrast: Contrast) -> tuple[Estimate | None, str | None]:
        """Return the difference of a row for names like these; or None, and why."""
        if reason := self._reason(row):
            return None, reason
        asked = self._asked(0), self._asked(1)
        sign = 1 if contrast.is_rate_of_good else -1
        return for_names_like_these(
            cluster_names(row.pairs),
            [(names_of(pair.a, asked[0]), names_of(pair.b, asked[1])) for pair in row.pairs],
            [sign * (contrast.good(p.b) - contrast.good(p.a)) for p in row.pairs],
        )

    def _reason(self, row: Row) -> str | None:
        if not row.pairs:
            return "no pair"
        if not all(map(self._draws, (0, 1), (row.a, row.b))):
            return NO_NAMES
        if all(pair.a.seed is None and pair.b.seed is None for pair in row.pairs):
            return DETERMINISTIC
        return None

    def _draws(self, side: int, arm: Arm) -> bool:
        group = self.runs[side].manifest["groups"].get(arm.group, {})
        return bool(group.get("n_names"))

    def _asked(self, side: int) -> Asked:
        run = self.runs[side]
        if id(run) not in self._known:
            found = substitutions(run, trial_rows(run))
            self._known[id(run)] = {
                one.row.trial_id: frozenset().union(*one.names.values()) for one in found
            }
        return self._known[id(run)]
