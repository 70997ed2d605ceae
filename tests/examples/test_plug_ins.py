"""One module to import from, the source of a page, and what is said of plug-ins that fail."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import medstress as ms
from medstress import plugin
from medstress.cli.app import medstress_cli
from medstress.plugin import DatasetOptions, check_dataset

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
Blocks = Callable[[str, str], list[str]]

EXPERIMENT = """
[experiment]
controls = false
name = "x"
[dataset]
name = "sample"
limit = 4
[entities]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[victim]
backend = "mock"
[attack]
name = "look_alike"
"""


# -- one module to import from --------------------------------------------------------------------


def imports_of(code):
    """(module, name) of everything a text imports from medstress."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), each.name) for each in node.names)


def test_pages_and_examples_import_medstress_and_its_plugin_module_alone(blocks):
    pages = [code for page in PAGES for code in blocks(str(page.relative_to(ROOT)), "python")]
    examples = [path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.py")]
    found = {
        (module, name)
        for code in pages + examples
        for module, name in imports_of(code)
        if module.partition(".")[0] == "medstress"
    }
    assert {module for module, _ in found} == {"medstress", "medstress.plugin"}
    of_plug_ins = {name for module, name in found if module == "medstress.plugin"}
    assert len(of_plug_ins) > 15
    assert of_plug_ins <= set(plugin.__all__)


def test_the_source_of_the_page_reads_its_format(blocks, load, workplace):
    (module,) = blocks("docs/data.md", "python")
    (workplace / "aiken.py").write_text(module, encoding="utf-8")
    text = "Which vitamin prevents scurvy?\nA. vitamin A\nB. vitamin C\nANSWER: B\n"
    (workplace / "questions.txt").write_text(text, encoding="utf-8")
    source = load(workplace / "aiken.py")
    options = DatasetOptions(path=workplace / "questions.txt")
    check_dataset(source.load, options)
    (question,) = source.load(options).questions
    assert (question.key, question.options) == ("B", ("vitamin A", "vitamin C"))


# -- plug-ins that fail ---------------------------------------------------------------------------

SOUND = '''
from medstress.plugin import Attack, UsageError, parameters


@parameters
class Mine(Attack):
    name = "mine"

    depth: int = 0

    def __post_init__(self):
        """here: init"""

    @property
    def budget(self):
        return 2  # here: budget

    def spec(self):
        return {"name": "mine", "budget": 2}  # here: spec

    def obstacle(self, item, resources):
        return None  # here: obstacle

    def run(self, item, rng, resources):
        yield from ()  # here: run
'''


@pytest.fixture
def plug_in(workplace, monkeypatch):
    """Writes a module with the attack `mine`, as if its package `medstress-mine` were installed;
    gives the module and an experiment with it."""

    def write(code, value="my_plug_in:Mine"):
        path, experiment = workplace / "my_plug_in.py", workplace / "mine.toml"
        path.write_text(code, encoding="utf-8")
        info = workplace / "medstress_mine-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: medstress-mine\nVersion: 0.1")
        (info / "entry_points.txt").write_text(f"[medstress.attacks]\nmine = {value}\n")
        experiment.write_text(EXPERIMENT.replace("look_alike", "mine"), encoding="utf-8")
        return path, experiment

    return write


@dataclass(frozen=True)
class Told:
    code: int
    said: str


@pytest.fixture
def told(capsys):
    def call(*arguments):
        capsys.readouterr()
        code = medstress_cli([str(one) for one in arguments])
        return Told(code, capsys.readouterr().err)

    return call


