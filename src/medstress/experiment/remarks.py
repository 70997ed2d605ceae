"""What is said of an experiment beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medstress.experiment.prepared import Prepared
from medstress.experiment.targets import named_backends, watched_lines


def dry_run_remarks(prepared: Prepared) -> Iterator[str]:
    """Lines: rows that were left out, and what is watched of functions."""
    yield from left_out_lines({part.label: part.loaded.skipped for part in prepared.datasets})
    yield from watched_lines(named_backends(prepared))


def left_out_lines(skipped: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each data set with rows left out: how many, and why the first.

    Args:
        skipped: data set -> one sentence a row.

    >>> list(left_out_lines({"mine": ["rows.jsonl line 3: no key"], "sample": []}))
    ["dataset 'mine': 1 bad row left out (on_bad_row), the first: rows.jsonl line 3: no key"]
    """
    for label, sentences in skipped.items():
        if n := len(sentences):
            rows = "row" if n == 1 else "rows"
            yield (
                f"dataset {label!r}: {n:,} bad {rows} left out (on_bad_row), the first: "
                f"{sentences[0]}"
            )
