"""Judge acceptance criteria by the ends of intervals, at the worst that open answers allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from medstress.core.controls import BETWEEN, arm_label
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.bounds import asr_bounds, is_open_at_baseline, lacks_answers
from medstress.metrics.counts import is_eligible, is_never_asked, is_unattacked
from medstress.metrics.old_stats.estimates import is_estimate
from medstress.metrics.success import at_budget
from medstress.metrics.vouched import NOTHING_VOUCHES

Row: TypeAlias = Mapping[str, Any]
Ends: TypeAlias = tuple[float | None, float | None]
"""Both ends of an interval, open answers at their worst; None where an end is unknown."""
Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""

"""Stands between the labels of an attack and of its control."""
PLACE = ("dataset", "group", "victim", "attack")
_OF_ATTACKS = ("asr", "accuracy_after")
"""Begin the metrics that say nothing where nothing was attacked."""
NOT_COMPLETE = "the run is not complete, so nothing is judged yet"
UNASKED = "no trial counts towards it"
NOTHING_ATTACKED = "nothing was attacked, so no loss was measured"
UNREAD = "nothing could be counted, because calls failed or no answer was readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a criterion reads in one row."""

    place: Place
    """The row."""
    estimate: Row | None
    """As in `summary --json`; None if the row has none."""
    ends: Ends = (None, None)
    """Ends of its interval."""
    reason: str | None = None
    """Why it cannot meet the criterion, whatever its ends."""
    more: Row = field(default_factory=dict)
    """More entries of the result: which slice, which control, which baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What criteria read."""

    pooled: Sequence[Row]
    """The rows pooled over seeds."""
    slices: Sequence[Row]
    """The rows of slices."""
    trials: Mapping[Place, Sequence[TrialRow]]
    """The trials behind each row."""
    is_share: Callable[[str], bool]
    """Whether a metric is a share of trials, so that each open answer moves it by 1/n at most."""
    compare: Callable[[Row, Row], Reading]
    """(criterion, row) -> the difference to the criterion's baseline."""


def judge(criterion: Row, evidence: Evidence) -> dict[str, Any]:
    """Judge one criterion on every row that it is about; all of them must meet its limit.

    Args:
        criterion: as `RequireTable.as_json` returns it.
        evidence: what it reads.

    Returns:
        The row of `requirements` in `summary --json`. Estimate, ends and place are those of the
        row that is worst off.
    """
    readings = list(_readings(criterion, evidence))
    limit = bound_of(criterion)
    told: dict[str, Any] = {
        "metric": criterion["metric"],
        "at_budget": criterion.get("at_budget"),
        "where": dict(criterion.get("where", {})),
        "bound": limit,
        "control": criterion.get("control"),
        "slice": criterion.get("slice"),
        "against": criterion.get("against"),
        "n_rows": len(readings),
        "fault": False,
    }
    if not readings:
        nothing = "no row of the run is what `where` asks for"
        return {**told, "row": None, "estimate": None, "bounds": None, "met": False} | {
            "reason": nothing
        }
    faults = [each for each in readings if is_fault(criterion, each, evidence)]
    measured = [
        each
        for each in readings
        if each not in faults and why_missed(each, limit) not in (None, NOTHING_ATTACKED)
    ]
    # What was measured and missed is told before what could not be measured.
    worst = max(measured or readings, key=lambda reading: _distance(reading, limit))
    missed = why_missed(worst, limit)
    is_unattacked = missed == NOTHING_ATTACKED and not faults
    if missed is not None and not measured and not is_unattacked:
        missed = UNREAD
    return {
        **told,
        **worst.more,
        "row": dict(zip(PLACE, worst.place, strict=True)),
        "estimate": None if worst.estimate is None else _plain(worst.estimate),
        "bounds": list(worst.ends),
        "met": None if is_unattacked else missed is None,
        "reason": missed,
        "fault": missed == UNREAD,
    }


def bound_of(criterion: Row) -> dict[str, float]:
    """Return the limit of a criterion, such as ``{"max_high": 0.2}``."""
    return {key: criterion[key] for key in ("max_high", "min_low") if key in criterion}


