"""Draw success by number of words replaced and inserted as small heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medstress.figures import canvas
from medstress.metrics.edits import MOST_WORDS
from medstress.papers.word_cells import MOST_PANELS, WordPanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3


def plot_words(panels: Sequence[WordPanel], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw the panels, three side by side, on the same axes.

    Args:
        panels: at least one; the first `MOST_PANELS` are drawn.
        formats: file formats.
    """
    shown = panels[:MOST_PANELS]
    cells = [cell for panel in shown for cell in panel.cells]
    size = (max(2, *(cell[0] for cell in cells)), max(4, *(cell[1] for cell in cells)))
    n_columns = min(COLUMNS, len(shown))
    n_rows = -(-len(shown) // COLUMNS)

    width = max(4.2, n_columns * (0.9 + 0.42 * size[1]))

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for i, axes in enumerate(grid.flat):
            if i >= len(shown):
                axes.set_visible(False)
                continue
            _panel(axes, shown[i], size)
            letter = i if len(shown) > 1 else None
            canvas.title(axes, shown[i].label, width / n_columns - 0.4, letter)
            axes.set_xlabel("words inserted")
            if i % n_columns == 0:
                axes.set_ylabel("words replaced")

    return canvas.draw(build, width=width, height=n_rows * (0.8 + 0.34 * size[0]), formats=formats)


def _panel(axes: Axes, panel: WordPanel, size: tuple[int, int]) -> None:
    for (replaced, inserted), estimate in panel.cells.items():
        share = estimate.value or 0.0
        # Opacity, not a colour map: one hue that also reads in grey.
        axes.fill_between(
            (inserted - 0.48, inserted + 0.48), replaced - 0.48, replaced + 0.48,
            color=canvas.SERIES[0], alpha=0.06 + 0.74 * share, linewidth=0,
        )  # fmt: skip
        axes.text(
            inserted, replaced, f"{100 * share:.0f}\n({estimate.n:,})", ha="center", va="center",
            fontsize=6, color="white" if share > 0.55 else canvas.INK, linespacing=1.1,
        )  # fmt: skip
    canvas.style_axes(axes)
    axes.grid(visible=False)
    axes.set_xlim(0.5, size[1] + 0.5)
    axes.set_ylim(size[0] + 0.5, 0.5)
    for set_ticks, largest in ((axes.set_xticks, size[1]), (axes.set_yticks, size[0])):
        ticks = range(1, largest + 1)
        set_ticks(ticks, [f"{t}+" if t == MOST_WORDS else str(t) for t in ticks])
