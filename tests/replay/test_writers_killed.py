"""Commands that write one file, killed while they write, leave the old file there, or none."""

import signal
import subprocess
import sys

import pytest

from medstress.cli.app import medstress_cli

GIVEN = "entities.recogniser=given"
DIES = """
import io, os, signal, sys
from pathlib import Path
from medstress.cli.app import medstress_cli

moment, folder, *arguments = sys.argv[1:]
ordinary = io.open


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


class Half(io.FileIO):
    def write(self, data):
        super().write(memoryview(data)[: len(data) // 2])
        die()


def opened(file, mode="r", *rest, **more):
    if mode[0] not in "wax" and "+" not in mode or Path(str(file)).parent != Path(folder):
        return ordinary(file, mode, *rest, **more)
    stream = io.BufferedWriter(Half(file, mode.replace("b", "")))
    return stream if "b" in mode else io.TextIOWrapper(stream, "utf-8")


if moment == "half":
    io.open = opened
else:
    os.replace = os.rename = die
medstress_cli(arguments)
"""
"""Kills itself when half of its text is in the file, or when all is there and it renames it."""


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        pytest.param("perturb", "jsonl", marks=pytest.mark.kills("perturb")),
        pytest.param("check", "jsonl", marks=pytest.mark.kills("check --to")),
        pytest.param("export", "csv", marks=pytest.mark.kills("export")),
        pytest.param("export", "parquet", marks=pytest.mark.kills),
    ],
)
def test_a_command_that_dies_while_it_writes_leaves_the_old_file_or_none(
    bench, workbench, command, ending
):
    folder = bench.root / "written"
    folder.mkdir()
    to = folder / f"rows.{ending}"
    arguments = {
        "perturb": ["perturb", str(bench.write()), "--quiet"],
        "check": ["check", str(bench.root / "items.jsonl"), "--set", GIVEN],
        "export": ["export", str(bench.out), "--table", "trials"],
    }[command]
    if command == "export":
        assert bench.run() == 0
    whole = bench.root / f"whole.{ending}"
    assert medstress_cli([*arguments, "--to", str(whole)]) == 0
    for moment, old in (("half", None), ("all", b"the rows of an earlier call")):
        if old is not None:
            to.write_bytes(old)
        program = [sys.executable, "-c", DIES, moment, str(folder), *arguments, "--to", str(to)]
        environment = bench.environment() | workbench.temporary(bench.root)
        done = subprocess.run(program, env=environment, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert list((bench.root / "tmp").iterdir()) == []
        assert (to.read_bytes() if to.exists() else None) == old
    assert any(0 < path.stat().st_size < whole.stat().st_size for path in folder.iterdir())
    assert medstress_cli([*arguments, "--to", str(to)]) == 0
    assert to.read_bytes() == whole.read_bytes()
