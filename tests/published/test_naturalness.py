"""The limits of naturalness on the clean options of docs/results/naturalness.md."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from medstress.attacks.naturalness import Natural
from medstress.stats.shares import rate

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.release


def test_the_shipped_limits_are_those_measured_and_hold_on_options_not_fitted(
    published: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    qa = published("qa/medqa_train_part.jsonl").parent
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(
        "naturalness_page", FOLDER / "naturalness_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "naturalness_page", page)
    spec.loader.exec_module(page)
    pairs = page.all_pairs(page.read(qa))
    assert page.calibrate([pair for pair in pairs if pair.data.endswith(page.FITTED)]) == Natural()
    for data in {pair.data for pair in pairs}:
        for group in page.GROUPS:
            passed = [
                (pair.item, pair.passes(Natural()))
                for pair in pairs
                if (pair.data, pair.group) == (data, group)
            ]
            share = rate(passed)
            assert share.value is not None
            assert share.value >= page.PASS
