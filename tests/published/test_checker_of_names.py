"""The checker of names on RABBITS, a sample of the pairs of docs/results/checker.md."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from medstress.checking.checkers import Rules
from medstress.checking.measure import measure

PAGE = Path(__file__).parents[2] / "benchmarks" / "checker_page.py"
EVERY = 20
pytestmark = pytest.mark.release


def test_the_rules_place_brands_and_refuse_look_alikes(published: Callable[[str], Path]) -> None:
    path = published("vocab/rabbits_generic_to_brand.csv")
    spec = importlib.util.spec_from_file_location("checker_page", PAGE)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    pairs = page.rabbits_pairs(path, every=EVERY)
    (row, *_) = measure(pairs, Rules().check([(pair.a, pair.b) for pair in pairs]))
    assert row.n_pairs == 2 * 215
    for share, target in ((row.coverage, 0.36), (row.sensitivity, 0.95), (row.specificity, 0.98)):
        assert share.high is not None
        assert share.high >= target
