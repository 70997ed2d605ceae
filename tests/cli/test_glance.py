"""`summary` and `case` at 80 columns, on a terminal and in a pipe."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from goldens import GOLDENS, written_to
from goldens import medstress as run_command
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.report.formats import number

STYLE = re.compile("\x1b\\[[0-9;]*m")


def shown_numbers(row):
    """What the first table has to show of a row: a score, or what was lost."""
    for name in ("pearson", "f1", "macro_f1"):
        if name in row:
            parts = [part for part in (name, f"{name}_after") if part in row]
            return [number(row[part]["value"], "score") for part in parts]
    loss = row["asr"]
    if not loss["n"]:
        return []
    value, low, high = (number(loss[name], "share") for name in ("value", "low", "high"))
    return [value, f"{loss['hits']:,}/{loss['n']:,}", f"[{low}, {high}]"]


def attacks_of(folder: Path):
    return [row for row in Run(folder).summary()["results"] if "control_of" not in row]


def too_wide(text, columns, folder):
    """Lines that are wider than the terminal; a path or a command is not broken."""
    lines = [line for line in text.splitlines() if cell_len(line) > columns]
    return [line for line in lines if str(folder) not in line and "next: " not in line]


@pytest.mark.release
@pytest.mark.parametrize("kind", ["documents", "medfuzz", "pairs"])
def test_every_kind_of_run_fits_80_columns_and_keeps_its_numbers_whole(kind, tmp_path, terminal):
    folder = tmp_path / "run"
    with written_to(tmp_path, GOLDENS[kind]):
        assert run_command("run", "e.toml", "--out", "run", "--quiet")[0] == 0
    shown = STYLE.sub("", terminal("summary", folder))
    wide = STYLE.sub("", terminal("summary", folder, "--wide", columns=400))
    assert not too_wide(shown, 80, folder)
    rows = attacks_of(folder)
    assert rows
    for row in rows:
        ledger = [
            f"{row['queries'][name]:,}"
            for name in ("asked", "paid", "cached", "failed", "ahead", "baseline")
        ]
        assert any(" ".join(ledger) in " ".join(line.split()) for line in wide.splitlines())
        assert all(text in shown and text in wide for text in shown_numbers(row)), row["attack"]


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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_that_cannot_write_all_characters_gets_escapes(finished, monkeypatch, encoding):
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
