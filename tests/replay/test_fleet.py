"""A run on many machines, with threads in place of machines: it ends as the run of one process."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from dataclasses import replace

import pytest

from fleet_of_threads import KeeperHere, Stop, Threads, exported, fleet
from medstress.api.run import Run
from medstress.core.errors import (
    MedstressError,
    OtherRunError,
    StoreError,
    UsageError,
    flag_of,
)
from medstress.engine.progress import Progress
from medstress.fleet import driver as drivers
from medstress.fleet import leasing
from medstress.fleet import order as orders
from medstress.fleet import run as runs
from medstress.fleet import worker as workers
from medstress.fleet.keeper import Keeper
from medstress.fleet.keeper_process import KeeperProcess, error_of
from medstress.fleet.leased import Channel
from medstress.fleet.leases import StaleLeaseError
from medstress.fleet.messages import pack, unpack
from medstress.fleet.outcome import promise_line
from medstress.fleet.run import run_on_workers
from medstress.fleet.worker import LeasedShard
from medstress.running.prepare import Watcher


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No other process, and no worker that waits for long."""
    monkeypatch.setattr(leasing, "KeeperProcess", KeeperHere)
    monkeypatch.setattr(drivers, "_IDLE_SECONDS", 0.02)


@pytest.fixture(scope="module")
def unbroken(workbench, tmp_path_factory):
    """The tables of the run of one process, how many calls it made, and its root."""
    bench = workbench.Bench(tmp_path_factory.mktemp("alone"))
    bench.tables["victim"][0]["batch_size"] = 1
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bench.environment().items():
            patch.setenv(name, value)
        assert bench.run() == 0
    root = Run(bench.out).summary()["root"]
    return exported(bench.out), len(bench.received()), root


@pytest.fixture
def alone(bench, unbroken):
    """The same, for an experiment that asks call by call."""
    bench.tables["victim"][0]["batch_size"] = 1
    return unbroken


def spread(bench, threads, out="many", watcher=None, **keys):
    """Run the experiment on a fleet."""
    place = bench.root / out
    given = fleet(threads, **keys)
    return run_on_workers(bench.write(), place, given, watcher=watcher)


@pytest.mark.parametrize(("n_workers", "n_shards"), [(1, 2), (3, 16)])
def test_the_run_is_that_of_one_process(bench, alone, n_workers, n_shards):
    one = spread(bench, Threads(), n_workers=n_workers, n_shards=n_shards)
    assert exported(one.folder) == alone[0]
    assert Run(one.folder).manifest()["complete"]
    assert len(bench.received()) == alone[1]
    assert one.outcome.n_done == n_shards
    assert not list(one.shards.iterdir()) or [p.name for p in one.shards.iterdir()] == [".fleet"]


@pytest.mark.parametrize("store", ["folder", "memory://fleet-test"])
def test_ledgers_may_travel_to_a_store(bench, alone, store):
    if "://" in store:
        pytest.importorskip("fsspec")
    place = store if "://" in store else str(bench.root / store)
    one = spread(bench, Threads(), store=place, ship_every=7)
    assert exported(one.folder) == alone[0]


def test_of_lost_workers_nothing_shipped_is_asked_again(bench, alone):
    """One worker is lost before it began, two while they ship."""
    shipped = []

    def lose(n, asked):
        if asked["ask"] == "ship":
            shipped.append(asked)
        return n == 4 or (asked["ask"] == "ship" and len(shipped) in (3, 9))

    threads = Threads(lose)
    one = spread(bench, threads, ship_every=5)
    assert len(threads.lost) == 3
    assert shipped
    assert exported(one.folder) == alone[0]
    repeated = len(bench.received()) - alone[1]
    # Each lost worker had at most what it computed since it shipped, and one call in flight.
    assert 0 <= repeated <= 3 * (5 + 1)
    summary = Run(one.folder).summary()
    told = summary["performance"]
    stored = Run(one.folder).manifest()["performance"]
    assert stored["leases_lost"] == one.outcome.n_deaths >= 2
    assert stored["calls_lost"] <= repeated <= stored["calls_lost_at_most"]
    assert told["calls"] == alone[1]
    (line,) = (w["sentence"] for w in summary["warnings"] if w["rule"] == "lost_calls")
    numbers = [int(word) for word in re.findall(r"\d+", line)]
    names = ("leases_lost", "calls_lost", "calls_lost_at_most")
    assert numbers == [stored[name] for name in names]
    # The same command once more changes nothing.
    spread(bench, None, ship_every=5)
    assert Run(one.folder).summary()["performance"] == told


