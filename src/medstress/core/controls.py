"""Names of the controls that may stand beside an attack on questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

CONTROLS = ("no_op", "same_type", "neutral_insertion", "paraphrase", "option_shuffle", "repeat")
"""As in `[experiment] controls`; the arm beside an attack is labelled `<attack> / <control>`."""

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
    ['near stands without the control same_type: it is that attack']
    """
    by_reason: dict[tuple[str, str], list[str]] = {}
    for label, reasons in left_out.items():
        for name, reason in reasons.items():
            by_reason.setdefault((name, reason), []).append(label)
    for (name, reason), labels in by_reason.items():
        stand = "stands" if len(labels) == 1 else "stand"
        yield f"{', '.join(labels)} {stand} without the control {name}: {reason}"
