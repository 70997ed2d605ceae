"""`tune` on many machines, with threads in place of machines: it ends as that of one process."""

from __future__ import annotations

import json

import pytest

from fleet_of_threads import KeeperHere, Stop, Threads, exported, fleet
from medstress.api.run import Run
from medstress.core.errors import OtherRunError, StoreError
from medstress.fleet import driver as drivers
from medstress.fleet import leasing, tuning
from medstress.fleet.tuning import tune_on_workers
from medstress.running.prepare import Watcher
from rows import rows_of

GRID = [-30, -5, 5, 30]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No other process, and no worker that waits for long."""
    monkeypatch.setattr(leasing, "KeeperProcess", KeeperHere)
    monkeypatch.setattr(drivers, "_IDLE_SECONDS", 0.02)


def to_be_tuned(made, workbench):
    made.write_items(workbench.questions(30))
    made.tables["experiment"]["seeds"] = [0]
    made.tables["victim"][0]["batch_size"] = 1
    made.tables["attack"] = [{"name": "entity_substitution", "budget": 3}]
    made.tables["tune"] = {"grid": GRID}
    return made


@pytest.fixture
def bench(bench, workbench):
    """Thirty questions and four values of n."""
    return to_be_tuned(bench, workbench)


@pytest.fixture(scope="module")
def alone(workbench, tmp_path_factory):
    """Folder of the tuning of one process, and the calls that it made for the split and in all."""
    made = to_be_tuned(workbench.Bench(tmp_path_factory.mktemp("alone")), workbench)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert workbench.medstress_cli(["tune", *made.arguments()[1:]]) == 0
    n_split = sum(row.n_paid for row in rows_of(Run(made.out / "tuning")))
    return made.out, n_split, len(made.received())


def tuned(bench, threads, watcher=None, n_shards=4, **keys):
    """Tune the experiment on a fleet."""
    given = fleet(threads, n_shards=n_shards, **keys)
    return tune_on_workers(bench.write(), bench.root / "many", given, watcher=watcher)


def check_same(folder, alone):
    for part in ("tuning", "."):
        here, there = (folder / part).resolve(), (alone / part).resolve()
        assert exported(here) == exported(there)
        assert Run(here).summary()["root"] == Run(there).summary()["root"]
        assert Run(here).manifest()["complete"]
    one, other = (json.loads((each / "tune.json").read_text("utf-8")) for each in (folder, alone))
    assert one == other


def test_the_result_is_that_of_one_process(bench, alone):
    found, spread = tuned(bench, Threads(), n_workers=3)
    assert (found.tuning, found.report) == (bench.root / "many/tuning", bench.root / "many")
    check_same(found.report, alone[0])
    assert len(bench.received()) == alone[2]
    assert spread.shards == bench.root / "many-shards"
    again, _ = tuned(bench, None)
    assert again == found
    assert len(bench.received()) == alone[2]


@pytest.mark.release
@pytest.mark.kills
def test_workers_that_are_lost_in_both_phases_cost_what_they_had_not_shipped(bench, alone):
    shipped = []

    def lose(n, asked):
        if asked["ask"] == "ship":
            shipped.append(asked)
        return asked["ask"] == "ship" and len(shipped) in (3, 25)

    threads = Threads(lose)
    found, _ = tuned(bench, threads, ship_every=5)
    assert len(threads.lost) == 2
    check_same(found.report, alone[0])
    assert 0 < len(bench.received()) - alone[2] <= 2 * (5 + 1)


@pytest.mark.parametrize("phase", [pytest.param("split", marks=pytest.mark.release), "report"])
def test_another_driver_goes_on_in_the_phase_that_was_begun(bench, alone, phase):
    """The first is killed in the middle of the split, or of the report."""
    n = alone[1] // 2 if phase == "split" else (alone[2] - alone[1]) // 2
    phases = []

    def progress(counts):
        if not phases or phases[-1] != counts.n_planned:
            phases.append(counts.n_planned)
        if len(phases) == (1 if phase == "split" else 2) and counts.n_computed > n:
            raise Stop

    with pytest.raises(Stop):
        tuned(bench, Threads(), ship_every=5, watcher=Watcher(progress=progress))
    assert (bench.root / "many/tuning/run.sqlite").is_file() == (phase == "report")
    found, _ = tuned(bench, Threads(), ship_every=5)
    check_same(found.report, alone[0])
    assert len(bench.received()) - alone[2] <= 2 * (5 + 1)


@pytest.mark.release
@pytest.mark.parametrize("at", ["chosen", "write_result"])
def test_a_driver_that_ends_between_phases_or_after_the_last_buys_nothing_twice(
    bench, alone, monkeypatch, at
):
    def stop(*_):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(tuning, at, stop)
        with pytest.raises(Stop):
            tuned(bench, Threads())
    found, _ = tuned(bench, Threads())
    check_same(found.report, alone[0])
    assert len(bench.received()) == alone[2]


@pytest.mark.release
def test_a_limit_counts_both_phases_and_raising_it_goes_on(bench, alone):
    _, n_split, n_all = alone
    for cap in (n_split // 2, n_split + (n_all - n_split) // 2, n_all - 1):
        bench.tables["experiment"]["max_queries"] = cap
        found, spread = tuned(bench, Threads())
        assert found is None
        assert not spread.is_merged
        assert cap - 2 <= len(bench.received()) <= cap
    bench.tables["experiment"]["max_queries"] = n_all
    found, _ = tuned(bench, Threads())
    check_same(found.report, alone[0])
    assert len(bench.received()) == n_all


@pytest.mark.release
def test_n_that_is_chosen_on_the_reported_items_takes_one_phase(bench, workbench):
    bench.tables["tune"]["choices"] = "as_published"
    arguments = bench.arguments(out=bench.root / "alone")
    assert workbench.medstress_cli(["tune", *arguments[1:]]) == 0
    n = len(bench.received())
    found, _ = tuned(bench, Threads())
    assert found.tuning == found.report
    assert exported(found.report) == exported(bench.root / "alone")
    one, other = (Run(each) for each in (found.report, bench.root / "alone"))
    assert one.summary()["root"] == other.summary()["root"]
    assert one.summary()["tuning"] == other.summary()["tuning"]
    assert len(bench.received()) == 2 * n
    assert (found.report / "tune.json").read_text() == (other.folder / "tune.json").read_text()


@pytest.mark.release
def test_control_arms_are_those_of_one_process(bench, workbench):
    bench.tables["experiment"]["controls"] = True
    arguments = bench.arguments(out=bench.root / "alone")
    assert workbench.medstress_cli(["tune", *arguments[1:]]) == 0
    found, _ = tuned(bench, Threads())
    check_same(found.report, bench.root / "alone")


@pytest.mark.release
def test_a_victim_without_a_right_answer_is_left_out_of_the_report(bench, workbench):
    (bench.root / "wrong.py").write_text(
        "def answer(prompts):\n    return ['none'] * len(prompts)\n"
    )
    wrong = {"name": "wrong", "backend": "python", "target": "wrong.py:answer"}
    bench.tables["victim"].append(wrong)
    arguments = bench.arguments(out=bench.root / "alone")
    assert workbench.medstress_cli(["tune", *arguments[1:]]) == 0
    found, _ = tuned(bench, Threads())
    assert set(Run(found.report).manifest()["victims"]) == {"careful"}
    check_same(found.report, bench.root / "alone")


def test_too_many_failures_choose_no_n(bench):
    (bench.root / "victim.py").write_text(
        "N = []\n\ndef answer(prompts):\n    N.append(1)\n"
        "    if len(N) > 2:\n        raise ValueError('ill')\n    return ['A'] * len(prompts)\n"
    )
    found, _ = tuned(bench, Threads(), n_workers=1)
    assert found.report is None
    assert not (bench.root / "many/run.sqlite").exists()


def test_a_tuning_that_one_machine_began_is_refused(bench, workbench, said):
    arguments = bench.arguments("--set", "experiment.max_queries=30", out=bench.root / "many")
    assert workbench.medstress_cli(["tune", *arguments[1:]]) == 0
    with pytest.raises(OtherRunError) as error:
        tuned(bench, None)
    said(str(error.value), "without --ray")


def test_a_folder_of_another_kind_is_refused_before_anything_is_asked(bench, said):
    tuned(bench, Threads())
    n = len(bench.received())
    bench.tables["tune"]["choices"] = "as_published"
    with pytest.raises(StoreError) as error:
        tuned(bench, None)
    said(str(error.value), "another share")
    assert len(bench.received()) == n
