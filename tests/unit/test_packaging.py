"""What the wheel holds, and how its extras are called."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.release
def test_what_one_report_or_study_needs_is_no_part_of_the_base():
    base = {re.split("[>=<]", each)[0] for each in PROJECT["project"]["dependencies"]}
    assert not base & {"pylatexenc", "tenacity", "pandas", "torch", "openai"}
    without = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]))\n"
    code = f"{without}import medstress.experiment.run, medstress.api.results, medstress.plugin"
    command = [sys.executable, "-c", code, "pylatexenc", "tenacity", "pandas"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_figures_without_their_extra_are_one_sentence(monkeypatch, tmp_path):
    from medstress.core.errors import UsageError
    from medstress.report.figures import write_figures

    for name in ("pylatexenc", "pylatexenc.latexencode"):  # the second, where a test imported it
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError) as caught:
        write_figures(None, tmp_path, ("pdf",))  # type: ignore[arg-type]  # refused before it reads
    assert "pip install 'medstress[figures]'" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


BROUGHT_ALONG = {
    "httpcore2": "httpx2",
    "huggingface-hub": "transformers",
    "markupsafe": "jinja2",
    "packaging": "altair",
    "pydantic-core": "pydantic",
    "vl-convert": "vl-convert-python",
}
"""What is imported under another name than that of the dependency that brings it."""

IMPORTED = re.compile(r"^ *(?:from|import) (\w+)[\w.]*(?: import | as \w+$| *#|$)", re.MULTILINE)
"""The package of a line that imports. Parsing every module takes seconds."""


def test_every_package_that_is_imported_is_declared():
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        imported |= set(IMPORTED.findall(path.read_text("utf-8")))
    foreign = {name.replace("_", "-") for name in imported - sys.stdlib_module_names}
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        re.split(r"[>=<\[;]", each)[0]
        for each in (*project["dependencies"], *(part for parts in extras for part in parts))
    }
    by_name = {BROUGHT_ALONG.get(name, name) for name in foreign}
    assert by_name <= declared | {"medstress"}, by_name - declared


def test_a_python_that_is_too_old_is_told_in_one_sentence(monkeypatch, capsys):
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


def test_medstress_without_a_package_that_every_run_needs_says_what_completes_it():
    code = "import sys; sys.modules['markupsafe'] = None; import medstress; medstress.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "installed only in part" in done.stderr
    assert done.stderr.endswith("complete it with: pip install medstress\n")
