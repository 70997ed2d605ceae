"""An arm, and what readers of a run need to know of its attack: data, without the code that ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where an attack was tried; labels as in the experiment."""

    dataset: str
    group: str
    victim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRecord:
    """What a run stores of an attack, so that reading it loads no attack and no plug-in."""

    label: str
    """What figures and tables call it; a control's is `attack / control`."""
    name: str
    """The name that it is registered under."""
    budget: int = 1
    """Perturbed queries an item; for a perturbed copy 1."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """All parameters, as `spec` gives them."""
    goal: str = "untargeted"
    """`untargeted`, `replaced`, or an option letter."""
    draws_names: bool = False
    """Whether edits put in names of a vocabulary."""
    whole_copy: bool = False
    """Whether it makes one perturbed copy of each item, asked once."""
    judged: bool = True
    """Whether an answer can be a success; False where scores are only measured."""
    attempts: int | None = None
    """Attempts an item, for attacks that count them."""

    @property
    def asks_clean_only(self) -> bool:
        """Whether it attacks nothing (`--attack none`)."""
        return self.name == "none"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """One attack with one seed, in one place."""

    place: Place
    attack: AttackRecord
    seed: int | None
    """None for an attack without random numbers, which runs once."""
    control_of: str | None = None
    """The label of the attack that this arm controls."""

    @property
    def is_control(self) -> bool:
        """Whether the arm is a control."""
        return self.control_of is not None

    @property
    def control(self) -> str | None:
        """The name of the control, such as `no_op`; None for an attack."""
        return self.attack.name if self.is_control else None


# -- Controls -------------------------------------------------------------------------------------
CONTROLS = ("no_op", "same_type", "neutral_insertion", "paraphrase", "option_shuffle", "repeat")
"""As in `[experiment] controls`; the arm of a control is labelled `<attack> / <control>`."""

NOISE_CONTROL = "non_entity_noise"
"""The control of noise in tagged texts, an attack by name."""

BETWEEN = " / "


def arm_label(attack: str, control: str) -> str:
    """Return the label of the arm that controls an attack.

    >>> arm_label("near names", "no_op")
    'near names / no_op'
    """
    return f"{attack}{BETWEEN}{control}"


MEANINGS = {
    "repeat": "when the same prompt is asked again",
    "no_op": "when only white space, punctuation or letter case move",
    "same_type": "when random names of the type stand there",
    "neutral_insertion": "when sentences that do not matter are put in",
    "paraphrase": "when the question is put in other words, a short one behind a lead-in",
    "option_shuffle": "when the options stand in another order",
}
"""What each does, as a sentence says it."""


def left_out_sentences(left_out: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a sentence for each control that attacks have not, and why.

    Args:
        left_out: label of an attack -> control -> reason.

    >>> list(left_out_sentences({"near": {"same_type": "it is that attack"}}))
    ['near has no control same_type: it is that attack']
    """
    by_reason: dict[tuple[str, str], list[str]] = {}
    for label, reasons in left_out.items():
        for name, reason in reasons.items():
            by_reason.setdefault((name, reason), []).append(label)
    for (name, reason), labels in by_reason.items():
        have = "has" if len(labels) == 1 else "have"
        yield f"{', '.join(labels)} {have} no control {name}: {reason}"