@pytest.mark.parametrize(
    ("code", "value", "line"),
    [
        ("import math\n\nimport nowhere_to_be_found\n", "my_plug_in:Mine", 3),
        ("x = 1\nif True:\n    x = (\n", "my_plug_in:Mine", 3),
        ("\n\n\nraise SystemExit(1)\n", "my_plug_in:Mine", 4),
        ("x = 1\n", "my_plug_in:Mine", None),
        ("x = 1\n", "no_such_plug_in:Mine", None),
    ],
)
def test_a_plug_in_that_cannot_be_imported_is_told_by_package_entry_point_file_and_line(
    plug_in, told, code, value, line
):
    path, experiment = plug_in(code, value)
    answer = told("run", experiment, "--out", "run", "--quiet")
    assert answer.code == 2
    assert answer.said.count("\n") == 1
    assert "bug" not in answer.said
    for part in ("'mine'", "medstress-mine", value):
        assert part in answer.said
    if line is not None:
        assert f"{path}, line {line}" in answer.said


def broken(place):
    """The sound plug-in with one line that divides by zero, and its number."""
    lines = SOUND.splitlines()
    at = next(i for i, line in enumerate(lines) if f"here: {place}" in line)
    indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
    lines.insert(at, f"{indent}1 / 0")
    return "\n".join(lines), at + 1


@pytest.mark.parametrize("place", ["init", "spec"])
def test_an_error_in_a_plug_in_before_the_run_is_no_bug_of_medstress(plug_in, told, place):
    code, line = broken(place)
    path, experiment = plug_in(code)
    answer = told("run", experiment, "--out", "run", "--quiet")
    assert answer.code == 2
    assert answer.said.count("\n") == 1
    assert f"{path}, line {line}" in answer.said
    assert "ZeroDivisionError" in answer.said
    assert "medstress-mine" in answer.said
    assert "bug" not in answer.said


@pytest.mark.parametrize("place", ["obstacle", "run"])
def test_an_error_in_a_plug_in_while_it_runs_ends_the_trial_with_file_and_line(plug_in, place):
    code, line = broken(place)
    _, experiment = plug_in(code)
    run = ms.run(experiment, out="run")
    notes = set(run.trials()["error"].drop_nulls())
    (note,) = notes
    assert "ZeroDivisionError" in note
    assert f"my_plug_in.py, line {line}" in note
    assert "medstress-mine" in note


@pytest.mark.parametrize("place", ["open", "answer"])
def test_an_error_in_a_back_end_is_told_by_package_file_and_line(workplace, told, place):
    lines = [
        "from medstress.plugin import Backend, BackendTraits, ModelIdentity",
        "class Mine(Backend):",
        "    identity = ModelIdentity(name='mine', hash='m')",
        "    traits = BackendTraits(calls=frozenset({'choose'}))",
        "    def answer(self, calls):",
        f"        return {{}}[{place == 'answer'}]",
        "def open_backend(options):",
        f"    return {{False: Mine()}}[{place == 'open'}]",
    ]
    (workplace / "my_back_end.py").write_text("\n".join(lines))
    info = workplace / "medstress_ends-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: medstress-ends\nVersion: 0.1")
    (info / "entry_points.txt").write_text(
        "[medstress.backends]\nmine = my_back_end:open_backend\n"
    )
    experiment = EXPERIMENT.replace('"mock"', '"mine"').replace(
        '"look_alike"', '"entity_substitution"\nsampler = "nearest"'
    )
    (workplace / "mine.toml").write_text(experiment, encoding="utf-8")
    answer = told("run", "mine.toml", "--out", "run", "--quiet")
    assert answer.code == 2
    assert answer.said.count("\n") == 1
    line = 6 if place == "answer" else 8
    assert f"{workplace / 'my_back_end.py'}, line {line}" in answer.said
    assert "backend 'mine', the plug-in from medstress-ends" in answer.said


# -- what is no attack ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (SOUND.replace("(Attack)", ""), "inherit medstress.plugin.Attack"),
        (SOUND.replace("def run(", "def walk("), "Mine has no run; every attack needs"),
        (SOUND.replace("@parameters", ""), "decorated with parameters"),
    ],
    ids=["no Attack", "no run", "no dataclass"],
)
def test_a_class_that_is_no_attack_is_refused(plug_in, told, code, reason):
    _, experiment = plug_in(code)
    answer = told("run", experiment, "--out", "run", "--quiet")
    assert answer.code == 2
    assert reason in answer.said
