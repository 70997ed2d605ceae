"""How much of what an attack takes from a model another model does not lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.bootstrap import bootstrapped
from medstress.metrics.estimates import Estimate, unknown

_CLEAR = 0.975
"""Part of the resamples in which the attack must take something, so that a share of it is told."""

Drawn = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A score with its resamples, over the clusters that all scores it is compared with share."""

    value: float | None
    """The score; None where it is undefined."""
    drawn: Drawn
    """Of every resample, shape (n_resamples,); nan where it is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Four:
    """Scores of two models on clean and on perturbed data."""

    clean: Measured
    """The first model, clean."""
    attacked: Measured
    """The first model, perturbed."""
    trained_clean: Measured
    """The second model, clean."""
    trained_attacked: Measured
    """The second model, perturbed."""


def recovery(four: Four, n: int) -> dict[str, Any]:
    """Compare two models by what they keep, in the fields of the summary's `training`.

    With scores s and t of the first and the second model, clean_loss = s_clean - t_clean,
    gain = t_attacked - s_attacked, and recovered = gain / (s_clean - s_attacked). The share is
    unknown unless the attack takes something in 97.5 % of the resamples: its denominator is then
    too close to zero.

    Args:
        four: the scores, resampled together.
        n: clusters or pairs.
    """
    method = f"paired bootstrap over {n} clusters, percentile 95 %"
    clean, attacked = four.clean, four.attacked
    t_clean, t_attacked = four.trained_clean, four.trained_attacked
    names = ("clean", "attacked", "trained_clean", "trained_attacked")
    scores = {name: _estimate(getattr(four, name), n, method) for name in names}
    return {
        **{name: score.as_json() for name, score in scores.items()},
        "clean_loss": _estimate(_minus(clean, t_clean), n, method).as_json(),
        "gain": _estimate(_minus(t_attacked, attacked), n, method).as_json(),
        "recovered": _recovered(four, n, method).as_json(),
    }


def _recovered(four: Four, n: int, method: str) -> Estimate:
    loss, gain = _minus(four.clean, four.attacked), _minus(four.trained_attacked, four.attacked)
    if loss.value is None or gain.value is None:
        return unknown(f"{method}: a score is undefined")
    taken = np.nan_to_num(loss.drawn, nan=0.0) > 0
    if loss.value <= 0 or taken.mean() < _CLEAR:
        return unknown(f"{method}: what the attack takes is not clear of zero")
    share = Measured(value=gain.value / loss.value, drawn=gain.drawn[taken] / loss.drawn[taken])
    return _estimate(share, n, method)


def _minus(first: Measured, second: Measured) -> Measured:
    if first.value is None or second.value is None:
        return Measured(value=None, drawn=np.zeros(0))
    return Measured(value=first.value - second.value, drawn=first.drawn - second.drawn)


def _estimate(score: Measured, n: int, method: str) -> Estimate:
    finite = score.drawn[np.isfinite(score.drawn)]
    if score.value is None or not finite.size:
        return unknown(f"{method}: undefined")
    return bootstrapped(score.value, finite, n, method)
