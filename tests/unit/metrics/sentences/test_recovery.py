"""The recovered share of a loss, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.metrics.sentences.entity_scores import measured
from medstress.metrics.sentences.recovery import Four, Measured, recovery


def scored(right: list[int], asked: int = 10) -> Measured:
    sums = np.array([[r, asked, asked] for r in right], dtype=np.float64)
    value, drawn = measured(sums, "precision")
    return Measured(value=value, drawn=drawn)


def test_the_share_is_the_gain_over_the_loss_and_clusters_are_drawn_together() -> None:
    clean = [9, 8, 10, 9, 7, 9]
    four = Four(
        clean=scored(clean),
        attacked=scored([n - 4 for n in clean]),
        trained_clean=scored([n - 1 for n in clean]),
        trained_attacked=scored([n - 2 for n in clean]),
    )
    found = recovery(four, 6)
    assert found["clean_loss"]["value"] == pytest.approx(0.1)
    assert found["gain"]["value"] == pytest.approx(0.2)
    assert found["recovered"]["value"] == pytest.approx(0.5)
    # The same difference in every cluster has no width, which is no interval of 95 %.
    for name in ("clean_loss", "gain", "recovered"):
        assert (found[name]["low"], found[name]["high"]) == (None, None)
        assert "all resamples agree" in found[name]["method"]
    assert found["clean"]["low"] < found["clean"]["value"] < found["clean"]["high"]


def test_no_share_is_told_of_a_loss_that_is_not_clear_of_zero() -> None:
    clean = [9, 8, 10, 9, 7, 9]
    four = Four(
        clean=scored(clean),
        attacked=scored([10, 7, 10, 9, 6, 9]),
        trained_clean=scored(clean),
        trained_attacked=scored(clean),
    )
    found = recovery(four, 6)
    assert found["recovered"]["value"] is None
    assert "not clear of zero" in found["recovered"]["method"]
    assert found["gain"]["value"] is not None


def test_an_undefined_score_leaves_the_rest_unknown() -> None:
    nothing = Measured(value=None, drawn=np.zeros(0))
    four = Four(
        clean=scored([9, 8]),
        attacked=nothing,
        trained_clean=scored([9, 8]),
        trained_attacked=nothing,
    )
    found = recovery(four, 2)
    assert found["clean"]["value"] == 0.85
    assert found["clean_loss"]["value"] == 0.0
    assert (
        found["gain"]["value"] is found["recovered"]["value"] is found["attacked"]["value"] is None
    )
