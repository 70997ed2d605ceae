"""`medstress case` and `medstress view` on the command line."""

import io
import re
import sys

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
    assert out.startswith(f"Case {row.trial_id[12:24]}: lost\n")
    assert f"[-{row.replaced}-] {{+{row.replacement}+}}" in out
    after = re.sub(r"\[-.*?-\]", "", out).replace("{+", "").replace("+}", "")
    assert f": {row.replacement}\n" in after
    assert "\x1b" not in out


def test_without_an_id_cases_are_listed_what_was_lost_first(ran, capsys):
    rows = ran.rows()
    lost = {row.trial_id[12:24] for row in rows if row.verdict == "flipped"}
    capsys.readouterr()
    assert medstress_cli(["case", str(ran.out)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    ids = re.findall(r"^\W*([0-9a-f]{12})\b", out, re.MULTILINE)
    assert set(ids) == {row.trial_id[12:24] for row in rows}
    assert set(ids[: len(lost)]) == lost


class Terminal(io.StringIO):
    """A terminal, as far as Python asks."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_without_colours_a_case_has_signs_and_no_other_style_than_bold(ran, monkeypatch):
    row = flipped(ran)
    shown = {}
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for wish in ("", "1"):
        monkeypatch.setenv("NO_COLOR", wish)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Terminal())
            assert medstress_cli(["case", str(ran.out), row.trial_id]) == 0
            shown[wish] = sys.stdout.getvalue()
    assert "\x1b[9;31m" in shown[""]
    assert set(re.findall("\x1b\\[([0-9;]*)m", shown["1"])) == {"0", "1"}
    assert f"[-{row.replaced}-] {{+{row.replacement}+}}" in shown["1"]
