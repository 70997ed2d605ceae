"""The rows of a comparison: one measure of one pair of arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.comparison.contrasts import ASR_NET, CONTRASTS, Contrast, net_is_lost, nets
from medstress.comparison.nets import Mean, mean_of
from medstress.comparison.pairing import Pair
from medstress.comparison.sides import Arm
from medstress.comparison.verdicts import claims_of
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.paired import mcnemar_exact
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.old_stats.verdicts import (
    BETTER,
    DIFFERENT_BUT_WITHIN,
    EQUIVALENT,
    NO_WORSE,
    UNDECIDED,
    WORSE,
    judge,
)


@dataclass(slots=True, kw_only=True)
class Row:
    """One measure of one pair of arms; its verdict is settled once its family is complete."""

    a: Arm
    """The arm of A."""
    b: Arm
    """The arm of B."""
    metric: str
    """The measure, as in `summary --json`."""
    control: str | None
    """The control that `asr_net` is net of."""
    label: str
    """What sentences call the measure."""
    n_items: int
    """Items of the pairs."""
    n_worst: int
    """Trials of the pairs that an unreadable or failed answer turns against the victim."""
    n_lost: int
    """Pairs that a failed answer leaves open."""
    values: tuple[Estimate, Estimate]
    """The measure in A and in B, on the same pairs."""
    only_a: int | None
    """Pairs in which the measure counts A alone (`asr`: only A is flipped); None for net."""
    only_b: int | None
    """Pairs in which it counts B alone."""
    difference: Estimate
    """B minus A."""
    interval90: tuple[float, float] | None
    """The 90 % interval of the difference, which decides on equivalence."""
    p: float | None
    """Two-sided p-value of no difference."""
    smallest_effect: float | None
    """The smallest difference that these pairs find with 80 % power: at the discordance that was
    seen, or at .15 if less was."""
    discordance: float | None
    """The share of discordant pairs that was seen; net of a control, the mean squared
    difference."""
    claims: Sequence[frozenset[str]]
    """What holds as read, and with every failed answer settled for A and for B."""
    decides: bool = False
    """Whether the verdict of the comparison rests on it."""
    names: Estimate | None = None
    """The difference for names like these: items and names both taken to be drawn."""
    names_reason: str | None = "only a row that decides has one"
    """Why there is none."""
    names_verdict: str | None = None
    """What that interval says of B: `better`, `worse` or `undecided`."""
    p_adjusted: float | None = None
    """The p-value, adjusted over the family."""
    verdict: str = UNDECIDED
    """What is shown of B against A."""
    why_open: str | None = None
    """Why it is undecided whatever the numbers say: a run that is not complete."""
    sentence: str = ""
    """The row in words."""
    pairs: Sequence[Pair] = field(default=(), repr=False)
    """The pairs behind it."""

    @property
    def p_exact(self) -> float | None:
        """McNemar's exact p-value, as other tools print; None where items repeat, and for net."""
        if self.only_a is None or self.only_b is None or self.n_items != len(self.pairs):
            return None
        return mcnemar_exact(self.only_a, self.only_b)

    def as_json(self) -> dict[str, Any]:
        """Return the row of `compare --json`."""
        return {
            "a": self.a.as_json(),
            "b": self.b.as_json(),
            "metric": self.metric,
            "control": self.control,
            "decides": self.decides,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "n_items": self.n_items,
            "n_pairs": len(self.pairs),
            "n_worst": self.n_worst,
            "n_lost": self.n_lost,
            "value_a": self.values[0].as_json(),
            "value_b": self.values[1].as_json(),
            "only_a": self.only_a,
            "only_b": self.only_b,
            "difference": self.difference.as_json(),
            "interval90": None if self.interval90 is None else list(self.interval90),
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "p_exact": self.p_exact,
            "smallest_effect": self.smallest_effect,
            "discordance": self.discordance,
            "for_names_like_these": None if self.names is None else self.names.as_json(),
            "for_names_like_these_reason": self.names_reason,
            "for_names_like_these_verdict": self.names_verdict,
        }


