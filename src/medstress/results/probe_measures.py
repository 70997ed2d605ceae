"""The measures of probes: rates over all variants of all items."""

from __future__ import annotations

from medstress.results.measure import SCORE, SHARE
from medstress.results.measure import defined as _defined

PROBES = (
    *_defined(
        SHARE,
        (
            "variants.accuracy",
            "Accuracy over variants",
            "of all answers to variants, those that are right; items that were wrong before count",
        ),
        (
            "variants.accuracy_all",
            "Right on all",
            "trials right on the clean item and on every variant (ReAcc)",
        ),
        (
            "variants.consistency",
            "Consistency",
            "trials in which every variant was answered with the option of the clean answer, right "
            "or wrong (ReCon); an unreadable answer is like no other",
        ),
        (
            "variants.right_to_wrong",
            "Variants right to wrong",
            "of variants of rightly answered items, those answered wrongly",
        ),
        (
            "variants.wrong_to_right",
            "Variants wrong to right",
            "of variants of items answered wrongly or unreadably, those answered rightly",
        ),
    ),
    *_defined(
        SCORE,
        (
            "variants.change",
            "Change of accuracy",
            "accuracy over variants minus that of the clean items, paired",
        ),
        (
            "consistency_net",
            "Consistency net",
            "by control: consistency minus the control's on the trials of both, paired",
        ),
    ),
)
"""Fields of rows of probes, which ask all variants of all items."""
