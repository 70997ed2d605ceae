"""Checks wheel, sdist and dependencies before a release, as a part of `make release-check`.

    python scripts/release_check.py                 # every check
    python scripts/release_check.py floors newest   # some

contents   Wheel and sdist hold what git tracks, licences included, and no secret; `twine check`.
installed  For each extra a clean environment: the wheel is installed, what the extra brings is
           imported, and one question is asked of the mock.
resolved   pip finds wheels of all dependencies for Linux on every supported Python.
floors     Tests with the lowest version of every direct dependency.
newest     Tests with the newest versions, torch as in constraints.txt.

All but `contents` need an index of packages. The first check that fails ends the program with
code 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 12_000_000
"""Bytes of the wheel, and of the sdist."""
PAGES = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "README.md", "SECURITY.md"}
OUTSIDE = PAGES | {".gitignore", "PKG-INFO", "pyproject.toml"}
"""All that an sdist holds outside the package."""
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bsk-[A-Za-z0-9]{32,}|\bhf_[A-Za-z0-9]{30,}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}"
)
FLOOR_EXTRAS = ("figures", "openai", "spacy", "xlsx")
"""Extras whose floors are tested with those of the base: those that need no weights."""
FLOOR_TESTS = ("core", "datasets", "entities", "page", "stats", "store")
"""Folders of tests/unit."""
NEWEST_EXTRAS = "adapters,figures,llama-cpp,minilm,openai,quantized,spacy,xlsx"
TESTING = ("hypothesis", "pillow", "pytest", "pytest-timeout", "pytest-xdist", "statsmodels")
"""What these tests need besides the package."""
MOCK = """\
experiment = {name = "one", controls = false}
dataset = {name = "sample", limit = 1}
entities = {type = "drugs", vocabulary = "drugs", embedding = "ngram"}
victim = {backend = "mock"}
attack = {name = "entity_substitution", sampler = "random", budget = 2}
"""
IMPORTS = """\
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
wanted = {name.lower().replace("_", "-") for name in sys.argv[1:]}
for module, owners in sorted(packages_distributions().items()):
    plain = module.isidentifier() and not module.startswith("_") and "test" not in module
    if plain and wanted & {owner.lower().replace("_", "-") for owner in owners}:
        import_module(module)
