"""How often judges or a checker are right about validity, measured on people's labels.

They are measured on successes of the same run, which have passed what the attack excluded. A panel
that let nothing pass but what it calls valid has a specificity of 0 there, so it tells nothing. A
checker may bring its errors from labelled pairs of names elsewhere (`Elsewhere`): that it errs
alike on what passed the filter is then assumed, and said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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


class Source(Protocol):
    """A panel or a checker, and how right it is about validity."""

    @property
    def source(self) -> str:
        """`panel` or `checker`."""

    @property
    def errors(self) -> Errors:
        """Its counts over all strata; valid is positive."""

    @property
    def why_not(self) -> str | None:
        """Why it cannot be believed; None if it can."""

    @property
    def assumes(self) -> str:
        """What a correction by its errors assumes."""

    def of(self, strata: Iterable[Stratum]) -> dict[Stratum, Errors] | None:
        """Return its errors in each of some strata; None if it is too little measured in one."""

    def as_json(self) -> dict[str, Any]:
        """Return its row of `checkers`."""


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
                f"{LEAST_LABELS} are needed{_ELSEWHERE if self.source == CHECKER else ''}"
            )
        if not errors.n_true or not errors.n_false:
            said = "right" if errors.n_true else "wrong"
            return (
                f"people call the key {said} in every case on which {name} was measured, so only "
                f"its {'sensitivity' if errors.n_true else 'specificity'} is known"
            )
        if not errors.informs:
            return _tells_nothing(name, "people's labels")
        return None

    @property
    def assumes(self) -> str:
        """What a correction by its errors assumes."""
        return "that it errs on these successes as on those that people labelled"

    def of(self, strata: Iterable[Stratum]) -> dict[Stratum, Errors] | None:
        """Return its errors in each of some strata; None if it is too little measured in one."""
        found = {
            stratum: _errors([case for case in self.cases if case[0] == stratum])
            for stratum in strata
        }
        return found if all(map(_is_enough, found.values())) else None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A checker of names that was measured on labelled pairs (`medstress checker PAIRS.jsonl`)."""

    name: str
    """The checker."""
    whole: Errors
    """On all pairs: `different` is a valid success, `same` an invalid one."""
    by_group: Mapping[str, Errors]
    """Group of entities -> its errors on pairs of that type."""
    row: Mapping[str, Any]
    """`sensitivity` and `specificity` to valid successes, as estimates."""
    source: str = CHECKER

    @property
    def errors(self) -> Errors:
        """Its counts over all pairs."""
        return self.whole

    @property
    def why_not(self) -> str | None:
        """Why it cannot be believed; None if it can."""
        n = self.whole.n_true + self.whole.n_false
        if n < LEAST_LABELS:
            return f"the checker was measured on {n} pairs, and {LEAST_LABELS} are needed"
        if not self.whole.n_true or not self.whole.n_false:
            lost = "are different" if self.whole.n_false else "mean the same"
            return (
                f"the checker placed no pair of names that {lost} where it was measured, so only "
                "one of its error rates is known and no correction exists"
            )
        if not self.whole.informs:
            return _tells_nothing("the checker", "the pairs that it was measured on")
        return None

    @property
    def assumes(self) -> str:
        """What a correction by its errors assumes."""
        return (
            "that it errs on these successes, which passed the attack's filter, as on the labelled "
            "pairs of names that it was measured on"
        )

    def of(self, strata: Iterable[Stratum]) -> dict[Stratum, Errors] | None:
        """Return its errors in each of some strata, by their groups; None if one lacks enough."""
        found = {
            stratum: self.by_group[stratum[0]] for stratum in strata if stratum[0] in self.by_group
        }
        known = len(found) == len(set(strata)) and all(map(_is_enough, found.values()))
        return found if known else None

    def as_json(self) -> dict[str, Any]:
        """Return sensitivity and specificity with intervals, and the number of pairs."""
        return {
            "name": self.source,
            "source": f"labelled pairs of names, by {self.name}",
            "n_labels": self.whole.n_true + self.whole.n_false,
            **self.row,
        }


_ELSEWHERE = " (or errors measured on labelled pairs: medstress checker --run DIR --measured FILE)"


def _tells_nothing(name: str, on: str) -> str:
    return (
        f"sensitivity and specificity of {name} add up to 1 or less on {on}, "
        "so it tells nothing of validity and no correction exists"
    )


def _is_enough(errors: Errors) -> bool:
    return errors.informs and errors.n_true + errors.n_false >= LEAST_LABELS


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


def is_rule_refuted(row: TrialRow) -> bool:
    """Return True if rules refuted all successes of a search; a panel's refutation is a label."""
    return row.first_unrefuted_success is None and said_by(row, PANEL) is None


def stratum_of(row: TrialRow) -> Stratum:
    """Return the stratum in which sources are measured."""
    return row.group, row.variant_class or ""


def measured(
    trials: Iterable[TrialRow], elsewhere: Elsewhere | None = None
) -> Mapping[str, Source]:
    """Measure the panel and the checker of a run on what people say of the same successes.

    Args:
        trials: of the whole run.
        elsewhere: errors of the checker on labelled pairs, which count where people have labelled
            too few of its successes.

    Returns:
        Source -> its measurement, of those that labelled any success.
    """
    cases: dict[str, list[Case]] = defaultdict(list)
    for row in trials:
        for source in (PANEL, CHECKER):
            if is_flipped(row) and (word := said_by(row, source)) is not None:
                both = cases[source]  # a source that labelled any success has an entry
                if (truth := _people(row)) is not None:
                    both.append((stratum_of(row), unit_of(row), truth, word))
    found: dict[str, Source] = {
        source: Measured(source=source, cases=cases[source])
        for source in (PANEL, CHECKER)
        if source in cases
    }
    if elsewhere is not None and CHECKER in found and found[CHECKER].why_not:
        found[CHECKER] = elsewhere
    return found


def _people(row: TrialRow) -> bool | None:
    # Labels outside a random sample may have been picked because the panel errs there.
    return said_by(row, REVIEW) if row.sampled else None
