"""Recordings of a terminal: what was seen, as text, in any browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts" / "pictures"))

from terminal import as_svg, record

pytestmark = pytest.mark.web

HOSTILE = "</text><script>alert(1)</script> & {{ x }}"
PROGRAM = f"""
import os, sys, time
print("\\x1b[1;31mred\\x1b[0m and {HOSTILE}", os.get_terminal_size().columns, flush=True)
time.sleep(0.5)
print("\\x1b[2J\\x1b[Hlater", flush=True)
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return list(
        record(
            [sys.executable, "-c", PROGRAM],
            shown="medstress summary",
            folder=tmp_path_factory.mktemp("recorded"),
            environment=os.environ,
            most_seconds=20,
        )
    )


def seen(frame):
    return ["".join(text for _, text, _ in line).strip() for line in frame.lines]


def test_frames_show_the_command_and_then_what_it_prints(frames):
    assert seen(frames[0])[0].replace(" ", "") == "$medstresssummary"
    assert any(f"red and {HOSTILE} 80" in line for frame in frames for line in seen(frame))
    assert seen(frames[-1])[0] == "later"
    (red,) = {run[2] for frame in frames for line in frame.lines for run in line if run[1] == "red"}
    assert red[2]


def test_text_stays_text_and_one_frame_is_seen_at_a_time(browser, frames, tmp_path):
    picture = tmp_path / "terminal.svg"
    picture.write_text(as_svg(frames, "a recording of <b>"), encoding="utf-8")
    root = ElementTree.fromstring(picture.read_text("utf-8"))
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    assert HOSTILE in " ".join(each.text or "" for each in root.iter())
    tab = browser.open(picture)
    shown = "[...document.querySelectorAll('.f')].filter(e => e.checkVisibility("
    shown += "{visibilityProperty: true})).map(e => e.textContent)"
    assert tab.ask(shown) == ["later"]
    assert tab.complaints == []


def test_a_command_that_does_not_end_is_ended(tmp_path):
    found = record(
        [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"],
        shown="sleep",
        folder=tmp_path,
        environment=os.environ,
        most_seconds=1.5,
    )
    assert "here" in seen(list(found)[-1])