@pytest.mark.kills("keeper")
def test_a_killed_keeper_is_started_again(bench, alone, monkeypatch):
    killed = []
    passed_on = KeeperProcess.pass_on

    def kill_first(self, data):
        if unpack(data)[0]["ask"] == "ship" and len(killed) < 2 and self.pid is not None:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return passed_on(self, data)

    monkeypatch.setattr(KeeperProcess, "pass_on", kill_first)
    monkeypatch.setattr(leasing, "KeeperProcess", KeeperProcess)
    one = spread(bench, Threads(), ship_every=10)
    assert one.outcome.n_keepers == 2
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) == alone[1]


def test_another_driver_goes_on_from_what_was_shipped(bench, alone):
    threads = Threads()

    def progress(counts):
        if counts.n_computed > alone[1] // 2:
            raise Stop

    with pytest.raises(Stop):
        spread(bench, threads, ship_every=5, watcher=Watcher(progress=progress))
    before = len(bench.received())
    assert 0 < before < alone[1]
    one = spread(bench, Threads(), ship_every=5)
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) - alone[1] <= 2 * (5 + 1)


@pytest.mark.parametrize("at", ["merge_shards", "complete_unasked"])
def test_a_driver_that_ends_while_it_merges_goes_on_there(bench, alone, monkeypatch, at):
    def stop(*_, **__):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(runs, at, stop)
        with pytest.raises(Stop):
            spread(bench, Threads())
    asked = len(bench.received())
    one = spread(bench, Threads())
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) == asked == alone[1]


@pytest.mark.release
def test_what_a_faster_driver_has_merged_is_completed(bench, alone, monkeypatch):
    drive = runs.Leasing.run

    def lose_the_race(self, keep):
        drive(self, lambda *_: None)
        with monkeypatch.context() as patch:
            patch.setattr(runs.Leasing, "run", drive)
            spread(bench, Threads())
        return drive(self, keep)

    monkeypatch.setattr(runs.Leasing, "run", lose_the_race)
    one = spread(bench, Threads())
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) == alone[1]


def test_an_interrupted_driver_lets_its_workers_ship(bench, alone):
    def progress(counts):
        if counts.n_computed > alone[1] // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spread(bench, Threads(), watcher=Watcher(progress=progress))
    one = spread(bench, Threads())
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) == alone[1]  # nothing twice, though no shard had shipped


@pytest.mark.release
def test_calls_never_exceed_max_queries_and_a_raised_cap_goes_on(bench, alone):
    cap = alone[1] // 2
    bench.tables["experiment"]["max_queries"] = cap
    one = spread(bench, Threads(), n_workers=3)
    assert not one.is_merged
    assert not (one.folder / "run.sqlite").exists()
    assert cap - 3 <= len(bench.received()) <= cap
    bench.tables["experiment"]["max_queries"] = 10 * alone[1]
    one = spread(bench, Threads(), n_workers=3)
    assert one.is_merged
    assert exported(one.folder) == alone[0]
    assert len(bench.received()) == alone[1]


def test_a_victim_that_changed_between_two_commands_is_refused(bench, alone, said):
    bench.tables["experiment"]["max_queries"] = alone[1] // 2
    spread(bench, Threads())
    asked = len(bench.received())
    bench.tables["experiment"]["max_queries"] = 10 * alone[1]
    victim = bench.root / "victim.py"
    victim.write_text(victim.read_text("utf-8").replace("luck < 12", "luck < 13"), "utf-8")
    with pytest.raises(StoreError) as error:
        spread(bench, Threads())
    said(str(error.value), "victim", "changed", "--out")
    assert len(bench.received()) == asked


