"""Checks what must hold before a release and does not fit continuous integration.

Of `make release-check`:

    python scripts/release_check.py                 # everything; an hour on two cores
    python scripts/release_check.py --only latex    # one check
    python scripts/release_check.py --demo DIR      # a finished demo run, so that none is made

latex  pdflatex sets the figures of the demo run, of small runs of every kind, and of a run whose
       names are hostile: one's own, and every layout of a paper. Needs the Debian packages
       texlive-latex-base and texlive-latex-recommended.
fuzz   5,000 damaged inputs (scripts/fuzz.py).
notebooks  Every notebook runs from its first cell to its last, without a network, in 30 seconds.
       Needs the extra `notebooks`, which `make release-check` installs.
snippets  The commands of the pages run, in the order in which they stand (scripts/snippet_runs.py).
site   The site is built with every warning an error, shows no Markdown as it is written, loads
       nothing from elsewhere, and is searched in Chromium as files, without a server. Needs the
       extra `docs`, which `make release-check` installs, and chromium.
links  The links of the pages to other sites lead somewhere. Where no address is reached, there is
       no network, and the check says so.
tests  The simulations that are marked `release`.
contents, installed, resolved, floors, newest  Wheel and sdist: scripts/package_check.py. They need
       an index of packages; what is not named so needs no network.
container  The Dockerfile is linted, and built and run where a daemon is. Needs `hadolint`, which
       the extra `release` brings.

A check whose tools are missing fails. Exit code 1 if any check fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import package_check
from clean_environments import Failed
from version_check import PARALLEL

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

TEX_PACKAGES = "texlive-latex-base and texlive-latex-recommended"
DEMO = ROOT / "runs" / "demo"
KINDS = ("substitution", "transfer", "medfuzz", "significance", "tagged", "similar", "trained")
"""The frozen experiments that are set: questions, conversations, tags, pairs, training."""
RECIPES = ("xian2025-figure2", "xian2025-figure3", "xian2025-figure4", "xian2025-table2")
"""Run with a mock victim on a few questions."""
HOSTILE = r"$\frac{1}{0$ 药物 50 % & #1 \input{x} ~^_ <b>"
FUZZED = 5_000
"""Others than the 150 of seed 0, which are a test."""
SECONDS = 120
"""For one document."""
NOTEBOOK_SECONDS = 30
"""For one notebook, its kernel's start included."""
NO_NETWORK = {
    "HF_HUB_OFFLINE": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"),
    "no_proxy": "127.0.0.1,localhost",
}
"""The environment of notebooks: what leaves this machine goes to a port that nobody listens on."""


def main() -> int:
    """Return 1 where a check failed."""
    args = _parser().parse_args()
    failed = []
    for name, check in CHECKS.items():
        if args.only and name not in args.only:
            continue
        began = time.monotonic()
        try:
            told = check(args)
        except Failed as error:
            failed.append(name)
            told = f"FAILED: {error}"
        print(f"{name} ({time.monotonic() - began:.0f} s): {told}", flush=True)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CHECKS, help="these checks alone")
    parser.add_argument("--demo", type=Path, help="a finished demo run (default: runs/demo)")
    return parser


def check_latex(args: argparse.Namespace) -> str:
    """Set the figures of every run in every layout that fills any."""
    if shutil.which("pdflatex") is None:
        raise Failed(f"pdflatex is missing; install {TEX_PACKAGES}")
    n_set = 0
    with tempfile.TemporaryDirectory() as made:
        for i, (name, folder) in enumerate(_runs(Path(made), args.demo)):
            for paper in (None, *_papers()):
                out = Path(made) / f"figures-{i}-{paper or 'own'}"
                if _drawn(folder, out, paper):
                    _set(out, f"{name}, {paper or 'own figures'}")
                    n_set += 1
    return f"{n_set} documents set"


def _papers() -> tuple[str, ...]:
    from medstress.papers.layouts import LAYOUTS

    return tuple(LAYOUTS)


def _drawn(folder: Path, out: Path, paper: str | None) -> bool:
    """Draw a run; return whether anything was made."""
    from medstress.api.results import Run
    from medstress.figures.outputs import Made

    found = Run(folder).figures(out, ("pdf",), paper)
    for path in out.glob("*.pdf"):
        if b"/Type3" in path.read_bytes():
            raise Failed(f"{path.name} of {folder} has bitmap fonts (Type 3)")
    return any(isinstance(each, Made) for each in found)


