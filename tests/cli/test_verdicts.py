"""The verdict on the command line: first line, exit codes, JUnit and Markdown files."""

import io
import json
import sys
from xml.etree import ElementTree as ET

import pytest

from medstress.cli.app import medstress_cli
from medstress.report.text import escape


@pytest.fixture
def gate(bench):
    bench.tables["require"] = [
        {"metric": "asr", "max_high": 0.01, "where": {"group": "drugs"}},
        {"metric": "accuracy", "min_low": 0.0},
    ]
    bench.tables["slices"] = {"by": ["key"]}
    return bench


def test_the_verdict_comes_first_and_the_files_say_the_same(gate, medstress):
    told = medstress(*gate.arguments("--junit", "v.xml"))
    assert medstress("summary", gate.out, "--markdown", "v.md").code == told.code == 3
    assert "! The criterion asr at most 0.01, drugs is missed: " in told.out
    suite = ET.parse(gate.root / "v.xml").getroot()[0]
    assert [len(case.findall("failure")) for case in suite] == [1, 0, 0, 0, 0]
    page = (gate.root / "v.md").read_text("utf-8").splitlines()
    assert page[0] == "# medstress bench"
    summary = json.loads(medstress("summary", gate.out, "--json").out)
    lines = summary["verdict"]["lines"]
    assert len(lines) == 3
    assert told.out.splitlines()[:3] == lines
    assert page[2:8:2] == [escape(line) for line in lines]
    warnings = [warning["sentence"] for warning in summary["warnings"]]
    for part in (*warnings, summary["root"], summary["experiment"]["fingerprint"]):
        assert escape(part) in "\n".join(page)
    first = [(gate.root / name).read_bytes() for name in ("v.xml", "v.md")]
    again = medstress("summary", gate.out, "--junit", "v.xml", "--markdown", "v.md")
    assert again.code == 3
    assert again.out.splitlines()[0] == told.out.splitlines()[0]
    assert [(gate.root / name).read_bytes() for name in ("v.xml", "v.md")] == first
    found = medstress("summary", gate.out, "--json")
    assert found.code == 3
    assert [each["met"] for each in json.loads(found.out)["requirements"]] == [False, True]


class ClosedPipe(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")

    def fileno(self):
        raise io.UnsupportedOperation


def test_a_verdict_survives_a_closed_pipe(gate, medstress, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", ClosedPipe())
        assert medstress_cli(gate.arguments("--junit", str(gate.root / "v.xml"))) == 3
        assert medstress_cli(["summary", str(gate.out)]) == 3
        assert medstress_cli(["summary", str(gate.out), "--json"]) == 3
        assert medstress_cli(["verify", str(gate.out), "--root", "0" * 32]) == 2
    assert (gate.root / "v.xml").is_file()  # written after the pipe was closed


def test_the_dry_run_says_what_the_first_query_fixes(gate, medstress):
    gate.tables["slices"] = {"by": ["key", "question_length"]}
    out = medstress(*gate.arguments("--dry-run")).out
    assert "2 criteria ([[require]]), fixed with the first query" in out
    assert "slices by key, question_length, fixed with the first query" in out
