"""An attack beside its controls: what it takes that a harmless edit does not (METHODS 1.5, Loss).

With a and c the shares that attack and control flip within B on the trials of both,
a - c <= loss <= a where noise never repairs a lost item and takes as many items under either arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from medstress.analyses.as_json import HIDDEN
from medstress.analyses.run import Cell, Pairs, Run, pair
from medstress.analyses.shown import Remark, where
from medstress.analyses.success import Success
from medstress.stats.estimate import Ends, Estimate, with_worst
from medstress.stats.paired import Difference, difference
from medstress.stats.shares import rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What an attack takes, and what each of its controls takes, by name of the control."""

    control: Mapping[str, Estimate]
    """Share that the control flips, of the questions that both may flip."""
    asr_net: Mapping[str, Estimate]
    """a - c on the same trials."""
    loss_bounds: Mapping[str, Ends]
    """From the low end of a - c, at least 0, to the high end of a; open answers at their worst."""
    loss_bounds_at_1: Mapping[str, Ends]
    """The same within one query: a - c shrinks as the budget grows."""
    tests: Mapping[str, Difference] = field(metadata=HIDDEN)


class Beside(NamedTuple):
    """An attack beside one control."""

    control: Estimate
    net: Difference
    bounds: Ends


def loss(run: Run, cell: Cell) -> Loss | None:
    """Compare an attack with its controls, at its budget and at one query; None without any."""
    controls = run.controls(cell)
    if not controls:
        return None
    pairs = {name: pair(cell, control) for name, control in controls.items()}
    full = {n: beside(cell, controls[n], pairs[n], cell.budget) for n in controls}
    one = {n: beside(cell, controls[n], pairs[n], 1) for n in controls}
    return Loss(
        control={name: part.control for name, part in full.items()},
        asr_net={name: part.net.estimate for name, part in full.items()},
        loss_bounds={name: part.bounds for name, part in full.items()},
        loss_bounds_at_1={name: part.bounds for name, part in one.items()},
        tests={name: part.net for name, part in full.items()},
    )


def beside(cell: Cell, control: Cell, pairs: Pairs, budget: int) -> Beside:
    """Compare an attack with a control on the trials of both.

    Args:
        cell: the attack.
        control: its control.
        pairs: their trials on the same items.
        budget: perturbed queries that count.
    """
    i, j = pairs.first, pairs.second
    both = pairs.where(np.asarray(cell.eligible[i] & control.eligible[j]))
    ours, theirs = cell.flipped(budget)[both.first], control.flipped(budget)[both.second]
    net = difference(ours, theirs, both.units)
    may = (cell.eligible | cell.open_clean)[i] & (control.eligible | control.open_clean)[j]
    worst = pairs.where(np.asarray(may))
    a, c = worst.first, worst.second
    least = difference(cell.surely(budget)[a], control.maybe(budget)[c], worst.units)
    most = difference(cell.maybe(budget)[a], control.surely(budget)[c], worst.units)
    estimate = with_worst(net.estimate, least.estimate, most.estimate)
    share = rate(theirs, both.units)
    if control.lacks.any() or control.open_clean.any():
        share = replace(share, worst=control.share(control.read("asr", budget)).ends)
    low, high = estimate.ends[0], cell.share(cell.read("asr", budget)).ends[1]
    bounds: Ends = (None, None) if low is None or high is None else (max(0.0, low), high)
    return Beside(share, replace(net, estimate=estimate), bounds)


def remarks(cell: Cell, loss: Loss | None, success: Success | None) -> Iterator[Remark]:
    """Say that an attack has no control."""
    if loss is None and success is not None:
        yield Remark(
            rule="no_control",
            where=where(cell.place, cell.attack.label),
            level="note",
            sentence=f"{cell.attack.label} has no control: harmless edits may take as much.",
        )