@pytest.mark.release
def test_a_victim_that_could_not_answer_may_be_mended(bench, alone):
    victim = bench.root / "victim.py"
    mended = victim.read_text("utf-8")
    victim.write_text("def answer(prompts):\n    raise OSError('no')\n", "utf-8")
    with pytest.raises(MedstressError):
        spread(bench, Threads())
    victim.write_text(mended, "utf-8")
    assert exported(spread(bench, Threads()).folder) == alone[0]


def test_workers_with_different_models_are_refused_before_anything_is_asked(
    bench, monkeypatch, said
):
    real, calls = workers.models_of, itertools.count()

    def other_each_time(prepared):
        return dict.fromkeys(real(prepared), f"model {next(calls)}")

    monkeypatch.setattr(workers, "models_of", other_each_time)
    with pytest.raises(UsageError) as error:
        spread(bench, Threads())
    said(str(error.value).replace("worker 1", "worker 2"), "worker", "victim", "weights")
    assert bench.received() == []


def test_an_error_that_needs_more_than_a_sentence_keeps_its_kind():
    told = error_of({"kind": "OtherRunError", "error": "another run"})
    assert (type(told), str(told)) == (StoreError, "another run")


@pytest.mark.release
def test_a_run_that_asks_nothing_more_is_completed_without_its_models(bench, alone, monkeypatch):
    """A victim that needs a GPU can be opened by workers alone."""

    def no_gpu(*_):
        raise AssertionError("a model is opened on the driver's machine")

    monkeypatch.setattr(runs, "opened_victims", no_gpu)
    one = spread(bench, Threads())
    assert exported(one.folder) == alone[0]
    assert Run(one.folder).manifest()["complete"]
    assert Run(one.folder).summary()["root"] == alone[2]
    spread(bench, None)


@pytest.mark.release
def test_a_run_that_asks_more_opens_its_models_on_the_drivers_machine(bench, monkeypatch):
    bench.tables["analysis"] = {"transfer": True}
    opened = []
    real = runs.opened_victims
    monkeypatch.setattr(runs, "opened_victims", lambda *given: opened.append(1) or real(*given))
    assert Run(spread(bench, Threads()).folder).manifest()["complete"]
    assert opened == [1]


def test_a_store_that_cannot_be_written_is_refused_first(bench, said):
    (bench.root / "file").write_text("", "utf-8")
    with pytest.raises(StoreError) as error:
        spread(bench, None, store=str(bench.root / "file" / "x"))
    said(str(error.value), "--store", "written")


def test_one_call_in_flight_is_one():
    assert "at most 1 call a worker" in promise_line(8, 40, "2 workers", 1)


def test_dry_run_says_how_the_run_is_spread(bench, capsys, monkeypatch):
    monkeypatch.setattr("medstress.fleet.ray_workers.check_cluster", lambda _: None)
    flags = ("--dry-run", "--ray", "local", "--shards", "4", "--workers", "2", "--ship-every", "40")
    assert bench.run(*flags) == 0
    out = capsys.readouterr().out
    assert "--ray local: 4 shards among at most 2 workers; max_queries is never exceeded" in out
    assert bench.received() == []


@pytest.mark.parametrize("flags", [("--ray", "127.0.0.1:1"), ("--ray", "h/x")])
def test_dry_run_checks_the_cluster(bench, capsys, flags, monkeypatch):
    monkeypatch.setattr("medstress.fleet.ray_workers.import_module", lambda _: None)
    assert bench.run("--dry-run", *flags, "--shards", "4") == 2
    assert "--ray" in capsys.readouterr().err


@pytest.mark.release
def test_the_rate_counts_from_the_first_lease_and_a_cap_is_told(bench, alone, monkeypatch):
    monkeypatch.setattr(drivers, "_ROUND_SECONDS", 0.001)
    seen = []
    watcher = Watcher(progress=lambda counts: seen.append(replace(counts)))
    cap = alone[1] // 2
    bench.tables["experiment"]["max_queries"] = cap
    spread(bench, Threads(), watcher=watcher)
    assert seen[0].waiting
    assert (seen[-1].waiting, seen[-1].stopped) == (False, True)
    bench.tables["experiment"]["max_queries"] = 10 * alone[1]
    seen.clear()
    spread(bench, Threads(), watcher=watcher)
    last = [counts for counts in seen if counts.n_before][-1]
    assert not last.stopped
    assert last.n_before <= cap < last.n_computed