def turned(estimate: Estimate) -> Estimate:
    """Return the estimate of the opposite difference."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return Estimate(
        value=None if value is None else 0.0 - value,
        n=estimate.n,
        low=None if high is None else 0.0 - high,
        high=None if low is None else 0.0 - low,
        method=estimate.method,
    )


def share_row(
    arms: tuple[Arm, Arm], pairs: Sequence[Pair], contrast: Contrast, margin: float | None
) -> Row:
    """Return the row of a measure that is a share; pairs that do not count are left out."""
    kept = [pair for pair in pairs if contrast.takes(pair)]
    hits = contrast.hits(kept)
    found = judge(hits, margin)
    n_lost = contrast.n_lost(kept)
    both_ways = (False, True) if n_lost else ()
    settled = [judge(contrast.settled(kept, for_b=for_b), margin) for for_b in both_ways]
    same, judged = contrast.is_rate_of_good, [found, *settled]
    more_b = sum(b and not a for _, b, a in hits)
    more_a = sum(a and not b for _, b, a in hits)
    interval = found.interval90
    if interval is not None and not same:
        interval = (0.0 - interval[1], 0.0 - interval[0])
    return Row(
        a=arms[0],
        b=arms[1],
        metric=contrast.metric,
        control=None,
        label=contrast.label,
        n_items=len({pair.a.item_id for pair in kept}),
        n_worst=contrast.n_worst(kept),
        n_lost=n_lost,
        values=(
            rate((unit, a == same) for unit, _, a in hits),
            rate((unit, b == same) for unit, b, _ in hits),
        ),
        only_a=more_a if same else more_b,
        only_b=more_b if same else more_a,
        difference=found.estimate if same else turned(found.estimate),
        interval90=interval,
        p=found.p,
        smallest_effect=found.smallest_effect,
        discordance=found.discordance,
        claims=[claims_of(each.verdict, each.estimate.value) for each in judged] if kept else (),
        pairs=kept,
    )


def net_row(
    arms: tuple[Arm, Arm], pairs: Sequence[Pair], control: str, margin: float | None
) -> Row:
    """Return the row of loss net of a control, from pairs of four trials right in all."""
    # A's loss minus B's: what is good for B.
    found, *settled = (
        mean_of([(pair.unit, float(a - b)) for pair in pairs for a, b in [nets(pair, for_b)]], 2.0)
        for for_b in (None, False, True)
    )
    each = [mean_of([(pair.unit, float(nets(pair)[i])) for pair in pairs]) for i in (0, 1)]
    interval = found.interval90
    return Row(
        a=arms[0],
        b=arms[1],
        metric=ASR_NET,
        control=control,
        label=f"ASR net of {control} on items right in both",
        n_items=len({pair.a.item_id for pair in pairs}),
        n_worst=CONTRASTS["asr"].n_worst(pairs),
        n_lost=sum(map(net_is_lost, pairs)),
        values=(each[0].estimate, each[1].estimate),
        only_a=None,
        only_b=None,
        difference=turned(found.estimate),
        interval90=None if interval is None else (0.0 - interval[1], 0.0 - interval[0]),
        p=found.p,
        smallest_effect=found.smallest_effect,
        discordance=found.discordance,
        claims=[_claims(mean, margin) for mean in (found, *settled)] if pairs else (),
        names_reason="not computed for a difference of differences",
        pairs=pairs,
    )


def _claims(mean: Mean, margin: float | None) -> frozenset[str]:
    return claims_of(_verdict(mean.estimate, mean.interval90, margin), mean.estimate.value)


def _verdict(
    estimate: Estimate, interval90: tuple[float, float] | None, margin: float | None
) -> str | None:
    """Return the verdict of `judge`, from intervals."""
    low, high = estimate.low, estimate.high
    if low is None or high is None or interval90 is None:
        return None
    is_equivalent = margin is not None and -margin < interval90[0] and interval90[1] < margin
    if low > 0 or high < 0:
        differs = BETTER if low > 0 else WORSE
        return DIFFERENT_BUT_WITHIN if is_equivalent else differs
    if is_equivalent:
        return EQUIVALENT
    return NO_WORSE if margin is not None and low > -margin else UNDECIDED
