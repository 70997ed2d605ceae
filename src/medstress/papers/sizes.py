"""Figure 3 of Xian et al. (2025): single-query success against the size of the victim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from medstress.papers import published
from medstress.papers.published import Published
from medstress.papers.rates import Rates

PAPER_PANELS = (("medqa", "drugs"), ("medmcqa", "diseases"))
"""(data set, group) of the panels that the paper shows; they come first."""

GROUPS = ("generalist", "specialist")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePanel:
    """One group of one data set."""

    label: str
    """Data set and group."""
    bars: tuple[Rates, ...]
    """Generalists by size, then specialists by size."""
    published: tuple[Published | None, ...]
    """The paper's numbers for each bar; None if it has none."""


def panels_of(rates: Sequence[Rates]) -> list[SizePanel]:
    """Return panels of the victims whose size and group the experiment file gives.

    Args:
        rates: rates at a budget of 1.
    """
    several = len({(r.place.embedding, r.place.rule) for r in rates}) > 1
    places: dict[tuple[int, str], list[Rates]] = defaultdict(list)
    for r in rates:
        if r.place.victim.parameters is None or r.place.victim.group not in GROUPS:
            continue
        kind = (r.source, r.place.entity)
        rank = PAPER_PANELS.index(kind) if kind in PAPER_PANELS else len(PAPER_PANELS)
        extra = [r.place.embedding, r.place.rule] if several else []
        label = " · ".join(filter(None, (r.place.dataset, r.place.entity, *extra)))
        places[rank, label].append(r)
    return [
        _panel(label, members)
        for (_, label), members in sorted(places.items(), key=lambda entry: entry[0][0])
    ]


def victims_left_out(rates: Sequence[Rates]) -> list[str]:
    """Return the victims left out because the file does not give their size or group."""
    return list(
        dict.fromkeys(
            r.place.victim.label
            for r in rates
            if r.place.victim.parameters is None or r.place.victim.group not in GROUPS
        )
    )


def _panel(label: str, members: Sequence[Rates]) -> SizePanel:
    bars = sorted(
        members,
        key=lambda r: (
            GROUPS.index(r.place.victim.group or ""),
            r.place.victim.parameters or 0.0,
            r.place.victim.label,
        ),
    )
    printed = [published.find("xian2025", r.place.victim, r.source, r.place.entity) for r in bars]
    return SizePanel(label=label, bars=tuple(bars), published=tuple(printed))
