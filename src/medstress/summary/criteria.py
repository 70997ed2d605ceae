"""The slices of a run, and its criteria judged: `slices` and `requirements` of a summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.analyses.requirements import outcomes
from medstress.analyses.slices import POST_HOC
from medstress.core.errors import MedstressError
from medstress.core.rows import TrialRow
from medstress.metrics.against import difference, paired
from medstress.metrics.counts import is_unattacked
from medstress.metrics.criteria import (
    NOT_COMPLETE,
    Evidence,
    Place,
    Reading,
    Row,
    control_rows,
    judge,
    place_of,
)
from medstress.metrics.old_stats.shrinkage import SHRINKAGE
from medstress.metrics.slices import WIDE, is_too_small, slice_rows, worst_slices
from medstress.metrics.vouched import FIRST
from medstress.results.formats import plural, shorten
from medstress.results.load import StoredRun, open_run
from medstress.results.measures import measure
from medstress.results.rows import trial_rows
from medstress.results.table import Format
from medstress.running.baselines import baseline_folder, baseline_of, victim_there
from medstress.running.criteria import KEY
from medstress.summary.item_slices import slices_of
from medstress.summary.reviews import rater_lines, unbelieved

NO_BASELINE = "the baseline "
"""Begins every reason that the state of another folder gives."""
_SHOWN = 3
_LONGEST = 60
"""Characters of a slice's value in a warning."""


def add_decisions(
    run: StoredRun, trials: Sequence[TrialRow], found: dict[str, Any], budgets: Mapping[str, int]
) -> None:
    """Add slices and judged criteria to a summary.

    Args:
        run: the run.
        trials: its rows.
        found: its summary; `slices`, `slicing`, `requirements` and `warnings` change.
        budgets: query budget by attack label.
    """
    described = run.manifest.get("slices")
    if described:
        _add_slices(run, trials, found, budgets, described)
    fixed = run.manifest.get(KEY)
    if fixed:
        found["requirements"] = _requirements(run, trials, found, budgets, fixed)


