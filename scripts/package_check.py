"""Checks wheel and sdist: what they hold, that they install, run and resolve.

Of `make release-check`, and by hand:

    python scripts/package_check.py contents             # build both, look into them, `twine check`
    python scripts/package_check.py installed --extras none figures openai
    python scripts/package_check.py resolved --python 3.14
    python scripts/package_check.py floors               # the lowest versions that are allowed
    python scripts/package_check.py newest               # the newest

contents   Nothing is missing, nothing is there that belongs elsewhere, licences are in, the
           metadata say what pyproject.toml says, both stay below a size. Needs `build`, `twine`.
installed  For each extra a clean environment: the wheel is installed, what the extra brings is
           imported, and one question is asked of the mock. Extras that need a GPU's libraries
           (`ONLY_RESOLVED`) are left out.
resolved   pip finds wheels of all dependencies for Linux on every supported Python, without
           installing them. Markers such as `python_version` are evaluated for the Python at hand.
           What is published as sources alone (`ONLY_SOURCES`) is built first.
floors     A clean environment with the lowest version of every direct dependency, as a wheel, and
           the tests `FLOOR_TESTS` in it.
newest     A clean environment with the newest versions that the extras `NEWEST_EXTRAS` allow, torch
           as in constraints.txt, and tests/unit in it.

Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import email
import re
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clean_environments import PROJECT, ROOT, Failed, environment, install, parts, run
from version_check import check_floors, check_newest

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 12_000_000
"""Bytes of the wheel, and of the sdist."""
LARGEST_FILE = 2_000_000
"""Bytes of one file in them."""
BESIDE = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "README.md", "SECURITY.md"} | {
    ".gitignore",
    "PKG-INFO",
    "pyproject.toml",
}
"""All that an sdist holds beside the package."""
UNWANTED = re.compile(
    r"(^|/)(tests?|test_[^/]*|runs|\.env|\.git|\.venv|__pycache__|[^/]*\.(sqlite|pyc|pem|key|log))(/|$)"
)
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bsk-[A-Za-z0-9]{32,}|\bhf_[A-Za-z0-9]{30,}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}"
)
TOGETHER = (
    "adapters,docs,explain,figures,llama-cpp,minilm,notebooks,openai,pandas,quantized,review,"
    "spacy,transformers,xlsx",
    "ray",
    "textattack",
)
"""Extras that go into one environment; each line is one."""
ONLY_SOURCES = ("jieba", "langdetect", "pinyin", "pptree")
"""Parts of textattack and its flair that have no wheel on an index, and need no compiler: their
wheels fit every Python and system."""
TOO_NEW = {("3.13", "textattack"), ("3.14", "textattack")}
"""Not resolved: editdistance, which TextAttack wants, has no wheels after Python 3.12."""
ONLY_RESOLVED = ("dev", "release")
"""Not installed here: they are what checks have."""
INSTALLED = ("none", *(e for e in PROJECT["optional-dependencies"] if e not in ONLY_RESOLVED))
OWN_CONSTRAINTS = {
    "ray": "constraints-ray.txt",
    "textattack": "constraints-textattack.txt",
}
"""Extra -> the versions it is tested with, where `constraints.txt` does not fit."""
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
from medstress.machine.textattack import import_textattack
wanted = {name.lower().replace("_", "-") for name in sys.argv[1:]}
for module, owners in sorted(packages_distributions().items()):
    plain = module.isidentifier() and not module.startswith("_") and "test" not in module
    if plain and wanted & {owner.lower().replace("_", "-") for owner in owners}:
        (import_textattack if module == "textattack" else import_module)(module)
"""
"""Imports all that the named packages bring; TextAttack as medstress does, without a network."""


