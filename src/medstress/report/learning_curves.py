"""The figure of learning curves: loss and score of every model after each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medstress.report.figures import DASHES, MARKERS, SERIES, add_legend, as_svg, calm_axes
from medstress.results.formats import decimal, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SPOKEN = 12
"""Largest number of models in the accessible name; the table below the plot has all."""
_LABEL = 44


def learning_curves(
    losses: Sequence[tuple[str, Sequence[float | None]]],
    scores: Sequence[tuple[str, Sequence[float | None]]],
    measure: str,
    name: str,
) -> str:
    """Draw the training loss and the score on dev data after each epoch, one line per model.

    Args:
        losses: (model, one value per epoch); at least one model, each with at least one epoch.
        scores: the same models; None without dev data.
        measure: name of the score.
        name: prefix of the identifiers in the SVG, unique on the page.
    """
    height = 2.75 + 0.21 * len(losses)

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        below = 0.62 + 0.21 * len(losses)
        tall = 1 - (below + 0.3) / height
        panels = (
            (figure.add_axes((0.08, below / height, 0.4, tall)), losses, "training loss"),
            (figure.add_axes((0.58, below / height, 0.4, tall)), scores, f"{measure}, dev data"),
        )
        for axes, lines, title in panels:
            for i, (_, values) in enumerate(lines):
                known = [(k, v) for k, v in enumerate(values, 1) if v is not None]
                axes.plot(
                    [k for k, _ in known], [v for _, v in known], label=f"series {i}",
                    color=SERIES[i % len(SERIES)],
                    linestyle=DASHES[i % len(DASHES)], linewidth=1.7,
                    marker=MARKERS[i % len(MARKERS)], markersize=4.5,
                )  # fmt: skip
            axes.set_xlabel("epoch")
            axes.set_ylabel(title)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
            calm_axes(axes, grid="y")
        add_legend(figure, panels[0][0], [label for label, _ in losses], height)

    spoken = "; ".join(
        f"{shorten(label, _LABEL)} {decimal(values[0])} to {decimal(values[-1])}"
        for label, values in losses[:_MOST_SPOKEN]
    )
    label = f"Learning curves, training loss in the first and the last epoch: {spoken}."
    return as_svg(draw, width=7.6, height=height, name=name, label=label)
