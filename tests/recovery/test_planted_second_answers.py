"""Names that are secretly other names of the key: what labels say of valid successes holds."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "validation"
LIMIT = 0.92


@pytest.fixture
def simulated(monkeypatch):
    """The simulation behind docs/results/statistics.md."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("validity")
    sys.modules.pop("validity", None)


@pytest.mark.parametrize(("share", "n_labels"), [(0.2, 50), (0.5, 200)])
def test_labels_cover_the_truth_where_synonyms_are_planted_and_tables_see_none(
    simulated, share, n_labels
):
    found = simulated.cell(share, n_labels, alike=False, runs=30)
    assert found.invalid == pytest.approx(share / (share + (1 - share) / 3), abs=0.03)
    # The tables' own correction says that all are valid: ASR itself, which is far off.
    asr = found.truth / (1 - share / (share + (1 - share) / 3))
    assert asr - found.truth > found.width / 2
    assert found.coverage >= LIMIT - 3 * (0.05 * 0.95 / 30) ** 0.5
