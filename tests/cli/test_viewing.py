"""`medstress case` and `medstress view` on the command line."""

from __future__ import annotations

import json
import re

import pytest

from medstress.cli.app import medstress_cli


@pytest.fixture
def ran(bench):
    assert bench.run() == 0
    return bench


def flipped(bench):
    return next(row for row in bench.rows() if row.verdict == "flipped")


def test_a_case_fits_80_columns_and_shows_differences_by_signs(ran, capsys):
    row = flipped(ran)
    capsys.readouterr()
    assert medstress_cli(["case", str(ran.out), row.trial_id[12:24]]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(f"Case {row.trial_id[12:24]}: misled\n")
    assert f"[-{row.replaced}-] {{+{row.replacement}+}}" in out
    after = re.sub(r"\[-.*?-\]", "", out).replace("{+", "").replace("+}", "")
    assert f": {row.replacement}\n" in after
    assert "\x1b" not in out


def test_a_case_as_json_is_its_record(ran, capsys):
    row = flipped(ran)
    capsys.readouterr()
    assert medstress_cli(["case", str(ran.out), row.trial_id, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trial_id"] == row.trial_id
    assert found["sent_after"] == [{"role": "prompt", "text": row.prompt_after}]
    assert found["verdict"] == "flipped"


@pytest.mark.parametrize(
    "arguments",
    [
        ["case", "nowhere", "x"],
        ["case", "run", "nobody"],
        ["view", "nowhere", "--no-browser"],
        ["view", "run", "--port", "70000"],
    ],
)
def test_what_is_wrong_is_one_sentence(ran, capsys, said, arguments):
    capsys.readouterr()
    assert medstress_cli(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    said(re.sub("[0-9a-f]{12}", "ID", err), arguments[-1] if "--port" in arguments else "")
