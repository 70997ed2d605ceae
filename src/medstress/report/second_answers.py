"""The figure that a reviewer asks for first: what is left without second right answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from medstress.metrics import Estimate
from medstress.metrics.second_answers import Arm, Place, second_answers
from medstress.report import figures
from medstress.report.tables import Cell, Table, label_text, score_cell, share_cell
from medstress.rows import TrialRow


def second_answer_plots(trials: Sequence[TrialRow]) -> Iterator[tuple[Markup, Table]]:
    """One figure with its numbers for every place where an attack marks variants of the key."""
    for i, (place, arms) in enumerate(second_answers(trials).items()):
        name, title = f"second-{i}", label_text(place)
        pairs = [
            figures.Pair(
                label=arm.attack,
                rates=(_drawn(arm.asr), _drawn(arm.asr_unrefuted)),
                advantages=(_drawn(arm.advantage), _drawn(arm.advantage_unrefuted)),
            )
            for arm in arms
        ]
        if any(rate is not None for pair in pairs for rate in pair.rates):
            yield Markup(figures.paired_plot(pairs, title, name)), _numbers(name, place, arms)


def _drawn(estimate: Estimate | None) -> figures.Estimate | None:
    if estimate is None or estimate.value is None:
        return None
    low, high = estimate.low, estimate.high
    return figures.Estimate(
        value=estimate.value,
        low=estimate.value if low is None else low,
        high=estimate.value if high is None else high,
    )


def _numbers(name: str, place: Place, arms: Sequence[Arm]) -> Table:
    return Table(
        name=f"{name}-data",
        caption=f"ASR with and without variants of the key, as plotted: {label_text(place)}",
        columns=(
            "Attack",
            "ASR",
            "ASR, not refuted",
            "Advantage over random",
            "Advantage, not refuted",
        ),
        rows=tuple(
            (
                Cell(text=arm.attack, numeric=False),
                _cell(arm.asr),
                _cell(arm.asr_unrefuted),
                _difference(arm.advantage),
                _difference(arm.advantage_unrefuted),
            )
            for arm in arms
        ),
        note="Only attacks that ask variants of the key and mark them. An advantage is the "
        "difference to random draws on the items eligible under both, with Tango's "
        "interval. Not refuted: no rule on words and lists, panel or "
        "person says that the key no longer holds; whether it does is unknown unless one of the "
        "latter says so.",
    )


def _cell(estimate: Estimate) -> Cell:
    return share_cell(estimate.as_json())


def _difference(estimate: Estimate | None) -> Cell:
    return score_cell(None if estimate is None else estimate.as_json())
