"""Success against the exponent n of a weighted draw: near names left, far names right."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.figures import curves, notes
from medstress.figures.curves import Curve, Panel
from medstress.figures.outputs import Made
from medstress.figures.rows import Row, Rows, keys_of, last_budget, spec_of, success
from medstress.metrics.old_stats.estimates import read_share
from medstress.metrics.success import at_budget
from medstress.results.formats import plural
from medstress.results.names import CONTROL_WORDS

NAME, TITLE = "regimes", "Success by the distance of the names"
FEWEST = 3
"""The fewest values of n that make a curve; random names are n = 0."""


def regimes(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw success of one query, and within the budget, against n; None if n was not swept."""
    swept = {key: members for key, members in _sweeps(run).items() if len(members) >= FEWEST}
    if not swept:
        return None
    several = len({rule for _, rule in swept}) > 1
    panels = [
        Panel(
            label=" · ".join(filter(None, (run.label(members[0]), rule if several else ""))),
            curves=tuple(_curves(members)),
        )
        for (_, rule), members in swept.items()
    ]
    caption = [
        "n < 0 draws names near the one replaced, n > 0 far ones, n = 0 any at random.",
        *(["Dashed: controls."] if any(c.dashed for p in panels for c in p.curves) else []),
        *notes.sentences(run, [row for members in swept.values() for row in members]),
    ]
    return curves.as_figure(
        NAME, TITLE, panels, caption, formats, x="exponent n", y="success", key="exponent"
    )


def _sweeps(run: Rows) -> dict[tuple[Any, str], list[Row]]:
    """Return the rows of each place that differ in n alone, by ascending n."""
    found: dict[tuple[Any, str], dict[float, Row]] = defaultdict(dict)
    for place, members in run.places().items():
        specs = [spec_of(row) for row in members]
        shown = [_exponent(spec) is not None for spec in specs]
        varying = _varying([spec for spec, is_shown in zip(specs, shown, strict=True) if is_shown])
        for row, spec in zip(members, specs, strict=True):
            n = _exponent(spec)
            if n is not None:
                rule = ", ".join(f"{k.replace('_', ' ')} {spec[k]}" for k in varying if k in spec)
                found[place, rule].setdefault(n, row)
    return {key: [rows[n] for n in sorted(rows)] for key, rows in found.items()}


def _exponent(spec: Mapping[str, Any]) -> float | None:
    if spec.get("name") != "entity_substitution":
        return None
    sampler = spec.get("sampler")
    if sampler == "pdws" and spec.get("n") is not None:
        return float(spec["n"])
    return 0.0 if sampler == "random" else None


def _varying(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for spec in specs for name in spec if name not in ("n", "sampler"))
    return [n for n in names if len({json.dumps(s[n]) for s in specs if n in s}) > 1]


def _curves(rows: Sequence[Row]) -> Iterator[Curve]:
    last = min(map(last_budget, rows))
    for queries in sorted({1, last} - {0}):
        points = tuple(
            (_exponent(spec_of(row)) or 0.0, estimate)
            for row in rows
            if (estimate := success(row, queries)) is not None
        )
        keys = {**keys_of(rows[0]), "attack": None, "budget": queries}
        yield Curve(label=plural(queries, "query", "queries"), keys=keys, points=points)
    for name in dict.fromkeys(name for row in rows for name in _controls(row, last)):
        points = tuple(
            (_exponent(spec_of(row)) or 0.0, read_share(found[name]))
            for row in rows
            if name in (found := _controls(row, last))
        )
        keys = {**keys_of(rows[0]), "attack": None, "control": name, "budget": last}
        label = f"{CONTROL_WORDS.get(name, name)}, {plural(last, 'query', 'queries')}"
        yield Curve(label=label, keys=keys, points=points, dashed=True)


def _controls(row: Row, queries: int) -> Mapping[str, Any]:
    """Return the rates of a row's controls within a budget."""
    point = at_budget(row["asr_at"], queries) or {}
    return point.get("control") or {}
