"""How often judges or a checker are right about validity, measured on people's labels.

They are measured on successes of the same run, which have passed what the attack excluded: how
right they are among pairs that never became a success says nothing here. A panel that let nothing
pass but what it calls valid has a specificity of 0 there, so it tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.core.evidence import JUDGES, PEOPLE, word_of
from medstress.core.rows import TrialRow
from medstress.core.validity import CHECKER, PANEL, REVIEW
from medstress.metrics.counts import is_flipped, unit_of
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors
from medstress.stats.shares import Unit, rate

LEAST_LABELS = 10
"""Fewer labels give bounds and no number."""
KIND_OF = {REVIEW: PEOPLE, PANEL: JUDGES, CHECKER: CHECKER}
"""Who vouches -> the kind of evidence in which their word is kept."""

Stratum: TypeAlias = tuple[str, str]
"""(group of entities, class of the name against the key)."""
Case: TypeAlias = tuple[Stratum, Unit, bool, bool]
"""(stratum, unit, what people say, what the source says)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A source of labels beside people's labels of the same successes."""

    source: str
    """`panel` or `checker`."""
    cases: Sequence[Case]
    """The successes that both labelled."""

    @property
    def errors(self) -> Errors:
        """Its counts over all strata."""
        return _errors(self.cases)

    @property
    def why_not(self) -> str | None:
        """Why it cannot be believed; None if it can."""
        name, errors = f"the {self.source}", self.errors
        if len(self.cases) < LEAST_LABELS:
            return (
                f"{name} was measured on {len(self.cases)} labels of people, and "
                f"{LEAST_LABELS} are needed"
            )
        if not errors.n_true or not errors.n_false:
            said = "right" if errors.n_true else "wrong"
            return (
                f"people call the key {said} in every case on which {name} was measured, so only "
                f"its {'sensitivity' if errors.n_true else 'specificity'} is known"
            )
        if not errors.informs:
            return (
                f"sensitivity and specificity of {name} add up to 1 or less on people's labels, "
                "so it tells nothing of validity and no correction exists"
            )
        return None

    def of(self, strata: Iterable[Stratum]) -> dict[Stratum, Errors] | None:
        """Return its errors in each of some strata; None if it is too little measured in one."""
        found = {
            stratum: _errors([case for case in self.cases if case[0] == stratum])
            for stratum in strata
        }
        enough = all(
            each.informs and each.n_true + each.n_false >= LEAST_LABELS for each in found.values()
        )
        return found if enough else None

    def as_json(self) -> dict[str, Any]:
        """Return sensitivity and specificity with intervals, and the number of labels."""
        return {
            "name": self.source,
            "source": "people's labels of successes of this run",
            "n_labels": len(self.cases),
            "sensitivity": self._right(valid=True).as_json(),
            "specificity": self._right(valid=False).as_json(),
        }

    def _right(self, *, valid: bool) -> Estimate:
        return rate((unit, said == truth) for _, unit, truth, said in self.cases if truth is valid)


def _errors(cases: Sequence[Case]) -> Errors:
    return Errors(
        n_true=sum(truth for _, _, truth, _ in cases),
        n_true_found=sum(truth and said for _, _, truth, said in cases),
        n_false=sum(not truth for _, _, truth, _ in cases),
        n_false_found=sum(not truth and not said for _, _, truth, said in cases),
    )


def said_by(row: TrialRow, source: str) -> bool | None:
    """Return what a source says of a success, whoever else was believed; None if nothing."""
    if row.validity_reason == source and row.valid is not None:
        return row.valid
    return word_of(row.evidence, KIND_OF[source])[1]


def stratum_of(row: TrialRow) -> Stratum:
    """Return the stratum in which sources are measured."""
    return row.group, row.variant_class or ""


def measured(trials: Iterable[TrialRow]) -> Mapping[str, Measured]:
    """Measure the panel and the checker of a run on what people say of the same successes.

    Args:
        trials: of the whole run.

    Returns:
        Source -> its measurement, of those that labelled any success.
    """
    successes = [row for row in trials if is_flipped(row)]
    found = {}
    for source in (PANEL, CHECKER):
        said = [(row, word) for row in successes if (word := said_by(row, source)) is not None]
        if said:
            both = [(row, truth, word) for row, word in said if (truth := _people(row)) is not None]
            cases = [(stratum_of(row), unit_of(row), truth, word) for row, truth, word in both]
            found[source] = Measured(source=source, cases=cases)
    return found


def _people(row: TrialRow) -> bool | None:
    # Labels outside a random sample may have been picked because the panel errs there.
    return said_by(row, REVIEW) if row.sampled else None
