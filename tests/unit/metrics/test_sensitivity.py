"""Formats compared: ranges, paired differences with Holm's adjustment, conclusions that change."""

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.sensitivity import differences, sensitivity
from medstress.stats.multiplicity import holm

Make = Callable[..., TrialRow]
FORMATS = {
    f"m / {prompt} / letter": {"victim": "m", "prompt": prompt, "answer_by": "letter"}
    for prompt in ("qstab", "chat", "medmcqa")
}
QSTAB, CHAT, MEDMCQA = FORMATS


def arm(trial: Make, victim: str, attack: str, flips: int, right: int = 60) -> list[TrialRow]:
    """60 items, the first `right` right, the first `flips` flipped."""
    verdicts = [Verdict.FLIPPED] * flips + [Verdict.HELD] * (right - flips)
    verdicts += [Verdict.ALREADY_WRONG] * (60 - right)
    return [
        trial(victim=victim, attack=attack, item_id=f"q{i:02}", verdict=verdict)
        for i, verdict in enumerate(verdicts)
    ]


def pooled(victim: str, attack: str, rates: dict[str, float], net: Any = None) -> dict[str, Any]:
    row: dict[str, Any] = {"dataset": "sample", "group": "drugs", "victim": victim}
    row |= {"attack": attack, **{name: {"value": value} for name, value in rates.items()}}
    return row if net is None else row | {"asr_net": {"no_op": net}}


def test_differences_are_paired_and_adjusted_within_their_measure(trial: Make) -> None:
    trials = [
        *arm(trial, QSTAB, "random", flips=10),
        *arm(trial, CHAT, "random", flips=40, right=50),
        *arm(trial, MEDMCQA, "random", flips=10, right=60),
        *arm(trial, "another victim", "random", flips=1),
    ]
    found = differences(trials, FORMATS)
    assert [each["metric"] for each in found] == (
        ["accuracy_after"] * 3 + ["accuracy"] * 3 + ["asr"] * 3
    )
    for family in (found[:3], found[3:6], found[6:]):
        assert [each["p_adjusted"] for each in family] == holm([each["p"] for each in family])
        assert {each["family_size"] for each in family} == {3}
        assert all("Holm within the 3 differences" in each["method"] for each in family)
    after, clean, asr = found[0], found[3], found[6]
    assert [each["first"] for each in (after, clean, asr)] == [QSTAB] * 3
    assert clean["difference"]["value"] == pytest.approx(10 / 60)
    assert clean["attack"] is None
    assert (after["difference"]["value"], after["difference"]["n"]) == (40 / 60, 60)
    assert (asr["difference"]["value"], asr["difference"]["n"]) == (-30 / 50, 50)


def test_ranges_are_over_the_formats_of_one_model(trial: Make) -> None:
    rates = [(0.9, 0.5, 0.3), (0.4, 0.2, 0.6), (0.7, 0.6, 0.1)]
    rows = [
        pooled(
            victim, "random", dict(zip(("accuracy", "accuracy_after", "asr"), each, strict=True))
        )
        for victim, each in zip(FORMATS, rates, strict=True)
    ]
    rows.append({**rows[0], "victim": "another", "accuracy": {"value": 0.0}})
    found = sensitivity([], rows, FORMATS)
    (span,) = found["ranges"]
    assert span["n_formats"] == 3
    assert span["accuracy"] == {"lowest": 0.4, "highest": 0.9, "range": 0.5}
    assert span["asr"]["range"] == pytest.approx(0.5)
    assert [each["label"] for each in found["formats"]] == list(FORMATS)


def net(value: float, low: float, high: float) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": 60, "method": ""}


@pytest.mark.parametrize(
    ("other", "changes", "verdict", "reversed_"),
    [
        (net(0.3, 0.2, 0.4), False, False, False),
        (net(0.1, -0.1, 0.3), False, True, False),
        (net(0.0, 0.0, 0.1), False, True, False),
        (net(-0.05, -0.2, 0.1), True, True, False),
        (net(-0.3, -0.4, -0.2), True, True, True),
    ],
)
def test_a_conclusion_changes_by_sign_by_verdict_or_is_reversed(
    other: dict[str, Any], changes: bool, verdict: bool, reversed_: bool
) -> None:
    rates = dict.fromkeys(("accuracy", "accuracy_after", "asr"), 0.5)
    rows = [
        pooled(victim, "random", rates, each)
        for victim, each in ((QSTAB, net(0.2, 0.1, 0.3)), (CHAT, other))
    ]
    found = sensitivity([], rows, FORMATS)
    (conclusion,) = found["conclusions"]
    assert conclusion["conclusion"] == "sign of asr_net"
    told = [conclusion[name] for name in ("changes", "verdict_changes", "is_reversed")]
    assert told == [changes, verdict, reversed_]
    counts = [found[name] for name in ("n_changed", "n_verdict_changed", "n_reversed")]
    assert counts == [int(each) for each in told]
    assert f"of 1 conclusion (sign of asr_net, order of attacks) {counts[0]}" in found["sentence"]


def test_the_order_of_two_attacks_may_turn_with_the_format(trial: Make) -> None:
    trials = [
        *arm(trial, QSTAB, "pdws", flips=40),
        *arm(trial, QSTAB, "random", flips=10),
        *arm(trial, CHAT, "pdws", flips=5),
        *arm(trial, CHAT, "random", flips=30),
    ]
    (conclusion,) = sensitivity(trials, [], FORMATS)["conclusions"]
    assert (conclusion["attack"], conclusion["against"]) == ("pdws", "random")
    verdicts = {label: each["verdict"] for label, each in conclusion["by_format"].items()}
    assert verdicts == {QSTAB: "above 0", CHAT: "below 0"}
    assert conclusion["is_reversed"] is True
