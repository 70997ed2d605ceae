"""The measures of confidence before and after an attack."""

from __future__ import annotations

from medstress.results.measure import SCORE, SHARE
from medstress.results.measure import defined as _defined

_CURVE = (
    "the mean, over all shares of answers kept, of the error among the most confident ones "
    "(area under the risk-coverage curve): 0 is best, and a confidence that says nothing gives "
    "the error of all answers"
)
CONFIDENCE = (
    *_defined(
        SCORE,
        (
            "key_probability_change",
            "Change of P(key)",
            "mean change of the probability of the key from the clean answer to that at the first "
            "success, else to the last edit that was asked, over eligible trials",
        ),
    ),
    *_defined(
        SHARE,
        (
            "flips_confident",
            "Confident flips",
            "share of flips whose wrong answer, at the first success, had a probability of .8 or "
            "more",
        ),
    ),
    *_defined(
        SCORE,
        (
            "calibration_before",
            "Calibration error before",
            "expected calibration error of clean answers: the mean distance of confidence, the "
            "probability of the chosen option, from accuracy, over 10 bins of equal width; "
            "`by_chance` is how far chance alone moves it, about what a calibrated victim shows",
        ),
        (
            "calibration_after",
            "Calibration error after",
            "the same after the attack, over the same trials: of the answer at the first success "
            "where there is one, else of the last one to an edit, else of the clean answer",
        ),
        (
            "brier_before",
            "Brier score before",
            "mean squared distance of confidence from 1 where the clean answer was right, from 0 "
            "where it was wrong",
        ),
        ("brier_after", "Brier score after", "the same of the answers after the attack"),
        ("risk_coverage.before.area", "Risk-coverage area before", f"clean answers: {_CURVE}"),
        (
            "risk_coverage.after.area",
            "Risk-coverage area after",
            "the same of the answers after the attack",
        ),
    ),
)
"""Null with a reason where the victim gives no scores."""
