"""One root for one experiment with the same answers."""

import json
import re

import pytest

from forged import rebuild
from medstress.experiment.verify import verify_folder
from medstress.store.chain import plan_of
from medstress.store.trials import Folder


@pytest.fixture
def small(bench):
    """Two attacks, so that a run takes a moment."""
    bench.tables["attack"] = bench.tables["attack"][:2]
    return bench


def root(folder):
    return Folder(folder).root


def test_batches_folders_and_the_order_of_seeds_leave_the_root_as_it_is(small):
    assert small.run() == 0
    expected = root(small.out)
    assert len(expected) == 32
    for size, seeds in ((1, [0, 1]), (8, [1, 0])):
        small.tables["victim"][0]["batch_size"] = size
        small.tables["experiment"]["seeds"] = seeds
        out = small.root / "elsewhere" / str(size)
        assert small.run(out=out) == 0
        assert root(out) == expected


PART = {"model": "a/gpt-8", "parameters": 7, "family": "F", "price_in": 1}


@pytest.mark.parametrize(
    ("table", "key", "value", "counts"),
    [
        ("victims", "model", "gpt-9", True),
        ("victims", "model", "/elsewhere/gpt-8", False),
        ("victims", "parameters", 8, True),
        ("victims", "price_in", 2, False),
        ("groups", "n_names", 3, True),
        ("groups", "hash", "2", True),
    ],
)
def test_a_root_covers_what_was_measured_wherever_it_was(table, key, value, counts):
    before, after = {table: {"one": PART}}, {table: {"one": {**PART, key: value}}}
    assert (plan_of(before) != plan_of(after)) is counts


def test_an_extended_run_has_the_root_of_one_at_once(small):
    small.tables["analysis"] = {"prompt_similarity": True, "embedder": "ngram"}
    assert small.run() == 0
    attacks, seeds = small.tables["attack"], small.tables["experiment"]["seeds"]
    out = small.root / "extended"
    small.tables["experiment"]["seeds"], small.tables["attack"] = seeds[:1], attacks[1:]
    assert small.run("--limit", "6", out=out) == 0
    first = root(out)
    small.tables["experiment"]["seeds"], small.tables["attack"] = seeds, attacks
    assert small.run("--set", "experiment.max_queries=40", out=out) == 0
    assert root(out) is None, "it goes on"
    assert small.run(out=out) == 0
    assert root(out) == root(small.out) != first
    assert verify_folder(out).roots == [first, root(small.out)]
    rebuild(
        small.out, "UPDATE findings SET value = json_replace(value, '$[1]', 0.123) WHERE id = 2"
    )
    told = str(verify_folder(small.out).broken)
    assert re.match(
        r"table findings, row 2: expected of trial \d+ the similarity .*, found .*0.123", told
    )


def test_the_summary_is_kept_with_its_root(small):
    assert small.run("--set", "experiment.max_queries=5") == 0
    assert not (small.out / "summary.json").exists()
    assert small.summary()["root"] is None
    assert small.run() == 0
    kept = json.loads((small.out / "summary.json").read_text("utf-8"))
    assert kept == json.loads(json.dumps(small.summary()))
    assert kept["root"] == root(small.out)
