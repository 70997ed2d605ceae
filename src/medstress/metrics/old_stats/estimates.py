"""A number with its sample size and its 95 % interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist
from typing import Any, TypeGuard

WILSON = "Wilson 95 %"

Z = NormalDist().inv_cdf(0.975)
"""The normal quantile of two-sided 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval, never rounded."""

    value: float | None
    """The point estimate; None if there is no data."""
    n: int
    """How many trials or successes it was counted over (the denominator)."""
    low: float | None
    """Lower end of the 95 % interval; None without an interval."""
    high: float | None
    """Upper end of the 95 % interval; None without an interval."""
    method: str
    """How the interval was computed, for people."""
    hits: int | None = None
    """The count behind a share, so that `value` is hits / n. None for anything else, such as an F1,
    a correlation or a difference, even if `value` times n is a whole number."""

    def as_json(self) -> dict[str, Any]:
        """Return the five fields of `summary --json`, in order; hits follow as value times n.

        >>> Estimate(value=0.5, n=2, low=0.1, high=0.9, method="Wilson 95 %").as_json()
        {'value': 0.5, 'n': 2, 'low': 0.1, 'high': 0.9, 'method': 'Wilson 95 %'}
        """
        return {
            "value": self.value,
            "n": self.n,
            "low": self.low,
            "high": self.high,
            "method": self.method,
        }


def unknown(method: str, n: int = 0) -> Estimate:
    """Return the estimate of something that could not be estimated.

    >>> unknown("not computed").as_json()["value"] is None
    True
    """
    return Estimate(value=None, n=n, low=None, high=None, method=method)


_ROUNDING = 1e-6
"""How far a share read from JSON may differ from hits / n."""


def is_estimate(found: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return True if a value of a summary is an estimate.

    >>> is_estimate({"value": 0.5, "n": 2, "low": 0.1, "high": 0.9}), is_estimate(0.5)
    (True, False)
    """
    return isinstance(found, Mapping) and {"value", "n", "low", "high"} <= set(found)


def read_score(found: Mapping[str, Any]) -> Estimate:
    """Read an estimate that is not a share from a summary; it has no hits.

    >>> read_score({"value": 0.0, "n": 4797, "low": -0.01, "high": 0.01}).hits is None
    True
    """
    return Estimate(
        value=found["value"],
        n=found["n"],
        low=found["low"],
        high=found["high"],
        method=str(found.get("method", "")),
    )


def read_share(found: Mapping[str, Any]) -> Estimate:
    """Read an estimate that its measure declares a share, hits / n, from a summary.

    A summary does not store hits; they are value times n. If that is not a whole number, the
    share was weighted and has no hits.

    >>> read_share({"value": 1 / 3, "n": 51, "low": 0.2, "high": 0.5}).hits
    17
    >>> read_share({"value": 0.4567, "n": 3, "low": 0.2, "high": 0.5}).hits is None
    True
    """
    estimate = read_score(found)
    hits = round((estimate.value or 0.0) * estimate.n)
    if estimate.n and (
        estimate.value is None or abs(hits / estimate.n - estimate.value) > _ROUNDING
    ):
        return estimate
    return replace(estimate, hits=hits)


def wilson_ends(k: float, n: float, z: float = Z) -> tuple[float, float]:
    """Return the ends of Wilson's score interval of k hits in n trials, 95 % by default.

    With p = k/n and z = 1.96 they are
    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    Args:
        k: hits, 0 <= k <= n; may be fractional if answers are not independent.
        n: trials, above 0; may be fractional too.
        z: two-sided normal quantile of the level.

    >>> [round(end, 4) for end in wilson_ends(5, 10)]
    [0.2366, 0.7634]

    References:
        Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    p, z2 = k / n, z * z
    centre = p + z2 / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low, high = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return (0.0 if k == 0 else low), (1.0 if k == n else high)


def wilson(k: int, n: int) -> Estimate:
    """Estimate a share by its Wilson score interval (see `wilson_ends`).

    Args:
        k: number of hits, 0 <= k <= n.
        n: number of independent trials.

    Returns:
        k/n in [0, 1] with its 95 % interval; no value if n is 0.

    >>> wilson(0, 0).value is None
    True
    """
    if n == 0:
        return replace(unknown(WILSON), hits=0)
    low, high = wilson_ends(k, n)
    return Estimate(value=k / n, n=n, low=low, high=high, method=WILSON, hits=k)