def test_what_may_be_paid_twice_is_said_before_the_first_call(bench, said):
    told = []

    def announce(sentence):
        told.append((sentence, len(bench.received())))

    spread(bench, Threads(), watcher=Watcher(announce=announce))
    sentence, n_asked = told[0]
    assert n_asked == 0
    said(sentence, "5 shards", "2 workers", "max_queries")


def test_a_worker_with_other_versions_is_refused_before_anything_is_asked(bench, monkeypatch, said):
    real = drivers.environment()
    monkeypatch.setattr(drivers, "environment", lambda: {**real, "numpy": "0.1", "python": "3"})
    monkeypatch.setattr(
        drivers,
        "check_environment",
        lambda worker, own, theirs: orders.check_environment(
            worker, {"numpy": "2.0"}, {"numpy": "1.9"}
        ),
    )
    with pytest.raises(UsageError) as error:
        spread(bench, Threads(), n_workers=1)
    said(str(error.value), "numpy 1.9", "2.0")
    assert bench.received() == []


def test_a_worker_with_other_data_is_refused_before_anything_is_asked(bench, monkeypatch, said):
    real = drivers.Driver.__init__

    def other_plan(self, order, *, plan, **keys):
        real(self, order, plan={**plan, "data": "other"}, **keys)

    monkeypatch.setattr(drivers.Driver, "__init__", other_plan)
    with pytest.raises(UsageError) as error:
        spread(bench, Threads(), n_workers=1)
    said(str(error.value), "data")
    assert bench.received() == []


def test_shards_of_another_plan_are_refused(bench, said):
    with pytest.raises(Stop):
        spread(bench, Threads(), watcher=Watcher(progress=_stop_at_once))
    bench.tables["experiment"]["seeds"] = [0, 1, 2]
    with pytest.raises(OtherRunError) as error:
        spread(bench, Threads(), n_shards=6)
    said(str(error.value), "--shards", "many-shards")
    assert error.value.folder == bench.root / "many"


def test_shards_of_the_same_plan_cut_otherwise_are_refused_with_their_number(bench, said):
    with pytest.raises(Stop):
        spread(bench, Threads(), n_shards=5, watcher=Watcher(progress=_stop_at_once))
    with pytest.raises(StoreError) as error:
        spread(bench, Threads(), n_shards=6)
    said(str(error.value), "--shards changed", "5")
    assert flag_of(error.value) == ("--shards", "5")


