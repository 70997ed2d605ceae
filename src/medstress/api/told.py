"""What a run says of itself, in print and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from medstress.analyses.run import Run
from medstress.analyses.summary import faults_of, results_of, warnings_of
from medstress.analyses.verdict import VERDICT


def told(run: Run) -> Iterator[str]:
    """Yield the verdict, whether criteria are met, whether the run is complete, and what failed."""
    verdict = run.of(VERDICT)
    yield from verdict.lines if verdict is not None else ()
    for _, result in results_of(run):
        yield from (f"{case.sentence}." for case in result.decisions())
    yield "Complete." if run.is_complete else "Not complete: run the same again to resume."
    for fault in faults_of(run):
        if fault.name == "trials" and fault.outcome == "error":
            yield (
                f"{fault.sentence}, so the numbers do not count: mend the cause, then run the "
                "same again with retry_failed=True."
            )
    yield from dict.fromkeys(one.sentence for one in warnings_of(run) if one.rule == "failed")
