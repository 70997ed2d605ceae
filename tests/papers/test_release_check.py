"""The check before a release says what is missing, and fails."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "scripts" / "release_check.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("release_check", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_missing_pdflatex_fails_and_names_the_packages(script, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["release_check.py", "--only", "latex"])
    assert script.main() == 1
    told = capsys.readouterr().out
    assert "FAILED: pdflatex is missing" in told
    assert "texlive-latex-recommended" in told


def test_an_error_of_latex_is_one_line(script):
    log = "This is pdfTeX\n! Undefined control sequence.\nl.3 \\nothing\n"
    assert script._why(log) == "Undefined control sequence. l.3 \\nothing"
    missing = "! LaTeX Error: File `booktabs.sty' not found.\n"
    assert script._why(missing).startswith("booktabs.sty is missing; install texlive")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_a_document_that_does_not_compile_fails(script, tmp_path):
    (tmp_path / "figures.tex").write_text(
        r"\documentclass{article}\begin{document}\nothing\end{document}", encoding="utf-8"
    )
    with pytest.raises(script.Failed, match=r"mine: Undefined control sequence"):
        script._set(tmp_path, "mine")
