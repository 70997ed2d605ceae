"""Robustness against the size of the victim, and the relative change in accuracy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import linregress
from scipy.stats import t as student

from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import ROUNDING
from medstress.metrics.success import asr

GROUPS = ("all", "generalist", "specialist")
"""Groups of victims with a trend of their own."""


def size_rows(
    pooled: Iterable[Mapping[str, Any]], victims: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows of `analysis.size`: accuracy and ASR of victims of known size, and the trend.

    Args:
        pooled: pooled summary rows.
        victims: label -> `parameters`, `family`, `group`; those without parameters are left out.
    """
    series: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in pooled:
        known = victims.get(row["victim"], {})
        if known.get("parameters") is not None:
            series[row["dataset"], row["group"], row["attack"]].append(
                {
                    "victim": row["victim"],
                    "parameters": known["parameters"],
                    "family": known.get("family"),
                    "victim_group": known.get("group"),
                    "accuracy": row["accuracy"],
                    "accuracy_after": row["accuracy_after"],
                    "asr": row["asr"],
                }
            )
    rows = []
    for (dataset, group, attack), points in sorted(series.items()):
        points.sort(key=lambda point: (point["parameters"], point["victim"]))
        trends = {
            name: trend([p for p in points if name in ("all", p["victim_group"])]).as_json()
            for name in GROUPS
        }
        head = {"dataset": dataset, "group": group, "attack": attack}
        rows.append({**head, "points": points, "trend": trends})
    return rows


def trend(points: Sequence[Mapping[str, Any]]) -> Estimate:
    """Estimate the change of ASR per tenfold number of parameters, by least squares.

    All victims weigh the same; `n` is their number. The interval is Student's; with few victims
    of few families it says little about other victims.
    """
    known = [p for p in points if p["asr"]["value"] is not None]
    sizes = np.log10([p["parameters"] for p in known])
    if len(set(sizes)) < 3:
        return unknown("needs victims of three sizes", len(known))
    rates = [p["asr"]["value"] for p in known]
    line = linregress(sizes, rates)
    slope, n = float(line.slope), len(known)
    method = "least squares of ASR on log10(parameters) over victims"
    residuals = np.array(rates) - line.intercept - slope * sizes
    # Points on one line have no scatter: scipy's error is 0, or nan if the line is level.
    if np.abs(residuals).max() < ROUNDING:
        no_interval = f"{method}: no interval, as the victims lie on one line"
        return Estimate(value=slope, n=n, low=None, high=None, method=no_interval)
    half = float(student.ppf(0.975, n - 2) * line.stderr)
    return Estimate(
        value=slope, n=n, low=slope - half, high=slope + half, method=f"{method}, Student's t 95 %"
    )


def r_cap(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the relative change in accuracy, R-CAP = (acc_0 - acc_after) / acc_0.

    This is answers lost over right answers, so it equals ASR. Its interval already covers that
    accuracy varies with the items: the linearised variance of `share` is that of a ratio of sums.

    References:
        Xian et al., arXiv 2402.10527 v1 (2024).
    """
    return asr(trials)


def r_cap_rows(trials: Iterable[TrialRow]) -> list[dict[str, Any]]:
    """Return rows of `analysis.r_cap`: one per attack, seeds together."""
    found: dict[tuple[str, str, str, str], list[TrialRow]] = defaultdict(list)
    for row in trials:
        found[row.dataset, row.group, row.victim, row.attack].append(row)
    return [
        {
            "dataset": place[0],
            "group": place[1],
            "victim": place[2],
            "attack": place[3],
            "r_cap": r_cap(rows).as_json(),
        }
        for place, rows in sorted(found.items())
    ]
