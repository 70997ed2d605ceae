"""Tuning finds the n at which a planted victim is weak, and its honesty is what it says."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from medstress.api.run import tune
from medstress.attacks.samplers import gumbel_noise, gumbel_top_k, log_weights
from medstress.entities.embeddings import Embedder
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.vocabularies import load_synonyms, load_vocabulary
from medstress.experiment.config import GRID
from medstress.testing import REPLACEMENTS, tiny_questions
from question_rows import as_row, swap_tables

ITEMS = tiny_questions(60)
KEYS = sorted({item.key_text for item in ITEMS})
ENDINGS = ("zol", "vir", "mab", "tin", "pam", "cin", "lax", "dene", "fen", "gest")
NAMES = (
    *(f"{a}{b}" for a in REPLACEMENTS for b in ("", "yl", "ium", "an")),
    *(f"{key[:6].lower()}{ending}" for key in KEYS for ending in ENDINGS),
)
VALUES = [-100.0, -20.0, -2.0, 1.0, 40.0]

VICTIM = """
from medstress.testing import planted, tiny_questions

ITEMS = tiny_questions(60)
WEAK = {weak!r}
rule = planted(
    ITEMS,
    lambda item, options: options != item.options
    and any(option.lower() in WEAK[item.key_text] for option in options),
)

def answer(prompts):
    return rule(prompts)
"""


def distances(folder):
    """h(key, name) of every key and name, as the run will see it."""
    vocabulary = load_vocabulary(str(folder / "names.txt"), folder, None)
    embedder = Embedder("vectors.txt", None, base=folder)
    names = VectorPerturbationSet(vocabulary, embedder, load_synonyms("default", folder), "cosine")
    names.prepare(KEYS, [])
    return {key: dict(zip(names.names, names.distances(key), strict=True)) for key in KEYS}


def tuned(folder, weak):
    rows = [as_row(item) for item in ITEMS]
    source, arms = VICTIM.format(weak=weak), [{"budget": 1}]
    tables = swap_tables(folder, source, rows, NAMES, arms, seeds=[0, 1], flip_check=False)
    tables["entities"][0]["embedding"] = str(folder / "vectors.txt")
    return tune({**tables, "tune": {"share": 0.5, "grid": VALUES}}, out=folder / "run")


def test_tuning_finds_the_exponent_at_which_the_victim_is_weak(tmp_path):
    """The nearest name breaks nothing, the next ones do; the farthest ones do as well.

    So an exponent far below 0 draws the harmless name, one near 0 too many harmless ones, and
    of the positive ones the largest is best. The expected rates are computed here from Eq. 2.
    """
    (tmp_path / "names.txt").write_text("\n".join(NAMES), "utf-8")
    words = sorted({word.lower() for text in (*NAMES, *KEYS) for word in text.split()})
    drawn = np.random.default_rng(0).standard_normal((len(words), 6))
    lines = (f"{w} {' '.join(map(str, row))}" for w, row in zip(words, drawn.tolist(), strict=True))
    (tmp_path / "vectors.txt").write_text("\n".join(lines), "utf-8")
    weak, expected = {}, dict.fromkeys(VALUES, 0.0)
    for key, by_name in distances(tmp_path).items():
        order = sorted(by_name, key=lambda name: by_name[name])
        weak[key] = [name.lower() for name in (*order[1:10], *order[-6:])]
        h = np.array([by_name[name] for name in order])
        hit = np.array([name.lower() in weak[key] for name in order])
        for n in VALUES:
            p = np.exp(log_weights(h, n) - np.logaddexp.reduce(log_weights(h, n)))
            expected[n] += float(p[hit].sum()) / len(KEYS)
    best = {
        "n < 0": max((n for n in VALUES if n < 0), key=lambda n: expected[n]),
        "n > 0": max((n for n in VALUES if n > 0), key=lambda n: expected[n]),
    }
    assert min(VALUES) < best["n < 0"] < 0 < best["n > 0"]
    found = tuned(tmp_path, weak).tuning.summary()["tuning"]
    assert {choice["regime"]: choice["n"] for choice in found["choices"]} == best
    for point in found["grids"][0]["points"]:
        estimate = point["estimate"]
        assert estimate["value"] == pytest.approx(expected[point["n"]], abs=0.25)


def test_the_noise_does_not_depend_on_n_so_that_neighbouring_values_draw_alike():
    """Common random numbers: values of n share far more draws than with noise of their own."""
    h = np.random.default_rng(0).uniform(0.2, 1.0, 300)

    def in_common(*, shared):
        n_same = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            noise = gumbel_noise(rng, h.size)
            first = gumbel_top_k(log_weights(h, -5.0), noise, 8)
            other = noise if shared else gumbel_noise(rng, h.size)
            n_same += len(set(first) & set(gumbel_top_k(log_weights(h, -10.0), other, 8)))
        return n_same

    assert in_common(shared=True) > 3 * in_common(shared=False)


def simulation():
    path = Path(__file__).resolve().parents[2] / "validation" / "tuning.py"
    spec = importlib.util.spec_from_file_location("simulated_tuning", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_maximum_on_the_same_items_is_optimistic_and_the_held_out_rate_is_not():
    """n changes nothing for this victim: whatever the best n shows above the truth is optimism.

    Held out: 25 experiments x 2 regimes of 32 items; standard error below .15 * .85 / 32 / 25
    to the half = .013 even if both regimes chose alike, so .04 is three of them.
    """
    simulated = simulation()
    found = simulated.simulate(40, 25, seed=1)
    assert found["same_items"] > found["held_out"] + 0.02
    assert found["tuning_split"] > found["held_out"] + 0.05
    assert found["held_out"] == pytest.approx(simulated.RATE, abs=0.04)
    assert simulated.GRID == GRID
