"""One root for one experiment with the same answers; whatever is changed later shows."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.core.errors import StoreError
from medstress.experiment.audit.verify import verify_folder
from medstress.store.reviews import Review, ReviewStore
from medstress.store.root import plan_of
from medstress.store.run_store import RunStore
from medstress.store.trials import Folder

FILE = "run.sqlite"


@pytest.fixture
def small(bench):
    """Two attacks, so that a run takes a moment."""
    bench.tables["attack"] = bench.tables["attack"][:2]
    return bench


@pytest.fixture(scope="module")
def whole(workbench, tmp_path_factory):
    """A complete run, to be copied."""
    made = workbench.Bench(tmp_path_factory.mktemp("whole"))
    made.tables["attack"] = made.tables["attack"][:2]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 0
    return made.out


def root(folder):
    return Folder(folder).root


def change(folder, *statements):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for each in statements:
            db.execute(each)


def test_batches_folders_and_the_order_of_seeds_leave_the_root_as_it_is(small, whole):
    expected = root(whole)
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
        ("victims", "family", "G", True),
        ("victims", "price_in", 2, False),
        ("roles", "model", "gpt-9", True),
        ("groups", "n_names", 3, True),
        ("groups", "embedding", "minilm", True),
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


def test_other_answers_have_another_root(small, whole):
    victim = small.root / "victim.py"
    victim.write_text(victim.read_text("utf-8").replace("luck < 40", "luck < 41"), "utf-8")
    assert small.run() == 0
    assert root(small.out) != root(whole)


def test_the_summary_is_kept_with_its_root(small):
    assert small.run("--set", "experiment.max_queries=5") == 0
    assert not (small.out / "summary.json").exists()
    assert small.summary()["root"] is None
    assert small.run() == 0
    kept = json.loads((small.out / "summary.json").read_text("utf-8"))
    assert kept == json.loads(json.dumps(small.summary()))
    assert kept["root"] == root(small.out)


def test_reviews_give_another_root_and_all_earlier_ones_are_known(small):
    assert small.run() == 0
    before = root(small.out)
    trial = next(row.trial_id for row in small.rows() if row.verdict == "flipped")
    with ReviewStore(small.out) as store:
        for word in ("yes", "no"):
            one = Review(
                trial_id=trial, reviewer="AB", answers={"key_right": word}, time=f"2026 {word}"
            )
            store.add([one])
    roots = verify_folder(small.out).roots
    assert roots[0] == before
    assert roots[-1] == root(small.out) != before
    assert len(set(roots)) == 3
    change_reviews = sqlite3.connect(small.out / "reviews.sqlite")
    with closing(change_reviews) as db, db:
        db.execute("UPDATE verdicts SET answers = '{}' WHERE id = 1")
    with pytest.raises(StoreError, match="commits, row 1"):
        root(small.out)


FORGED = {
    "a changed verdict": (
        "UPDATE verdicts SET verdict = 'held' WHERE id = 3",
        "table verdicts, row 3: expected digest",
    ),
    "an added trial": (
        "INSERT INTO trials SELECT MAX(id) + 1, 'forged', 1, 1, 9, 0 FROM trials",
        "table trials, row 49: expected the chain's last row 48",
    ),
    "an added finding": (
        "INSERT INTO findings (trial, name, value) VALUES (1, 'distances', '[0, 1]')",
        "table findings, row 1",
    ),
}


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_is_named_by_every_reader(copy, name):
    script, told = FORGED[name]
    change(copy, *script.split(";"))
    with pytest.raises(StoreError) as caught:
        root(copy)
    assert told in str(caught.value)
    assert "`medstress verify " in str(caught.value)
    with pytest.raises(StoreError):
        RunStore(copy)
