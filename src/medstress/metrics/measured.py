"""How often judges or a checker are right about validity, measured on people's labels.

They are measured on successes of the same run, which have passed what the attack excluded. A panel
that let nothing pass but what it calls valid has a specificity of 0 there, so it tells nothing. A
checker may bring its errors from labelled pairs of names elsewhere (`Elsewhere`): that it errs
alike on what passed the filter is then assumed, and said. Being right about one group of entities
says nothing of another: each is measured, and vouched for, by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from medstress.core.evidence import JUDGES, PEOPLE, word_of
from medstress.core.rows import TrialRow
from medstress.core.validity import CHECKER, PANEL, REVIEW
from medstress.metrics.counts import is_flipped, unit_of
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors
from medstress.stats.shares import Unit, rate

LEAST_LABELS = 10
"""Fewer labels give bounds and no number; of a source that errs, of either kind."""
KIND_OF = {REVIEW: PEOPLE, PANEL: JUDGES, CHECKER: CHECKER}
"""Who vouches -> the kind of evidence in which their word is kept."""

Stratum: TypeAlias = tuple[str, str]
"""(group of entities, class of the name against the key)."""
Case: TypeAlias = tuple[Stratum, Unit, bool, bool]
"""(stratum, unit, what people say, what the source says)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """How right a panel or a checker is about validity in one group of entities."""

    source: str
    """`panel` or `checker`."""
    measured_on: str
    """What it was measured on."""
    n_labels: int
    sensitivity: Estimate
    """Called valid, of those that are."""
    specificity: Estimate
    """Called invalid, of those that are."""
    errors: Errors
    """Its counts in the group, at effective numbers; valid is positive."""
    assumes: str
    """What a correction by its errors assumes."""
    by_stratum: Mapping[Stratum, Errors] = field(default_factory=dict)
    """Its counts by class of the name, where it is measured well enough in all of them."""
    why_not: str | None = None
    """Why it cannot be believed; None if it can."""

    def as_json(self) -> dict[str, Any]:
        """Return its row of `checkers`: the rates that correct the row."""
        return {
            "name": self.source,
            "source": self.measured_on,
            "n_labels": self.n_labels,
            "sensitivity": self.sensitivity.as_json(),
            "specificity": self.specificity.as_json(),
        }