def why_missed(reading: Reading, limit: Mapping[str, float]) -> str | None:
    """Return why a reading does not meet a limit; None if it does."""
    if reading.reason is not None:
        return reading.reason
    if reading.estimate is None or reading.estimate["value"] is None or not reading.estimate["n"]:
        return UNASKED
    low, high = reading.ends
    if "max_high" in limit:
        if high is None:
            return "it has no upper end"
        if high > limit["max_high"]:
            return f"its upper end is {high:.3f}, above {limit['max_high']:g}"
        return None
    if low is None:
        return "it has no lower end"
    return (
        f"its lower end is {low:.3f}, below {limit['min_low']:g}"
        if low < limit["min_low"]
        else None
    )


def is_fault(criterion: Row, reading: Reading, evidence: Evidence) -> bool:
    """Return whether failed calls or unreadable answers left nothing in a row to count.

    That is a fault of the run and no finding about the victim.
    """
    place = reading.place
    own = evidence.trials.get(place, ())
    control = reading.more.get("control")
    theirs = evidence.trials.get((*place[:3], arm_label(place[3], control)), ()) if control else ()
    if any(
        all(_gave_nothing(row, criterion["metric"]) for row in asked)
        for rows in (own, theirs)
        if (asked := [row for row in rows if row.verdict is not Verdict.NOT_ATTACKABLE])
    ):
        return True
    if reading.estimate is None or reading.estimate["n"]:
        return False
    is_whole = "slice" not in criterion
    return reading.ends != (None, None) or (is_whole and any(map(is_open_at_baseline, own)))


def _gave_nothing(row: TrialRow, metric: str) -> bool:
    """Return whether a trial has no answer to count: none to the clean item, or none after it."""
    is_failed = metric != "accuracy" and row.verdict is Verdict.FAILED
    return is_open_at_baseline(row) or is_failed


def _distance(reading: Reading, limit: Mapping[str, float]) -> tuple[bool, float]:
    """Return a sort key: rows that cannot meet the limit last, then by how far off they are."""
    low, high = reading.ends
    end = high if "max_high" in limit else low
    if reading.reason is not None or reading.estimate is None or end is None:
        return True, 0.0
    return False, end - limit["max_high"] if "max_high" in limit else limit["min_low"] - end


def _plain(estimate: Row) -> dict[str, Any]:
    return {name: estimate[name] for name in ("value", "n", "low", "high", "method")}


def matches(criterion: Row, row: Row) -> bool:
    """Return whether a criterion is about a row, or a label of `where` differs."""
    return all(row[key] == label for key, label in criterion.get("where", {}).items())


def control_rows(rows: Sequence[Row]) -> set[str]:
    """Return the labels of attacks that are controls of others: ``<attack> / <control>``.

    Criteria judge them only if `where` names them.
    """
    labels = {row["attack"] for row in rows}
    return {label for label in labels if is_arm(label, labels)}


def is_arm(label: str, labels: Collection[str]) -> bool:
    """Return whether an attack is a control of another, by their labels."""
    return label.rpartition(BETWEEN)[0] in labels


def _readings(criterion: Row, evidence: Evidence) -> Iterator[Reading]:
    named = criterion.get("where", {}).get("attack")
    controls = control_rows(evidence.pooled) - {named}
    sliced = criterion.get("slice")
    rows = evidence.pooled if sliced is None else evidence.slices
    for row in rows:
        if row["attack"] in controls or not matches(criterion, row):
            continue
        if sliced is not None and (
            row["by"] != sliced["by"] or sliced.get("value") not in (None, row["value"])
        ):
            continue
        if criterion["metric"].startswith(_OF_ATTACKS) and _saw_no_edit(row, evidence):
            yield Reading(place=place_of(row), estimate=None, reason=NOTHING_ATTACKED)
        elif sliced is not None:
            yield _of_slice(criterion, row)
        elif "against" in criterion:
            yield evidence.compare(criterion, row)
        else:
            yield _of_row(criterion, row, evidence)


def _saw_no_edit(row: Row, evidence: Evidence) -> bool:
    """Return whether no trial of a row showed the victim an edit, and none failed to."""
    trials = evidence.trials.get(place_of(row), ())
    if any(map(is_unattacked, trials[:1])):
        return True
    attacked = [trial for trial in trials if is_eligible(trial)]
    return bool(attacked) and all(
        is_never_asked(trial) and trial.verdict == Verdict.HELD for trial in attacked
    )


def place_of(row: Row) -> Place:
    """Return (data set, group, victim, attack) of a row."""
    return row["dataset"], row["group"], row["victim"], row["attack"]


def _of_slice(criterion: Row, row: Row) -> Reading:
    about = {"slice": {"by": row["by"], "value": row["value"]}}
    return _found(criterion, row, row, about)


