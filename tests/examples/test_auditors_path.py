"""The auditor's path as its page walks it: files, commands, exit codes, and what each step says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from asked import ask
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.review.routes import routes
from medstress.serving.local import protected
from medstress.summary.caveats import between

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/auditors-path.md"
SAMPLE = 20


class Room:
    """People in the review room: they judge over HTTP while the command serves it."""

    def __init__(self, monkeypatch):
        self.said = {}
        """Rater -> the codes of real cases that they say no to, by a function of all codes."""
        self.real = []
        monkeypatch.setattr("medstress.review.routes.routes", self._made)
        monkeypatch.setattr("medstress.serving.local.serve", self._serve)

    def _made(self, room, store):
        self.room = room
        return routes(room, store)

    def _serve(self, made, *, port, show):
        app, records = protected(made, "secret"), self.room.records
        self.real = sorted(name for name, one in records.items() if not one.get("control"))
        # What is planted is known to who knows the subject.
        wrong = {
            name
            for name, one in records.items()
            if one.get("control") in ("wrong_key", "second_answer")
        }
        for rater, refuted in self.said.items():
            assert ask(app, "/secret/start", {"rater": rater})[0] == 200
            no = wrong | set(refuted(self.real))
            for name in self.room.cases:
                answers = {"key_right": "no" if name in no else "yes"}
                if self.room.mode == "judge":
                    answers |= dict.fromkeys(("misleading", "plausible", "harmful"), "yes")
                body = {"rater": rater, "case": name, "answers": answers, "note": ""}
                assert ask(app, "/secret/verdict", body)[0] == 200


def clean_environment(folder):
    """A virtual environment with the built wheel and what it requires, without any extra.

    What it requires is linked from this environment, because tests download nothing.
    """
    wheels = sorted(ROOT.glob("dist/medstress-*.whl"))
    if not wheels:
        pytest.skip("no wheel is built: make wheel")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/*/site-packages")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wheel.extractall(site)
    (own,) = metadata.distributions(name="medstress", path=[str(site)])
    waiting, met = list(own.requires or ()), set()
    while waiting:
        wanted = Requirement(waiting.pop())
        needs = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if not needs or wanted.name in met:
            continue
        met.add(wanted.name)
        found = metadata.distribution(wanted.name)
        waiting += found.requires or ()
        for part in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / part).exists():
                (site / part).symlink_to(Path(str(found.locate_file(part))).resolve())
    return str(folder / "bin" / "python")


def stranger(python, folder, *flags):
    """Verify the bundle in an empty folder with an empty home."""
    folder.mkdir()
    names = ["PATH", "LANG", *(["PYTHONPATH"] if python == sys.executable else [])]
    kept = {key: value for key, value in os.environ.items() if key in names}
    done = subprocess.run(
        [python, "-m", "medstress", "verify", "../audit.zip", *flags],
        cwd=folder,
        env={**kept, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.release)])
def test_the_path_leads_from_a_csv_to_a_bundle_that_strangers_verify(
    is_whole, blocks, load, tmp_path, monkeypatch, capsys
):
    """Every command of the page; the slow ones, and an environment of its own, in a release."""
    python = clean_environment(tmp_path / "clean") if is_whole else sys.executable
    monkeypatch.chdir(tmp_path)
    for code in blocks(PAGE, "python"):
        path = tmp_path / code.partition("\n")[0].removeprefix("# ")
        path.write_text(code, encoding="utf-8")
        if path.name == "make_csv.py":
            load(path)
    (experiment,) = blocks(PAGE, "toml")
    Path("audit.toml").write_text(experiment, encoding="utf-8")
    text = ROOT.joinpath(PAGE).read_text("utf-8")

    def medstress(line):
        """Type a command that stands on the page."""
        assert re.search(rf"^medstress {re.escape(line)}$", text, re.MULTILINE), line
        capsys.readouterr()
        code = medstress_cli(line.split())
        return code, capsys.readouterr().out

    if is_whole:
        assert medstress("check questions.csv")[0] == 0

    # The verdict waits for people.
    code, said = medstress("run audit.toml --out audit")
    assert code == 3
    assert "nothing vouches for the validity of successes yet" in " ".join(said.split())
    before = json.loads(Path("audit/summary.json").read_text("utf-8"))
    assert [each["met"] for each in before["requirements"]] == [True, False]
    (row,) = (each for each in before["pooled"] if "control_of" not in each)
    assert row["control"]["no_op"]["value"] == 0  # the planted truth
    assert row["n_flipped"] > SAMPLE

    # Both refute half of the sample; on one more case they disagree, until somebody decides.
    half, room = SAMPLE // 2, Room(monkeypatch)
    room.said = {"A. B.": lambda real: real[:half], "C. D.": lambda real: real[: half + 1]}
    assert medstress("review audit --sample 20")[0] == 0
    assert len(room.real) == SAMPLE
    code, said = medstress("review audit --agreement")
    assert code == 0
    assert "How far raters agree" in said
    open_ = Run("audit").summary()
    (row,) = (each for each in open_["pooled"] if "control_of" not in each)
    assert row["asr_valid"]["n_disputed"] == 1
    room.said = {"E. F.": lambda _: ()}
    assert medstress("review audit --adjudicate")[0] == 0
    assert len(room.room.cases) == 1
    code, said = medstress("summary audit")
    after = Run("audit").summary()
    (row,) = (each for each in after["pooled"] if "control_of" not in each)
    assert row["asr_valid"]["value"] == pytest.approx(row["asr"]["value"] * 0.5)
    assert row["asr_valid"]["n_disputed"] == 0
    accuracy, valid = after["requirements"]
    assert accuracy["met"]
    assert valid["met"]
    assert row["asr_valid"]["high"] <= 0.60 < row["asr"]["high"]
    assert code == 0
    assert "reviewers judged" in " ".join(said.split())
    # The estimate of lost answers is the same: nothing was asked again.
    assert after["performance"]["calls"] == before["performance"]["calls"]
    assert after["root"] != before["root"]
    assert json.loads(Path("audit/summary.json").read_text("utf-8")) == after

    # One page, with the corrected numbers.
    assert medstress("card audit --to card.html")[0] == 0
    page = Path("card.html").read_text("utf-8")
    assert after["root"] in page
    assert f"{between(row['asr_valid'])} (reviewers, ".replace(" %", "\u00a0%") in page
    assert medstress("card audit --to card.json")[0] == 0
    assert json.loads(Path("card.json").read_text("utf-8"))["verdict"].startswith("All 2 criteria")

    # One file without a word of the questions.
    code, said = medstress("bundle audit --to audit.zip --redact")
    assert code == 0
    root = said.split()[1]
    assert root == after["root"]
    option = Path("questions.csv").read_text("utf-8").splitlines()[1].split(",")[1]
    with zipfile.ZipFile("audit.zip") as file:
        assert not any(option.encode() in file.read(name) for name in file.namelist())

    # A stranger has the file, and the root of before or after the review.
    said = stranger(python, tmp_path / "empty", "--root", before["root"])
    assert root in said
    assert f"it had the root {before['root']}; since then were added: " in said
    assert "rows of reviews" in said
    if is_whole:
        assert "nothing was added" in stranger(python, tmp_path / "again", "--root", root)
        assert medstress("bundle audit --to whole.zip")[0] == 0
        assert medstress_cli(["verify", "whole.zip", "--root", root]) == 0
        assert "not compared" not in capsys.readouterr().out
