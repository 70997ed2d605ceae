"""Figure 1 of Araujo et al.: scores on clean and perturbed data, by attack and model."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_score
from medstress.papers.arms import Arm

SOURCE = "Araujo et al., 2020, Tables 2 and 3"
ORIGINAL = "original"
"""Name of the clean data among the test sets."""
MEASURES = {"f1": "strict F1", "pearson": "Pearson"}
_TESTS = (ORIGINAL, "synonym", "keyboard_noise", "swap_noise")
"""Test sets in the order of the figure; others follow."""
CSV_FIELDS = ("source", "dataset", "victim", "test", "measure", "value", "low", "high", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """One victim, or one model of the paper."""

    victim: str
    """Name of the victim or model."""
    scores: Mapping[str, Estimate]
    """Score by test set; the paper's have no interval."""
    published: bool = False
    """True if the scores are the paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePanel:
    """One data set."""

    label: str
    """Its label, and the types of its entities."""
    measure: str
    """A key of `MEASURES`."""
    tests: tuple[str, ...]
    """`original`, then attacks, in the order of the figure."""
    bars: tuple[Bars, ...]
    """Victims, then the models that the paper tested on the same data."""


def panels_of(
    arms: Sequence[Arm], training: Mapping[str, Any] | None
) -> list[tuple[ScorePanel, list[Arm]]]:
    """Return a panel for each data set of sentences, with the arms it shows.

    Args:
        arms: arms of a run; those that search have no perturbed data set and are left out.
        training: the summary's `training`; models trained on perturbed copies are left out, as
            in the paper's figure.
    """
    hardened = {
        model["victim"]
        for model in (training or {}).get("models", ())
        if model["model"] in {kind["name"] for kind in (training or {})["adversarial"]}
    }
    shown = [
        arm
        for arm in arms
        if (measure := _measure(arm)) is not None
        and arm.row[f"{measure}_after"]["value"] is not None
        and arm.spec.get("search") == "none"
        and arm.place.victim.label not in hardened
    ]
    panels = []
    for dataset in dict.fromkeys(arm.place.dataset for arm in shown):
        members = [arm for arm in shown if arm.place.dataset == dataset]
        panels.append((_panel(dataset, members), members))
    return panels


def csv_rows(panels: Sequence[ScorePanel]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of the figure, one row per score."""
    for panel in panels:
        for bars in panel.bars:
            for test, score in bars.scores.items():
                yield {
                    "source": SOURCE if bars.published else "run",
                    "dataset": panel.label,
                    "victim": bars.victim,
                    "test": test,
                    "measure": panel.measure,
                    "value": score.value,
                    "low": score.low,
                    "high": score.high,
                    "n": score.n or "",
                }


def _measure(arm: Arm) -> str | None:
    return next((name for name in MEASURES if name in arm.row), None)


def _panel(dataset: str, arms: Sequence[Arm]) -> ScorePanel:
    measure = _measure(arms[0]) or ""
    by_victim: dict[str, dict[str, Estimate]] = {}
    for arm in arms:
        scores = by_victim.setdefault(arm.place.victim.label, {})
        scores[ORIGINAL] = read_score(arm.row[measure])
        scores[arm.attack] = read_score(arm.row[f"{measure}_after"])
    types = sorted(arms[0].row.get("by_type") or {})
    names = {arm.attack: arm.method for arm in arms}
    order = sorted(names, key=lambda attack: (_rank(names[attack]), attack))
    ours = tuple(Bars(victim=name, scores=scores) for name, scores in by_victim.items())
    data = types[0] if len(types) == 1 and arms[0].source == "bc5cdr" else arms[0].source
    return ScorePanel(
        label=" · ".join([dataset, *types]),
        measure=measure,
        tests=(ORIGINAL, *order),
        bars=(*ours, *_published_bars(data, measure, names)),
    )


def _rank(name: str) -> int:
    return _TESTS.index(name) if name in _TESTS else len(_TESTS)


def _published_bars(data: str, measure: str, names: Mapping[str, str]) -> Iterator[Bars]:
    """Yield the paper's models, with its attacks under our labels."""
    for row in _published():
        if (row["data"], row["measure"]) == (data, measure):
            tests = {ORIGINAL: ORIGINAL, **names}
            scores = {
                label: Estimate(value=float(row[name]), n=0, low=None, high=None, method="printed")
                for label, name in tests.items()
                if name in _TESTS
            }
            yield Bars(victim=f"{row['model']} (published)", scores=scores, published=True)


@lru_cache(maxsize=1)
def _published() -> tuple[dict[str, str], ...]:
    text = (files("medstress.papers") / "data" / "published_scores.csv").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(csv.DictReader(lines))
