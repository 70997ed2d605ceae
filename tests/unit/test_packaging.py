"""What the wheel holds, and how its extras are called."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import medstress.testing

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORDS = (
    r"(?:'|extra:? )medstress\\?\[([a-z_,-]+)\\?\]",
    r"; extra: (?!medstress)([\w-]+)",
    r"(?:missing_extra|not_there)\([^)]*?, \"([\w-]+)\"[,)]",
)
"""How sentences, pages and code name extras."""


def test_every_extra_that_is_named_is_one_and_needs_no_normalising() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"])
    assert all(re.fullmatch("[a-z0-9-]+", extra) for extra in extras)
    texts = [
        path
        for folder in ("src", "docs", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".txt") and path != Path(__file__)
    ]
    named = {
        extra.strip()
        for path in (*texts, ROOT / "README.md", ROOT / "Makefile", ROOT / "CHANGELOG.md")
        for found in re.findall("|".join(WORDS), path.read_text("utf-8"))
        for extra in "".join(found).split(",")
    }
    assert {"llama-cpp", "transformers", "openai"} <= named
    assert named - extras == set()


def test_servers_for_tests_are_no_part_of_the_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/medstress"]}
    for name in ("fault_server", "conversation_server", "thinking"):
        assert find_spec(f"medstress.testing.{name}") is None
        assert find_spec(name) is not None  # on the path of tests alone
    assert not any("Server" in name for name in medstress.testing.__all__)


def test_every_dependency_has_a_sentence_that_says_why_it_is_there() -> None:
    lines = (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
    first = lines.index("dependencies = [")
    base = lines[first + 1 : lines.index("]", first)]
    assert len(base) == len(PROJECT["project"]["dependencies"])
    for line in base:
        _, _, why = line.partition("#")
        assert len(why.split()) >= 3, f"{line.strip()}: say why it is there"
    reasons: list[str] = []
    for line in lines[lines.index("[project.optional-dependencies]") + 1 :]:
        if line.startswith("["):
            break
        if line.startswith("#"):
            reasons.append(line)
        elif line.strip():
            extra = line.partition(" ")[0]
            assert reasons, f"{extra}: a comment above says why it is there"
            reasons = []


def test_every_dependency_has_a_floor_that_the_release_check_can_install() -> None:
    declared = PROJECT["project"]
    extras = declared["optional-dependencies"].values()
    for each in (*declared["dependencies"], *(part for parts in extras for part in parts)):
        assert re.match(r"[\w.-]+(?:\[\w+\])?(==|>=|<)\d|medstress\[", each), each


@pytest.mark.release
def test_what_one_report_or_study_needs_is_no_part_of_the_base() -> None:
    base = {re.split("[>=<]", each)[0] for each in PROJECT["project"]["dependencies"]}
    assert not base & {"pylatexenc", "tenacity", "pandas", "torch", "openai"}
    without = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]))\n"
    code = f"{without}import medstress.cli.commands, medstress.api.results, medstress.plugin"
    command = [sys.executable, "-c", code, "pylatexenc", "tenacity", "pandas"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_figures_without_their_extra_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from medstress.core.errors import UsageError
    from medstress.report.figures import write_figures

    for name in ("pylatexenc", "pylatexenc.latexencode"):  # the second, where a test imported it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError) as caught:
        write_figures(None, tmp_path, ("pdf",))  # type: ignore[arg-type]  # refused before it reads
    assert str(caught.value) == (
        "drawing figures is not installed; install it with: pip install 'medstress[figures]'"
    )
    assert list(tmp_path.iterdir()) == []


BROUGHT_ALONG = {
    "httpcore2": "httpx2",
    "huggingface-hub": "transformers",
    "pydantic-core": "pydantic",
    "vl-convert": "vl-convert-python",
}
"""What is imported under another name than that of the dependency that brings it."""


def test_every_package_that_is_imported_is_declared() -> None:
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    foreign = {name.replace("_", "-") for name in imported - sys.stdlib_module_names}
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        re.split(r"[>=<\[;]", each)[0]
        for each in (*project["dependencies"], *(part for parts in extras for part in parts))
    }
    by_name = {BROUGHT_ALONG.get(name, name) for name in foreign}
    assert by_name <= declared | {"medstress"}, by_name - declared


def test_a_python_that_is_too_old_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (ROOT / "src" / "medstress" / "__init__.py").read_text("utf-8")
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    monkeypatch.setattr(sys, "version", "3.10.13 (main)")
    expected = "medstress needs Python 3.11 or newer, and this is 3.10.13; in a checkout: make"
    with pytest.raises(ImportError, match=expected):
        exec(source, {})
    monkeypatch.setattr(sys, "argv", ["-m"])
    with pytest.raises(SystemExit) as caught:
        exec(source, {})
    assert (caught.value.code, expected in capsys.readouterr().err) == (2, True)


def test_medstress_without_a_package_that_every_run_needs_says_what_completes_it() -> None:
    code = "import sys; sys.modules['markupsafe'] = None; import medstress; medstress.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "installed only in part" in done.stderr
    assert done.stderr.endswith("complete it with: pip install medstress\n")


def test_the_container_is_given_what_it_copies_and_nothing_else() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = {
        each
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for each in line.split()[1:-1]
    }
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert copied == allowed
    assert all((ROOT / each).exists() for each in copied)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["1000"]
    pinned = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    for each in re.findall(r"\S+==[\d.]+\d", "\n".join(lines)):
        assert each in pinned


def test_the_page_of_platforms_has_every_extra() -> None:
    page = (ROOT / "docs" / "platforms.md").read_text("utf-8")
    table = page.partition("## Extras")[2].partition("\n## ")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| "))
    extras = PROJECT["project"]["optional-dependencies"].keys()
    assert set(re.findall(r"`([a-z-]+)`", first)) == set(extras)


def test_floors_are_not_below_what_their_neighbours_ask_for() -> None:
    # transformers 5.0.0 and accelerate 1.1 ask for these themselves.
    assert {"safetensors>=0.4.3", "accelerate>=1.1"} <= set(
        PROJECT["project"]["optional-dependencies"]["transformers"]
    )
    assert PROJECT["build-system"]["requires"] == ["hatchling>=1.27"]
