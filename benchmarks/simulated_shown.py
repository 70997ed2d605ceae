"""Tables of the page about names, slices and confidence; each says how many runs a cell had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pages import blocks, table

from medstress.results.formats import decimal

Part = Mapping[str, Any]
Cell = dict[str, Any]


def names(cells: list[Cell]) -> str:
    """The exact test over items, by how many names there are."""
    return table(
        ["names in the population", "McNemar's exact test rejects at .05"],
        [[f"{cell['names']:,}", decimal(cell["rejected"])] for cell in cells],
    )


def two_way(part: Part) -> str:
    """The interval for names like these beside the test over items."""
    rows = [
        [
            f"{cell['names']:,}" + (", same for both" if cell["shared"] else ""),
            cell["budget"],
            decimal(cell["lethal"], 1),
            cell["items"],
            None if cell["by items"] is None else decimal(cell["by items"]),
            decimal(cell["two-way"]),
        ]
        for cell in part["cells"]
    ]
    heads = [
        "names in a list",
        "budget",
        "names lethal",
        "items a document",
        "the item test errs",
        "the two-way interval errs",
    ]
    return blocks(_runs(part), table(heads, rows))


def slices(part: Part) -> str:
    """The least and the mean joint coverage over all rates."""
    rows = []
    keys = ("slices", "overlap", "items", "answers")
    for key in dict.fromkeys(tuple(cell[name] for name in keys) for cell in part["cells"]):
        some = [c for c in part["cells"] if tuple(c[name] for name in keys) == key]
        exact = [c["exact"] for c in some]
        net = [c["net"] for c in some if c["net"] is not None]
        rows.append(
            [
                key[0],
                "yes" if key[1] else "no",
                key[2],
                key[3],
                decimal(min(exact)),
                decimal(max(exact)),
                decimal(min(c["wilson"] for c in some)),
                decimal(min(net)) if net else None,
            ]
        )
    heads = [
        "slices",
        "overlap",
        "items",
        "answers an item",
        "Clopper-Pearson, least",
        "most",
        "Wilson, least",
        "a − c, Tango, least",
    ]
    return blocks(_runs(part), table(heads, rows))


def calibration(part: Part) -> str:
    """Coverage by victim and items."""
    sizes = list(dict.fromkeys(c["items"] for c in part["cells"] if c["answers"] == 1))
    victims = dict.fromkeys(c["victim"] for c in part["cells"])
    rows = []
    for victim in victims:
        some = {
            (c["items"], c["answers"]): c["coverage"]
            for c in part["cells"]
            if c["victim"] == victim
        }
        several = [decimal(each) for (_, n), each in some.items() if n > 1]
        rows.append([victim, *(decimal(some[n, 1]) for n in sizes), *several])
    heads = ["victim", *(f"{n:,} items" for n in sizes), "200 of 5 answers"]
    return blocks(_runs(part), table(heads, rows))


def changes(part: Part) -> str:
    """Coverage by kind of change and items."""
    sizes = list(dict.fromkeys(c["items"] for c in part["cells"]))
    keys = dict.fromkeys((c["what"], c["kind"], c["answers"]) for c in part["cells"])
    rows = []
    for key in keys:
        some = [c for c in part["cells"] if (c["what"], c["kind"], c["answers"]) == key]
        layout = "once" if key[2] == 1 else f"1 to {key[2]}"
        rows.append([key[0], key[1], layout, *(decimal(c["coverage"]) for c in some)])
    heads = ["mean of", "truth", "answers an item", *(f"{n} items" for n in sizes)]
    return blocks(_runs(part), table(heads, rows))


def _runs(part: Part) -> str:
    return f"{part['runs']:,} runs a cell."
