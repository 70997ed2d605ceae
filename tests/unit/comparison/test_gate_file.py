"""The file of a nightly series: whole, locked, and refused where it is something else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from medstress.comparison.gate_file import (
    Series,
    locked,
    read_series,
    spent_digest,
    write_series,
)
from medstress.core.errors import UsageError
from medstress.stats.nights import Night, begin, feed


@pytest.fixture
def series() -> Series:
    empty = Series(state=begin("base", 0.02), about="m (model)", baseline_runs=(), log=())
    night = feed(empty.state, 9, 3, 20, margin=0.02, digest="b1", spent=["q1", "q2"])
    return empty.after(night.state, "a1", _entry(night))


def _entry(night: Night) -> dict[str, Any]:
    spent = spent_digest(night.state.spent)
    return {"night": night.state.t, "x": night.x, "e": night.e, "spent": spent}


def test_what_is_written_is_read_back_to_the_last_digit(tmp_path: Path, series: Series) -> None:
    path = tmp_path / "state.json"
    assert read_series(path) is None
    write_series(path, series)
    assert read_series(path) == series
    once = path.read_bytes()
    write_series(path, series)
    assert path.read_bytes() == once


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    write_series(path, series)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError):
        write_series(path, Series(state=begin("x"), about="", baseline_runs=(), log=()))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_two_processes_cannot_feed_a_series_at_once(tmp_path: Path, said: Any) -> None:
    path = tmp_path / "state.json"
    with locked(path):
        with pytest.raises(UsageError) as error, locked(path):
            pass
        said(str(error.value).replace(str(tmp_path), "DIR"), "another medstress process")
    with locked(path):  # it is free again
        pass


def test_the_folder_of_a_series_has_to_exist(tmp_path: Path, said: Any) -> None:
    with pytest.raises(UsageError) as error, locked(tmp_path / "no" / "state.json"):
        pass
    said(str(error.value).replace(str(tmp_path), "DIR"), "there is no folder")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: text[: len(text) // 2], "no JSON"),
        (lambda text: "", "no JSON"),
        (lambda text: "[1]", "another JSON file"),
        (lambda text: '{"format": 1}', "another JSON file"),
        (lambda text: text.replace('"format": 1,', '"format": 0,', 1), "got 0"),
        (lambda text: text.replace('"about"', '"abut"'), "'about'"),
        (lambda text: text.replace('"margin": 0.02', '"margin": 2'), "margin"),
        (lambda text: text.replace('"b1"', '"b1", "b1"'), "nights"),
        (lambda text: json.dumps({**json.loads(text), "log": []}), "log"),
        (lambda text: json.dumps({**json.loads(text), "log": [3]}), "log"),
        (lambda text: json.dumps({**json.loads(text), "state": 3}), "an object"),
        (lambda text: text.replace('"x": 1', '"x": -1'), "fortunes do not follow"),
        (lambda text: text.replace('"x": 1', '"x": 2'), "-1, 0 or 1"),
        (lambda text: text.replace('"first_alarm": null', '"first_alarm": 1'), "first alarm"),
        (lambda text: text.replace('"q2"', '"q3"'), "spent items do not follow"),
        (lambda text: text.replace('"e": 1.1', '"e": 1.2'), "E does not follow"),
        (lambda text: text.replace('"night": 1', '"night": 2'), "count the nights"),
    ],
)
def test_a_file_that_is_no_series_is_refused_and_kept(
    tmp_path: Path, series: Series, said: Any, change: Any, word: str
) -> None:
    path = tmp_path / "state.json"
    write_series(path, series)
    path.write_text(change(path.read_text("utf-8")), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(UsageError) as error:
        read_series(path)
    said(str(error.value).replace(str(tmp_path), "DIR"), word)
    assert path.read_bytes() == before


def test_nothing_is_read_or_written_through_a_link(tmp_path: Path, series: Series) -> None:
    write_series(tmp_path / "real.json", series)
    (tmp_path / "state.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(UsageError):
        read_series(tmp_path / "state.json")
    with pytest.raises(UsageError):
        write_series(tmp_path / "state.json", series)
