"""The claims of Xian et al. (2025) about the size and the kind of victims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from medstress.metrics.bounds import settled
from medstress.metrics.contrasts import Effect, Side, side_means, within
from medstress.papers.claims.record import (
    ALL_VICTIMS,
    CLOSE,
    ClaimResult,
    Judge,
    caution_of,
    untested,
)
from medstress.papers.claims.series import Series
from medstress.papers.claims.verdicts import above, below, mean_difference, size_trend


def across_victims(series: Sequence[Series]) -> Iterator[ClaimResult]:
    """Test the claims on every group of series with the same questions and rules."""
    groups: dict[tuple[str, str, str], list[Series]] = defaultdict(list)
    for each in series:
        groups[each.dataset, each.group, each.label].append(each)
    for members in groups.values():
        yield from _of_victims(members)


def _of_victims(members: Sequence[Series]) -> Iterator[ClaimResult]:
    """Test the claims on ASR@1, averaged over the samplers that all victims have."""
    shared = [m for m in ("random", "near", "far") if all(each.of(m) for each in members)]
    points = [_point(each, shared) for each in members if shared]
    sized = [p for p in points if p["parameters"] is not None]
    kinds = {k: [p for p in points if p["group"] == k] for k in ("generalist", "specialist")}
    quantity = "change of ASR a tenfold number of parameters"
    claims: list[tuple[str, str, Effect, Judge]] = [
        ("ASR falls with model size", quantity, size_trend(sized), below)
    ]
    trends: tuple[tuple[str, str, Judge], ...] = (
        ("generalist", "ASR falls with the size of generalists", below),
        ("specialist", "ASR rises with the size of specialists", above),
    )
    for kind, statement, judge in trends:
        chosen = [p for p in kinds[kind] if p["parameters"] is not None]
        effect = size_trend(chosen) if chosen else untested(f"no {kind} of known size was run")
        claims.append((statement, f"{quantity}, {kind}s", effect, judge))
    effect = mean_difference(kinds["specialist"], kinds["generalist"])
    statement = "Specialists are as robust as generalists"
    claims.append((statement, "mean ASR, specialists minus generalists", effect, CLOSE))
    first = members[0]
    cautions = [
        f"{each.victim}: {caution}" for each in members if (caution := caution_of(each.arms))
    ]
    for statement, measured, effect, judge in claims:
        yield ClaimResult(
            dataset=first.dataset, group=first.group, victim=ALL_VICTIMS, arms=first.label,
            claim=10, statement=statement, quantity=measured, budget=1, effect=effect,
            verdict=judge(effect.estimate), caution="; ".join(cautions),
        )  # fmt: skip


def _point(series: Series, methods: Sequence[str]) -> Mapping[str, Any]:
    victim = series.arms[0].place.victim
    sides = [[arm.trials for arm in series.of(m)] for m in methods]
    point = {"parameters": victim.parameters, "group": victim.group, "asr": _mean_asr(sides)}
    ends = ([[settled(t, hits=hits) for t in side] for side in sides] for hits in (False, True))
    return {**point, "asr_ends": tuple(map(_mean_asr, ends))}


def _mean_asr(sides: Sequence[Side]) -> float | None:
    """Return ASR@1 averaged over the methods; None if a method has no trial."""
    means = [side_means(side, within(1)).values() for side in sides]
    return fmean(fmean(values) for values in means) if all(means) else None
