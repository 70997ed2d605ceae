"""Planted victims whose loss is known: do the bounds of the loss hold it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from intervals import Cell, joint, noisy, of_shares

QUERY_FLIPS = 0.75
"""A hash of the prompt over four options moves off the key with this probability a query."""
LISTED = 0.1
"""Share of the names that are on the victim's list."""
BUDGETS = (1, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A victim, by what attack and control flip of the items that it has right."""

    name: str
    cells: tuple[float, float, float, float]
    """Shares of items that neither flips, only the control, only the attack, both."""
    loss: float
    """P(L): it flips without its noise."""


def within(per_query: float, budget: int) -> float:
    """The probability of at least one flip in a budget."""
    return 1 - (1 - per_query) ** budget


def _mixed(
    parts: list[tuple[float, tuple[float, float, float, float]]],
) -> tuple[float, float, float, float]:
    return tuple(sum(w * cells[i] for w, cells in parts) for i in range(4))  # type: ignore[return-value]


def victims(budget: int) -> list[Victim]:
    """The victims of METHODS with their truths, at one budget."""
    flip, coin, listed = within(QUERY_FLIPS, budget), within(0.5, budget), within(LISTED, budget)
    held, noise = (1.0, 0.0, 0.0, 0.0), 0.3 * within(0.25, budget)
    hashed, w, kept = joint(flip, flip, "independent"), 0.4, within(0.05, budget)
    # Half of the items have the noise, and the list takes more, or less, of them than of the rest.
    more, less = min(1.0, 1.5 * listed), 0.5 * listed
    halves = {
        "more": [(more, within(0.1, budget)), (less, kept / 5)],
        "less": [(less, within(0.1, budget)), (more, kept / 5)],
    }
    both = {
        how: Victim(
            name=f"list and hash at once, the noise where the list takes {how}",
            cells=_mixed([(0.5, noisy(loss, rate, "own noise")) for loss, rate in parts]),
            loss=sum(loss for loss, _ in parts) / 2,
        )
        for how, parts in halves.items()
    }
    return [
        Victim(name="hash of the prompt", cells=hashed, loss=0.0),
        Victim(name="coin", cells=joint(coin, coin, "independent"), loss=0.0),
        # Of items right on the clean prompt .8 are known and .2 guessed right, one in four.
        Victim(
            name="knows half, guesses half", cells=_mixed([(0.8, held), (0.2, hashed)]), loss=0.0
        ),
        Victim(name="always A", cells=held, loss=0.0),
        Victim(name="reads only the options", cells=(0.6, 0.0, 0.4, 0.0), loss=0.4),
        Victim(name="fooled by listed names", cells=(1 - listed, 0.0, listed, 0.0), loss=listed),
        Victim(
            name="two kinds of items: .4 fooled by listed names, .6 hash",
            cells=_mixed([(w, (1 - listed, 0.0, listed, 0.0)), (1 - w, hashed)]),
            loss=w * listed,
        ),
        Victim(
            name="list and hash at once, independent",
            cells=noisy(listed, noise, "own noise"),
            loss=listed,
        ),
        both["more"],
        both["less"],
    ]


def victim_cells(runs: int) -> list[Cell]:
    """Coverage of the loss for each victim."""
    found: list[Cell] = []
    for budget in BUDGETS:
        for victim in victims(budget):
            a, c = victim.cells[2] + victim.cells[3], victim.cells[1] + victim.cells[3]
            truth: dict[str, Any] = {
                "victim": victim.name,
                "budget": budget,
                "loss": victim.loss,
                "a": a,
                "c": c,
                "net": a - c,
            }
            for each in of_shares(victim.cells, truth, runs, victim.loss):
                if each["what"] != "difference":
                    found.append(each)
    return found
