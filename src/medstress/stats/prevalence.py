"""A share that an imperfect test measured, corrected by the test's measured errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt

from medstress.stats.estimates import Estimate, Z

LANG_REICZIGEL = "Rogan and Gladen's point, Lang and Reiczigel's 95 % interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How often a test was right, in counts of cases whose truth people know."""

    n_true: int
    """Cases that are truly positive."""
    n_true_found: int
    """Of those, found positive."""
    n_false: int
    """Cases that are truly negative."""
    n_false_found: int
    """Of those, found negative."""

    @property
    def informs(self) -> bool:
        """Whether both kinds were met and sensitivity + specificity > 1, so a correction exists."""
        if not (self.n_true and self.n_false):
            return False
        # In whole numbers, so that exactly 1 is not above it by rounding.
        found = self.n_true_found * self.n_false + self.n_false_found * self.n_true
        return found > self.n_true * self.n_false


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What a test said of one stratum, and its errors there."""

    weight: float
    """The stratum's share of all; all weights add up to 1."""
    share: float
    """Share found positive."""
    n: float
    """Screened cases, above 0; the effective number where answers are not independent."""
    errors: Errors
    """Measured on cases of this stratum whose truth people know; they must inform."""


def corrected_share(strata: Sequence[Screened]) -> Estimate:
    """Estimate the true share of positives from what an imperfect test found.

    Point: (p + Sp - 1) / (Se + Sp - 1), cut to [0, 1]. Interval, with z the normal quantile,
    p' = (n p + z^2/2) / (n + z^2), Se' and Sp' each with one hit and one miss more, m+ and m- the
    numbers of true positives and negatives that these rest on, J = Se' + Sp' - 1,
    pi' = (p' + Sp' - 1) / J:
    pi' + 2 z^2 (pi' Se'(1 - Se')/(m+ + 2) - (1 - pi') Sp'(1 - Sp')/(m- + 2)) -+ z / J
    sqrt(p'(1 - p')/(n + z^2) + pi'^2 Se'(1 - Se')/(m+ + 2) + (1 - pi')^2 Sp'(1 - Sp')/(m- + 2)).
    Strata are added up by weight, and their ends by Zou and Donner's rule.

    It assumes that the test errs among the cases at hand as it did where it was measured.

    Args:
        strata: at least one.

    Returns:
        The share in [0, 1]; `n` counts tested cases.

    >>> errors = Errors(n_true=100, n_true_found=90, n_false=100, n_false_found=80)
    >>> found = corrected_share([Screened(weight=1.0, share=0.55, n=200, errors=errors)])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.375, 0.62)

    References:
        Rogan and Gladen, "Estimating prevalence from the results of a screening test", American
        Journal of Epidemiology 1978.
        Lang and Reiczigel, "Confidence limits for prevalence of disease adjusted for estimated
        sensitivity and specificity", Preventive Veterinary Medicine 2014.
    """
    parts = [(each.weight, *_corrected(each)) for each in strata]
    value = sum(weight * v for weight, v, *_ in parts)
    return Estimate(
        value=value,
        n=round(sum(each.n for each in strata)),
        low=max(0.0, value - hypot(*(w * (v - low) for w, v, low, _ in parts))),
        high=min(1.0, value + hypot(*(w * (high - v) for w, v, _, high in parts))),
        method=LANG_REICZIGEL + (f", {len(parts)} strata" if len(parts) > 1 else ""),
    )


def uncut_share(given: Screened) -> float:
    """Return Rogan and Gladen's point of one stratum, which chance may put below 0 or above 1."""
    errors = given.errors
    se, sp = errors.n_true_found / errors.n_true, errors.n_false_found / errors.n_false
    return (given.share + sp - 1) / (se + sp - 1)


def _corrected(given: Screened) -> tuple[float, float, float]:
    """Return point and ends of one stratum."""
    errors, z2 = given.errors, Z * Z
    point = min(max(uncut_share(given), 0.0), 1.0)
    m_true, m_false = errors.n_true + 2, errors.n_false + 2
    se, sp = (errors.n_true_found + 1) / m_true, (errors.n_false_found + 1) / m_false
    n = given.n + z2
    p = (given.n * given.share + z2 / 2) / n
    spread_true, spread_false = se * (1 - se) / m_true, sp * (1 - sp) / m_false
    informs = se + sp - 1
    if informs <= 0:
        return point, 0.0, 1.0
    share = min(max((p + sp - 1) / informs, 0.0), 1.0)
    middle = share + 2 * z2 * (share * spread_true - (1 - share) * spread_false)
    half = (
        Z
        / informs
        * sqrt(p * (1 - p) / n + share**2 * spread_true + (1 - share) ** 2 * spread_false)
    )
    return point, min(point, max(0.0, middle - half)), max(point, min(1.0, middle + half))
