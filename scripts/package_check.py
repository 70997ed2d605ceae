"""Checks wheel and sdist: what they hold, that they install, run and resolve.

Of `make release-check`, and by hand:

    python scripts/package_check.py contents             # build both, look into them, `twine check`
    python scripts/package_check.py installed --extras none figures openai
    python scripts/package_check.py resolved --python 3.14
    python scripts/package_check.py floors               # the lowest versions that are allowed
    python scripts/package_check.py newest               # the newest

contents   Nothing is missing, nothing is there that belongs elsewhere, licences are in, both stay
           below a size. Needs `build` and `twine`.
installed  For each extra a clean environment: the wheel is installed, what the extra brings is
           imported, and one question is asked of the mock.
resolved   pip finds wheels of all dependencies for Linux on every supported Python, without
           installing them.
floors     A clean environment with the lowest version of every direct dependency, as a wheel, and
           the tests `FLOOR_TESTS` in it.
newest     A clean environment with the newest versions that the extras `NEWEST_EXTRAS` allow, torch
           as in constraints.txt, and tests/unit in it.

Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement

from clean_environments import PROJECT, ROOT, Failed, environment, install, parts, run

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 12_000_000
"""Bytes of the wheel, and of the sdist."""
BESIDE = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "README.md", "SECURITY.md"} | {
    ".gitignore",
    "PKG-INFO",
    "pyproject.toml",
}
"""All that an sdist holds beside the package."""
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bsk-[A-Za-z0-9]{32,}|\bhf_[A-Za-z0-9]{30,}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}"
)
EXTRAS = tuple(PROJECT["optional-dependencies"])
FLOOR_EXTRAS = ("figures", "openai", "spacy", "xlsx")
"""Extras whose floors are tested beside those of the base: those that need no weights."""
FLOOR_TESTS = (
    *(f"tests/unit/{room}" for room in ("core", "entities", "page", "report", "stats")),
    *("tests/unit/store", "tests/cli/test_figures_and_recipes.py"),
)
NEWEST_EXTRAS = ("adapters", "llama-cpp", "minilm", "openai", "quantized", "spacy")
TESTING = ("hypothesis", "pillow", "pytest", "pytest-timeout", "pytest-xdist")
"""What these tests need beside the package."""
MOCK = """\
[experiment]
name = "one"
controls = false
[dataset]
name = "sample"
limit = 1
[entities]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[victim]
backend = "mock"
[attack]
name = "entity_substitution"
sampler = "random"
budget = 2
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


def main() -> int:
    """Return 1 where a check failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    named = {"nargs": "+", "metavar": "EXTRA"}
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--extras", choices=("none", *EXTRAS), default=("none", *EXTRAS), **named)  # type: ignore[arg-type]
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=PYTHONS)
    args = parser.parse_args()
    try:
        for told in CHECKS[args.check](args):
            print(told, flush=True)
    except Failed as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    return 0


def build(out: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Build wheel and sdist, the wheel from the sdist, and return both."""
    run([sys.executable, "-m", "build", "--outdir", str(out), str(root)], "build")
    return max(out.glob("*.whl"), key=changed), max(out.glob("*.tar.gz"), key=changed)


def changed(path: Path) -> int:
    """Return when a file was written."""
    return path.stat().st_mtime_ns


def check_contents(_: argparse.Namespace) -> Iterator[str]:
    """Build both and look into them."""
    with tempfile.TemporaryDirectory() as made:
        yield from examine(*build(Path(made)))


def examine(wheel: Path, sdist: Path, root: Path = ROOT) -> Iterator[str]:
    """Look into a wheel and an sdist that were built from a checkout."""
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(sdist) as packed:
        files = {each.name.partition("/")[2]: each for each in packed if each.isfile()}
        in_sdist = {name: packed.extractfile(each).read() for name, each in files.items()}  # type: ignore[union-attr]
    info = next(name.partition("/")[0] for name in in_wheel if ".dist-info/" in name)
    package = {f"src/{name}" for name in in_wheel if not name.startswith(info)}
    expected = set(run(["git", "ls-files", "src/medstress"], "git ls-files", cwd=root).split())
    for archive, found in ((wheel, package), (sdist, in_sdist.keys() - BESIDE)):
        if missing := sorted(expected - found):
            raise Failed(f"{archive.name} lacks {', '.join(missing[:5])}: is it ignored by git?")
        if more := sorted(found - expected):
            raise Failed(f"{archive.name} holds {', '.join(more[:5])}, which git does not track")
    if lacks := sorted(BESIDE - in_sdist.keys()):
        raise Failed(f"{sdist.name} lacks {', '.join(lacks)}")
    for name in PROJECT["license-files"]:
        if in_wheel.get(f"{info}/licenses/{name}") != (root / name).read_bytes():
            raise Failed(f"the wheel lacks {name} among its licences")
    for archive, held in ((wheel, in_wheel), (sdist, in_sdist)):
        if (size := archive.stat().st_size) > LARGEST:
            raise Failed(f"{archive.name}: {size:,} bytes, more than {LARGEST:,}")
        if secrets := [name for name, data in held.items() if SECRET.search(data)]:
            raise Failed(f"{archive.name}: {secrets[0]} looks as if it held a secret")
        yield f"{archive.name}: {size / 1e6:.1f} MB, {len(held)} files"
    run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], "twine")
    yield "twine check: passed"


