"""All that a run says, in the order of the page; `summary --json` in format 3 (INTERFACE 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.analyses.as_json import Json, as_json
from medstress.analyses.attempts import ATTEMPTS
from medstress.analyses.cautions import CAUTIONS, unread_models
from medstress.analyses.coverage import NAMES
from medstress.analyses.explanations import EXPLANATIONS
from medstress.analyses.faithfulness import FAITHFULNESS
from medstress.analyses.passages import READING
from medstress.analyses.performance import PERFORMANCE
from medstress.analyses.probes import PROBES
from medstress.analyses.requirements import REQUIREMENTS
from medstress.analyses.results import RESULTS
from medstress.analyses.reuse import REUSE
from medstress.analyses.review import REVIEW
from medstress.analyses.run import Analysis, Run
from medstress.analyses.scaling import SCALING
from medstress.analyses.shown import Decision, Remark, Shown
from medstress.analyses.significance import SIGNIFICANCE
from medstress.analyses.slices import SLICES
from medstress.analyses.tests import TESTS
from medstress.analyses.training import TRAINING
from medstress.analyses.transfer import TRANSFER
from medstress.analyses.tuning import TUNING
from medstress.analyses.verdict import VERDICT
from medstress.core.outcomes import Verdict as Ended
from medstress.core.words import listed

FORMAT = 3
ANALYSES: Sequence[Analysis[Shown]] = (
    RESULTS,
    REQUIREMENTS,
    SLICES,
    TESTS,
    SCALING,
    TRANSFER,
    REUSE,
    ATTEMPTS,
    SIGNIFICANCE,
    FAITHFULNESS,
    EXPLANATIONS,
    PROBES,
    READING,
    TRAINING,
    TUNING,
    REVIEW,
)
"""Every capability, in the order of the page: the only list of them."""
PAGE: Sequence[Analysis[Shown]] = (NAMES,)
"""What the page shows beside, and no file holds."""
LISTS = ("slices", "requirements", "tests", "attempts", "significance", "faithfulness")
"""Entries of which JSON has the rows alone."""
ALWAYS = ("slices", "requirements", "tests")
"""Entries that are there, empty, where a run has nothing of the kind."""
COMPLETE = "complete"
"""The name of the case that says whether a run has ended."""
MISSED = 3
"""The exit code of a run that misses a criterion."""
_EXPERIMENT = ("fingerprint", "seeds", "versions", "started", "finished", "complete")


def results_of(run: Run, *, page: bool = False) -> Iterator[tuple[str, Shown]]:
    """Yield name and result of every analysis that applies, in the order of the page.

    Args:
        run: the run.
        page: whether those that the page alone shows are among them.
    """
    for analysis in (*ANALYSES, *(PAGE if page else ())):
        result = run.of(analysis)
        if result is not None:
            yield analysis.name, result


def warnings_of(run: Run) -> list[Remark]:
    """Return what a reader has to know: of the run first, then of each result."""
    cautions = run.of(CAUTIONS)
    shown = [*([cautions] if cautions else []), *(result for _, result in results_of(run))]
    remarks = {
        (remark.sentence, remark.where): remark
        for result in shown
        for remark in result.remarks()
        if remark.level == "warning"
    }
    return list(remarks.values())


def faults_of(run: Run) -> list[Decision]:
    """Return what may have kept a run from measuring: failures, unreadable answers, its end."""
    failed = sum(trial.verdict is Ended.FAILED for trial in run.trials)
    allowed = int(run.manifest["config"]["experiment"].get("max_failed") or 0)
    unread = list(unread_models(run).values())
    checks = (
        ("trials", failed <= allowed, f"{failed:,} trials failed; {allowed:,} may fail"),
        (
            "answers",
            not unread,
            f"not one answer of {listed(unread)} could be read" if unread else "answers are read",
        ),
        (
            COMPLETE,
            run.is_complete,
            "complete" if run.is_complete else "the run is not complete",
        ),
    )
    return [
        Decision(name=name, outcome="ok" if is_ok else "error", sentence=sentence)
        for name, is_ok, sentence in checks
    ]


def decisions_of(run: Run) -> list[Decision]:
    """Return the criteria of a run, then what may have kept it from measuring."""
    criteria = [case for _, result in results_of(run) for case in result.decisions()]
    return [*criteria, *faults_of(run)]


def exit_code(run: Run) -> int:
    """Return 1 where too many trials failed or nothing could be read, else 3 where a criterion is
    missed or cannot be judged, else 0.

    Criteria of a run that goes on are not judged yet.
    """
    if any(case.outcome == "error" and case.name != COMPLETE for case in faults_of(run)):
        return 1
    criteria = [case.outcome for _, result in results_of(run) for case in result.decisions()]
    is_bad = "failed" in criteria or (run.is_complete and "error" in criteria)
    return MISSED if is_bad else 0


def summary(run: Run) -> dict[str, Json]:
    """Return the summary of a run, finished or not, as JSON values."""
    experiment = {"name": run.name, **{name: run.manifest[name] for name in _EXPERIMENT}}
    entries: dict[str, Json] = {name: [] for name in ALWAYS}
    for name, result in results_of(run):
        if name != RESULTS.name:
            made = as_json(result)
            entries[name] = made["rows"] if name in LISTS else made
    results = run.of(RESULTS)
    return {
        "format": FORMAT,
        "experiment": experiment,
        "root": run.folder.root,
        "verdict": as_json(run.of(VERDICT)),
        "results": [_pooled(as_json(row)) for row in results.rows] if results else [],
        "by_seed": [_of_seed(as_json(row)) for row in results.by_seed()] if results else [],
        **entries,
        "warnings": [
            {"rule": remark.rule, "sentence": remark.sentence, "where": list(remark.where)}
            for remark in warnings_of(run)
        ],
        "performance": as_json(run.of(PERFORMANCE)),
    }


def _pooled(row: dict[str, Json]) -> dict[str, Json]:
    """Leave out what only control rows carry."""
    return row if row["control_of"] is not None else _without(row, "control_of")


def _of_seed(row: dict[str, Json]) -> dict[str, Json]:
    """Return a row of one seed: null for an attack without random numbers."""
    return {**_pooled(_without(row, "seeds")), "seed": row["seeds"][0]}


def _without(row: dict[str, Json], name: str) -> dict[str, Json]:
    return {key: value for key, value in row.items() if key != name}
