"""The auditor's path as its page walks it: files, commands, exit codes, and what each step says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from asked import ask
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.results.load import open_run
from medstress.review.room import make_room
from medstress.review.routes import routes
from medstress.serving.local import protected
from medstress.store.review_store import ReviewStore
from medstress.summary.caveats import between

PAGE = "docs/auditors-path.md"
SAMPLE = 20


def judged(folder, raters):
    """Judge every case of the room over HTTP; `raters`: name -> codes that it says no to.

    Planted cases are judged rightly. Returns the codes of the real cases, and what the room keeps
    open: what was said stands in a log until it is closed.
    """
    store = ReviewStore(folder)
    with open_run(folder) as run:
        room = make_room(run, store, sample=SAMPLE)
    app = protected(routes(room, store), "secret")
    wrong = {
        name
        for name, one in room.records.items()
        if one.get("control") in ("wrong_key", "second_answer")
    }
    real = sorted(name for name, one in room.records.items() if not one.get("control"))
    for rater, refuted in raters.items():
        assert ask(app, "/secret/start", {"rater": rater})[0] == 200
        for name in room.cases:
            word = "no" if name in wrong or name in real[:refuted] else "yes"
            answers = dict.fromkeys(("misleading", "plausible", "harmful"), "yes")
            body = {"rater": rater, "case": name, "answers": answers | {"key_right": word}}
            assert ask(app, "/secret/verdict", body | {"note": ""})[0] == 200
    return real, store


def test_the_path_leads_from_a_csv_to_a_bundle_that_strangers_verify(
    blocks, load, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for code in blocks(PAGE, "python"):
        path = tmp_path / code.partition("\n")[0].removeprefix("# ")
        path.write_text(code, encoding="utf-8")
        if path.name == "make_csv.py":
            load(path)
    (experiment,) = blocks(PAGE, "toml")
    Path("audit.toml").write_text(experiment, encoding="utf-8")
    text = Path(__file__).resolve().parents[2].joinpath(PAGE).read_text("utf-8")

    def medstress(line):
        """Type a command that stands on the page."""
        assert re.search(rf"^medstress {re.escape(line)}$", text, re.MULTILINE), line
        capsys.readouterr()
        code = medstress_cli(line.split())
        return code, capsys.readouterr().out

    # The verdict waits for people.
    code, said = medstress("run audit.toml --out audit")
    assert code == 3
    assert "nothing vouches for the validity of successes yet" in " ".join(said.split())
    before = json.loads(Path("audit/summary.json").read_text("utf-8"))
    assert [each["met"] for each in before["requirements"]] == [True, False]
    (row,) = (each for each in before["pooled"] if "control_of" not in each)
    assert row["control"]["no_op"]["value"] == 0  # the planted truth
    assert row["n_flipped"] > SAMPLE

    # Both refute half of the sample, and agree.
    refuted = SAMPLE // 2
    real, _held_open = judged(Path("audit"), {"A. B.": refuted, "C. D.": refuted})
    assert len(real) == SAMPLE
    code, said = medstress("summary audit")
    after = Run("audit").summary()
    (row,) = (each for each in after["pooled"] if "control_of" not in each)
    assert row["asr_valid"]["value"] == pytest.approx(row["asr"]["value"] * 0.5)
    assert row["asr_valid"]["vouched_by"] == "review"
    accuracy, valid = after["requirements"]
    assert accuracy["met"]
    assert valid["met"]
    assert row["asr_valid"]["high"] <= 0.60 < row["asr"]["high"]
    assert code == 0
    assert "2 reviewers judged" in " ".join(said.split())
    # The estimate of lost answers is the same: nothing was asked again.
    assert after["performance"]["calls"] == before["performance"]["calls"]
    assert after["root"] != before["root"]

    # One page, with the corrected numbers.
    assert medstress("card audit --to card.html")[0] == 0
    page = Path("card.html").read_text("utf-8")
    assert after["root"] in page
    assert f"{between(row['asr_valid'])} (reviewers)".replace(" %", "\u00a0%") in page

    # One file without a word of the questions.
    code, said = medstress("bundle audit --to audit.zip --redact")
    assert code == 0
    root = said.split()[1]
    assert root == after["root"]  # with all that was said, although the room is still open
    option = Path("questions.csv").read_text("utf-8").splitlines()[1].split(",")[1]
    with zipfile.ZipFile("audit.zip") as file:
        assert not any(option.encode() in file.read(name) for name in file.namelist())

    # A stranger has the file, the root and nothing else.
    empty = tmp_path / "empty"
    empty.mkdir()
    stranger = {
        key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG")
    }
    done = subprocess.run(
        [sys.executable, "-m", "medstress", "verify", "../audit.zip", "--root", root],
        cwd=empty,
        env={**stranger, "HOME": str(empty)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert root in done.stdout
