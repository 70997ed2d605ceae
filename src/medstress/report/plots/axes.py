"""Axes of the charts of the report: shares, budgets, other numbers, and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

LOG_FROM = 20
"""If the largest budget is at least this, the axis of budgets is logarithmic."""
_PER_CENT = "format(100 * datum.value, '.0f') + ' %'"
_LINES = "split(datum.label, '\\n')"
_LINE_HEIGHT = 13
_LIFT = f"-{_LINE_HEIGHT / 2} * (length({_LINES}) - 1)"
_FINE = 0.5
"""Up to this share an axis has a tick at every tenth."""
_EVERY = 12
"""Up to so many whole numbers, each has a tick."""
_TICKS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis shows."""

    title: str
    """Its title."""
    is_share: bool = False
    """True for shares: from 0 to 1, written in per cent."""
    span: tuple[float, float] | None = None
    """First and last value, if fixed; shares have 0 and 1."""
    is_log: bool = False
    """True for a logarithmic axis of counts."""
    is_whole: bool = False
    """True if only whole numbers stand on it."""

    def scale(self) -> dict[str, Any]:
        """Return the arguments of its scale."""
        span = self.span or ((0, 1) if self.is_share else None)
        kind: dict[str, Any] = {"type": "log"} if self.is_log else {"zero": False}
        domain = {"domain": list(span)} if span else {}
        return {**kind, "nice": span is None and not self.is_log, **domain}

    def drawn(self, *, grid: bool) -> Any:
        """Return it for Altair."""
        import altair as alt

        more: dict[str, Any] = {"tickCount": _TICKS}
        if self.is_share:
            top = 1.0 if self.span is None else self.span[1]
            step = 0.1 if top <= _FINE else 0.2
            steps = [round(i * step, 1) for i in range(round(top / step) + 1)]
            more |= {"values": steps, "labelExpr": _PER_CENT}
        if self.is_whole:
            more["format"] = ",d"
        if self.is_log and self.span:
            more["values"] = log_steps(self.span[1])
        elif self.is_whole and self.span and self.span[1] - self.span[0] <= _EVERY:
            more["values"] = list(range(int(self.span[0]), int(self.span[1]) + 1))
        return alt.Axis(title=self.title, grid=grid, labelFlush=False, **more)


def share_axis(title: str, tops: Iterable[float] = (1.0,)) -> Axis:
    """Return an axis of shares from 0 to the first multiple of .1 or .2 above all ends given.

    >>> share_axis("ASR", [0.31]).span, share_axis("ASR", [0.62]).span, share_axis("ASR").span
    ((0, 0.4), (0, 0.8), (0, 1.0))
    """
    most = max(tops, default=1.0)
    step = 0.1 if most <= _FINE else 0.2
    return Axis(
        title=title, is_share=True, span=(0, min(1.0, round(ceil(most / step) * step, 1) or 0.1))
    )


def budget_axis(largest: int, title: str = "budget (perturbed queries per item)") -> Axis:
    """Return the axis of budgets from 1 to the largest, logarithmic from `LOG_FROM` on."""
    return Axis(
        title=title,
        span=(1, max(largest, 2)),
        is_log=largest >= LOG_FROM,
        is_whole=True,
    )


def log_steps(largest: float) -> list[int]:
    """Return 1, 2, 5, 10, ... up to the largest.

    >>> log_steps(30)
    [1, 2, 5, 10, 20]
    """
    steps = (step * 10**power for power in range(7) for step in (1, 2, 5))
    return [step for step in steps if step <= largest]


def names_down(places: Sequence[str]) -> altair.Y:
    """Return the axis of names, one below the other, each over the lines that it needs."""
    import altair as alt

    return alt.Y(
        "place:N",
        scale=alt.Scale(domain=list(places)),
        axis=alt.Axis(
            title=None,
            labelExpr=_LINES,
            labelLineHeight=_LINE_HEIGHT,
            labelOverlap=False,
            # Vega centres the first line; all lines together are to be at the height of the marks.
            labelOffset=alt.ExprRef(_LIFT),
        ),
    )


def height_of(places: Sequence[str], n_series: int = 1) -> int:
    """Return the height of a chart with one row for each name."""
    lines = max((place.count("\n") + 1 for place in places), default=1)
    return len(places) * max(9 + _LINE_HEIGHT * lines, 8 + 12 * n_series)
