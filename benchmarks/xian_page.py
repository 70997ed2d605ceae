"""What docs/results/xian-medmcqa.md shows of the figures of its two runs, between its marks.

    python benchmarks/xian_page.py FIGURES CURVE_FIGURES
    python benchmarks/xian_page.py

FIGURES and CURVE_FIGURES are what `medstress figures --paper xian2025` made of the main run and of
the curve: their CSV and SVG files are copied to docs/results/xian-medmcqa. Without them the page is
written anew.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pages import blocks, fill, listed, shown, table, verdicts

from medstress.papers.claims.verdicts import Finding
from medstress.results.formats import MINUS, decimal

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "xian-medmcqa.md"
FOLDER = PAGE.with_suffix("")
OF_RUN = ("table1.csv", "table2.csv", "figure4.csv", "figure4.svg", "rcap.csv", "claims.csv")
OF_CURVE = {
    "figure2.csv": "figure2.csv",
    "figure2.svg": "figure2.svg",
    "claims.csv": "curve-claims.csv",
}
METHODS = {
    "RandS": ("random", ""),
    "PDWS n = −20": ("near", "-20.0"),
    "PDWS n = 20": ("far", "20.0"),
    "B-nearest": ("nearest", ""),
    "B-farthest": ("farthest", ""),
    "DiscreteZOO": ("discrete_zoo", ""),
}
FITTED = "minilm-head"
GROUPS = ("diseases", "drugs")
NAMES = {"default": "ours", "marked": "as published"}
RULES = {"choices = default": "ours", "choices = as_published": "as published"}
NOT_TESTED = Finding.NOT_TESTED.value
UNTESTED = ("1", "6", "8", "10")
"""Claims of which the page says where and why they were not tested."""
EVERYWHERE = "11"
"""The claim that more queries find more: it holds everywhere and is left to the file."""
Row = Mapping[str, str]


def main(*folders: str) -> None:
    """Copy the files of both runs, if they are given, and write the page."""
    if folders:
        figures, curve = map(Path, folders)
        for name in OF_RUN:
            shutil.copyfile(figures / name, FOLDER / name)
        for name, to in OF_CURVE.items():
            shutil.copyfile(curve / name, FOLDER / to)
    PAGE.write_text(render(), "utf-8")


def render() -> str:
    """The committed page with what the committed files say."""
    main_claims, curve_claims = _claims_of("claims.csv"), _claims_of("curve-claims.csv")
    return fill(
        PAGE.read_text("utf-8"),
        {
            "answer": _answer(_rows("table2.csv"), [*main_claims, *_tested(curve_claims)]),
            "one query": _rates(_rows("table1.csv"), list(METHODS)[:-1]),
            "eight queries": _rates(_rows("table2.csv"), list(METHODS)),
            "regimes": _regimes(_rows("figure2.csv")),
            "claims": _claims(main_claims),
            "not tested": _not_tested(main_claims),
            "claims of the curve": _claims(curve_claims),
        },
    )


def _rows(name: str) -> list[Row]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if row.get("source", "ours") == "ours"]


def _claims_of(name: str) -> list[Row]:
    rows = (
        {**row, "statement": row["statement"].replace("<", "&lt;")}
        for row in _rows(name)
        if row["claim"] != EVERYWHERE
    )
    return sorted(rows, key=_order)


def _answer(rows: Sequence[Row], claims: Sequence[Row]) -> str:
    """Near names against random and far ones on the fitted victim, and the verdicts."""
    told = []
    for group in GROUPS:
        random, near, far = (
            decimal(float(_rate(rows, FITTED, group, method)["value"]))
            for method in ("RandS", "PDWS n = −20", "PDWS n = 20")
        )
        told.append(
            f"near names change {near} of the right answers on {group}, random ones {random}, far "
            f"ones {far}"
        )
    found: dict[str, list[str]] = {}
    for row in sorted(claims, key=_order):
        found.setdefault(f"{row['claim']}. {row['statement']}", []).append(row["verdict"])
    judged = {
        claim: [verdict for verdict in each if verdict != NOT_TESTED] or each
        for claim, each in found.items()
    }
    return blocks(f"On {FITTED}, within eight queries, {'; '.join(told)}.", verdicts(judged))


def _tested(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["verdict"] != NOT_TESTED]


def _order(row: Row) -> tuple[int, str, int]:
    return int(row["claim"]), row["statement"], int(row["budget"] or 0)


def _rates(rows: Sequence[Row], methods: Sequence[str]) -> str:
    places = sorted({(row["victim"], row["group"]) for row in rows})
    return table(
        ["victim", "group", "accuracy", *methods],
        [
            [
                victim,
                group,
                _one(rows, victim=victim, group=group, quantity="accuracy"),
                *(_rate(rows, victim, group, method) for method in methods),
            ]
            for victim, group in places
        ],
    )


def _rate(rows: Sequence[Row], victim: str, group: str, method: str) -> Row:
    name, n = METHODS[method]
    return _one(rows, victim=victim, group=group, quantity="asr", method=name, exponent=n)


def _regimes(rows: Sequence[Row]) -> str:
    """Success and diversity of each n, of both groups side by side."""
    measures = {"asr": "successes", "diversity_unbiased": "diversity"}
    kept = [row for row in rows if row["quantity"] in measures]
    keys = {(RULES[row["rule"]] != "ours", float(row["exponent"]), row["method"]) for row in kept}
    lines = []
    for is_published, n, method in sorted(keys):
        names = "as published" if is_published else "ours"
        cells = [
            _one(
                [r for r in kept if RULES[r["rule"]] == names and float(r["exponent"]) == n],
                group=group,
                method=method,
                quantity=quantity,
            )
            for group in GROUPS
            for quantity in measures
        ]
        lines.append([names, f"{n:g}".replace("-", MINUS) if n else "0 (RandS)", *cells])
    heads = [f"{group}, {title}" for group in GROUPS for title in measures.values()]
    return table(["names", "n", *heads], lines)


def _claims(rows: Sequence[Row]) -> str:
    """Each claim and budget in a line, each victim, rule of names and group in a column."""
    tested = _tested(rows)
    columns = sorted({(row["victim"], row["arms"], row["group"]) for row in tested})
    lines = dict.fromkeys((row["claim"], row["statement"], row["budget"]) for row in tested)
    several = len({arms for _, arms, _ in columns}) > 1
    heads = [
        f"{victim}, {NAMES[arms]}, {group}" if several else f"{victim}, {group}"
        for victim, arms, group in columns
    ]
    return table(
        ["claim", "queries", *heads],
        [
            [
                f"{claim}. {statement}",
                budget or None,
                *(
                    _verdict(tested, statement, budget, victim, arms, group)
                    for victim, arms, group in columns
                ),
            ]
            for claim, statement, budget in lines
        ],
    )


def _verdict(rows: Sequence[Row], statement: str, budget: str, *place: str) -> str | None:
    victim, arms, group = place
    wanted = {"statement": statement, "budget": budget, "victim": victim}
    found = [row for row in rows if {**wanted, "arms": arms, "group": group}.items() <= row.items()]
    return f"{shown(found[0])} {found[0]['verdict']}" if found else None


def _not_tested(rows: Iterable[Row]) -> str:
    """Why claims were not tested, and in how many places."""
    why = Counter(
        (row["claim"], row["statement"], row["reason"])
        for row in rows
        if row["verdict"] == NOT_TESTED and row["claim"] in UNTESTED
    )
    return listed(
        f"{claim}, {statement}: {reason} ({n})" for (claim, statement, reason), n in why.items()
    )


def _one(rows: Sequence[Row], **wanted: str) -> Row:
    """The only row with these values.

    Raises:
        ValueError: there is none, or there are several.
    """
    (found,) = (row for row in rows if wanted.items() <= row.items())
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