"""
"""Imports all that the named packages bring."""


def main() -> None:
    """Run the named checks, or all."""
    os.environ.pop("PYTHONPATH", None)  # which would lend an environment this checkout's packages
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        for name in sys.argv[1:] or CHECKS:
            print(f"-- {name}", flush=True)
            try:
                CHECKS[name](wheel)
            except subprocess.CalledProcessError as error:
                sys.exit(f"{name}: {error}")


def run(*command: str, **variables: str) -> None:
    """Run a command; raises CalledProcessError where it ends with another code than 0."""
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **variables})


def build(out: Path) -> Path:
    """Build sdist and wheel, the wheel from the sdist, into an empty folder; return the wheel."""
    run(sys.executable, "-m", "build", "--outdir", str(out), str(ROOT))
    return next(out.glob("*.whl"))


def contents(wheel: Path) -> None:
    """Look into a wheel of this checkout, and into the sdist from which it was built."""
    sdist = next(wheel.parent.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = {name: opened.read(name) for name in opened.namelist()}
    in_sdist = {}
    with tarfile.open(sdist) as packed:
        for member in packed:
            if (file := packed.extractfile(member)) is not None:
                in_sdist[member.name.partition("/")[2]] = file.read()
    info = next(name.partition("/")[0] for name in in_wheel if ".dist-info/" in name)
    package = {f"src/{name}" for name in in_wheel if not name.startswith(info)}
    tracked = subprocess.check_output(("git", "ls-files", "src/medstress"), cwd=ROOT, text=True)
    for archive, names in ((wheel, package), (sdist, in_sdist.keys() - OUTSIDE)):
        if differ := sorted(names ^ set(tracked.split())):
            sys.exit(f"{archive.name} and git differ in {', '.join(differ[:5])}")
    if lacks := sorted(OUTSIDE - in_sdist.keys()):
        sys.exit(f"{sdist.name} lacks {', '.join(lacks)}")
    for name in PROJECT["license-files"]:
        if in_wheel.get(f"{info}/licenses/{name}") != (ROOT / name).read_bytes():
            sys.exit(f"the wheel lacks {name} among its licences")
    for archive, files in ((wheel, in_wheel), (sdist, in_sdist)):
        if (size := archive.stat().st_size) > LARGEST:
            sys.exit(f"{archive.name}: {size:,} bytes, more than {LARGEST:,}")
        if secrets := [name for name, data in files.items() if SECRET.search(data)]:
            sys.exit(f"{archive.name}: {secrets[0]} looks as if it held a secret")
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))


@contextmanager
def environment(
    wheel: Path, extras: str, *more: str, constraints: Path | None = None
) -> Iterator[Callable[..., None]]:
    """Install the wheel into a clean environment, and yield what runs its Python."""
    what = f"medstress[{extras}] @ {wheel.as_uri()}"
    with tempfile.TemporaryDirectory(prefix="medstress-clean-") as folder:
        run(sys.executable, "-m", "venv", folder)
        here = (f"{folder}/bin/python", "-P")  # the current folder lends no package either
        limits = {"PIP_CONSTRAINT": str(constraints)} if constraints else {}
        # What is never imported is not compiled.
        run(*here, "-m", "pip", "install", "--quiet", "--no-compile", what, *more, **limits)
        yield lambda *arguments: run(*here, *arguments)


def parts(extra: str) -> list[Requirement]:
    """Return what an extra brings, those of extras that it names included."""
    brought = []
    for one in map(Requirement, EXTRAS[extra]):
        is_ours = one.name == PROJECT["name"]
        brought += [part for name in one.extras for part in parts(name)] if is_ours else [one]
    return brought


def installed(wheel: Path) -> None:
    """Install the wheel without extras and with each, and ask one question of the mock."""
    one, folder = wheel.parent / "one.toml", wheel.parent / "run"
    one.write_text(MOCK, "utf-8")
    for extra in ("", *EXTRAS):
        brought = [part.name for part in parts(extra)] if extra else []
        with environment(wheel, extra, constraints=ROOT / "constraints.txt") as clean:
            clean("-c", IMPORTS, *brought)
            clean("-m", "medstress", "run", str(one), "--out", str(folder), "--fresh", "--quiet")
            clean("-m", "medstress", "verify", str(folder))


def resolved(wheel: Path) -> None:
    """Resolve all extras together for every Python, without installing."""
    what = f"medstress[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
    options = ("--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:")
    for version in PYTHONS:
        there = (f"--target={wheel.parent}/never", "--python-version", version)
        run(sys.executable, "-m", "pip", "install", *options, *there, what)


def floors(wheel: Path) -> None:
    """Run tests with the lowest version of each dependency of the base and of `FLOOR_EXTRAS`."""
    base = map(Requirement, PROJECT["dependencies"])
    lowest = []
    for one in [*base, *(part for extra in FLOOR_EXTRAS for part in parts(extra))]:
        (floor,) = one.specifier
        lowest.append(f"{one.name}=={floor.version}")
    with environment(wheel, "", *lowest, *TESTING, "--only-binary=:all:") as clean:
        tests = (f"tests/unit/{room}" for room in FLOOR_TESTS)
        # What newer versions of the libraries no longer warn of is no concern of ours.
        clean("-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", *tests)


def newest(wheel: Path) -> None:
    """Run tests with the newest version of each dependency."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    torch, more = wheel.parent / "torch.txt", (*TESTING, "nervaluate", "seqeval")
    torch.write_text("\n".join(line for line in lines if line.startswith("torch==")))
    with environment(wheel, NEWEST_EXTRAS, *more, constraints=torch) as clean:
        clean("-m", "pip", "list")
        # A warning that something will go is no failure of today.
        quietly = ("-p", "no:cacheprovider", "-W", "default::DeprecationWarning")
        clean("-m", "pytest", *quietly, "-n", "auto", "tests/unit")


CHECKS = {check.__name__: check for check in (contents, installed, resolved, floors, newest)}


if __name__ == "__main__":
    main()
