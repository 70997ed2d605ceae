"""What one victim's successes do to another: a matrix for each attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medstress.figures import canvas, notes
from medstress.figures.outputs import Made, figure_made, number
from medstress.figures.rows import Row, Rows, by
from medstress.metrics.old_stats.estimates import read_share
from medstress.results.formats import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, TITLE = "transfer", "What successes against one model do to another"
MOST_PANELS, MOST_VICTIMS = 8, 12
COLUMNS = 2
_INCHES, _NAMES = 0.52, 1.5
_DARK = 0.55


def transfer(run: Rows, formats: Sequence[str]) -> Made | None:
    """Draw the matrices; None if no success was asked of another victim."""
    rows: Sequence[Row] = (run.summary.get("analysis") or {}).get("transfer") or ()
    if not any(row["n_asked"] and row["from"] != row["to"] for row in rows):
        return None
    grouped = list(by(rows, "dataset", "group", "attack").values())
    shown = grouped[:MOST_PANELS]
    victims = list(dict.fromkeys(row["to"] for members in shown for row in members))
    drawn = victims[:MOST_VICTIMS]
    n_columns = min(COLUMNS, len(shown))
    n_rows = -(-len(shown) // n_columns)
    side = _NAMES + _INCHES * len(drawn)

    def build(figure: Figure) -> None:
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for i, axes in enumerate(grid.flat):
            if i >= len(shown):
                axes.set_visible(False)
                continue
            _draw(axes, run, shown[i], drawn)
            first = shown[i][0]
            place = (run.name(first, "attack"), run.label(first, "dataset", "group"))
            letter = i if len(shown) > 1 else None
            canvas.title(axes, " · ".join(filter(None, place)), side, letter)

    files = canvas.draw(build, width=n_columns * side, height=n_rows * side, formats=formats)
    caption = [
        "Per cent of the items on which the first success against the model of the row also "
        "misleads the model of the column, of those it had right; below it, of how many.",
        "The diagonal asks the same model again.",
        *notes.state(run.summary),
    ]
    if len(grouped) > len(shown) or len(victims) > len(drawn):
        caption.append(f"Drawn: the first of what {NAME}.csv has.")
    keys = ("dataset", "group", "attack", "from", "to")
    lines = [{**{k: r[k] for k in keys}, **number(read_share(r["transfer"]))} for r in rows]
    return figure_made(NAME, TITLE, files, caption, lines)


def _draw(axes: Axes, run: Rows, rows: Sequence[Row], victims: Sequence[str]) -> None:
    for row in rows:
        share = read_share(row["transfer"])
        if share.value is None or not {row["from"], row["to"]} <= set(victims):
            continue  # what was not asked is not drawn as 0
        y, x = victims.index(row["from"]), victims.index(row["to"])
        # Opacity, not a colour map: one hue that also reads in grey.
        axes.fill_between(
            (x - 0.48, x + 0.48), y - 0.48, y + 0.48,
            color=canvas.SERIES[0], alpha=0.06 + 0.74 * share.value, linewidth=0,
        )  # fmt: skip
        axes.text(
            x, y, f"{100 * share.value:.0f}\n({share.n:,})", ha="center", va="center",
            fontsize=6, color="white" if share.value > _DARK else canvas.INK, linespacing=1.1,
        )  # fmt: skip
    names = [shorten(run.names.of("victim", victim), 24) for victim in victims]
    canvas.style_axes(axes)
    axes.grid(visible=False)
    axes.set_xlim(-0.5, len(victims) - 0.5)
    axes.set_ylim(len(victims) - 0.5, -0.5)
    axes.set_xticks(range(len(victims)), names, parse_math=False, rotation=30, ha="right")
    axes.set_yticks(range(len(victims)), names, parse_math=False)
    axes.set_xlabel("asked of")
    axes.set_ylabel("found against")
