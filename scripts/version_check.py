"""Runs tests with the lowest and with the newest versions of the dependencies that are allowed.

By hand: `python scripts/package_check.py floors`, and `newest`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from clean_environments import PROJECT, ROOT, Failed, environment, install, parts, run

FLOOR_EXTRAS = ("figures", "openai", "pandas", "review", "spacy", "xlsx")
"""Extras whose floors are tested beside those of the base: those that need no weights."""
FLOOR_TESTS = (
    "tests/unit/core",
    "tests/unit/entities",
    "tests/unit/rendering",
    "tests/unit/results",
    "tests/unit/stats",
    "tests/unit/store",
    "tests/frozen",
    "tests/cli/test_figures_and_recipes.py",
)
"""`tests/frozen` above all: an older library may draw other names from the same seed."""
NEWEST_EXTRAS = ("adapters", "llama-cpp", "minilm", "openai", "quantized", "spacy", "dev")
"""Those of `make test`."""
PARALLEL = ("-n", "auto", "--dist", "loadfile")
"""As in `make test`."""
TESTING = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "pillow")
"""What these tests need beside the package."""


def check_floors(_: argparse.Namespace) -> Iterator[str]:
    """Run tests with the lowest version of each dependency."""
    pinned = [f"{name}=={version}" for name, version in floors(FLOOR_EXTRAS).items()]
    with environment() as python:
        install(python, *pinned, *TESTING, "--only-binary=:all:")
        install(python, "--no-deps", str(ROOT))
        command = [*python, "-m", "pytest", "-p", "no:cacheprovider", *FLOOR_TESTS]
        # What newer versions of the libraries no longer warn of is no concern of ours.
        told = run([*command, "-W", "ignore"], "the tests on the floors", cwd=ROOT)
    yield f"{', '.join(pinned)}: {told.strip().splitlines()[-1]}"


def check_newest(_: argparse.Namespace) -> Iterator[str]:
    """Run tests with the newest version of each dependency."""
    with tempfile.TemporaryDirectory() as made, environment() as python:
        only_torch = Path(made) / "constraints.txt"
        only_torch.write_text(f"torch=={tested_versions()['torch']}\n", "utf-8")
        what = f"{ROOT}[{','.join(NEWEST_EXTRAS)}]"
        install(python, what, constraints=only_torch)
        found = run([*python, "-m", "pip", "list", "--format=freeze"], "pip list")
        command = [*python, "-m", "pytest", "-p", "no:cacheprovider", *PARALLEL, "tests/unit"]
        # A warning that something will go is no failure of today.
        told = run([*command, "-W", "default::DeprecationWarning"], "newest versions", cwd=ROOT)
    yield f"{', '.join(newer(found.split()))}: {told.strip().splitlines()[-1]}"


def newer(found: Iterable[str]) -> list[str]:
    """Return those of some NAME==VERSION that are later than what constraints.txt has."""
    tested = tested_versions()
    return [
        each
        for each in found
        for name, _, version in [each.partition("==")]
        if (old := tested.get(canonicalize_name(name))) and Version(version) > Version(old)
    ]


def tested_versions() -> dict[str, str]:
    """Return the versions of constraints.txt by the packages' names."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = (line.partition("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, _, version in pins}


def floors(extras: Iterable[str]) -> dict[str, str]:
    """Return the lowest version of each dependency of the base and of some extras."""
    found = {}
    for each in (
        *map(Requirement, PROJECT["dependencies"]),
        *(p for e in extras for p in parts(e)),
    ):
        lowest = [each_.version for each_ in each.specifier if each_.operator in (">=", "==")]
        if len(lowest) != 1:
            raise Failed(f"pyproject.toml: {each} has no floor; write NAME>=VERSION")
        found[each.name] = lowest[0]
    return found