def main() -> int:
    """Return 1 where a check failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument(
        "--extras",
        nargs="+",
        choices=INSTALLED,
        default=INSTALLED,
        metavar="EXTRA",
        help="installed: these alone; `none` is the base",
    )
    parser.add_argument(
        "--python", nargs="+", choices=PYTHONS, default=PYTHONS, help="resolved: for these alone"
    )
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
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def check_contents(_: argparse.Namespace) -> Iterator[str]:
    """Build both and look into them."""
    with tempfile.TemporaryDirectory() as made:
        wheel, sdist = build(Path(made))
        yield from examine(wheel, sdist)
        run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], "twine")
    yield "twine check: passed"


def examine(wheel: Path, sdist: Path, root: Path = ROOT) -> Iterator[str]:
    """Look into a wheel and an sdist that were built from a checkout."""
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(sdist) as packed:
        files = {each.name.partition("/")[2]: each for each in packed if each.isfile()}
        in_sdist = {name: packed.extractfile(each).read() for name, each in files.items()}  # type: ignore[union-attr]
    info = next(name.partition("/")[0] for name in in_wheel if ".dist-info/" in name)
    package = {f"src/{name}" for name in in_wheel if not name.startswith(info)}
    for archive, found in ((wheel, package), (sdist, in_sdist.keys() - BESIDE)):
        expected = set(_tracked(root, "src/medstress"))
        if missing := sorted(expected - found):
            raise Failed(f"{archive.name} lacks {', '.join(missing[:5])}: is it ignored by git?")
        if more := sorted(found - expected):
            raise Failed(f"{archive.name} holds {', '.join(more[:5])}, which git does not track")
    if lacks := sorted(BESIDE - in_sdist.keys()):
        raise Failed(f"{sdist.name} lacks {', '.join(lacks)}")
    for archive, held in ((wheel, in_wheel), (sdist, in_sdist)):
        _check_files(archive, held)
    _check_metadata(in_wheel, info)
    for archive in (wheel, sdist):
        yield f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB"
    yield f"{len(in_wheel)} files in the wheel, {len(in_sdist)} in the sdist"


def _check_files(archive: Path, held: Mapping[str, bytes]) -> None:
    if archive.stat().st_size > LARGEST:
        raise Failed(f"{archive.name}: {archive.stat().st_size:,} bytes, more than {LARGEST:,}")
    for name, data in held.items():
        # The conformance suites and the templates of `medstress new` are meant to be there.
        shipped = re.sub("medstress/(testing|scaffolding/templates)/.*", "", name)
        if UNWANTED.search(shipped):
            raise Failed(f"{archive.name} holds {name}, which belongs to no package")
        if len(data) > LARGEST_FILE:
            raise Failed(f"{archive.name}: {name} has {len(data):,} bytes; more than a table needs")
        if SECRET.search(data):
            raise Failed(f"{archive.name}: {name} looks as if it held a secret")


def _check_metadata(held: Mapping[str, bytes], info: str) -> None:
    said = email.message_from_bytes(held[f"{info}/METADATA"])
    for field, expected in (
        ("Name", PROJECT["name"]),
        ("Requires-Python", PROJECT["requires-python"]),
        ("License-Expression", PROJECT["license"]),
        ("Description-Content-Type", "text/markdown"),
    ):
        if said[field] != expected:
            raise Failed(f"metadata: {field} is {said[field]!r}, expected {expected!r}")
    if set(said.get_all("License-File", ())) != set(PROJECT["license-files"]):
        raise Failed("metadata: License-File does not name the license-files of pyproject.toml")
    for name in PROJECT["license-files"]:
        if held.get(f"{info}/licenses/{name}") != (ROOT / name).read_bytes():
            raise Failed(f"the wheel lacks {name} among its licences")
    if set(said.get_all("Provides-Extra", ())) != set(PROJECT["optional-dependencies"]):
        raise Failed("metadata: the extras are not those of pyproject.toml")
    told = held[f"{info}/entry_points.txt"].decode()
    if "medstress = medstress.__main__:main" not in told:
        raise Failed("the wheel declares no command `medstress`")


def check_installed(args: argparse.Namespace) -> Iterator[str]:
    """Install the wheel without extras and with each, and ask one question of the mock."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))
        yield from _each({extra: (extra, wheel) for extra in args.extras}, _installed)


def _each(
    cases: Mapping[str, tuple[str, Path]], check: Callable[[str, Path], str]
) -> Iterator[str]:
    """Check all cases, two at a time, as pip mostly waits; yield what is told of each.

    Raises:
        Failed: names every case that failed, at the end.
    """

    def told(case: tuple[str, Path]) -> str:
        try:
            return check(*case)
        except Failed as error:
            return f"FAILED: {error}"

    fails = []
    with ThreadPoolExecutor(2) as pool:
        for name, said in zip(cases, pool.map(told, cases.values()), strict=True):
            yield f"{name}: {said}"
            fails += [name] * said.startswith("FAILED: ")
    if fails:
        raise Failed(f"these failed: {'; '.join(fails)}")


def _installed(extra: str, wheel: Path) -> str:
    with environment() as python:
        constraints = ROOT / OWN_CONSTRAINTS.get(extra, "constraints.txt")
        name = "" if extra == "none" else f"[{extra}]"
        install(python, f"medstress{name} @ {wheel.as_uri()}", constraints=constraints)
        brought = [] if extra == "none" else [each.name for each in parts(extra)]
        run([*python, "-c", IMPORTS, *brought], f"import what {extra} brings")
        return f"installed, imported, {_asked_once(python)}"


def _asked_once(python: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "one.toml").write_text(MOCK, "utf-8")
        command = [*python, "-m", "medstress", "run", "one.toml", "--out", "run", "--quiet"]
        run(command, "a run on one question", cwd=Path(folder))
        run([*python, "-m", "medstress", "verify", "run"], "verify", cwd=Path(folder))
    return "one question asked and verified"


def check_resolved(args: argparse.Namespace) -> Iterator[str]:
    """Resolve all extras for every Python, without installing."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))
        pip = (sys.executable, "-m", "pip")
        built = f"{made}/built"
        run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", built, *ONLY_SOURCES], "wheels")

        def resolved(case: str, wheel: Path) -> str:
            version, _, extras = case.partition(" ")
            command = [
                *(*pip, "install", "--quiet", "--dry-run", "--find-links", built),
                *("--ignore-installed", "--only-binary=:all:", "--python-version", version),
                *("--target", f"{made}/never", f"medstress[{extras}] @ {wheel.as_uri()}"),
            ]
            run(command, f"resolving for Python {version}")
            return "resolved"

        asked = [(version, extras) for version in args.python for extras in TOGETHER]
        cases = [" ".join(each) for each in asked if each not in TOO_NEW]
        yield from _each({f"Python {case}": (case, wheel) for case in cases}, resolved)


def _tracked(root: Path, folder: str) -> list[str]:
    return run(["git", "ls-files", folder], "git ls-files", cwd=root).split()


CHECKS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "contents": check_contents,
    "installed": check_installed,
    "resolved": check_resolved,
    "floors": check_floors,
    "newest": check_newest,
}


if __name__ == "__main__":
    sys.exit(main())
