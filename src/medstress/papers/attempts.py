"""Figure 2 of Ness et al.: accuracy after each attempt, beside GPT-3.5 and GPT-4 as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.figures import attempts
from medstress.figures.curves import Curve, Panel
from medstress.metrics.old_stats.estimates import Estimate
from medstress.report.attempts import SOURCE, published

PUBLISHED = f"Published: {SOURCE}; they are of other items and have no intervals."


def panels_of(summary: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of the run, each with the published models; empty without MedFuzz."""
    theirs = _published_curves()
    return [
        Panel(label=panel.label, curves=(*panel.curves, *theirs))
        for panel in attempts.panels_of(summary)
    ]


def _published_curves() -> Sequence[Curve]:
    return [
        Curve(
            label=f"{model}, published",
            keys={"source": "published", "victim": model},
            points=tuple((float(k), _printed(value)) for k, value in enumerate(values)),
            dashed=True,
        )
        for model, values in published().items()
    ]


def _printed(value: float) -> Estimate:
    return Estimate(value=value, n=0, low=None, high=None, method="printed")
