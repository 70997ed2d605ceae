"""`summary` and `case` at 80 columns, on a terminal and in a pipe."""

import io
import re
import sys

import pytest
from rich.cells import cell_len

from medstress.api.run import Run
from medstress.cli.app import medstress_cli

STYLE = re.compile("\x1b\\[[0-9;]*m")


def test_a_pipe_gets_whole_sentences_and_a_terminal_wrapped_ones(finished, terminal, medstress):
    piped = medstress("summary", finished.out).out
    assert "\x1b" not in piped
    sentences = Run(finished.out).summary()["verdict"]["lines"]
    assert piped.splitlines()[:3] == sentences
    shown = STYLE.sub("", terminal("summary", finished.out, columns=64))
    assert sentences[0] not in shown
    assert sentences[0] in " ".join(shown.split("\n"))
    assert max(map(cell_len, shown.splitlines()[:3])) <= 64


def test_colours_are_for_terminals_that_want_them(finished, terminal, monkeypatch):
    colour = re.compile("\x1b\\[[0-9;]*3[0-9]m")
    assert colour.search(terminal("summary", finished.out))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(terminal("summary", finished.out))
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in terminal("summary", finished.out)


def test_a_stream_that_cannot_write_all_characters_gets_escapes(finished, monkeypatch):
    encoding = "ascii"
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert medstress_cli(["summary", str(finished.out)]) == 0
        assert medstress_cli(["summary", str(finished.out), "--wide"]) == 0
    stream.flush()
    lines = [
        line.encode(encoding, "backslashreplace").decode(encoding)
        for line in Run(finished.out).summary()["verdict"]["lines"]
    ]
    assert raw.getvalue().decode(encoding).splitlines()[:3] == lines


# -- cases -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flipped(small_run):
    return next(row for row in small_run.rows() if row.verdict == "flipped")


def test_a_case_fits_80_columns_and_shows_differences_by_signs(
    small_run, flipped, medstress, monkeypatch
):
    monkeypatch.delenv("COLUMNS")
    out = medstress("case", small_run.out, flipped.trial_id[12:24]).out
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(f"Case {flipped.trial_id[12:24]}: lost\n")
    assert f"[-{flipped.replaced}-] {{+{flipped.replacement}+}}" in out
    after = re.sub(r"\[-.*?-\]", "", out).replace("{+", "").replace("+}", "")
    assert f": {flipped.replacement}\n" in after
    assert "\x1b" not in out


def test_without_an_id_cases_are_listed_what_was_lost_first(small_run, medstress, monkeypatch):
    rows = small_run.rows()
    lost = {row.trial_id[12:24] for row in rows if row.verdict == "flipped"}
    monkeypatch.delenv("COLUMNS")
    out = medstress("case", small_run.out).out
    assert max(map(len, out.splitlines())) <= 80
    ids = re.findall(r"^\W*([0-9a-f]{12})\b", out, re.MULTILINE)
    assert set(ids) == {row.trial_id[12:24] for row in rows}
    assert set(ids[: len(lost)]) == lost


def test_without_colours_a_case_has_signs_and_no_other_style_than_bold(
    small_run, flipped, terminal, monkeypatch
):
    assert "\x1b[9;31m" in terminal("case", small_run.out, flipped.trial_id)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = terminal("case", small_run.out, flipped.trial_id)
    assert set(re.findall("\x1b\\[([0-9;]*)m", shown)) == {"0", "1"}
    assert f"[-{flipped.replaced}-] {{+{flipped.replacement}+}}" in shown
