"""Checks what must hold before a release and does not fit continuous integration.

Of `make release-check`:

    python scripts/release_check.py                 # everything; an hour on two cores
    python scripts/release_check.py --only latex    # one check

latex  pdflatex sets the figures of the demo run, of recipes with a mock victim and of a run whose
       names are hostile: one's own, and every layout of a paper. Needs the Debian packages
       texlive-latex-base and texlive-latex-recommended.
fuzz   5,000 damaged inputs (scripts/fuzz.py).
notebooks  Every notebook runs from its first cell to its last, without a network.
site   The site is built with every warning an error, loads nothing from elsewhere, and is searched
       in Chromium as files, without a server.
tests  The tests that are marked `release`, and all kill tests.
contents, installed, resolved, floors, newest  Wheel and sdist: scripts/package_check.py. They need
       an index of packages; what is not named so needs no network.
container  The Dockerfile is linted, and built and run where a daemon is.

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
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import package_check
from clean_environments import ROOT, Failed

TEX_PACKAGES = "texlive-latex-base and texlive-latex-recommended"
DEMO = ROOT / "runs" / "demo"
RECIPES = ("xian2025-figure2", "xian2025-figure3", "xian2025-figure4", "xian2025-table2")
"""Run with a mock victim on a few questions."""
HOSTILE = r"$\frac{1}{0$ 药物 50 % & #1 \input{x} ~^_ <b>"
SECONDS = 120
"""For one document, and for one notebook."""
NO_NETWORK = {
    "HF_HUB_OFFLINE": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"),
    "no_proxy": "127.0.0.1,localhost",
}
"""The environment of notebooks: what leaves this machine goes to a port that nobody listens on."""


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
            told = CHECKS[name]()
        except Failed as error:
            failed, told = True, f"FAILED: {error}"
        print(f"{name} ({time.monotonic() - began:.0f} s): {told}", flush=True)
    return int(failed)


def called(*command: str, **changed: str) -> str:
    """Run a command in the repository and return what it prints.

    Raises:
        Failed: it ends with another code than 0.
    """
    env = {**os.environ, **changed}
    done = subprocess.run(
        command, capture_output=True, check=False, text=True, cwd=ROOT, env=env, errors="replace"
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-1200:]}")
    return done.stdout


def medstress(*arguments: str) -> None:
    """Run a command of medstress."""
    called(sys.executable, "-m", "medstress", *arguments)


def check_latex() -> str:
    """Set the figures of every run in every layout that fills any."""
    from medstress.report.papers import LAYOUTS

    if shutil.which("pdflatex") is None:
        raise Failed(f"pdflatex is missing; install {TEX_PACKAGES}")
    n_set = 0
    with tempfile.TemporaryDirectory() as made:
        for run in runs(Path(made)):
            for paper in (None, *LAYOUTS):
                out = Path(made) / f"figures-{run.name}-{paper or 'own'}"
                if drawn(run, out, paper):
                    set_by_latex(out)
                    n_set += 1
    return f"{n_set} documents set"


def runs(root: Path) -> Iterator[Path]:
    """Make the runs, and yield their folders."""
    if not (DEMO / "run.sqlite").is_file():
        medstress("demo", "--out", str(DEMO), "--quiet")
    yield DEMO
    names = root / "names.txt"
    words = [f"{a}{b}" for b in ("osis", "itis", "emia") for a in "abcdefghijklmnop"]
    names.write_text("\n".join(words), encoding="utf-8")
    for recipe in RECIPES:
        changes = [part for change in small(recipe, names) for part in ("--set", change)]
        medstress(
            *("run", recipe, "--out", str(root / recipe), "--limit", "24", "--quiet"), *changes
        )
        yield root / recipe
    yield hostile(root / "hostile", names)


def small(recipe: str, names: Path) -> Iterator[str]:
    """Yield the changes that make a recipe quick."""
    from medstress import recipes

    raw = tomllib.loads(recipes.text_of(recipe))
    yield 'victim.backend="mock"'
    yield f'entities.vocabulary="{names}"'
    yield "experiment.seeds=[0]"
    yield f"attack.budget={min(8, max(attack['budget'] for attack in raw['attack']))}"
    if "analysis" in raw:
        yield 'analysis.embedder="ngram"'
    for group in raw["entities"]:
        if group["embedding"] == "minilm":
            yield f"entities.{group['name']}.embedding='ngram'"


def hostile(out: Path, names: Path) -> Path:
    """Make a run whose names are hostile."""
    import medstress

    attack = {"name": "entity_substitution", "sampler": "pdws", "budget": 3}
    group = {"type": "diseases", "name": HOSTILE, "vocabulary": str(names), "embedding": "ngram"}
    medstress.run(
        {
            "experiment": {"name": "hostile", "seeds": [0]},
            "dataset": [{"name": "sample", "label": HOSTILE, "limit": 24}],
            "entities": [group],
            "victim": [{"name": HOSTILE, "backend": "mock"}],
            "attack": [{**attack, "n": n, "label": f"{HOSTILE} {n}"} for n in (-9, 1, 9)],
        },
        out=out,
    )
    return out


def drawn(folder: Path, out: Path, paper: str | None) -> bool:
    """Draw a run; return whether anything was made."""
    from medstress.api.results import Run
    from medstress.report.figures import Made

    found = Run(folder).figures(out, ("pdf",), paper)
    for path in out.glob("*.pdf"):
        if b"/Type3" in path.read_bytes():
            raise Failed(f"{path.name} of {folder.name} has bitmap fonts (Type 3)")
    return any(isinstance(each, Made) for each in found)


def set_by_latex(folder: Path) -> None:
    """Run pdflatex twice, as references need."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "figures.tex"], cwd=folder, capture_output=True, timeout=SECONDS,
            check=False, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode:
            missing = re.search(r"File `([^']+)' not found", done.stdout)
            why = f"{missing[1]} is missing; install {TEX_PACKAGES}" if missing else None
            raise Failed(f"{folder.name}: {why or done.stdout.rpartition('! ')[2][:400]}")


