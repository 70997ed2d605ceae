"""The figure that reviewers ask for first: the success rate without second right answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from medstress.core.rows import TrialRow
from medstress.metrics.second_answers import ClassifiedArm, Place, second_answers
from medstress.report import figures
from medstress.report.figures import Plot
from medstress.report.labels import label_text
from medstress.results.table import Format, Table, as_row, columns


def second_answer_plots(trials: Sequence[TrialRow]) -> Iterator[Plot]:
    """Yield a figure and its numbers for every place where an attack marks variants of the key."""
    for i, (place, arms) in enumerate(second_answers(trials).items()):
        name, title = f"second-{i}", label_text(place)
        pairs = [
            figures.Pair(
                label=arm.attack,
                rates=(arm.asr, arm.asr_unrefuted),
                advantages=(arm.advantage, arm.advantage_unrefuted),
            )
            for arm in arms
        ]
        if any(rate and rate.value is not None for pair in pairs for rate in pair.rates):
            svg = Markup(figures.paired_plot(pairs, title, name))
            yield Plot(svg=svg, data=_numbers(name, place, arms))


def _numbers(name: str, place: Place, arms: Sequence[ClassifiedArm]) -> Table:
    return Table(
        name=f"{name}-data",
        caption=f"ASR with and without variants of the key, as plotted: {label_text(place)}",
        columns=(
            *columns(Format.TEXT, "Attack"),
            *columns(Format.SHARE, "ASR", "ASR, not refuted"),
            *columns(Format.SCORE, "Advantage over random", "Advantage, not refuted"),
        ),
        rows=tuple(
            as_row(
                arm.attack,
                arm.asr,
                arm.asr_unrefuted,
                arm.advantage,
                arm.advantage_unrefuted,
            )
            for arm in arms
        ),
        notes=(
            "Only attacks that ask variants of the key and mark them. An advantage is the "
            "difference to random draws on the items eligible under both, with Tango's interval.",
            "Not refuted: no rule on words and lists, panel or person says that the key no longer "
            "holds; that it does hold is known only if a panel or a person says so.",
        ),
    )
