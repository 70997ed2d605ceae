"""Tables of docs/results/xian-medmcqa.md from the figures of its two runs.

    python benchmarks/xian/page.py FIGURES CURVE_FIGURES

FIGURES and CURVE_FIGURES are what `medstress figures` made of the main run and of the curve. Copies
their CSV and SVG files to docs/results/xian-medmcqa and writes the tables between the page's marks;
the words around them are written by hand.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from medstress.results.formats import decimal

ROOT = Path(__file__).parents[2]
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
Row = Mapping[str, str]


def main(figures: str, curve: str) -> None:
    """Copy the files and write the tables."""
    for name in OF_RUN:
        shutil.copyfile(Path(figures) / name, FOLDER / name)
    for name, to in OF_CURVE.items():
        shutil.copyfile(Path(curve) / name, FOLDER / to)
    text = PAGE.read_text("utf-8")
    for mark, lines in (
        ("one query", _rates(_rows("table1.csv"), list(METHODS)[:-1])),
        ("eight queries", _rates(_rows("table2.csv"), list(METHODS))),
        ("claims", _claims(_rows("claims.csv"), untested=("1", "6", "8", "10"))),
        ("claims of the curve", _claims(_rows("curve-claims.csv"))),
        ("regimes", _regimes(_rows("figure2.csv"))),
    ):
        begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        before, found, rest = text.partition(begin)
        _, also, after = rest.partition(end)
        if not (found and also):
            raise SystemExit(f"{PAGE}: expected {begin} and {end}, got the page without; add them")
        text = "\n".join((f"{before}{begin}", *lines, f"{end}{after}"))
    PAGE.write_text(text, "utf-8")


def _rows(name: str) -> list[Row]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if row.get("source", "ours") == "ours"]


def _rates(rows: Sequence[Row], methods: Sequence[str]) -> Iterable[str]:
    yield "| victim | group | accuracy | " + " | ".join(methods) + " |"
    yield "| --- " * (3 + len(methods)) + "|"
    places = sorted({(row["victim"], row["group"]) for row in rows})
    for victim, group in places:
        own = [row for row in rows if (row["victim"], row["group"]) == (victim, group)]
        cells = [_interval(_one(own, quantity="accuracy"))]
        for method in methods:
            name, n = METHODS[method]
            cells.append(_interval(_one(own, quantity="asr", method=name, exponent=n)))
        yield f"| {victim} | {group} | " + " | ".join(cells) + " |"


def _regimes(rows: Sequence[Row]) -> Iterable[str]:
    shown = [row for row in rows if row["quantity"] in ("asr", "diversity_unbiased")]
    yield "| group | names | n | successes at one query | diversity of them, unbiased |"
    yield "| --- | --- | --- | --- | --- |"
    keys = {(r["group"], r["rule"], float(r["exponent"]), r["method"]) for r in shown}
    for group, rule, n, method in sorted(
        keys, key=lambda key: (key[0], key[1] != "choices = default", *key[1:])
    ):
        own = [
            row
            for row in shown
            if (row["group"], row["rule"], row["method"]) == (group, rule, method)
            and float(row["exponent"]) == n
        ]
        cells = (_interval(_one(own, quantity=q)) for q in ("asr", "diversity_unbiased"))
        names = "ours" if rule == "choices = default" else "as published"
        told = f"{n:g}".replace("-", "−") if n else "0 (RandS)"
        yield f"| {group} | {names} | {told} | " + " | ".join(cells) + " |"


def _claims(rows: Sequence[Row], untested: Sequence[str] = ()) -> Iterable[str]:
    """The claims that were tested, then why the `untested` were not.

    Claim 11, that more queries find more, holds everywhere and is left to the file.
    """
    rows = sorted((row for row in rows if row["claim"] != "11"), key=_place)
    yield "| # | claim | names | budget | victim | group | effect [95 %] | verdict |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        if row["verdict"] == "not tested":
            continue
        statement = row["statement"].replace("<", "&lt;")
        cells = (row["claim"], statement, _names(row), row["budget"] or "–")
        told = (row["victim"], row["group"], _interval(row), row["verdict"])
        yield "| " + " | ".join((*cells, *told)) + " |"
    if not untested:
        return
    yield ""
    yield "Not tested, and in how many places:"
    yield ""
    why = Counter(
        (row["claim"], row["statement"].replace("<", "&lt;"), row["reason"])
        for row in rows
        if row["verdict"] == "not tested" and row["claim"] in untested
    )
    for (claim, statement, reason), n in why.items():
        yield f"* {claim}, {statement}: {reason} ({n})"


def _place(row: Row) -> tuple[object, ...]:
    is_other = row["arms"] != "default"
    budget = int(row["budget"] or 0)
    return int(row["claim"]), row["statement"], is_other, budget, row["victim"], row["group"]


def _names(row: Row) -> str:
    return {"default": "ours", "marked": "as published"}.get(row["arms"], row["arms"])


def _one(rows: Sequence[Row], **wanted: str) -> Row | None:
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return found[0] if found else None


def _interval(row: Row | None) -> str:
    if row is None or not row["value"]:
        return "–"
    value = _short(row["value"])
    return f"{value} [{_short(row['low'])}, {_short(row['high'])}]" if row["low"] else value


def _short(number: str) -> str:
    return decimal(float(number)).replace("-", "−")


if __name__ == "__main__":
    main(*sys.argv[1:])
