"""Draw what is left of the near regime's advantage if variants of the key do not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medstress.figures import canvas
from medstress.metrics.old_stats.estimates import Estimate
from medstress.papers.changes import Advantage
from medstress.results.formats import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS = (
    ("all successes", 0, canvas.SERIES[1]),
    ("successes that no rule refutes", 1, canvas.SERIES[0]),
)


def plot_advantages(advantages: Sequence[Advantage], formats: Sequence[str]) -> dict[str, bytes]:
    """Draw one line per arm: success of near minus success of random sampling.

    Args:
        advantages: at least one.
        formats: file formats.
    """

    def build(figure: Figure) -> None:
        axes = figure.subplots()
        for label, kind, colour in _KINDS:
            ys = [i + (-0.14 if kind == 0 else 0.14) for i in range(len(advantages))]
            for i, y in enumerate(ys):
                gain = advantages[i].gain[kind]
                if gain.value is None:
                    continue
                _interval(axes, gain, y, colour, label if i == 0 else None)
        axes.set_yticks(
            range(len(advantages)),
            [shorten(label_of(each), 60) for each in advantages],
            parse_math=False,
        )
        axes.set_ylim(len(advantages) - 0.5, -0.5)
        axes.axvline(0, color=canvas.INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel("ASR of PDWS near − ASR of RandS (percentage points)")
        canvas.style_axes(axes, grid="x")
        handles, labels = axes.get_legend_handles_labels()
        canvas.legend(figure, handles, labels, 2)

    return canvas.draw(build, width=6.4, height=1.2 + 0.42 * len(advantages), formats=formats)


def label_of(advantage: Advantage) -> str:
    """Return the label of a line."""
    place = advantage.place
    n = f"{advantage.n:g}".replace("-", "−")
    parts = (
        place.victim.label, place.dataset, place.entity, place.embedding, f"n = {n}",
        f"B = {advantage.budget}",
    )  # fmt: skip
    return " · ".join(parts)


def _interval(axes: object, gain: Estimate, y: float, colour: str, label: str | None) -> None:
    value = 100 * (gain.value or 0.0)
    low = value if gain.low is None else 100 * gain.low
    high = value if gain.high is None else 100 * gain.high
    axes.errorbar(  # type: ignore[attr-defined]
        [value], [y], xerr=[[value - low], [high - value]], fmt="o", color=colour,
        markersize=4.5, elinewidth=1.5, capsize=2.5, label=label,
    )  # fmt: skip
