"""Inputs and answers of the user's functions for entities and sentence pairs.

Entities: ``list[list[str]]``, the words of each sentence, to ``list[list[str]]``, one IOB or IOBES
label per word. Pairs: ``list[tuple[str, str]]`` to ``list[float]``, or, if pairs have labels, to
labels or ``{"scores": {label: p}}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from medstress.core.calls import Choose, Chosen, Classify, Compare, Compared, Tag, Tagged
from medstress.core.label_schemes import in_iob2, scheme_of

NOUNS = {"choose": "prompt", "tag": "sentence", "compare": "pair", "classify": "pair"}
"""What one answer is for, by kind of call."""

_LABEL = re.compile(r"O|[BIESLU]-\S+")

Refuse = Callable[[str], NoReturn]
"""Raises an error about the function, which ends the run."""


def function_input(call: Choose | Tag | Compare | Classify) -> Any:
    """Return what the function receives for one call."""
    match call:
        case Choose():
            return call.prompt
        case Tag():
            return list(call.tokens)
        case Compare() | Classify():
            return call.text_a, call.text_b


def read_labels(answer: Any, call: Tag, refuse: Refuse) -> Tagged:
    """Read the labels of one sentence."""
    n = len(call.tokens)
    if isinstance(answer, str) or not isinstance(answer, Sequence):
        refuse(
            f"returned {answer!r} for a sentence; expected a list of {n} IOB labels, one per word"
        )
    if len(answer) != n:
        refuse(f"returned {len(answer)} labels for a sentence of {n} words; expected one per word")
    for label in answer:
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            refuse(
                f"returned the label {label!r}; expected IOB labels: 'O', or 'B-' or 'I-' and a "
                "type, such as 'B-Chemical'"
            )
    return Tagged(labels=in_iob2(answer, scheme_of(answer) or "iob2"))


def read_score(answer: Any, refuse: Refuse) -> Compared:
    """Read the score of one pair."""
    try:
        value = math.nan if isinstance(answer, str | bytes) else float(answer)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        refuse(f"returned the score {answer!r} for a pair; expected a finite number")
    return Compared(score=value)


def read_label(answer: Any, call: Classify, refuse: Refuse) -> Chosen:
    """Read the label of one pair: a text, or probabilities of all labels."""
    if isinstance(answer, str):
        return Chosen(answer=answer) if answer in call.labels else Chosen(text=answer)
    if not isinstance(answer, Mapping) or set(answer) != {"scores"}:
        refuse(
            f"returned {answer!r} for a pair; expected a label such as {call.labels[0]!r}, or "
            f"exactly {{'scores': {{{call.labels[0]!r}: 0.7, ...}}}}"
        )
    return Chosen(scores=read_scores(answer["scores"], call.labels, refuse))


def read_scores(scores: Any, names: Sequence[str], refuse: Refuse) -> tuple[float, ...]:
    """Read one probability for each name, in their order."""
    if not isinstance(scores, Mapping) or set(scores) != set(names):
        refuse(f"returned the scores {scores!r}; expected one for each of {', '.join(names)}")
    try:
        values = tuple(float(scores[name]) for name in names)
    except (TypeError, ValueError, OverflowError):
        values = (math.nan,)
    if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values):
        refuse(
            f"returned the scores {dict(scores)!r}; expected finite probabilities >= 0 that are "
            "not all 0"
        )
    return values
