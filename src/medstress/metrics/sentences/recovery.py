"""How much of one model's loss under attack another model avoids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.sentences.training_seeds import Measured, estimated, method_of, minus

_CLEAR = 0.975
"""The recovered share is given if the attack takes something in this share of resamples."""


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


def recovery(
    four: Four, n: int, n_seeds: int = 1, limits: tuple[float, float] = (0.0, 1.0)
) -> dict[str, Any]:
    """Compare two models under attack; return the fields of the summary's `training`.

    With scores s and t of the first and the second model, clean_loss = s_clean - t_clean,
    gain = t_attacked - s_attacked, and recovered = gain / (s_clean - s_attacked). The share is
    unknown unless the attack takes something in 97.5 % of the resamples, because otherwise its
    denominator is too close to zero.

    Args:
        four: the scores, resampled together.
        n: number of clusters or pairs.
        n_seeds: number of trainings of each model that the scores average over (`over_seeds`).
        limits: the lowest and the highest possible score.
    """
    method = method_of(f"{n} clusters, paired", n_seeds)
    clean, attacked = four.clean, four.attacked
    t_clean, t_attacked = four.trained_clean, four.trained_attacked
    names = ("clean", "attacked", "trained_clean", "trained_attacked")
    scores = {name: estimated(getattr(four, name), n, method, limits) for name in names}
    return {
        **{name: score.as_json() for name, score in scores.items()},
        "clean_loss": estimated(minus(clean, t_clean), n, method).as_json(),
        "gain": estimated(minus(t_attacked, attacked), n, method).as_json(),
        "recovered": _recovered(four, n, method).as_json(),
        "n_seeds": n_seeds,
    }


def _recovered(four: Four, n: int, method: str) -> Estimate:
    loss, gain = minus(four.clean, four.attacked), minus(four.trained_attacked, four.attacked)
    if loss.value is None or gain.value is None:
        return unknown(f"{method}: a score is undefined")
    taken = np.nan_to_num(loss.drawn, nan=0.0) > 0
    if loss.value <= 0 or taken.mean() < _CLEAR:
        return unknown(f"{method}: what the attack takes is not clear of zero")
    share = Measured(value=gain.value / loss.value, drawn=gain.drawn[taken] / loss.drawn[taken])
    return estimated(share, n, method)
