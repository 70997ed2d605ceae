"""Runs the commands of the pages, in the order in which they stand, with small stand-ins.

Of `make release-check`:

    python scripts/snippet_runs.py                    # all pages; some minutes
    python scripts/snippet_runs.py docs/verify.md     # one page

Files that a page speaks of (`questions.csv`, `mine.toml`, `runs/mine`) are made before: the
questions are the sample's, models answer at once. What needs a server, a licence, a download or a
person is named in `LEFT_OUT`, with the reason; lines that call another program than medstress are
in `OTHERS`. The code of the tutorial runs as it stands; what the pages of `COMPARED` show of what
their commands print is compared.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from snippets import ROOT, Block, Command, blocks, commands, other_lines, printed

TUTORIAL = "docs/tutorial.md"
COMPARED = (TUTORIAL, "docs/first-steps.md")
"""Pages on which a newcomer holds what is printed against what is shown."""
LEFT_OUT = {
    "init": "asks at a terminal; tests/processes/test_first_steps.py types the answers",
    "run xian2025-table1": "hours; the part `latex` runs recipes with a stand-in",
    "figures runs/xian2025-table1": "as above",
    "run benchmarks/medmcqa.toml": "wants published data and a model",
    "summary runs/medmcqa": "as above",
    "train": "wants a model and BC5CDR; tests/training trains",
    "report runs/chemicals-trained": "as above",
    "perturb noise.toml": "wants BC5CDR; tests/cli/test_perturb.py perturbs a small file",
    "compare runs/mine$": "wants [compare] in the file; tests/cli/test_compare.py has it",
    "test runs/fuzz --experiment fuzz.toml --item": "names items of the reader's run",
    "test runs/fuzz --experiment fuzz.toml --trial": "names a trial of the reader's run",
    "review DIR": "a room is opened on its own page",
    "review runs/mine --import": "wants a file that a person made",
    "review runs/mine --adjudicate": "wants people who disagree; tests/experiments has some",
    "review runs/mine --agreement": "as above",
    "explain runs/mine --experiment mine.toml --trial": "names a trial of the reader's run",
    "compare 20261126-release": "the mock answers alike every night, which is refused",
    "annotate EXPERIMENT.toml": "names the reader's file; tests/cli/test_annotate.py has one",
    "run audit.toml": "wants two people; tests/examples/test_auditors_path.py plays them",
    "review audit": "as above",
    "summary audit": "as above",
    "bundle audit": "as above",
    "verify audit.zip": "as above",
    "verify whole.zip": "as above",
    "run x.toml --ray": "wants Ray; tests/processes/test_ray.py has it",
    "tune x.toml --ray": "wants Ray; tests/replay/test_fleet_tuning.py has it",
    "tune mine.toml --ray": "as above",
    "submit mine.toml --slurm --shards 64": "wants Slurm; tests/processes plays it",
}
"""Commands by how they begin, with $ all of them, and why they are not run here."""
OTHERS = {
    "make demo": "makes the environment that these lines run in",
    "make bench": "20 minutes; a test writes the page from stored results",
    "python benchmarks/bench.py": "hours; a test writes the page from stored results",
    "PIP_CONSTRAINT=": "installs; wants an index of packages",
    "pip install": "installs; the parts `installed` and `resolved` do so where an index is",
    ".venv/bin/pip": "as above",
    "python3 -m venv": "as above",
    "python -m pip": "installs the package of the page, whose code tests/examples runs",
    "python -m pytest": "as above",
    "python3.11 -m venv": "wants an environment of another tool",
    "scispacy-env/bin/pip": "as above",
    ".venv/bin/medstress demo": "minutes; the part `latex` makes the demo run",
    ". .venv/bin/activate": "changes the reader's shell",
    "mkdir": "makes the folder in which the next lines run",
    "cd": "as above",
    "kubectl": "wants a cluster; the page's files are read by a test",
    "pytest": "runs in `make test`, or in the part `tests`",
}
"""Lines that call another program, by how they begin, and why they are not run here."""
SERVERS = ("view", "review")
"""Commands that serve a page until they are ended."""
ENDS = ("--agreement", "--export", "--import", "--sheet")
"""With one of these a room is not served."""
SECONDS = 240
"""For one command."""
SMALL = ("--limit", "20", "--set", 'entities.embedding="ngram"')
EXPERIMENT = """[experiment]
name = "{name}"
seeds = [0]
cache = "answers"
[dataset]
name = "sample"
limit = 20
[[entities]]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[victim]
name = "{victim}"
backend = "mock"
prompt = "{prompt}"
[[attack]]
name = "entity_substitution"
label = "near"
n = -20
budget = 3
"""
CRITERION = '[[require]]\nmetric = "accuracy"\nmin_low = 0.0\n'
EVERY_NAME = EXPERIMENT.replace("n = -20\nbudget = 3", 'sampler = "exhaustive"')
TUNED = EXPERIMENT.replace("limit = 20\n", "").replace("n = -20", 'sampler = "pdws"')
TUNED = TUNED.format(name="mine", victim="new", prompt="open_book") + "[tune]\ngrid = [-5, 5]\n"
ON_PAGE = {"docs/tuning.md": ("mine.toml", TUNED)}
"""A page that means another file by a name than the other pages do."""


class Folder:
    """A folder in which commands are typed, with a cache of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.environment = {
            **os.environ,
            "MEDSTRESS_CACHE": str(root / "cache"),
            "COLUMNS": "200",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
            ),
        }

    def write_code(self, page: str) -> None:
        """Write the page's blocks of Python under the names in their first lines."""
        for block in _of_page(page, "python"):
            name = block.text.partition("\n")[0].removeprefix("# ")
            (self.root / name).write_text(block.text, "utf-8")

    def medstress(self, *words: str) -> str:
        """Run a command in this process, which is quicker, and return what it prints.

        Raises:
            ValueError: it ends with another code than 0, or 3, a verdict.
        """
        from tests.frozen.capture import medstress, working_in

        with working_in(self.root):
            code, said, told = medstress(*words)
        if code not in (0, 3):
            raise ValueError(f"exit {code}: {' '.join(told[-600:].split())}")
        return said

    def python(self, script: str) -> None:
        """Run a script of a page."""
        command = [sys.executable, script]
        subprocess.run(command, cwd=self.root, env=self.environment, check=True, timeout=SECONDS)

    def serve(self, *words: str) -> None:
        """Start a server, wait for its address, and end it as Ctrl+C does.

        Raises:
            ValueError: it prints no address, or does not end.
        """
        server = subprocess.Popen(
            [sys.executable, "-m", "medstress", *words, "--no-browser"],
            cwd=self.root,
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert server.stdout is not None
        said, end = "", time.monotonic() + SECONDS
        while "http://" not in said and server.poll() is None and time.monotonic() < end:
            said += server.stdout.readline()
        server.send_signal(signal.SIGINT)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            raise ValueError("it does not end at Ctrl+C") from None
        if "http://" not in said:
            raise ValueError(f"it served nothing: {' '.join(said[-400:].split())}")


def fill(shop: Folder) -> None:
    """Make the files and runs that the pages speak of."""
    for page in ("docs/first-steps.md", TUTORIAL):
        shop.write_code(page)
    shop.python("make_csv.py")
    questions = shop.root / "questions.csv"
    text = questions.read_text("utf-8").replace("question,", "Question,", 1)
    questions.write_text(text.replace(",answer\n", ",Answer\n", 1), "utf-8")
    old, new = {"victim": "old", "prompt": "qstab"}, {"victim": "new", "prompt": "open_book"}
    texts = {
        "mine.toml": EXPERIMENT.format(name="mine", **new),
        "experiment.toml": EXPERIMENT.format(name="first", **new),
        "tonight.toml": EXPERIMENT.format(name="tonight", **new),
        "release.toml": EXPERIMENT.format(name="release", **old),
        "x.toml": EXPERIMENT.format(name="x", **new),
        "gate.toml": EXPERIMENT.format(name="gate", **new) + CRITERION,
        "every-name.toml": EVERY_NAME.format(name="every-name", **new),
        **_conversations(),
    }
    for name, text in texts.items():
        (shop.root / name).write_text(text, "utf-8")
    shop.medstress("run", "mine.toml", "--quiet")
    shop.medstress("run", "release.toml", "--quiet")
    shop.medstress("run", "fuzz.toml", "--quiet")
    for name, like in (
        ("old", "release"),
        ("last-release", "release"),
        ("tonight", "mine"),
        ("demo", "mine"),
        ("new", "mine"),
    ):
        shutil.copytree(shop.root / "runs" / like, shop.root / "runs" / name)


def _conversations() -> dict[str, str]:
    """Return the files of `fuzz.toml`: a victim, an attacker and a judge that follow a script."""
    from tests.frozen.about_conversations import SIGNIFICANCE

    files = dict(SIGNIFICANCE)
    text = files.pop("e.toml").replace('name = "significance"', 'name = "fuzz"')
    return {**files, "fuzz.toml": text.partition("[test]")[0]}


def _of_page(page: str, language: str) -> list[Block]:
    return [each for each in blocks() if (each.page, each.language) == (page, language)]


def left_out(command: Command) -> str | None:
    """Return why a command is not run here; None where it is."""
    return _why(" ".join(command.words), LEFT_OUT)


def is_run(line: str) -> bool:
    """Return whether a line that calls another program is run here: a script of the tutorial."""
    return line == "python make_csv.py"


def _why(line: str, reasons: dict[str, str]) -> str | None:
    for beginning, why in reasons.items():
        if f"{line}$" == beginning or f"{line} ".startswith(f"{beginning} "):
            return why
    return None


def other_left_out(line: str) -> str | None:
    """Return why a line that calls another program is not run here; None where no reason stands."""
    return next((why for beginning, why in OTHERS.items() if line.startswith(beginning)), None)


def run_page(page: str, shop: Folder) -> Iterator[str]:
    """Run the commands of a page; yield what fails, and what is shown and was not printed."""
    name, text = ON_PAGE.get(page, ("mine.toml", None))
    before = (shop.root / name).read_text("utf-8")
    (shop.root / name).write_text(text or before, "utf-8")
    said = []
    for command in commands():
        if command.place.rpartition(":")[0] != page or left_out(command):
            continue
        try:
            said.append(_run(command, shop))
        except (ValueError, subprocess.TimeoutExpired) as error:
            yield f"{command.place}: {command}: {error}"
    (shop.root / name).write_text(before, "utf-8")
    if page in COMPARED:
        yield from not_printed(page, said)


def not_printed(page: str, said: list[str]) -> Iterator[str]:
    """Yield what a page shows as printed and none of its commands printed."""
    texts = [" ".join(each.split()) for each in said]
    for place, shown in printed(page):
        if not any(shown in text for text in texts):
            yield f"{place}: no command of the page prints: {shown}"


def _expanded(word: str, folder: Path) -> list[str]:
    """Return the paths that a shell puts in place of a pattern; other words as they are."""
    if "*" not in word:
        return [word]
    return [path.relative_to(folder).as_posix() for path in sorted(folder.glob(word))] or [word]


def _run(command: Command, shop: Folder) -> str:
    words = [each for word in command.words for each in _expanded(word, shop.root)]
    if words[0] in SERVERS and not set(words) & set(ENDS):
        shop.serve(*words)
        return ""
    if "ID" in words:
        shop.medstress("export", "runs/mine", "--table", "trials", "--to", "ids.csv")
        rows = (shop.root / "ids.csv").read_text("utf-8").splitlines()
        words[words.index("ID")] = rows[1].partition(",")[0]
    if words[0] == "recipe" and "--to" in words:
        words[-1] = "copy.toml"
    if words[:2] == ["verify", "runs/mine"] and "--root" in words:
        root = re.search(r"[0-9a-f]{32}", shop.medstress("verify", "runs/mine"))
        assert root is not None
        words[-1] = root[0]
    return shop.medstress(*words)


def tutorial(shop: Folder) -> Iterator[str]:
    """Walk the tutorial; yield what fails, and what it shows and was not printed."""
    shop.write_code(TUTORIAL)
    shop.python("make_csv.py")
    (shop.root / "mine.toml").touch()
    yield from run_page(TUTORIAL, shop)


def share() -> tuple[int, int]:
    """Return how many lines of the pages are run, and how many there are."""
    ran = [left_out(each) is None for each in commands()]
    ran += [is_run(line) for _, line in other_lines()]
    return sum(ran), len(ran)


def check(pages: list[str]) -> tuple[list[str], int]:
    """Run the commands of pages, of all where none is given.

    Returns:
        What failed, and how many commands ran.
    """
    wanted = pages or sorted({each.place.rpartition(":")[0] for each in commands()})
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        shop, own = Folder(Path(made) / "shop"), Folder(Path(made) / "tutorial")
        fill(shop)
        for page in wanted:
            failed += tutorial(own) if page == TUTORIAL else run_page(page, shop)
    ran = [c for c in commands() if c.place.rpartition(":")[0] in wanted and not left_out(c)]
    return failed, len(ran)


if __name__ == "__main__":
    found, n_ran = check(sys.argv[1:])
    print(*found, f"{n_ran} commands", sep="\n")
    sys.exit(bool(found))
