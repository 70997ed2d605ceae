"""Which estimates the rows of a run will have, so that a criterion may be about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.file.criteria_tables import OF_CONTROLS
from medstress.experiment.plan.parts import AttackPart
from medstress.kinds import KINDS, Kind
from medstress.metrics.attempts import NAME as MEDFUZZ
from medstress.results import measures
from medstress.results.measure import Measure
from medstress.results.table import Format

_OF_CHANGES = ("asr", "asr_decided", "asr_asked", "diversity", "diversity_unbiased")
"""Metrics that need only successes: items without right answers have them under `max_change`."""
_OF_OPTIONS = ("prompt_similarity", "letter_mass", "chose_edited")
"""Metrics of questions with options and names."""
_NOT_IN_ROWS = (
    *("chance", "asr_without", "asr_without_at_most", "asr_alone"),
    *("mention_rate_failed", "mention_rate_findings"),
)


def metrics_of(kind: Kind, part: AttackPart) -> tuple[str, ...]:
    """Return the estimates in a row of an attack on items of a kind, without those of controls."""
    spec = part.attack.spec()
    found = [*_scores(kind, spec)]
    if not kind.is_judged:
        return (*found, *(_OF_CHANGES if spec.get("max_change") is not None else ()))
    found += _names("Rates")
    found += [name for name in _names("Successes") if kind.draws_names or not _is_of_options(name)]
    found += _names("Changed passages") if part.traits.changes_evidence else ()
    found += _names("Probes of questions") if part.traits.keeps_answers else ()
    found += _names("Attempts of MedFuzz") if spec.get("name") == MEDFUZZ else ()
    return tuple(found)


def _is_of_options(name: str) -> bool:
    return name in _OF_OPTIONS or name.startswith("asr_by_variant.")


def _scores(kind: Kind, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the scores of whole data sets; a search leaves no perturbed data set to score."""
    if kind.scores is not None:
        is_whole = kind.scores.is_whole(spec)
        for name, *_ in kind.scores.defined:
            if is_whole or not name.endswith(("_after", "_drop")):
                yield name


def _names(group: str) -> tuple[str, ...]:
    variants = {one.name for one in measures.VARIANTS}

    def named(one: Measure) -> str:
        return f"asr_by_variant.{one.name}" if one.name in variants else one.name

    return tuple(
        named(one)
        for one in measures.GROUPS[group]
        if one.format in (Format.SHARE, Format.SCORE)
        and not one.name.endswith((".mean", ".median"))
        and one.name not in _NOT_IN_ROWS
    )


def check_metric(
    metric: str, kind: Kind, parts: Sequence[AttackPart], *, has_controls: bool, name: str
) -> None:
    """Refuse a metric that a row of one of these attacks will not have.

    Args:
        metric: the metric.
        kind: the kind of all items.
        parts: the attacks whose rows a criterion judges.
        has_controls: whether the run has control arms.
        name: the criterion, for the message.

    Raises:
        UsageError: a row lacks it; the message lists what the rows have.
    """
    if metric in OF_CONTROLS:
        return
    for part in parts:
        found = (*metrics_of(kind, part), *(OF_CONTROLS if has_controls else ()))
        if metric not in found:
            owners = [each.name for each in KINDS if metric in _scores(each, {"search": "none"})]
            is_known = measures.is_defined(metric.rpartition(".")[2])
            why = "" if is_known else did_you_mean(metric, found)
            if owners:
                is_here = owners == [kind.name]
                needs = "a perturbed data set, which a search does not leave" if is_here else None
                why = f"; it needs {needs or ' or '.join(owners)}"
            raise UsageError(
                f"{name}: no row of {part.label!r} on {kind.name} has the estimate {metric!r}{why} "
                f"(there are: {', '.join(found)})"
            )
