"""An attack beside its controls: what it takes that a harmless edit does not (METHODS 1.5, Loss).

With a and c the shares that attack and control flip within B on the trials of both,
a - c <= loss <= a where noise never repairs a lost item and takes as many items under either arm.

Gates and repeats take attempts from an attack, never from its control. So in the comparison a flip
of the control counts up to query m alone: what the attack asked, or would have asked had it held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import NEVER, Cell, Pairs, Reading, Run, contrast, pair
from medstress.analyses.shown import HIDDEN, Remark, where
from medstress.core.arms import MEANINGS
from medstress.core.hashing import rng_for
from medstress.core.trials import Trial
from medstress.stats.estimate import Ends, Estimate, with_worst
from medstress.stats.paired import Difference
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
    tests: Mapping[str, Difference] = field(metadata=HIDDEN)

    def takes_as_much(self, control: str) -> bool:
        """Return whether harmless edits take some and the attack is not shown to take more.

        The interval of a - c reaches 0, and the low end of c is above 0.
        """
        net, least = self.asr_net[control].ends[0], self.control[control].ends[0]
        return net is not None and net <= 0 and least is not None and least > 0

    @property
    def headline(self) -> str | None:
        """The control whose harmless edits are the headline: of those that take as much as the
        attack the one that surely takes most; None without one."""
        as_much = [name for name in self.control if self.takes_as_much(name)]
        return max(as_much, key=lambda name: self.control[name].ends[0] or 0.0, default=None)


class Beside(NamedTuple):
    """An attack beside one control."""

    control: Estimate
    net: Difference
    bounds: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What gates and repeats left of an arm's attempts."""

    asked: float
    """Share of the attempts that reached the model."""
    new: float
    """Share of the queries after the first of a trial that asked a new variant."""
    repeats: Mapping[int, Sequence[int]]
    """Number of a trial -> its queries that asked a variant again."""

    def limits(self, cell: Cell, budget: int) -> NDArray[np.int64]:
        """Return up to which query a control's flip counts beside each trial, shape (n,).

        Where the attack held, it is the number of variants that it asked. Where it succeeded, it is
        those up to the success and, for the attempts left, a binomial draw at the arm's shares,
        seeded by the trial. `NEVER` where nothing was taken away.
        """
        attempts = cell.budget
        return np.array([self._limit(t, attempts, budget) for t in cell.trials], dtype=np.int64)

    def _limit(self, trial: Trial, attempts: int, budget: int) -> int:
        first, again = trial.first, self.repeats.get(trial.number, ())
        if first is None or first.query > budget:
            if not again and not trial.queries.rejected:
                return NEVER
            n = min(budget, trial.queries.asked)
            return n - sum(query <= n for query in again)
        arm, n = trial.arm, first.query
        stream = f"reach of {arm.attack.label}/{arm.place.group}/{arm.place.victim}/{trial.unit}"
        rng = rng_for(arm.seed or 0, stream, arm.place.dataset, trial.item.id, trial.repeat)
        left = max(attempts - (first.attempt or n + trial.queries.rejected), 0)
        more = min(budget - n, int(rng.binomial(left, self.asked)))
        return n - sum(query <= n for query in again) + int(rng.binomial(more, self.new))


def reach(run: Run, cell: Cell) -> Reach | None:
    """Return what gates and repeats left of an attack's attempts; None where they took nothing."""
    tried = [trial for trial in cell.trials if trial.is_eligible]
    # The answer to a repeat comes from a cache, so edits are read only where some answer did.
    repeats = {
        t.number: again
        for t in tried
        if t.queries.cached and (again := run.folder.repeats.get(t.number))
    }
    asked = sum(trial.queries.asked for trial in tried)
    rejected = sum(trial.queries.rejected for trial in tried)
    if not rejected and not repeats:
        return None
    later = sum(max(trial.queries.asked - 1, 0) for trial in tried)
    return Reach(
        asked=asked / (asked + rejected),
        new=1 - sum(map(len, repeats.values())) / later if later else 1.0,
        repeats=repeats,
    )


def loss(run: Run, cell: Cell) -> Loss | None:
    """Compare an attack with its controls at its budget; None without any."""
    controls = run.controls(cell)
    if not controls:
        return None
    left = reach(run, cell)
    pairs = {name: pair(cell, control) for name, control in controls.items()}
    full = {n: at_budget(cell, controls[n], pairs[n], cell.budget, left) for n in controls}
    return Loss(
        control={name: part.control for name, part in full.items()},
        asr_net={name: part.net.estimate for name, part in full.items()},
        loss_bounds={name: part.bounds for name, part in full.items()},
        tests={name: part.net for name, part in full.items()},
    )


def readings(
    cell: Cell, control: Cell, pairs: Pairs, budget: int, left: Reach | None
) -> tuple[Reading, Reading]:
    """Return what attack and control flip within a budget, one place a pair.

    Args:
        cell: the attack.
        control: its control.
        pairs: their trials on the same items.
        budget: perturbed queries that count.
        left: what gates and repeats left of the attack's attempts (`reach`).
    """
    ours = cell.read("asr", budget).at(pairs.first)
    others = control.read("asr", budget).at(pairs.second)
    if left is None:
        return ours, others
    counts = control.first[pairs.second] <= left.limits(cell, budget)[pairs.first]
    is_open = (~control.eligible | control.lacks)[pairs.second]
    return ours, others._replace(
        hit=others.hit & counts,
        least=others.least & counts,
        most=(others.most & counts) | is_open,
    )


def at_budget(
    cell: Cell, control: Cell, pairs: Pairs, budget: int, left: Reach | None = None
) -> Beside:
    """Compare an attack with a control on the trials of both; the arguments are `readings`'."""
    ours, others = readings(cell, control, pairs, budget, left)
    net = contrast(ours, others, pairs.units)
    low, high = net.estimate.ends[0], cell.share(cell.read("asr", budget)).ends[1]
    bounds: Ends = (None, None) if low is None or high is None else (max(0.0, low), high)
    both, may = ours.counts & others.counts, ours.may_count & others.may_count
    share = rate(others.hit[both], pairs.units[:, both])
    if control.lacks.any() or control.open_clean.any() or control.unread.any():
        least, most = (rate(hits[may], pairs.units[:, may]) for hits in others[3:])
        share = with_worst(share, least, most)
    return Beside(share, net, bounds)


def remarks(cell: Cell, loss: Loss | None) -> Iterator[Remark]:
    """Say that harmless edits may take as much."""
    if loss is not None and (name := loss.headline) is not None:
        c, how = loss.control[name], MEANINGS.get(name, "when its control edits the text")
        sentence = (
            f"Harmless edits alone take {c.hits:,} of {c.n:,} right answers "
            f"({name.replace('_', ' ')}: {how}); {cell.attack.label} is not shown to take more."
        )
        at = where(cell.place, cell.attack.label)
        yield Remark("control_takes_as_much", sentence, at, "note")