def _add_slices(
    run: StoredRun,
    trials: Sequence[TrialRow],
    found: dict[str, Any],
    budgets: Mapping[str, int],
    described: Mapping[str, Any],
) -> None:
    items, controls = run.items_by_id(), control_rows(found["pooled"])

    def of_trial(row: TrialRow) -> list[tuple[str, str]]:
        item = items[row.dataset, row.item_id]
        return list(slices_of(item, described, row.dataset, row.group))

    found["slices"] = slice_rows(trials, of_trial, budgets, controls)
    attacked = {row.attack for row in trials if not is_unattacked(row)}
    rows = [row for row in found["slices"] if row["attack"] in attacked]
    found["slicing"] = {
        "by": list(described["by"]),
        "label": described["label"],
        "cuts": described["cuts"],
        "shrinkage": SHRINKAGE,
        "worst": worst_slices(rows),
    }
    if described["label"] == POST_HOC:
        found["warnings"].append(
            "the slices are post hoc: [slices] was added or changed after the first query, so a "
            "bad slice may have been chosen because it is bad"
        )
    small = [row for row in rows if is_too_small(row)]
    if small:
        names = dict.fromkeys(
            f"{row['by']} = {shorten(str(row['value']), _LONGEST)}" for row in small
        )
        shown = ", ".join([*names][:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        found["warnings"].append(
            f"{len(small)} of {len(rows)} slices have too few items to say anything: their "
            f"interval of ASR is wider than {WIDE:g} ({shown})"
        )


def _requirements(
    run: StoredRun,
    trials: Sequence[TrialRow],
    found: Mapping[str, Any],
    budgets: Mapping[str, int],
    fixed: Mapping[str, Any],
) -> list[dict[str, Any]]:
    by_place: dict[Place, list[TrialRow]] = defaultdict(list)
    for row in trials:
        by_place[row.dataset, row.group, row.victim, row.attack].append(row)
    baselines = _Baselines(Path(run.manifest["base"]), fixed["baselines"])

    def compare(criterion: Row, row: Row) -> Reading:
        budget = criterion.get("at_budget") or budgets[row["attack"]]
        return baselines.read(criterion, row, by_place[place_of(row)], budget)

    evidence = Evidence(
        pooled=found["pooled"],
        slices=found["slices"],
        trials=by_place,
        is_share=lambda name: (
            measure(name.rpartition(".")[2]).format is Format.SHARE or name == "asr_valid"
        ),
        compare=compare,
    )
    n = fixed.get("extended", 0)
    cautions = [f"items were added {plural(n, 'time')} after the first query"] if n else []
    judged = [_with_caution(judge(each, evidence), found, cautions) for each in fixed["criteria"]]
    if found["experiment"]["complete"]:
        return judged
    return [{**each, "met": None, "reason": NOT_COMPLETE, "fault": False} for each in judged]


def _with_caution(
    judged: dict[str, Any], found: Mapping[str, Any], cautions: Sequence[str]
) -> dict[str, Any]:
    """Add that the run was extended, and why the word of the reviewers may be worth little.

    And what labels were missing; and, of an upper limit, which success it is of: a
    search that ended at an invalid one might have found a valid one.
    """
    lines = [*cautions, *(_of_validity(judged, found) if judged["metric"] == "asr_valid" else ())]
    return {**judged, "caution": "; ".join(lines)} if lines else judged


def _of_validity(judged: Row, found: Mapping[str, Any]) -> list[str]:
    rows = [
        row for row in found["pooled"] if place_of(row) == tuple((judged["row"] or {}).values())
    ]
    review = found.get("review")
    # Raters who are not believed are why nothing vouches, if nothing does.
    is_theirs = review and any(row["asr_valid"] or unbelieved(review) for row in rows)
    lines = rater_lines(review) if review and is_theirs else []
    lines += [line for row in rows for line in _open_labels(row["asr_valid"] or {})]
    n_censored = sum(row["n_censored"] for row in rows)
    if "max_high" in judged["bound"] and n_censored:
        lines.append(
            f"{plural(n_censored, 'search', 'searches')} ended at a success that is not valid and "
            f"might have found a valid one: the rate is that {_truth(rows)}, and only "
            "asr_valid_bounds is of any within the budget"
        )
    return lines


def _truth(rows: Sequence[Row]) -> str:
    """Return what the rates of rows are of, in words."""
    said = [(row.get("validity") or {}).get("truth") or FIRST for row in rows]
    return " and ".join(dict.fromkeys(said))


def _open_labels(valid: Row) -> Iterator[str]:
    """Say how many labels are missing that were asked for."""
    if n := valid.get("n_unlabelled"):
        what = plural(n, "success", "successes")
        yield f"{what} of the sample without a label: invalid or valid, whichever is worse"


class _Baselines:
    """The baseline runs of criteria, each read once."""

    def __init__(self, base: Path, known: Mapping[str, Mapping[str, str]]) -> None:
        self._base, self._known = base, known
        self._rows: dict[str, tuple[Sequence[TrialRow], str | None]] = {}

    def read(self, criterion: Row, row: Row, trials: Sequence[TrialRow], budget: int) -> Reading:
        """Return the difference of a row to its baseline."""
        against, place = criterion["against"], place_of(row)
        theirs, reason = self._trials(against["run"])
        victims = dict.fromkeys(each.victim for each in theirs)
        other = victim_there(row["victim"], victims)
        more = {"against": {**against, "victim": other}}
        pairs = paired(
            trials,
            (
                each
                for each in theirs
                if (each.dataset, each.group, each.attack) == (place[0], place[1], place[3])
                and each.victim == other
            ),
        )
        if reason is None and not pairs:
            reason = "the baseline has none of its trials"
        if reason is not None:
            return Reading(place=place, estimate=None, reason=reason, more=more)
        estimate, ends = difference(criterion["metric"], pairs, budget)
        return Reading(place=place, estimate=estimate.as_json(), ends=ends, more=more)

    def _trials(self, run: str) -> tuple[Sequence[TrialRow], str | None]:
        """Return the rows of a baseline, or why they cannot be used."""
        if run not in self._rows:
            self._rows[run] = self._opened(run)
        return self._rows[run]

    def _opened(self, run: str) -> tuple[Sequence[TrialRow], str | None]:
        try:
            baseline = baseline_of(self._base, run)
            with open_run(baseline_folder(self._base, run)) as stored:
                rows = trial_rows(stored)
        except MedstressError as error:
            return (), f"{NO_BASELINE}cannot be read: {error}"
        if outcomes(baseline.trials) != self._known[run]["outcomes"]:
            return (), f"{NO_BASELINE}{run} has changed since the first query"
        return rows, None