def _set(folder: Path, name: str) -> None:
    """Run pdflatex twice, as references need."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "figures.tex"],
            cwd=folder,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
        if done.returncode:
            raise Failed(f"{name}: {_why(done.stdout)}")


def _why(log: str) -> str:
    """Return the error of a log of pdflatex in one line."""
    if missing := re.search(r"File `([^']+)' not found", log):
        return f"{missing[1]} is missing; install {TEX_PACKAGES}"
    _, mark, error = log.partition("\n! ")
    return " ".join((error if mark else log[-400:])[:400].split())


def _runs(root: Path, demo: Path | None) -> Iterator[tuple[str, Path]]:
    yield "demo", _demo(root, demo)
    yield from _small_runs(root)
    yield from _recipes(root)
    yield "hostile names", _hostile(root)


def _demo(root: Path, given: Path | None) -> Path:
    folder = given or DEMO
    if (folder / "run.sqlite").is_file():
        return folder
    if given is not None:
        raise Failed(f"--demo {given}: no run is there")
    print("making the demo run, three minutes", flush=True)
    _medstress("demo", "--out", str(root / "demo"))
    return root / "demo"


def _small_runs(root: Path) -> Iterator[tuple[str, Path]]:
    from tests.frozen import capture, experiments

    for case in experiments.CASES:
        if case.name not in KINDS:
            continue
        folder = root / case.name
        folder.mkdir()
        capture.write_files(case, folder)
        with capture.working_in(folder):
            for step in case.steps:
                if callable(step):
                    step(folder)
                else:
                    capture.medstress(*step)
        yield case.name, folder / "run"


def _recipes(root: Path) -> Iterator[tuple[str, Path]]:
    from tests.frozen import capture

    names = [f"{a}{b}" for b in ("osis", "itis", "emia") for a in "abcdefghijklmnop"]
    (root / "names.txt").write_text("\n".join(names), encoding="utf-8")
    with capture.working_in(root):
        for name in RECIPES:
            _medstress(
                *("run", name, "--out", name, "--limit", "24", "--quiet"),
                *(part for change in _small(name) for part in ("--set", change)),
            )
            yield name, root / name


def _small(recipe: str) -> Iterator[str]:
    """Yield the changes that make a recipe quick."""
    import tomllib

    from medstress import recipes

    raw = tomllib.loads(recipes.text_of(recipe))
    yield 'victim.backend="mock"'
    yield 'entities.vocabulary="names.txt"'
    yield "experiment.seeds=[0]"
    yield f"attack.budget={min(8, max(attack['budget'] for attack in raw['attack']))}"
    if "analysis" in raw:
        yield 'analysis.embedder="ngram"'
    for group in raw["entities"]:
        if group["embedding"] == "minilm":
            yield f"entities.{group['name']}.embedding='ngram'"


def _hostile(root: Path) -> Path:
    import medstress

    attack = {"name": "entity_substitution", "sampler": "pdws", "budget": 3}
    medstress.run(
        {
            "experiment": {"name": "hostile", "seeds": [0]},
            "dataset": [{"name": "sample", "label": HOSTILE, "limit": 24}],
            "entities": [
                {"type": "diseases", "name": HOSTILE, "vocabulary": str(root / "names.txt"),
                 "embedding": "ngram"}
            ],
            "victim": [{"name": HOSTILE, "backend": "mock"}],
            "attack": [{**attack, "n": n, "label": f"{HOSTILE} {n}"} for n in (-9, 1, 9)],
        },
        out=root / "hostile",
    )  # fmt: skip
    return root / "hostile"


def _medstress(*arguments: str) -> None:
    command = [sys.executable, "-m", "medstress", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise Failed(f"medstress {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")


def check_fuzz(args: argparse.Namespace) -> str:
    """Run the fuzzer."""
    script = str(ROOT / "scripts" / "fuzz.py")
    command = [sys.executable, script, "--inputs", str(FUZZED), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(command[1:])}: {done.stdout[-800:]}{done.stderr[-400:]}")
    return f"{FUZZED:,} damaged inputs did no harm"


def check_notebooks(_: argparse.Namespace) -> str:
    """Execute every notebook in an empty folder."""
    took = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, _environment(NO_NETWORK):
            _execute(path, Path(folder))
        seconds = time.monotonic() - began
        if seconds > NOTEBOOK_SECONDS:
            raise Failed(f"{path.name} took {seconds:.0f} s, expected {NOTEBOOK_SECONDS} at most")
        took.append(f"{path.stem} {seconds:.0f} s")
    return ", ".join(took)


@contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Change the environment in both spellings; the checks that follow have theirs back."""
    before = dict(os.environ)
    os.environ.update(changed, **{name.upper(): value for name, value in changed.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _execute(path: Path, folder: Path) -> None:
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
    except ImportError as error:
        raise Failed(
            f"{error.name} is missing; install it with: pip install 'medstress[notebooks]'"
        ) from error
    os.environ["MEDSTRESS_CACHE"] = str(folder / "cache")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise Failed(f"{path.name}: {' '.join(str(error)[-800:].split())}") from error


def check_tests(_: argparse.Namespace) -> str:
    """Run what is too long for continuous integration."""
    command = [sys.executable, "-m", "pytest", "-m", "release", *PARALLEL, str(ROOT / "tests")]
    done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=ROOT)
    if done.returncode:
        raise Failed(f"pytest -m release: {done.stdout[-1200:]}")
    return done.stdout.strip().splitlines()[-1]


def check_snippets(_: argparse.Namespace) -> str:
    """Run what readers of the pages type."""
    import snippet_runs

    failed, n_ran = snippet_runs.check([])
    if failed:
        raise Failed("; ".join(failed))
    n_run, n_lines = snippet_runs.share()
    return f"{n_ran} commands ran; {n_lines - n_run} of {n_lines} lines are left out, with reasons"


def check_site(_: argparse.Namespace) -> str:
    """Build the site and look for what it would load from elsewhere."""
    import site_check
    from chromium import path_to_chromium

    if path_to_chromium() is None:
        raise Failed("chromium is missing; install it with: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        try:
            site = site_check.built(Path(folder) / "site")
        except ValueError as error:
            raise Failed(str(error)) from error
        raw = site_check.left_as_markdown(site)
        named = site_check.loaded_from_elsewhere(site)
        asked, n_found = site_check.asked_in_a_browser(site)
        n_pages = len(list(site.rglob("*.html")))
    if named or asked:
        raise Failed(f"the site loads from elsewhere: {', '.join([*named, *asked][:5])}")
    if raw:
        raise Failed(f"the site shows Markdown as it is written: {'; '.join(raw[:5])}")
    if not n_found:
        raise Failed(f"the search finds no page with {site_check.SOUGHT!r}")
    return f"{n_pages} pages, nothing from elsewhere; the search finds {n_found} pages"


def check_links(_: argparse.Namespace) -> str:
    """Follow the links of the pages to other sites."""
    import site_check

    dead, n_answered, n_links = site_check.dead_links()
    if not n_answered:
        return f"not followed: none of the {n_links} addresses is reached from here; {dead[0]}"
    if dead:
        raise Failed(f"{len(dead)} of {n_links} links lead nowhere: {'; '.join(dead[:5])}")
    return f"{n_links} links to other sites lead somewhere"


def check_container(_: argparse.Namespace) -> str:
    """Lint the Dockerfile; run the demo in its container where a daemon is."""
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        raise Failed("hadolint is missing; install it with: pip install 'medstress[release]'")
    _called(linter, str(ROOT / "Dockerfile"))
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        return "linted; not run: there is no daemon"
    _called(docker, "build", "--quiet", "--tag", "medstress:check", str(ROOT))
    no_rights = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    _called(docker, "run", "--rm", *no_rights, "medstress:check")
    return "linted, built, and the demo ran in it"


def _called(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {(done.stdout + done.stderr)[-800:]}")


def _of_the_package(name: str) -> Callable[[argparse.Namespace], str]:
    def check(_: argparse.Namespace) -> str:
        given = argparse.Namespace(extras=package_check.INSTALLED, python=package_check.PYTHONS)
        for told in package_check.CHECKS[name](given):
            print(f"  {told}", flush=True)
        return "passed"

    return check


CHECKS: dict[str, Callable[[argparse.Namespace], str]] = {
    "latex": check_latex,
    "fuzz": check_fuzz,
    "notebooks": check_notebooks,
    "snippets": check_snippets,
    "site": check_site,
    "links": check_links,
    "tests": check_tests,
    "container": check_container,
    **{name: _of_the_package(name) for name in package_check.CHECKS},
}


if __name__ == "__main__":
    sys.exit(main())
