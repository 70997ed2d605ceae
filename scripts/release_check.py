"""Checks what must hold before a release and does not fit continuous integration.

Of `make release-check`:

    python scripts/release_check.py                 # everything; an hour on two cores
    python scripts/release_check.py --only latex    # one check

latex      pdflatex sets the figures of the demo, of recipes with a mock victim and of a run whose
           names are hostile. Needs texlive-latex-base and texlive-latex-recommended.
fuzz       5,000 damaged inputs (scripts/fuzz.py).
notebooks  Every notebook runs from its first cell to its last, without a network.
site       The site is built with every warning an error, loads nothing from elsewhere, and is
           searched in Chromium as files.
tests      The tests that are marked `release`, and all kill tests.
contents   Wheel and sdist hold what git tracks, licences included, and no secret; `twine check`.
installed  For each extra a clean environment: the wheel is installed, what the extra brings is
           imported, and one question is asked of the mock.
resolved   pip finds wheels of all dependencies for Linux on every supported Python.
floors     Tests with the lowest version of every direct dependency.
newest     Tests with the newest versions, torch as in constraints.txt.
container  The Dockerfile is linted, and built and run where a daemon is.

`installed`, `resolved`, `floors` and `newest` need an index of packages. A check whose tools are
missing fails. Exit code 1 if any check fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement

from chromium import chromium

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 12_000_000
"""Bytes of the wheel, and of the sdist."""
BESIDE = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "README.md", "SECURITY.md"} | {
    ".gitignore",
    "PKG-INFO",
    "pyproject.toml",
}
"""All that an sdist holds outside the package."""
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bsk-[A-Za-z0-9]{32,}|\bhf_[A-Za-z0-9]{30,}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}"
)
FLOOR_EXTRAS = ("figures", "openai", "spacy", "xlsx")
"""Extras whose floors are tested with those of the base: those that need no weights."""
FLOOR_TESTS = tuple(f"tests/unit/{room}" for room in ("core", "entities", "page", "stats", "store"))
NEWEST_EXTRAS = "adapters,llama-cpp,minilm,openai,quantized,spacy"
TESTING = ("hypothesis", "pillow", "pytest", "pytest-timeout", "pytest-xdist")
"""What these tests need besides the package."""
DEMO = ROOT / "runs" / "demo"
RECIPES = ("xian2025-figure2", "xian2025-figure3", "xian2025-figure4", "xian2025-table2")
HOSTILE = r"$\frac{1}{0$ 药物 50 % & #1 \input{x} ~^_ <b>"
SECONDS = 120
"""For one document, and for one notebook."""
NO_NETWORK = {
    "HF_HUB_OFFLINE": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"),
    "no_proxy": "127.0.0.1,localhost",
}
"""The environment of notebooks: what leaves this machine goes to a port without a listener."""
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
NOTEBOOK = """\
import nbformat, sys
from nbclient import NotebookClient
path, folder, seconds = sys.argv[1:]
NotebookClient(nbformat.read(path, as_version=4), timeout=int(seconds),
               resources={"metadata": {"path": folder}}).execute()
"""
LOADS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"(?:src|href|srcset|data|poster)=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|(?:@import\s+[\"']?|url\([\"']?)(?:https?:)?//[^\"')\s]+",
    re.IGNORECASE,
)
"""What a page loads by itself; links that a reader may follow are not meant."""


class Failed(Exception):
    """A check failed; the message says what is wrong and what to do."""


def main() -> int:
    """Return 1 where a check failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=CHECKS)
    failed = False
    for name in parser.parse_args().only:
        began = time.monotonic()
        try:
            result = CHECKS[name]()
        except Failed as error:
            failed, result = True, f"FAILED: {error}"
        print(f"{name} ({time.monotonic() - began:.0f} s): {result}", flush=True)
    return int(failed)


def run(*command: str, cwd: Path = ROOT, env: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command without this checkout's PYTHONPATH and return what it prints.

    Raises:
        Failed: it ends with another code than 0.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, cwd=cwd, env={**kept, **env},
        errors="replace",
    )  # fmt: skip
    if done.returncode:
        words = " ".join((done.stdout + done.stderr).split())[-1200:]
        raise Failed(f"{' '.join(command)[:200]}: {words}")
    return done.stdout