def test_a_plan_that_was_refused_before_a_lease_pins_nothing(bench, alone, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(drivers, "environment", lambda: {"numpy": "0.1"})
        with pytest.raises(UsageError):
            spread(bench, Threads(), n_shards=5)
    one = spread(bench, Threads(), n_shards=6)
    assert exported(one.folder) == alone[0]


def _stop_at_once(counts):
    raise Stop


def test_a_folder_that_one_machine_began_meanwhile_is_refused(bench, said):
    with pytest.raises(Stop):
        spread(bench, Threads(), watcher=Watcher(progress=_stop_at_once))
    assert bench.run("--limit", "1", out=bench.root / "many") == 0
    asked = len(bench.received())
    with pytest.raises(OtherRunError) as error:
        spread(bench, Threads())
    said(str(error.value), "without --ray")
    assert len(bench.received()) == asked


def test_a_folder_that_one_machine_began_is_refused(bench, said):
    assert bench.run("--limit", "1") == 0
    with pytest.raises(OtherRunError) as error:
        spread(bench, Threads(), out="run")
    said(str(error.value), "without --ray")


def test_a_finished_run_starts_no_worker(bench):
    first = spread(bench, Threads())
    n = len(bench.received())
    again = spread(bench, None)
    assert again.folder == first.folder
    assert again.outcome is None
    assert len(bench.received()) == n


def test_a_shard_that_ends_every_worker_ends_the_run(bench, said):
    threads = Threads(lambda n, asked: asked["ask"] == "grant")
    with pytest.raises(StoreError) as error:
        spread(bench, threads, n_workers=1, n_shards=1)
    said(str(error.value), "5 workers")
    assert len(threads.lost) == 5


def test_a_worker_that_gets_no_answer_stops_before_another_has_its_shard(bench, tmp_path):
    source = bench.write()
    order = orders.Order(
        **{"text": source.read_text("utf-8"), "name": "x", "base": str(bench.root)},
        **{"overrides": (), "limit": None, "n_shards": 1, "ship_every": 10, "store": None},
        **{"lease_seconds": 0.05, "renew_seconds": 60.0},
    )
    lease = {"lease": {"shard": 1, "epoch": 1}, "shipped": None}
    shard = LeasedShard(order, Channel(), "one", lease, 1)
    shard._watch(Progress())
    time.sleep(0.1)
    with pytest.raises(StaleLeaseError):
        shard._watch(Progress())


def test_an_experiment_that_is_tuned_is_refused(bench, said):
    bench.tables["tune"] = {"share": 0.5}
    with pytest.raises(UsageError) as error:
        spread(bench, Threads())
    said(str(error.value), "--ray", "tune")
    assert bench.received() == []


def test_a_bug_in_a_worker_is_told(bench, monkeypatch):
    monkeypatch.setattr("medstress.fleet.worker.plan_of", lambda _: 1 / 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        spread(bench, Threads())


def test_a_model_that_answers_nothing_ends_the_run_with_its_sentence(bench):
    (bench.root / "victim.py").write_text("def answer(prompts):\n    raise OSError('no')\n")
    with pytest.raises(Exception, match="no") as error:
        spread(bench, Threads())
    assert type(error.value).__name__ in ("BackendError", "PermanentBackendError", "UsageError")


def test_a_second_keeper_of_a_folder_waits_and_is_refused(tmp_path, monkeypatch, said):
    monkeypatch.setenv("MEDSTRESS_KEEPER_LOCK_SECONDS", "0.2")
    first, second = KeeperProcess(tmp_path, 60.0), KeeperProcess(tmp_path, 60.0)
    try:
        first.ask("begin", shards=2, facts={"plan": "a"}, caps={})
        with pytest.raises(StoreError) as error:
            second.ask("overview")
        said(str(error.value), "another medstress process")
    finally:
        first.close()
        second.close()


def test_a_stale_ledger_is_not_taken(tmp_path):
    clock = [0.0]
    keeper = Keeper(tmp_path, lease_seconds=60.0, clock=lambda: clock[0])

    def ask(ledger=b"", **message):
        return unpack(keeper.answer(pack(message, ledger)))[0]

    try:
        ask(ask="begin", shards=1, facts={"plan": "a"}, caps={})
        old = ask(ask="lease", owner="old", left=None)["lease"]
        clock[0] = 61.0
        assert ask(ask="lease", owner="new", left=None)["lease"]["epoch"] == 2
        told = ask(
            b"ledger",
            ask="ship",
            **old,
            owner="old",
            state="done",
            name=None,
            digest="x",
            calls=1,
            used={},
            reported={},
        )
        assert "stale" in told
        assert not list(tmp_path.glob("ledgers/**/*.sqlite"))
    finally:
        keeper.close()


def test_the_display_counts_all_shards_together(bench, alone):
    seen = []
    spread(bench, Threads(), watcher=Watcher(progress=lambda counts: seen.append(replace(counts))))
    assert seen[0].n_planned == seen[-1].n_planned > 0
    done = [counts.n_done + counts.n_skipped for counts in seen]
    assert done[-1] == seen[-1].n_planned
    assert max(counts.n_computed for counts in seen) == alone[1]


@pytest.mark.release
def test_criteria_are_judged_as_in_the_run_of_one_process(bench, monkeypatch):
    bench.tables["require"] = [{"metric": "asr", "max_high": 0.9}]
    assert bench.run() == 3  # missed
    monkeypatch.setattr(runs, "opened_victims", None)
    many = Run(spread(bench, Threads()).folder)
    assert many.manifest()["require"] == Run(bench.out).manifest()["require"]
    assert many.summary()["verdict"] == Run(bench.out).summary()["verdict"]