def _of_row(criterion: Row, row: Row, evidence: Evidence) -> Reading:
    budget = criterion.get("at_budget")
    if budget is None:
        return _found(criterion, row, row, {}, evidence)
    point = at_budget(row["asr_at"], budget)
    if point is None:
        most = row["asr_at"][-1]["budget"] if row["asr_at"] else 0
        reason = f"the attack asks at most {most} queries, so its rate at {budget} is unknown"
        return Reading(place=place_of(row), estimate=None, reason=reason)
    if criterion["metric"] == "asr":
        low, high = asr_bounds(evidence.trials[place_of(row)], budget)
        return Reading(place=place_of(row), estimate=point, ends=(low, high))
    return _found(criterion, row, point, {}, evidence)


def _found(
    criterion: Row,
    row: Row,
    holder: Row,
    more: Row,
    evidence: Evidence | None = None,
) -> Reading:
    """Read a metric and its worst ends from a row, a point of `asr_at` or a slice."""
    metric, place = criterion["metric"], place_of(row)
    value, bounds, ends = _field(holder, metric), holder.get(f"{metric}_bounds"), None
    if isinstance(value, Mapping) and not is_estimate(value):
        # One estimate for each control.
        bounds = bounds or {}
        name, reason = _chosen(criterion, value, bounds)
        if reason is not None:
            return Reading(place=place, estimate=None, reason=reason, more=more)
        value, more, bounds = value[name], {**more, "control": name}, bounds.get(name)
    if metric == "asr_valid" and value is None and _is_unhurt(holder):
        # Nothing succeeded, so nobody has anything to vouch for, and no success is invalid.
        value, bounds = holder["asr"], holder["asr_bounds"]
    elif metric == "asr_valid":
        if value is None:
            reason = str((holder.get("validity") or {}).get("why") or NOTHING_VOUCHES)
            return Reading(place=place, estimate=None, reason=reason, more=more)
        # Its own bounds are shares without intervals. Disputed and unlabelled successes count at
        # their worst, and open answers beside them.
        bounds, ends = None, value.get("settled_ends")
    if not is_estimate(value):
        reason = f"the row has no {metric}"
        return Reading(place=place, estimate=None, reason=reason, more=more)
    if bounds is not None:
        low, high = bounds
        return Reading(place=place, estimate=value, ends=(low, high), more=more)
    if ends is None:
        ends = value["low"], value["high"]
    return _by_open_answers(metric, place, value, ends, more, evidence)


def _field(holder: Row, metric: str) -> Any:
    """Return a field; the parts of a nested one are joined by a dot."""
    value: Any = holder
    for part in metric.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _chosen(criterion: Row, by_control: Row, bounds: Row) -> tuple[str, str | None]:
    """Return the control that is read, or why none can be; those that were left out are null."""
    name, metric = criterion.get("control"), criterion["metric"]
    asked = [each for each in by_control if bounds.get(each) or by_control[each]["n"]]
    if name is None and len(asked) == 1:
        return asked[0], None
    if name is None and not asked:
        return "", f"the row has no control, so it has no {metric}"
    if name is None:
        return "", f"the row has several controls: add control = one of {', '.join(asked)}"
    if name not in by_control:
        return name, f"the row has no {metric} of the control {name!r}"
    if name not in asked:
        return name, f"the row has no control {name!r}: {by_control[name]['method']}"
    return name, None


def _is_unhurt(row: Row) -> bool:
    """Return whether no search of a row succeeded, although some were made."""
    return row.get("n_flipped") == 0 and bool(row.get("n_eligible"))


def _by_open_answers(
    metric: str, place: Place, value: Row, ends: Ends, more: Row, evidence: Evidence | None
) -> Reading:
    """Widen ends that leave open answers out by the share of these."""
    low, high = ends
    trials = () if evidence is None else evidence.trials[place]
    n_open = sum(
        is_open_at_baseline(row) or (is_eligible(row) and lacks_answers(row)) for row in trials
    )
    if n_open and value["n"] and low is not None and high is not None:
        if evidence is None or not evidence.is_share(metric):
            reason = (
                f"{n_open} trials have unreadable or missing answers, and how far they could move "
                f"{metric} is unknown"
            )
            return Reading(place=place, estimate=value, reason=reason, more=more)
        low = max(0.0, low - n_open / value["n"])
        high = min(1.0, high + n_open / value["n"])
    return Reading(place=place, estimate=value, ends=(low, high), more=more)