def python(*arguments: str, env: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run this Python."""
    return run(sys.executable, *arguments, env=env)


# -- figures, inputs, notebooks, site, tests -------------------------------------------------------


def check_latex() -> str:
    """Set the figures of every run in every layout that fills any."""
    from medstress.report.papers import LAYOUTS

    if shutil.which("pdflatex") is None:
        raise Failed("pdflatex is missing; install texlive-latex-base, texlive-latex-recommended")
    import medstress

    n_set = 0
    with tempfile.TemporaryDirectory() as made:
        for folder in runs(Path(made)):
            for paper in (None, *LAYOUTS):
                out = Path(made) / f"figures-{folder.name}-{paper or 'own'}"
                files = medstress.open(folder).figures(out, ("pdf",), paper)
                if not any(one.files for one in files):
                    continue
                for path in out.glob("*.pdf"):
                    if b"/Type3" in path.read_bytes():
                        raise Failed(f"{path.name} of {folder.name} has bitmap fonts (Type 3)")
                latex = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error")
                for _ in range(2):  # as references need
                    run("timeout", str(SECONDS), *latex, "-no-shell-escape", "figures.tex", cwd=out)
                n_set += 1
    return f"{n_set} documents set"


def runs(root: Path) -> Iterator[Path]:
    """Make the runs, and yield their folders."""
    import medstress
    from medstress import recipes

    if not (DEMO / "run.sqlite").is_file():
        python("-m", "medstress", "demo", "--out", str(DEMO), "--quiet")
    yield DEMO
    names = root / "names.txt"
    words = [f"{a}{b}" for b in ("osis", "itis", "emia") for a in "abcdefghijklmnop"]
    names.write_text("\n".join(words), encoding="utf-8")
    for recipe in RECIPES:
        tables = tomllib.loads(recipes.text_of(recipe))
        changes = ['victim.backend="mock"', f'entities.vocabulary="{names}"', "attack.budget=8"]
        changes += ["experiment.seeds=[0]"]
        if "analysis" in tables:
            changes.append('analysis.embedder="ngram"')
        changes += [
            f"entities.{group['name']}.embedding='ngram'"
            for group in tables["entities"]
            if group["embedding"] == "minilm"
        ]
        sets = [part for change in changes for part in ("--set", change)]
        small = ("--out", str(root / recipe), "--limit", "24", "--quiet")
        python("-m", "medstress", "run", recipe, *small, *sets)
        yield root / recipe
    attack = {"name": "entity_substitution", "sampler": "pdws", "budget": 3}
    group = {"type": "diseases", "name": HOSTILE, "vocabulary": str(names), "embedding": "ngram"}
    hostile = {
        "experiment": {"name": "hostile", "seeds": [0]},
        "dataset": [{"name": "sample", "label": HOSTILE, "limit": 24}],
        "entities": [group],
        "victim": [{"name": HOSTILE, "backend": "mock"}],
        "attack": [{**attack, "n": n, "label": f"{HOSTILE} {n}"} for n in (-9, 1, 9)],
    }
    medstress.run(hostile, out=root / "hostile")
    yield root / "hostile"


def check_fuzz() -> str:
    """Run the fuzzer; others than those of seed 0, which are a test."""
    python("scripts/fuzz.py", "--inputs", "5000", "--seed", "1")
    return "5,000 damaged inputs did no harm"


def check_notebooks() -> str:
    """Execute every notebook in an empty folder."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    network = {**NO_NETWORK, **{name.upper(): value for name, value in NO_NETWORK.items()}}
    for path in notebooks:
        with tempfile.TemporaryDirectory() as folder:
            network["MEDSTRESS_CACHE"] = f"{folder}/cache"
            python("-c", NOTEBOOK, str(path), folder, str(SECONDS), env=network)
    return ", ".join(path.stem for path in notebooks)


def check_site() -> str:
    """Build the site, look for what it would load from elsewhere, and search it."""
    run("make", "docs")
    site = ROOT / "build" / "site"
    pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    for path in [*pages, *site.rglob("*.css")]:
        if elsewhere := LOADS.search(path.read_text("utf-8")):
            raise Failed(f"{path.relative_to(site)} loads from elsewhere: {elsewhere[0]}")
    requests: list[str] = []
    with chromium() as browser:
        page = browser.new_context().new_page()
        page.on("request", lambda one: requests.append(one.url))
        for path in [*pages, site / "index.html"]:
            page.goto(path.as_uri())
        page.fill("input[name=query]", "clinicians")
        page.wait_for_selector(".md-search-result__item", timeout=20_000)
    local = (site.as_uri(), "data:", "blob:")
    if elsewhere_asked := [url for url in requests if not url.startswith(local)]:
        raise Failed(f"the site loads from elsewhere: {elsewhere_asked[0]}")
    return f"{len(pages)} pages, nothing from elsewhere"


def check_tests() -> str:
    """Run what is too long for continuous integration."""
    parallel = ("-n", "auto", "--dist", "loadfile")
    return last_line(python("-m", "pytest", "-m", "release or kills", *parallel, "tests"))


def last_line(printed: str) -> str:
    """Return the last line of what a command printed."""
    return printed.strip().splitlines()[-1]


# -- wheel and sdist -------------------------------------------------------------------------------


def build(out: Path) -> tuple[Path, Path]:
    """Build wheel and sdist, the wheel from the sdist, and return both."""
    python("-m", "build", "--outdir", str(out), str(ROOT))
    wheel, sdist = (
        max(out.glob(end), key=lambda path: path.stat().st_mtime_ns)
        for end in ("*.whl", "*.tar.gz")
    )
    return wheel, sdist


def check_contents() -> str:
    """Build both and look into them."""
    with tempfile.TemporaryDirectory() as made:
        return examine(*build(Path(made)))


def examine(wheel: Path, sdist: Path) -> str:
    """Look into a wheel and an sdist that were built from this checkout."""
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = {name: opened.read(name) for name in opened.namelist()}
    in_sdist = {}
    with tarfile.open(sdist) as packed:
        for member in packed:
            if (file := packed.extractfile(member)) is not None:
                in_sdist[member.name.partition("/")[2]] = file.read()
    info = next(name.partition("/")[0] for name in in_wheel if ".dist-info/" in name)
    package = {f"src/{name}" for name in in_wheel if not name.startswith(info)}
    expected = set(run("git", "ls-files", "src/medstress").split())
    for archive, names in ((wheel, package), (sdist, in_sdist.keys() - BESIDE)):
        if differ := sorted(expected ^ set(names)):
            raise Failed(f"{archive.name} and git differ in {', '.join(differ[:5])}")
    if lacks := sorted(BESIDE - in_sdist.keys()):
        raise Failed(f"{sdist.name} lacks {', '.join(lacks)}")
    for name in PROJECT["license-files"]:
        if in_wheel.get(f"{info}/licenses/{name}") != (ROOT / name).read_bytes():
            raise Failed(f"the wheel lacks {name} among its licences")
    for archive, files in ((wheel, in_wheel), (sdist, in_sdist)):
        if (size := archive.stat().st_size) > LARGEST:
            raise Failed(f"{archive.name}: {size:,} bytes, more than {LARGEST:,}")
        if secrets := [name for name, data in files.items() if SECRET.search(data)]:
            raise Failed(f"{archive.name}: {secrets[0]} looks as if it held a secret")
    python("-m", "twine", "check", "--strict", str(wheel), str(sdist))
    sizes = (f"{path.name}: {path.stat().st_size / 1e6:.1f} MB" for path in (wheel, sdist))
    return "; ".join([*sizes, "twine check passed"])


@contextmanager
def environment(*what: str, constraints: Path | None = None) -> Iterator[Callable[..., str]]:
    """Install into a clean environment, and yield what runs its Python."""
    with tempfile.TemporaryDirectory(prefix="medstress-clean-") as folder:
        python("-m", "venv", folder)
        # Neither this folder nor PYTHONPATH may lend it a package.
        here = (str(next(Path(folder).glob("[bS]*/python*"))), "-P")
        limits = {"PIP_CONSTRAINT": str(constraints)} if constraints else {}
        # What is never imported is not compiled.
        run(*here, "-m", "pip", "install", "--quiet", "--no-compile", *what, env=limits)
        yield lambda *arguments, cwd=ROOT: run(*here, *arguments, cwd=cwd)


def parts(extra: str) -> list[Requirement]:
    """Return what an extra brings, those of extras that it names included."""
    brought = []
    for one in map(Requirement, EXTRAS[extra]):
        is_ours = one.name == PROJECT["name"]
        brought += (
            [part for name in sorted(one.extras) for part in parts(name)] if is_ours else [one]
        )
    return brought


def check_installed() -> str:
    """Install the wheel without extras and with each, and ask one question of the mock."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))
        for extra in (None, *EXTRAS):
            what = f"medstress{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
            folder = Path(made) / (extra or "none")
            folder.mkdir()
            (folder / "one.toml").write_text(MOCK, "utf-8")
            with environment(what, constraints=ROOT / "constraints.txt") as clean:
                clean("-c", IMPORTS, *(one.name for one in parts(extra)) if extra else ())
                medstress = ("-m", "medstress")
                clean(*medstress, "run", "one.toml", "--out", "run", "--quiet", cwd=folder)
                clean(*medstress, "verify", "run", cwd=folder)
    return f"without extras and with {', '.join(EXTRAS)}"


def check_resolved() -> str:
    """Resolve all extras together for every Python, without installing."""
    with tempfile.TemporaryDirectory() as made:
        wheel, _ = build(Path(made))
        for version in PYTHONS:
            python(
                *("-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
                *("--only-binary=:all:", "--python-version", version, "--target", f"{made}/never"),
                f"medstress[{','.join(EXTRAS)}] @ {wheel.as_uri()}",
            )
    return ", ".join(PYTHONS)


def check_floors() -> str:
    """Run tests with the lowest version of each dependency of the base and of `FLOOR_EXTRAS`."""
    base = list(map(Requirement, PROJECT["dependencies"]))
    pinned = {}
    for one in [*base, *(part for extra in FLOOR_EXTRAS for part in parts(extra))]:
        lowest = [part.version for part in one.specifier if part.operator in (">=", "==")]
        if len(lowest) != 1:
            raise Failed(f"pyproject.toml: {one} has no floor; write NAME>=VERSION")
        pinned[one.name] = f"{one.name}=={lowest[0]}"
    with environment(*pinned.values(), *TESTING, "--only-binary=:all:") as clean:
        clean("-m", "pip", "install", "--quiet", "--no-deps", str(ROOT))
        # What newer versions of the libraries no longer warn of is no concern of ours.
        printed = clean("-m", "pytest", "-p", "no:cacheprovider", *FLOOR_TESTS, "-W", "ignore")
    return f"{', '.join(pinned.values())}: {last_line(printed)}"


def check_newest() -> str:
    """Run tests with the newest version of each dependency."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as made:
        torch = Path(made) / "constraints.txt"
        torch.write_text("\n".join(line for line in lines if line.startswith("torch==")))
        with environment(f"{ROOT}[{NEWEST_EXTRAS}]", *TESTING, constraints=torch) as clean:
            installed = clean("-m", "pip", "list", "--format=freeze").split()
            # A warning that something will go is no failure of today.
            quietly = ("-p", "no:cacheprovider", "-W", "default::DeprecationWarning")
            printed = clean("-m", "pytest", *quietly, "-n", "auto", "tests/unit")
    return f"{', '.join(sorted(set(installed) - set(lines)))}: {last_line(printed)}"


def check_container() -> str:
    """Lint the Dockerfile; run the demo in its container where a daemon is."""
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        raise Failed("hadolint is missing; install it with: pip install --group release")
    run(linter, "Dockerfile")
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        return "linted; not run: there is no daemon"
    run(docker, "build", "--quiet", "--tag", "medstress:check", ".")
    no_rights = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    run(docker, "run", "--rm", *no_rights, "medstress:check")
    return "linted, built, and the demo ran in it"


CHECKS: dict[str, Callable[[], str]] = {
    "latex": check_latex,
    "fuzz": check_fuzz,
    "notebooks": check_notebooks,
    "site": check_site,
    "tests": check_tests,
    "contents": check_contents,
    "installed": check_installed,
    "resolved": check_resolved,
    "floors": check_floors,
    "newest": check_newest,
    "container": check_container,
}


if __name__ == "__main__":
    sys.exit(main())
