"""The numbers of a card under one name each, for every format that lists numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from medstress.card.content import Arm, Card
from medstress.results.names import CONTROL_WORDS

RATE = "attack_success_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of an attack."""

    name: str
    """Such as `accuracy`, `attack_success_rate`, `attack_success_rate_valid_high`."""
    words: str
    """What it is the share, or the score, of."""
    found: Mapping[str, Any]
    """The estimate; of a bound, its value without an interval."""
    is_loss: bool
    """Whether less is better."""
    least: int
    """The least value it can have: -1 for differences and correlations."""
    is_edited: bool = True
    """Whether an attack or a control had a part in it."""


def numbers_of(arm: Arm) -> Iterator[Number]:
    """Yield what was measured of an attack, in the order of the card's table."""
    is_share = arm.measure == "asr"
    score = "accuracy" if is_share else arm.measure
    loss = RATE if is_share else f"{score}_drop"
    what = "share of right answers" if is_share else score
    lost = "share of right answers lost" if is_share else f"drop of {score}"
    harmless = CONTROL_WORDS.get(str(arm.control), str(arm.control))
    least = 0 if score != "pearson" else -1
    of_loss = 0 if is_share else -1
    after = f"after {arm.edit}"
    for name, words, found, is_loss, lower, is_edited in (
        (score, f"{what} before any edit", arm.before, False, least, False),
        (f"{score}_after", f"{what} {after}", arm.after, False, least, True),
        (loss, f"{lost} {after}", arm.lost, True, of_loss, True),
        (f"{loss}_of_control", f"{lost} after {harmless}", arm.control_lost, True, of_loss, True),
        (f"{loss}_net_of_control", f"{lost} {after}, net of {harmless}", arm.net, True, -1, True),
        (f"{loss}_valid", f"{lost} {after}, the key still right", arm.valid, True, of_loss, True),
    ):
        if found is not None and found["value"] is not None:
            yield Number(
                name=name,
                words=words,
                found=found,
                is_loss=is_loss,
                least=lower,
                is_edited=is_edited,
            )
    yield from _bounds(arm, loss, f"{lost} {after}, the key still right")


def _bounds(arm: Arm, loss: str, words: str) -> Iterator[Number]:
    """Yield between which shares the losses with the key still right lie, by what is known."""
    if not arm.n_lost or arm.valid_bounds is None or None in arm.valid_bounds:
        return
    low, high, censored = arm.valid_bounds
    for end, value, told in (
        ("low", low, "if no unknown loss is valid"),
        ("high", high, "if all unknown losses are valid"),
        ("high_censored", censored, "if all unknown losses and all searches that ended early are"),
    ):
        bound = {"value": value, "n": arm.lost["n"], "low": None, "high": None}
        yield Number(
            name=f"{loss}_valid_{end}",
            words=f"{words}, {told}",
            found={
                **bound,
                "method": f"a bound, for {arm.n_unknown} losses are of unknown validity",
            },
            is_loss=True,
            least=0,
        )


def slice_numbers(card: Card, arm: Arm) -> Iterator[tuple[str, Number]]:
    """Yield slice and loss of the worst slice by each property, of one attack."""
    place = (arm.dataset, arm.group, arm.attack)
    for each in card.slices:
        if (each["dataset"], each["group"], each["attack"]) != place or not each["asr"]["n"]:
            continue
        name = f"{each['by']} = {each['value']}"
        yield (
            name,
            Number(
                name=f"{RATE}_worst_slice",
                words=f"share of right answers lost after {arm.edit}, in the worst slice by "
                f"{each['by']}: {name} ({card.slicing})",
                found=each["asr"],
                is_loss=True,
                least=0,
            ),
        )
