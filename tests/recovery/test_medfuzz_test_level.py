"""The tests of successes keep their level under planted nulls and find planted effects."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from medstress.analyses.significance import LEVEL, Statistic

SCRIPT = Path(__file__).parents[2] / "validation" / "medfuzz_test.py"


def _load():
    spec = importlib.util.spec_from_file_location("medfuzz_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SIMULATION = _load()
TARGETS = list(SIMULATION.TARGETS)


@pytest.mark.parametrize("statistic", list(Statistic))
def test_matched_holds_its_level_over_attacked_items(statistic):
    families = [one for target in TARGETS for one in SIMULATION.null_families(target, statistic, 1)]
    n = sum(one.n_attacked for one in families)
    rejected = sum(p <= LEVEL for one in families for p in one.p.values())
    # Within three standard errors of the level.
    assert rejected / n <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / n)


def test_a_writer_with_few_texts_makes_no_discovery_of_them():
    for target in ("C", "E"):
        (name,) = (one for one in TARGETS if one.startswith(target))
        (family,) = SIMULATION.null_families(name, Statistic.SHARE_CORRECT, 1, repertoire=30)
        assert min(family.p.values()) > LEVEL


@pytest.mark.parametrize("flips", [0.02, 0.10])
@pytest.mark.parametrize("only_real", [True, False])
def test_most_of_seven_real_successes_among_twenty_five_attacked_items_are_found(flips, only_real):
    for repetition in range(2):
        family = SIMULATION.planted_family(flips, repetition, only_real=only_real)
        assert len(family.discoveries() & SIMULATION.REAL) >= 5
