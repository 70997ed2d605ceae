"""What a reader is told of questions that were not answered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from medstress.report.significance import significance_plots
from medstress.summary.analyses import remarks


def reader_of(*purposes: str) -> SimpleNamespace:
    asked = [SimpleNamespace(purpose=one, note="no answer") for one in purposes]
    asked.append(SimpleNamespace(purpose="transfer", note=None))
    return SimpleNamespace(manifest={"config": {}, "victims": {}}, inquiries=lambda: iter(asked))


@pytest.mark.parametrize(
    ("purposes", "said"),
    [
        ((), []),
        (("transfer", "universality"), ["2 queries of the analyses failed"]),
        # The tests say so themselves, success by success.
        (("test",), []),
        (("judge", "judge", "test"), ["the reasonings of 2 trials could not be fully judged"]),
    ],
)
def test_what_was_not_answered_is_told_by_what_it_was_for(purposes, said):
    found = remarks(reader_of(*purposes))  # type: ignore[arg-type]
    assert len(found) == len(said)
    assert all(text.startswith(begin) for text, begin in zip(found, said, strict=True))


def test_a_family_of_which_nothing_could_be_tested_has_no_histogram():
    family = {"null": "neutral", "histogram": [0] * 20}
    tested = {"null": "matched", "histogram": [2] + [0] * 19}
    summary = {"significance": [family | {"n_tested": 0}, tested | {"n_tested": 2}]}
    (plot,) = significance_plots(summary)
    assert plot.data.caption == "p-values, null matched"
