"""Draw prompts as text whose background shows the value of each token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medstress.figures import canvas
from medstress.results.formats import clean, decimal, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = 6.5
"""Points of the text, which has a fixed pitch so that its lines can be broken beforehand."""
COLUMNS = 54
"""Characters in a line of one prompt."""
GAP = 3
"""Characters between the two prompts."""
WIDTH = (2 * COLUMNS + GAP) * 0.602 * SIZE / 72
"""Inches."""
_LINE = 1.45 * SIZE / 72
_FOR, _AGAINST = (0x00, 0x72, 0xB2), (0xC8, 0x4C, 0x00)
_STRONGEST = 0.62


@dataclass(frozen=True, slots=True)
class _Bit:
    """A piece of a token on one line."""

    line: int
    column: int
    text: str
    background: str | None = None
    colour: str = canvas.INK
    bold: bool = False


def plot_profiles(cases: Sequence[Mapping[str, Any]], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw cases below one another.

    Args:
        cases: as `explanations.cases` of a summary; at least one.
        formats: file formats.
    """
    drawn = [_case(case) for case in cases]
    heights = [(1 + max(bit.line for bit in bits)) * _LINE + 0.12 for bits in drawn]

    def build(figure: Figure) -> None:
        figure.set_layout_engine("none")
        total, top = sum(heights), 1.0
        for bits, height in zip(drawn, heights, strict=True):
            share = height / total
            axes = figure.add_axes((0.005, top - share, 0.99, share))
            top -= share
            _draw(axes, bits, height)

    return canvas.draw(build, width=WIDTH, height=sum(heights), formats=formats)


def _draw(axes: Axes, bits: Sequence[_Bit], height: float) -> None:
    from matplotlib.patches import Rectangle

    axes.set_xlim(0, 2 * COLUMNS + GAP)
    axes.set_ylim(height / _LINE, 0)
    axes.axis("off")
    for bit in bits:
        if bit.background is not None:
            axes.add_patch(
                Rectangle(
                    (bit.column, bit.line + 0.1), len(bit.text), 0.98, color=bit.background, lw=0
                )
            )
        if bit.text.strip():
            axes.text(
                bit.column, bit.line + 0.85, bit.text, fontsize=SIZE, family="monospace",
                color=bit.colour, weight="bold" if bit.bold else "normal", va="baseline",
                parse_math=False,
            )  # fmt: skip


def _case(case: Mapping[str, Any]) -> list[_Bit]:
    """Lay out one case: title, options of both prompts, heat maps."""
    title = f"{case['item_id']} · {case['attack']} · {case['victim']}"
    bits = [_Bit(0, 0, shorten(clean(title), 2 * COLUMNS), bold=True)]
    largest = max((abs(v) for name in ("before", "after") for v in case[name]["values"]), default=0)
    line = 1
    for part in (_options, _heat):
        ends = []
        for name, column in (("before", 0), ("after", COLUMNS + GAP)):
            made = list(part(case, name, largest))
            bits += [
                _Bit(b.line + line, b.column + column, b.text, b.background, b.colour, b.bold)
                for b in made
            ]
            ends.append(1 + max((b.line for b in made), default=-1))
        line += max(ends) + 1
    return bits


def _options(case: Mapping[str, Any], name: str, _: float) -> Iterator[_Bit]:
    """Yield a prompt's options, with the edit in colour and a mark at the answer."""
    side = case[name]
    answer = "no readable answer" if side["answer"] is None else f"answers {side['answer']}"
    right = ", the right one" if side["answer"] == case["key"] else ""
    yield _Bit(0, 0, shorten(f"{name}: {answer}{right}", COLUMNS), colour=canvas.SERIES[6])
    colour = canvas.SERIES[1] if name == "before" else canvas.SERIES[0]
    line, start, column, last = 0, 0, 0, ""
    for place, edited, n in side["segments"]:
        text = " ".join("".join(side["tokens"][start : start + n]).split())
        start += n
        if len(place) > 1 or not text:
            continue
        if place != last:
            line, column, last = line + 1, 2, place
            if side["answer"] == place:
                yield _Bit(line, 0, "✓", bold=True)
        elif column > 2:
            column += 1
        text = shorten(text, max(COLUMNS - column, 1))
        yield _Bit(line, column, text, colour=colour if edited else canvas.INK, bold=edited)
        column = min(column + len(text), COLUMNS - 1)


def _heat(case: Mapping[str, Any], name: str, largest: float) -> Iterator[_Bit]:
    """Yield a prompt's tokens with their values as background."""
    side = case[name]
    what = f"values for {side['output']}: {decimal(side['base'])} to {decimal(side['full'])}"
    yield _Bit(0, 0, shorten(what, COLUMNS), colour=canvas.SERIES[6])
    line, column = 1, 0
    for token, value in zip(side["tokens"], side["values"], strict=True):
        background = _shade(value / largest if largest else 0.0)
        for piece in re.split(r"(\r\n|\r|\n)", clean(token)):
            if piece in ("\r\n", "\r", "\n"):
                line, column = line + (column > 0), 0
                continue
            text = piece.replace("\t", " ")
            if column == 0:
                text = text.lstrip()
            if column and column + len(text.rstrip()) > COLUMNS:
                line, column, text = line + 1, 0, text.lstrip()
            while text:
                part, text = text[:COLUMNS], text[COLUMNS:]
                yield _Bit(line, column, part[: COLUMNS - column], background)
                column += len(part)
                if text:
                    line, column = line + 1, 0


def _shade(value: float) -> str | None:
    """Return the colour of a share of the largest value; None for nearly nothing.

    >>> _shade(0.0), _shade(1.0)
    (None, '#61a8cf')
    """
    strength = _STRONGEST * min(abs(value), 1.0)
    if strength < 0.03:
        return None
    ends = _FOR if value > 0 else _AGAINST
    return "#" + "".join(f"{round(255 + strength * (end - 255)):02x}" for end in ends)
