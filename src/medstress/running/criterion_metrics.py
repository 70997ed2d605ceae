"""Which metrics the rows of a run will have, so that a criterion may be about them."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.analyses.requirements import OF_CONTROLS, OF_SUCCESSES, SHARES
from medstress.analyses.scorings import scoring_of_class
from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.plan.parts import AttackPart
from medstress.kinds import KINDS, Kind


def metrics_of(kind: Kind, part: AttackPart) -> tuple[str, ...]:
    """Return the metrics of an attack on items of a kind, without those of controls.

    Items without right answers have successes where a change of the score is one (`max_change`);
    a search for a success leaves no perturbed data set to score.
    """
    is_change = part.attack.spec().get("max_change") is not None
    is_searched = not part.traits.is_static and (kind.is_judged or is_change)
    scores = _scores(kind, has_copy=not is_searched)
    if kind.is_judged:
        return (*scores, *SHARES, *OF_SUCCESSES)
    return (*scores, "asr") if is_change else scores


def _scores(kind: Kind, *, has_copy: bool) -> tuple[str, ...]:
    scoring = scoring_of_class(kind.unit_type or kind.item)
    return () if scoring is None else scoring.columns(has_copy=has_copy)


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
        known = (*metrics_of(kind, part), *(OF_CONTROLS if has_controls else ()))
        if metric in known:
            continue
        owners = [other.name for other in KINDS if metric in _scores(other, has_copy=True)]
        why = did_you_mean(metric, known)
        if owners:
            is_here = owners == [kind.name]
            needs = "a perturbed data set, which a search does not leave" if is_here else None
            why = f"; it needs {needs or ' or '.join(owners)}"
        raise UsageError(
            f"{name}: no row of {part.label!r} on {kind.name} has the metric {metric!r}{why} "
            f"(there are: {', '.join(known)})"
        )
