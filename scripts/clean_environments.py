"""Clean environments for the checks of the package, and what goes into them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


class Failed(Exception):
    """A check failed; the message says what is wrong and what to do."""


def parts(extra: str) -> list[Requirement]:
    """Return what an extra brings, those of extras that it names included."""
    found = []
    for each in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if each.name == PROJECT["name"]:
            found += [part for named in sorted(each.extras) for part in parts(named)]
        else:
            found.append(each)
    return found


@contextmanager
def environment() -> Iterator[list[str]]:
    """Make a clean environment, yield its interpreter's command, and remove it."""
    with tempfile.TemporaryDirectory(prefix="medstress-clean-") as folder:
        run([sys.executable, "-m", "venv", folder], "venv")
        # Neither this folder nor PYTHONPATH may lend it a package.
        yield [str(next(Path(folder).glob("[bS]*/python*"))), "-P"]


def install(python: list[str], *what: str, constraints: Path | None = None) -> None:
    """Install with pip, within constraints; what is never imported is not compiled."""
    limits = {"PIP_CONSTRAINT": str(constraints)} if constraints else {}
    command = [*python, "-m", "pip", "install", "--quiet", "--no-compile", *what]
    run(command, f"pip install {what[0]}", limits)


def run(
    command: list[str], what: str, changed: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a command without this checkout's PYTHONPATH and return what it prints.

    Raises:
        Failed: it ends with another code than 0; `what` says what it was to do.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env = {**kept, **(changed or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[-900:]
        raise Failed(f"{what}: {said}")
    return done.stdout
