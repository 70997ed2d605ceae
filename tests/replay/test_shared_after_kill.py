"""What a killed run had in its ledger is in the shared cache once the run is resumed."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.store.shared_cache import SharedCache
from medstress.testing import tiny_questions


def ledger_keys(folder):
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        return {key for (key,) in db.execute("SELECT key FROM answers")}


def shared_keys(folder):
    with closing(sqlite3.connect(folder / "answers.sqlite")) as db:
        return {key for (key,) in db.execute("SELECT key FROM answers")}


@pytest.fixture
def small(bench, workbench):
    bench.write_items(workbench.questions(6))
    bench.tables["experiment"].update(seeds=[0], cache="shared")
    bench.tables["attack"] = [bench.attack("random")]
    return bench


def n_cached(bench, out):
    return bench.summary(out)["performance"]["calls_from_cache"]


@pytest.mark.kills
def test_after_a_kill_the_cache_gets_what_the_ledger_holds(small, workbench):
    process = small.start(delay=0.1)
    try:
        workbench.wait_until(lambda: len(small.received()) >= 9, process)
    finally:
        workbench.stop(process)
    # As whoever looks at the dead run's files would find them; the cache waits for seconds.
    lost = ledger_keys(small.out) - shared_keys(small.root / "shared")
    assert lost, "killed before the cache was written"
    before = len(small.received())
    assert small.run() == 0
    assert len(small.received()) > before, "it went on"
    assert shared_keys(small.root / "shared") == ledger_keys(small.out)
    n = len(small.received())
    assert small.run(out=small.root / "other") == 0
    assert len(small.received()) == n, "nothing is paid for twice"
    assert n_cached(small, small.root / "other") == len(ledger_keys(small.out))


def test_a_finished_run_fills_a_cache_that_it_did_not_have(small):
    del small.tables["experiment"]["cache"]
    assert small.run() == 0
    n = len(small.received())
    small.tables["experiment"]["cache"] = "shared"
    assert small.run() == 0
    assert shared_keys(small.root / "shared") == ledger_keys(small.out)
    with closing(SharedCache(small.root / "shared")) as cache:
        (model,) = cache.models()
        assert (model.model, model.n) == ("victim.py:answer", n)
        assert model.seconds_per_call > 0
        assert cache.damaged() == []
    assert small.run(out=small.root / "other") == 0
    assert len(small.received()) == n


def test_what_came_from_a_cache_is_not_put_into_another(small):
    assert small.run() == 0
    other = small.root / "other"
    assert small.run(out=other) == 0
    small.tables["experiment"]["cache"] = "second"
    assert small.run(out=other) == 0
    assert shared_keys(small.root / "second") == set()
    shutil.rmtree(small.root / "second")
    assert small.run() == 0  # the folder that computed them has them to give
    assert shared_keys(small.root / "second") == ledger_keys(small.out)


def test_answers_of_a_role_are_kept_under_the_models_own_name(small):
    """The attacker's and the victim's, each under what answered."""
    root = small.root
    (root / "models.py").write_text(
        "from medstress.testing import rule_target, scripted_attacker, tiny_questions\n"
        "items = tiny_questions(3)\n"
        "target = rule_target(items, {'tiny-0': 'teacher'})\n"
        "attacker = scripted_attacker(items, ['He works as a clerk.', 'He is a teacher.'])\n",
        "utf-8",
    )
    rows = [
        {
            "id": item.id,
            "context": item.context,
            "stem": item.stem,
            "options": list(item.options),
            "answer_idx": item.key,
        }
        for item in tiny_questions(3)
    ]
    small.write_items(rows)
    tables = small.tables
    tables.pop("entities")
    del tables["experiment"]["cache"]
    tables["victim"] = [{"name": "target", "backend": "python", "target": "models.py:target"}]
    tables["role.attacker"] = {"backend": "python", "target": "models.py:attacker"}
    tables["attack"] = [{"name": "medfuzz", "attempts": 2}]
    assert small.run() == 0
    tables["experiment"]["cache"] = "shared"
    assert small.run() == 0
    with closing(SharedCache(root / "shared")) as cache:
        found = {model.model: model.n for model in cache.models()}
    with closing(sqlite3.connect(small.out / "run.sqlite")) as db:
        asked = dict(
            db.execute(
                "SELECT role, COUNT(DISTINCT answer) FROM exchanges "
                "WHERE answer IS NOT NULL GROUP BY role"
            )
        )
    assert asked.keys() == {"victim", "attacker"}
    expected = {"models.py:target": asked["victim"], "models.py:attacker": asked["attacker"]}
    assert found == expected
