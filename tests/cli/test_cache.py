"""Runs that share answers, and `medstress cache`."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.store.reader import RunReader
from medstress.store.shared_cache import FILE


@pytest.fixture
def shared(bench, medstress):
    """One run that filled a cache."""
    bench.tables["experiment"]["cache"] = "shared"
    assert medstress(*bench.arguments()).code == 0
    return bench.root / "shared"


def damage(folder, n=1):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        db.execute(
            "UPDATE answers SET tokens_in = tokens_in + 1 "
            f"WHERE key IN (SELECT key FROM answers LIMIT {n})"
        )


def outcomes(bench, out):
    return [(row.trial_id, row.verdict, row.n_asked, row.answer_after) for row in bench.rows(out)]


def test_a_second_run_pays_for_nothing_and_says_the_same(bench, medstress, shared, workbench):
    n = len(bench.received())
    other = bench.root / "other"
    assert medstress(*bench.arguments(out=other)).code == 0
    assert len(bench.received()) == n > 10, "the victim was not asked again"
    assert outcomes(bench, other) == outcomes(bench, bench.out)
    first, second = bench.summary(), bench.summary(other)
    asked = workbench.ledger(first)["asked"]
    queries = workbench.ledger(second)
    assert (queries["asked"], queries["paid"], queries["cached"]) == (asked, 0, asked)
    assert second["performance"]["calls"] == 0
    assert second["performance"]["calls_from_cache"] == n == first["performance"]["calls"]
    reader = RunReader(other)
    assert all(exchange.cached for exchange in reader.exchanges())
    reader.close()


def test_a_run_needs_the_cache_no_more_once_it_is_done(bench, medstress, shared):
    other = bench.root / "other"
    medstress(*bench.arguments(out=other))
    shutil.rmtree(shared)
    n = len(bench.received())
    before = bench.summary(other)
    bench.tables["experiment"].pop("cache")
    assert medstress(*bench.arguments(out=other)).code == 0
    assert len(bench.received()) == n
    assert bench.summary(other)["results"] == before["results"]


def test_only_what_a_run_lacks_is_paid_for(bench, medstress, shared, workbench):
    n = len(bench.received())
    bench.tables["attack"] = [bench.attack("random", budget=6)]
    other = bench.root / "other"
    assert medstress(*bench.arguments(out=other)).code == 0
    queries = workbench.ledger(bench.summary(other))
    assert queries["asked"] == queries["paid"] + queries["cached"]
    assert 0 < queries["paid"] <= len(bench.received()) - n
    assert queries["cached"] > 0


def test_failures_are_never_shared(bench, medstress):
    bench.tables["experiment"].update(cache="shared", max_failed=99)
    victim = bench.root / "victim.py"
    good = victim.read_text("utf-8")
    bench.tables["victim"][0]["version"] = "1"
    victim.write_text(good.replace("def _answer(prompt):", "def _answer(prompt):\n    1 / 0"))
    assert medstress(*bench.arguments()).code in (0, 2)
    victim.write_text(good)
    other = bench.root / "other"
    assert medstress(*bench.arguments(out=other)).code == 0
    assert bench.summary(other)["performance"]["calls_from_cache"] == 0


def test_a_damaged_answer_is_asked_again(bench, medstress, shared):
    n = len(bench.received())
    damage(shared, 3)
    assert medstress(*bench.arguments(out=bench.root / "other")).code == 0
    assert len(bench.received()) == n + 3
    assert ": 0 of " in medstress("cache", "prune", "--path", shared).out, "mended by new answers"


def test_info_tells_models_and_sizes(medstress, shared, bench):
    told = medstress("cache", "info", "--path", shared)
    n = len(bench.received())
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"{shared}: {n} answers, ")
    assert f"victim.py:answer: {n} answers" in told.out


def test_prune_removes_what_is_damaged_old_or_of_a_model(medstress, shared, bench):
    n = len(bench.received())
    told = medstress("cache", "prune", "--older-than", 30, "--path", shared)
    assert told.out == f"{shared}: 0 of {n} answers removed\n"
    damage(shared, 2)
    assert (
        medstress("cache", "prune", "--path", shared).out == f"{shared}: 2 of {n} answers removed\n"
    )
    with closing(sqlite3.connect(shared / FILE)) as db, db:
        db.execute("UPDATE answers SET stored = 0 WHERE key = (SELECT MIN(key) FROM answers)")
    told = medstress("cache", "prune", "--older-than", 30, "--path", shared)
    assert told.out == f"{shared}: 1 of {n - 2} answers removed\n"
    told = medstress("cache", "prune", "--model", "victim.py:answer", "--path", shared)
    assert told.out == f"{shared}: {n - 3} of {n - 3} answers removed\n"
    assert medstress("cache", "info", "--path", shared).out.startswith(f"{shared}: 0 answers")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prune", "--older-than", "-1"], "cache: --older-than -1: expected 0 or more"),
        (["prune", "--older-than", "nan"], "cache: --older-than nan: expected 0 or more"),
        (
            ["prune", "--model", "x"],
            "--model 'x': the cache has no answers of this model (it has: victim",
        ),
        (["info", "--model", "x"], "--model applies only to: medstress cache prune"),
        (["clear"], "cache: info|prune 'clear': expected one of"),
    ],
)
def test_a_wrong_command_is_one_sentence(medstress, shared, arguments, sentence):
    told = medstress("cache", *arguments, "--path", shared)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"medstress: {sentence}")
    assert told.err.count("\n") == 1
