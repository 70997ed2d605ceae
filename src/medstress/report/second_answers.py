"""The figure that reviewers ask for first: the success rate without second right answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.second_answers import ClassifiedArm, second_answers
from medstress.report.charts import Plot, plot
from medstress.report.labels import Row
from medstress.report.plots import layers
from medstress.report.plots.axes import Axis, share_axis
from medstress.report.plots.layers import Series
from medstress.report.plots.words import (
    MOST_ROWS,
    first_panels,
    mark,
    most_important,
    on_axis,
    place_words,
)
from medstress.results.formats import decimal, shorten
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns
from medstress.stats.estimates import Estimate

_MOST_SPOKEN = 12
_NOBODY = Names()


def second_answer_plots(trials: Sequence[TrialRow], names: Names = _NOBODY) -> Iterator[Plot]:
    """Yield charts and their numbers for every place where an attack marks variants of the key.

    The first has the rates; the second, if there are random draws, what they are above those.
    """
    found = {
        place: arms
        for place, arms in second_answers(trials).items()
        if any(_known(rate) for arm in arms for rate in (arm.asr, arm.asr_unrefuted))
    }
    drawn, left_out = first_panels(found, lambda arms: max(arm.asr.value or 0 for arm in arms))
    for i, (place, arms) in enumerate(drawn.items()):
        row = dict(zip(("dataset", "group", "victim"), place, strict=True))
        title = place_words(row, names, *row)
        said = [names.of("attack", arm.attack) for arm in arms]
        spoken = "; ".join(
            f"{label} {_value(arm.asr)}, not refuted {_value(arm.asr_unrefuted)}"
            for label, arm in list(zip(said, arms, strict=True))[:_MOST_SPOKEN]
        )
        numbers = _numbers(f"second-{i}-data", title, said, arms)
        notes = () if i else left_out
        rates = [(arm.asr, arm.asr_unrefuted) for arm in arms]
        yield plot(
            _chart(row, arms, rates, title, names, notes, is_share=True),
            label=f"ASR with all successes and with unrefuted ones, {shorten(title, 120)}: "
            f"{spoken}.",
            data=numbers,
        )
        gaps = [(arm.advantage, arm.advantage_unrefuted) for arm in arms]
        if any(map(_known, (gap for pair in gaps for gap in pair))):
            spoken = "; ".join(
                f"{label} {_value(all_)}, not refuted {_value(rest)}"
                for label, (all_, rest) in list(zip(said, gaps, strict=True))[:_MOST_SPOKEN]
                if _known(all_)
            )
            yield plot(
                _chart(row, arms, gaps, title, names, notes, is_share=False),
                label=f"ASR minus that of random draws, {shorten(title, 120)}: {spoken}.",
                data=replace(numbers, name=f"second-{i}-gaps-data"),
            )


def _chart(
    row: Row,
    arms: Sequence[ClassifiedArm],
    pairs: Sequence[tuple[Estimate | None, Estimate | None]],
    title: str,
    names: Names,
    notes: tuple[str, ...],
    *,
    is_share: bool,
) -> Any:
    known = [
        (arm, pair) for arm, pair in zip(arms, pairs, strict=True) if _known(pair[0] or pair[1])
    ]
    drawn, more = most_important(
        known, MOST_ROWS, lambda each: (each[1][0] and each[1][0].value) or 0.0, "attacks"
    )
    places = on_axis(names.of("attack", arm.attack) for arm, _ in drawn)
    kinds = ("all successes", "not refuted")
    data = [
        mark(estimate, {**row, "attack": arm.attack}, is_share=is_share, place=place, series=kind)
        for place, (arm, pair) in zip(places, drawn, strict=True)
        for kind, estimate in zip(kinds, pair, strict=True)
        if estimate is not None and estimate.value is not None
    ]
    rates = share_axis("right answers lost (ASR)", (datum["high"] for datum in data))
    return layers.dots(
        data,
        places,
        [Series(label=kind, look=j, dash=j) for j, kind in enumerate(kinds)],
        rates if is_share else Axis(title="ASR minus that of random draws"),
        title=title,
        notes=(*more, *notes),
        tips={"series": "Successes"},
        zero_line=not is_share,
    )


def _known(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None


def _value(estimate: Estimate | None) -> str:
    return decimal(estimate.value) if estimate is not None and _known(estimate) else "unknown"


def _numbers(name: str, title: str, said: Sequence[str], arms: Sequence[ClassifiedArm]) -> Table:
    return Table(
        name=name,
        caption=f"ASR with and without variants of the key, as plotted: {title}",
        columns=(
            *columns(Format.TEXT, "Attack"),
            *columns(Format.SHARE, "ASR", "ASR, not refuted"),
            *columns(Format.SCORE, "Advantage over random", "Advantage, not refuted"),
        ),
        rows=tuple(
            as_row(
                label,
                arm.asr,
                arm.asr_unrefuted,
                arm.advantage,
                arm.advantage_unrefuted,
            )
            for label, arm in zip(said, arms, strict=True)
        ),
        notes=(
            "Only attacks that ask variants of the key and mark them. An advantage is the "
            "difference to random draws on the items eligible under both, with Tango's interval.",
            "Not refuted: no rule on words and lists, panel or person says that the key no longer "
            "holds; that it does hold is known only if a panel or a person says so.",
        ),
    )
