"""Runs that share answers, and `medstress cache`."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.store.shared_cache import FILE


@pytest.fixture
def shared(bench, medstress, monkeypatch):
    """One run that filled the default cache."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(bench.root / "own"))
    bench.tables["experiment"]["cache"] = "default"
    assert medstress(*bench.arguments()).code == 0
    return bench.root / "own" / "answers"


def damage(folder, n):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        db.execute(
            "UPDATE answers SET tokens_in = tokens_in + 1 "
            f"WHERE key IN (SELECT key FROM answers LIMIT {n})"
        )


def outcomes(bench, out):
    return [(row.trial_id, row.verdict, row.n_asked, row.answer_after) for row in bench.rows(out)]


def test_a_second_run_pays_for_nothing_says_the_same_and_needs_the_cache_no_more(
    bench, medstress, shared, workbench
):
    n, other = len(bench.received()), bench.root / "other"
    assert medstress(*bench.arguments(out=other)).code == 0
    assert len(bench.received()) == n > 10, "the victim was not asked again"
    assert outcomes(bench, other) == outcomes(bench, bench.out)
    first, second = bench.summary(), bench.summary(other)
    asked, queries = workbench.ledger(first)["asked"], workbench.ledger(second)
    assert (queries["asked"], queries["paid"], queries["cached"]) == (asked, 0, asked)
    assert second["performance"]["calls"] == 0
    assert second["performance"]["calls_from_cache"] == n == first["performance"]["calls"]
    shutil.rmtree(shared)
    bench.tables["experiment"].pop("cache")
    assert medstress(*bench.arguments(out=other)).code == 0
    assert len(bench.received()) == n
    assert bench.summary(other)["results"] == second["results"]


def test_only_what_a_run_lacks_is_paid_for_and_a_damaged_answer_is_asked_again_or_removed(
    bench, medstress, shared, workbench
):
    n, other = len(bench.received()), bench.root / "other"
    assert medstress("cache", "info").out.startswith(f"{shared}: {n} answers, ")
    damage(shared, 3)
    assert medstress(*bench.arguments(out=other)).code == 0
    assert len(bench.received()) == n + 3
    assert medstress("cache", "prune").out == f"{shared}: 0 of {n} answers removed\n"
    damage(shared, 2)
    assert medstress("cache", "prune").out == f"{shared}: 2 of {n} answers removed\n"
    bench.tables["attack"] = [bench.attack("random", budget=6)]
    assert medstress(*bench.arguments("--fresh", out=other)).code == 0
    queries = workbench.ledger(bench.summary(other))
    assert queries["asked"] == queries["paid"] + queries["cached"]
    assert 0 < queries["paid"] <= len(bench.received()) - n - 3
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