def check_fuzz() -> str:
    """Run the fuzzer; others than those of seed 0, which are a test."""
    called(sys.executable, "scripts/fuzz.py", "--inputs", "5000", "--seed", "1")
    return "5,000 damaged inputs did no harm"


def check_notebooks() -> str:
    """Execute every notebook in an empty folder."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    network = {**NO_NETWORK, **{name.upper(): value for name, value in NO_NETWORK.items()}}
    for path in notebooks:
        with tempfile.TemporaryDirectory() as folder:
            code = (
                "import nbformat, sys; from nbclient import NotebookClient\n"
                "path, folder = sys.argv[1:]\n"
                f"client = NotebookClient(nbformat.read(path, as_version=4), timeout={SECONDS},\n"
                "    resources={'metadata': {'path': folder}})\n"
                "client.execute()"
            )
            network["MEDSTRESS_CACHE"] = f"{folder}/cache"
            called(sys.executable, "-c", code, str(path), folder, **network)
    return ", ".join(path.stem for path in notebooks)


def check_site() -> str:
    """Build the site and look for what it would load from elsewhere."""
    import site_check

    try:
        return site_check.check(site_check.built())
    except (ValueError, LookupError) as error:
        raise Failed(str(error)) from error


def check_tests() -> str:
    """Run what is too long for continuous integration."""
    parallel = ("-n", "auto", "--dist", "loadfile")
    said = called(sys.executable, "-m", "pytest", "-m", "release or kills", *parallel, "tests")
    return said.strip().splitlines()[-1]


def check_container() -> str:
    """Lint the Dockerfile; run the demo in its container where a daemon is."""
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        raise Failed("hadolint is missing; install it with: pip install --group release")
    called(linter, "Dockerfile")
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        return "linted; not run: there is no daemon"
    called(docker, "build", "--quiet", "--tag", "medstress:check", ".")
    no_rights = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    called(docker, "run", "--rm", *no_rights, "medstress:check")
    return "linted, built, and the demo ran in it"


def packaged(name: str) -> Callable[[], str]:
    """Return a check of scripts/package_check.py."""

    def check() -> str:
        return called(sys.executable, "scripts/package_check.py", name).strip().replace("\n", "; ")

    return check


CHECKS: dict[str, Callable[[], str]] = {
    "latex": check_latex,
    "fuzz": check_fuzz,
    "notebooks": check_notebooks,
    "site": check_site,
    "tests": check_tests,
    **{name: packaged(name) for name in package_check.CHECKS},
    "container": check_container,
}


if __name__ == "__main__":
    sys.exit(main())
