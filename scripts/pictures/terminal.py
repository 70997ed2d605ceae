"""Records a terminal as an animated SVG: real commands in a pseudo-terminal, read by pyte."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pyte

COLUMNS, LINES = 80, 50
LEAST_SEEN, MOST_WAITING = 0.2, 1.5
"""Seconds: what is seen for less joins the next picture; longer waits are cut."""
_CELL, _ROW, _EDGE = 8.4, 19.0, 14.0
_NAMED = {
    "default": "#d7dde4", "black": "#59636e", "red": "#ff8f87", "green": "#7ee2a0",
    "brown": "#f2c55c", "blue": "#8ab8ff", "magenta": "#e0a5f5", "cyan": "#6fdce8",
    "white": "#ffffff",
}  # fmt: skip
_GROUND = "#14181d"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Style = tuple[str, str, bool]
"""Colour of the letters, of their ground, and whether they are bold."""
Line = tuple[tuple[int, str, Style], ...]
"""Runs of one style: first column, text, style."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the terminal shows for a while."""

    lines: tuple[Line, ...]
    seconds: float


def record(
    command: Sequence[str],
    *,
    shown: str,
    folder: Path,
    environment: Mapping[str, str],
    most_seconds: float,
    rest_seconds: float = 4.0,
    lines: int = LINES,
) -> Iterator[Frame]:
    """Run a command in a pseudo-terminal of 80 columns and yield what one sees.

    Args:
        command: what runs.
        shown: how the prompt writes it.
        folder: where it runs.
        environment: of the command.
        most_seconds: after so long the command is told to end, as by Ctrl+C.
        rest_seconds: how long the last picture stays.
        lines: height of the terminal.
    """
    screen = pyte.Screen(COLUMNS, lines)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[32m$\x1b[0m {shown}".encode())
    yield Frame(_lines(screen), 1.2)
    stream.feed(b"\r\n")
    since = 0.0
    for received, seconds in _received(command, folder, environment, most_seconds, lines):
        since += seconds
        if since >= LEAST_SEEN:
            yield Frame(_lines(screen), min(since, MOST_WAITING))
            since = 0.0
        stream.feed(received)
    yield Frame(_lines(screen), rest_seconds)


def _received(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    most_seconds: float,
    lines: int,
) -> Iterator[tuple[bytes, float]]:
    """Yield what a command writes to its terminal, and how long that took to come."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, COLUMNS, 0, 0))
    own = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(lines)}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, **own},
        start_new_session=True, cwd=folder,
    )  # fmt: skip
    os.close(theirs)
    end = time.monotonic() + most_seconds
    last = time.monotonic()
    try:
        while (left := end - time.monotonic()) > 0:
            if not select.select([ours], [], [], min(left, 0.1))[0]:
                continue
            try:
                received = os.read(ours, 65536)
            except OSError:  # the command has closed its end
                break
            if not received:
                break
            now = time.monotonic()
            yield received, now - last
            last = now
    finally:
        process.terminate()
        process.wait(timeout=20)
        os.close(ours)


def _lines(screen: pyte.Screen) -> tuple[Line, ...]:
    return tuple(tuple(_runs(screen, row)) for row in range(screen.lines))


def _runs(screen: pyte.Screen, row: int) -> Iterator[tuple[int, str, Style]]:
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    for style, group in groupby(enumerate(cells), key=lambda cell: _style(cell[1])):
        run = list(group)
        text = "".join(char.data for _, char in run)
        if text.strip() or style[1] != _GROUND:
            yield run[0][0], text, style


def _style(char: pyte.screens.Char) -> Style:
    letters, ground = _colour(char.fg, _NAMED["default"]), _colour(char.bg, _GROUND)
    return (ground, letters, char.bold) if char.reverse else (letters, ground, char.bold)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return _NAMED.get(name.removeprefix("bright"), default)


def as_svg(frames: Sequence[Frame], title: str) -> str:
    """Return an SVG that plays the frames for ever; where nothing may move it shows the last.

    Text is text: what a model or an item is called cannot become markup.
    """
    height = max(len(frame.lines) for frame in frames)
    size = (COLUMNS * _CELL + 2 * _EDGE, height * _ROW + 2 * _EDGE)
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {size[0]:g} {size[1]:g}",
        width=f"{size[0]:g}", height=f"{size[1]:g}", role="img",
    )  # fmt: skip
    ElementTree.SubElement(svg, "title").text = title
    ElementTree.SubElement(svg, "style").text = _style_sheet(frames)
    ElementTree.SubElement(svg, "rect", width="100%", height="100%", rx="8", fill=_GROUND)
    for i, frame in enumerate(frames):
        group = ElementTree.SubElement(svg, "g", {"class": f"f f{i}"})
        for row, line in enumerate(frame.lines):
            for column, text, style in line:
                _draw(group, row, column, text, style)
    return ElementTree.tostring(svg, encoding="unicode")


def _style_sheet(frames: Sequence[Frame]) -> str:
    whole = sum(frame.seconds for frame in frames)
    rules = [
        "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
        ".b{font-weight:bold}.f{visibility:hidden}"
        f".f{len(frames) - 1}{{visibility:visible}}"
        "@media (prefers-reduced-motion:no-preference){"
    ]
    start = 0.0
    for i, frame in enumerate(frames):
        first, last = 100 * start / whole, 100 * (start + frame.seconds) / whole
        shown, hidden = "{visibility:visible}", "{visibility:hidden}"
        steps = f"{first:.3f}%{shown}{last:.3f}%{hidden if last < 100 else shown}"
        steps = steps if not first else f"0%{hidden}{steps}"
        rules.append(
            f"@keyframes k{i}{{{steps}}}.f{i}{{animation:k{i} {whole:.2f}s step-end infinite}}"
        )
        start += frame.seconds
    return "".join([*rules, "}"])


def _draw(group: ElementTree.Element, row: int, column: int, text: str, style: Style) -> None:
    letters, ground, bold = style
    x, y = _EDGE + column * _CELL, _EDGE + row * _ROW
    if ground != _GROUND:
        at = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{len(text) * _CELL:g}"}
        ElementTree.SubElement(group, "rect", {**at, "height": f"{_ROW:g}", "fill": ground})
    kept = _FORBIDDEN.sub("\ufffd", text.rstrip())
    lead = len(kept) - len(kept.lstrip())
    kept = kept.lstrip()
    if not kept:
        return
    attributes = {
        "x": f"{x + lead * _CELL:g}", "y": f"{y + 0.72 * _ROW:g}", "fill": letters,
        # Whatever font there is, columns stand below each other.
        "textLength": f"{len(kept) * _CELL:g}", "lengthAdjust": "spacingAndGlyphs",
    }  # fmt: skip
    if bold:
        attributes["class"] = "b"
    ElementTree.SubElement(group, "text", attributes).text = kept