class Source(Protocol):
    """A panel or a checker, and how right it is about validity."""

    @property
    def source(self) -> str:
        """`panel` or `checker`."""

    def of(self, strata: Collection[Stratum]) -> Known:
        """Return how right it is where some successes are; all strata are of one group.

        What it is right about elsewhere says nothing of them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A source of labels beside people's labels of the same successes."""

    source: str
    """`panel` or `checker`."""
    cases: Sequence[Case]
    """The successes that both labelled."""
    elsewhere: Source | None = None
    """Its errors on labelled pairs, for groups in which people labelled too few successes."""

    def of(self, strata: Collection[Stratum]) -> Known:
        """Return how right it is on what people labelled of the strata's group."""
        groups = {group for group, _ in strata}
        cases = [case for case in self.cases if case[0][0] in groups]
        errors = _errors(cases)
        if self.elsewhere is not None and not _is_enough(errors):
            return self.elsewhere.of(strata)
        found = {
            stratum: _errors([case for case in cases if case[0] == stratum]) for stratum in strata
        }
        return Known(
            source=self.source,
            measured_on="people's labels of successes of this run",
            n_labels=len(cases),
            sensitivity=_right(cases, valid=True),
            specificity=_right(cases, valid=False),
            errors=errors,
            assumes="that it errs on these successes as on those that people labelled",
            by_stratum=found if all(map(_is_enough, found.values())) else {},
            why_not=self._why_not(groups, errors, found.values()),
        )

    def _why_not(self, groups: Set[str], errors: Errors, parts: Iterable[Errors]) -> str | None:
        name, of = f"the {self.source}", _of(groups)
        if not _is_enough(errors):
            return (
                f"{name} was measured on {errors.n_true} successes{of} whose key people call right "
                f"and {errors.n_false} whose key they call wrong, and {LEAST_LABELS} of each are "
                f"needed{_ELSEWHERE if self.source == CHECKER else ''}"
            )
        if not errors.informs or any(map(_is_useless, parts)):
            return _tells_nothing(name, f"people's labels{of}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What a checker said of labelled pairs of names of one type."""

    errors: Errors
    """At effective numbers; `different` is a valid success, `same` an invalid one."""
    sensitivity: Estimate
    """Called different, of those that are."""
    specificity: Estimate
    """Called the same, of those that are."""


NO_PAIRS = Pairs(
    errors=Errors(n_true=0, n_true_found=0, n_false=0, n_false_found=0),
    sensitivity=rate(()),
    specificity=rate(()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A checker of names that was measured on labelled pairs (`medstress checker PAIRS.jsonl`)."""

    name: str
    """The checker."""
    by_type: Mapping[str, Pairs]
    """Type of entity -> what it said of pairs of that type."""
    types: Mapping[str, str]
    """Group of entities -> its type; a group that is not in it has the type of its own name."""
    source: str = CHECKER

    def of(self, strata: Collection[Stratum]) -> Known:
        """Return how right it is on pairs of the type of the strata's group."""
        groups = sorted({group for group, _ in strata})
        kinds = {self.types.get(group, group) for group in groups}
        kind = kinds.pop() if len(kinds) == 1 else ""
        pairs = self.by_type.get(kind, NO_PAIRS)
        return Known(
            source=self.source,
            measured_on=f"labelled pairs of names of type {kind}, by {self.name}",
            n_labels=pairs.sensitivity.n + pairs.specificity.n,
            sensitivity=pairs.sensitivity,
            specificity=pairs.specificity,
            errors=pairs.errors,
            assumes="that it errs on these successes, which passed the attack's filter, as on the "
            "labelled pairs of names that it was measured on",
            why_not=_why_not(kind, pairs.errors),
        )


def _why_not(kind: str, errors: Errors) -> str | None:
    """Return why a checker that was measured on some pairs of a type cannot be believed there."""
    if not _is_enough(errors):
        return (
            f"the checker placed {errors.n_true} pairs of type {kind!r} that are different and "
            f"{errors.n_false} that mean the same where it was measured (pairs of one name count "
            f"as fewer), and {LEAST_LABELS} of each are needed; pairs of other types or of none "
            "say nothing of it"
        )
    if not errors.informs:
        return _tells_nothing("the checker", f"the pairs of type {kind!r} that it was measured on")
    return None


_ELSEWHERE = " (or errors measured on labelled pairs: medstress checker --run DIR --measured FILE)"


def _of(groups: Iterable[str]) -> str:
    named = " and ".join(sorted(group for group in groups if group not in ("", "all")))
    return f" of {named}" if named else ""


def _tells_nothing(name: str, on: str) -> str:
    return (
        f"sensitivity and specificity of {name} add up to 1 or less on {on}, "
        "so it tells nothing of validity there and no correction exists"
    )


def _is_enough(errors: Errors) -> bool:
    return min(errors.n_true, errors.n_false) >= LEAST_LABELS


def _is_useless(errors: Errors) -> bool:
    """Whether so much is known of a stratum that its errors cannot be taken from the whole."""
    both = errors.n_true and errors.n_false
    return bool(both) and errors.n_true + errors.n_false >= LEAST_LABELS and not errors.informs


def _right(cases: Sequence[Case], *, valid: bool) -> Estimate:
    return rate((unit, said == truth) for _, unit, truth, said in cases if truth is valid)


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
        elsewhere: errors of the checker on labelled pairs, which count in groups where people have
            labelled too few of its successes.

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
    return {
        source: Measured(
            source=source,
            cases=cases[source],
            elsewhere=elsewhere if source == CHECKER else None,
        )
        for source in (PANEL, CHECKER)
        if source in cases
    }


def _people(row: TrialRow) -> bool | None:
    # Labels outside a random sample may have been picked because the panel errs there.
    return said_by(row, REVIEW) if row.sampled else None
