"""What docs/results/statistics.md shows of benchmarks/results/statistics/, between its marks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import simulated_shown as shown
from pages import blocks, fill, table
from simulated_limits import (
    LEAST,
    WHATS,
    Cell,
    Found,
    answer,
    beyond,
    intervals,
    is_beyond,
    sizes,
)
from simulated_tables import LAYOUTS, ONCE

from medstress.results.formats import decimal

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "results" / "statistics"
PAGE = ROOT / "docs" / "results" / "statistics.md"
FIGURE = PAGE.with_suffix("") / "coverage.svg"


def read() -> dict[str, Any]:
    """The kept numbers, by part."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json"))}


def render() -> str:
    """The committed page with the committed numbers."""
    return fill(PAGE.read_text("utf-8"), parts_of(read()))


def parts_of(found: Found) -> dict[str, str]:
    """What stands between the marks."""
    cells = intervals(found)
    return {
        "coverage": _coverage(cells),
        "answer": answer(found),
        "beyond": beyond(found),
        "victims": _victims(found["victims"]["cells"]),
        "broken": _broken(found["broken"]["cells"]),
        "sizes": sizes(found["sizes"]),
        "families": _families(found["families"]["cells"]),
        "powers": _powers(found["powers"]["cells"]),
        "names": shown.names(found["names"]["cells"]),
        "two_way": shown.two_way(found["two_way"]),
        "slices": shown.slices(found["slices"]),
        "calibration": shown.calibration(found["calibration"]),
        "changes": shown.changes(found["changes"]),
    }


def groups(cells: Iterable[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """Cells by interval and layout, in the order of the page."""
    found: dict[tuple[str, str], list[Cell]] = {
        (what, layout): [] for what in WHATS for layout in LAYOUTS
    }
    for cell in cells:
        found[cell["what"], cell["layout"]].append(cell)
    return {key: each for key, each in found.items() if each}


def _coverage(cells: list[Cell]) -> str:
    rows = []
    for (what, layout), each in groups(cells).items():
        least = min(each, key=lambda cell: cell["coverage"])
        rows.append(
            [
                WHATS[what],
                layout,
                len(each),
                decimal(least["coverage"]),
                decimal(max(cell["coverage"] for cell in each)),
                decimal(max(max(cell["too_low"], cell["too_high"]) for cell in each)),
                sum(map(is_beyond, each)),
            ]
        )
    heads = ["interval of", "answers an item", "cells", "least", "most", "largest tail", "beyond"]
    return table(heads, rows)


def _victims(cells: list[Cell]) -> str:
    rows = []
    for budget in (1, 8):
        names = dict.fromkeys(cell["victim"] for cell in cells)
        for name in names:
            some = [c for c in cells if c["victim"] == name and c["budget"] == budget]
            loss = [c for c in some if c["what"] == "loss"]
            abbott = [c["coverage"] for c in some if c["what"] == "abbott"]
            first = loss[0]
            rows.append(
                [
                    name,
                    budget,
                    *(decimal(first[key]) for key in ("loss", "a", "c", "net")),
                    decimal(first["abbott"]) if first["c"] < 1 else None,
                    decimal(min(c["coverage"] for c in loss)),
                    decimal(min(abbott)) if abbott else None,
                ]
            )
    heads = [
        "victim",
        "B",
        "loss",
        "a",
        "c",
        "a − c",
        "Abbott",
        "held by the bounds",
        "by Abbott's",
    ]
    return table(heads, rows)


def _broken(cells: list[Cell]) -> str:
    rows = [
        [
            cell["case"],
            decimal(cell["loss"]),
            cell["items"],
            decimal(cell["coverage"]),
            decimal(cell["too_low"]),
            decimal(cell["too_high"]),
        ]
        for cell in cells
    ]
    return table(["case", "loss", "items", "coverage", "too low", "too high"], rows)


def _families(cells: list[Cell]) -> str:
    rows = [
        [
            f"{cell['with an effect']} of {cell['tests']}",
            "one common arm" if cell["common arm"] else "arms of their own",
            *(decimal(cell[key]) for key in ("unadjusted", "holm", "bh")),
            cell["found by holm"] and decimal(cell["found by holm"]),
        ]
        for cell in cells
    ]
    heads = [
        "with an effect",
        "compared with",
        "any false, unadjusted",
        "any false, Holm",
        "false among found, BH",
        "effects found, Holm",
    ]
    return table(heads, rows)


def _powers(cells: Mapping[str, list[Cell]]) -> str:
    effects = cells["rising"][0]["effects"]
    rising = [
        [
            row["items"],
            decimal(row["discordance"], 2),
            *map(decimal, row["power"]),
            decimal(max(abs(p - s) for p, s in zip(row["power"], row["seen"], strict=True))),
        ]
        for row in cells["rising"]
    ]
    heads = ["items", "discordance", *(decimal(each, 2) for each in effects), "simulated within"]
    plans = [
        [
            decimal(row["discordance"], 2),
            *(
                decimal(value) if name.startswith("detectable") else value
                for name, value in row.items()
                if name != "discordance"
            ),
        ]
        for row in cells["plans"]
    ]
    names = [name for name in cells["plans"][0] if name != "discordance"]
    return blocks(
        table(heads, rising),
        "With 80 % power, the smallest difference that is detected, and how many items are needed:",
        table(["discordance", *(name.replace("0.", ".") for name in names)], plans),
    )


def draw(found: Found) -> None:
    """The figure: the coverage of every cell."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    rows = list(groups(intervals(found)).items())
    with plt.rc_context({"svg.hashsalt": "statistics", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7.2, 4.4))
        for i, ((_, layout), cells) in enumerate(rows):
            y = len(rows) - i
            x = sorted({round(cell["coverage"], 4) for cell in cells})
            shift = [((j * 0.618034) % 1 - 0.5) * 0.5 for j in range(len(x))]
            places = [y + each for each in shift]
            axes.scatter(x, places, s=5, alpha=0.35, color="#0b6fb3", linewidths=0)
            limit = LEAST[layout == ONCE]
            axes.plot([limit, limit], [y - 0.4, y + 0.4], color="#c2410c")
        axes.axvline(0.95, color="#999", linewidth=0.8)
        axes.set_yticks(
            range(len(rows), 0, -1), [f"{WHATS[w]}, {layout}" for (w, layout), _ in rows]
        )
        axes.set_xlabel("share of 95 % intervals that hold the truth")
        axes.set_xlim(0.91, 1.002)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        figure.tight_layout()
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})
        plt.close(figure)
