"""Flags of `medstress run --ray`; what needs Ray itself stands in tests/processes/test_ray.py."""

from __future__ import annotations

import importlib.util
import itertools
import socket
import sys
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import Progress

from medstress.cli import display
from medstress.cli.app import medstress_cli
from medstress.cli.stopping import Stopping
from medstress.core.errors import UsageError
from medstress.engine.progress import Progress as Counts
from medstress.fleet.ray_workers import ray_workers

HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.mark.parametrize(
    "flags",
    [
        ["--shards", "4"],
        ["--ray", "local"],
        ["--ray", "local", "--shards", "0"],
        ["--ray", "local", "--shards", "4", "--workers", "0"],
        ["--ray", "local", "--shards", "4", "--ship-every", "0"],
        ["--ray", "local", "--shards", "4", "--gpus-per-worker", "-1"],
        ["--ray", "local", "--shards", "4", "--shard", "1/4"],
        ["--ray", "local", "--shards", "4", "--fresh"],
        ["--ray", "local", "--shards", "4", "--retry-failed"],
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags, capsys, said):
    assert medstress_cli(["run", "x.toml", *flags]) == 2
    said(capsys.readouterr().err, "--")


@pytest.mark.parametrize("command", ["tune", "train"])
@pytest.mark.parametrize(
    "flags", [["--shards", "4"], ["--ray", "local"], ["--ray", "local", "--shards", "0"]]
)
def test_commands_of_several_phases_take_the_same_flags(command, flags, capsys, said):
    assert medstress_cli([command, "x.toml", *flags]) == 2
    said(capsys.readouterr().err, "--")


def test_tune_does_not_begin_anew_on_a_cluster(capsys, said):
    flags = ["--ray", "local", "--shards", "4"]
    for more in ("--fresh", "--retry-failed"):
        assert medstress_cli(["tune", "x.toml", *flags, more]) == 2
        said(capsys.readouterr().err, more)


@pytest.mark.parametrize("command", ["tune", "train"])
def test_without_ray_commands_of_several_phases_name_the_extra(
    command, bench, monkeypatch, capsys, said
):
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = bench.arguments("--ray", "local", "--shards", "4")
    assert medstress_cli([command, *arguments[1:]]) == 2
    said(capsys.readouterr().err, "medstress[ray]")
    assert bench.received() == []


def test_dry_run_of_tune_says_how_its_phases_are_spread(bench, workbench, monkeypatch, capsys):
    monkeypatch.setattr("medstress.fleet.ray_workers.check_cluster", lambda _: None)
    bench.write_items(workbench.questions(20))
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 3}]
    bench.tables["tune"] = {"share": 0.5}
    arguments = bench.arguments("--ray", "local", "--shards", "4", "--dry-run")
    assert medstress_cli(["tune", *arguments[1:]]) == 0
    assert "--ray local: 4 shards among as many workers" in capsys.readouterr().out


def test_an_address_that_is_none_is_refused(said):
    with pytest.raises(UsageError) as error, ray_workers("head:node", 1, 0.0, 1):
        pass
    said(str(error.value), "head:node")


def test_without_ray_the_extra_is_named(monkeypatch, said):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as error, ray_workers("local", 1, 0.0, 1):
        pass
    said(str(error.value), "medstress[ray]")


@pytest.mark.skipif(not HAS_RAY, reason="needs the extra `ray`")
@pytest.mark.parametrize("form", ["{}", "ray://{}"])
def test_a_place_where_nobody_listens_is_refused_at_once(form, said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = form.format(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UsageError) as error, ray_workers(address, 1, 0.0, 1):
            pass
    assert "no cluster can be reached" in str(error.value)


def test_the_display_counts_from_the_first_lease_and_shows_no_time_left_at_a_cap(monkeypatch):
    clock = itertools.count(step=10.0)
    monkeypatch.setattr(display.time, "perf_counter", lambda: next(clock))
    bars = Progress(console=Console(file=StringIO()))
    watcher = display._watcher(bars, Stopping([]))
    (task,) = bars.tasks
    left = display._Remaining()
    watcher.progress(Counts(n_planned=50, n_computed=90, n_before=90, waiting=True))
    assert (task.description, task.total) == ("waiting for workers", None)
    watcher.progress(Counts(n_planned=50, n_done=30, n_computed=110, n_before=90))
    assert (task.completed, task.total) == (30, 50)
    assert "110 calls paid, 2.0/s" in task.fields["counts"]
    assert left.render(task).plain
    watcher.progress(Counts(n_planned=50, n_done=31, n_computed=111, n_before=90, stopped=True))
    assert not left.render(task).plain