def check_installed(args: argparse.Namespace) -> Iterator[str]:
    """Install the wheel without extras and with each, and ask one question of the mock."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))
        yield from _each(args.extras, lambda extra: _installed(extra, wheel))


def _each(cases: Iterable[str], check: Callable[[str], str]) -> Iterator[str]:
    """Check all cases, two at a time, as pip mostly waits; yield what is told of each.

    Raises:
        Failed: names every case that failed, at the end.
    """

    def told(case: str) -> str:
        try:
            return check(case)
        except Failed as error:
            return f"FAILED: {error}"

    fails, named = [], list(cases)
    with ThreadPoolExecutor(2) as pool:
        for name, said in zip(named, pool.map(told, named), strict=True):
            yield f"{name}: {said}"
            fails += [name] * said.startswith("FAILED: ")
    if fails:
        raise Failed(f"these failed: {'; '.join(fails)}")


def _installed(extra: str, wheel: Path) -> str:
    with environment() as python, tempfile.TemporaryDirectory() as folder:
        name = "" if extra == "none" else f"[{extra}]"
        what = f"medstress{name} @ {wheel.as_uri()}"
        install(python, what, constraints=ROOT / "constraints.txt")
        brought = [] if extra == "none" else [each.name for each in parts(extra)]
        run([*python, "-c", IMPORTS, *brought], f"import what {extra} brings")
        (Path(folder) / "one.toml").write_text(MOCK, "utf-8")
        command = [*python, "-m", "medstress", "run", "one.toml", "--out", "run", "--quiet"]
        run(command, "a run on one question", cwd=Path(folder))
        run([*python, "-m", "medstress", "verify", "run"], "verify", cwd=Path(folder))
    return "installed, imported, one question asked and verified"


def check_resolved(args: argparse.Namespace) -> Iterator[str]:
    """Resolve all extras together for every Python, without installing."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))

        def resolved(version: str) -> str:
            command = [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                *("--ignore-installed", "--only-binary=:all:", "--python-version", version),
                *("--target", f"{made}/never", f"medstress[{','.join(EXTRAS)}] @ {wheel.as_uri()}"),
            ]
            run(command, f"resolving for Python {version}")
            return "resolved"

        yield from _each(args.python, resolved)


def check_floors(_: argparse.Namespace) -> Iterator[str]:
    """Run tests with the lowest version of each dependency."""
    pinned = [f"{name}=={version}" for name, version in floors().items()]
    with environment() as python:
        install(python, *pinned, *TESTING, "--only-binary=:all:")
        install(python, "--no-deps", str(ROOT))
        command = [*python, "-m", "pytest", "-p", "no:cacheprovider", *FLOOR_TESTS]
        # What newer versions of the libraries no longer warn of is no concern of ours.
        told = run([*command, "-W", "ignore"], "the tests on the floors", cwd=ROOT)
    yield f"{', '.join(pinned)}: {told.strip().splitlines()[-1]}"


def floors() -> Mapping[str, str]:
    """Return the lowest version of each dependency of the base and of `FLOOR_EXTRAS`."""
    found = {}
    base = list(map(Requirement, PROJECT["dependencies"]))
    for each in [*base, *(part for extra in FLOOR_EXTRAS for part in parts(extra))]:
        lowest = [part.version for part in each.specifier if part.operator in (">=", "==")]
        if len(lowest) != 1:
            raise Failed(f"pyproject.toml: {each} has no floor; write NAME>=VERSION")
        found[each.name] = lowest[0]
    return found


def check_newest(_: argparse.Namespace) -> Iterator[str]:
    """Run tests with the newest version of each dependency."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as made, environment() as python:
        only_torch = Path(made) / "constraints.txt"
        only_torch.write_text("\n".join(line for line in lines if line.startswith("torch==")))
        install(python, f"{ROOT}[{','.join(NEWEST_EXTRAS)}]", *TESTING, constraints=only_torch)
        found = run([*python, "-m", "pip", "list", "--format=freeze"], "pip list")
        command = [*python, "-m", "pytest", "-p", "no:cacheprovider", "-n", "auto", "tests/unit"]
        # A warning that something will go is no failure of today.
        told = run([*command, "-W", "default::DeprecationWarning"], "newest versions", cwd=ROOT)
    newer = sorted(set(found.split()) - set(lines))
    yield f"{', '.join(newer)}: {told.strip().splitlines()[-1]}"


CHECKS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "contents": check_contents,
    "installed": check_installed,
    "resolved": check_resolved,
    "floors": check_floors,
    "newest": check_newest,
}


if __name__ == "__main__":
    sys.exit(main())
