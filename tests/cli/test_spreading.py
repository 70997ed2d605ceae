"""Flags of `medstress run --ray`; what needs Ray itself stands in tests/processes/test_ray.py."""

from __future__ import annotations

import importlib.util
import socket
import sys

import pytest

from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
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
def test_commands_of_several_phases_say_what_to_do(command, capsys, said):
    assert medstress_cli([command, "x.toml", "--ray", "local"]) == 2
    said(capsys.readouterr().err, "--ray", command)


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
