"""What a dry run expects of a victim: measured in an earlier run, or else usual values.

Where nothing is known, half of the questions are right at first (as `medstress.costs.power`
assumes), an edit in ten flips a right answer, and a control flips half as many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from medstress.attacks.protocol import AttackTraits, SearchOn
from medstress.costs.power import ACCURACY
from medstress.costs.speeds import run_folders
from medstress.experiment.plan.plan import Prepared
from medstress.store.earlier_answers import EarlierAnswers, earlier_answers
from medstress.tasks.victim import Victim

FLIPS = 0.1
"""Share of edits that flip a right answer."""
CONTROL_FLIPS = 0.05
"""The same of a control's edits."""
WEIGHT = 8
"""Trials and queries that the usual values weigh as much as, beside measured ones."""
SHORT_ANSWER = 2
"""Tokens of a written answer that is a letter, with a space, a full stop or an end."""
REASONED_ANSWER = 600
"""Tokens of an answer after reasoning, if its limit allows so many."""
REASONING_TURN = 200
"""Tokens of the reasoning turn in a conversation."""
CONFIDENCES = 40
"""Tokens of the confidences in a conversation: JSON with a number for each option."""
LONG_ANSWER = 256
"""A limit from which an answer is taken to hold reasoning; the default of `max_new_tokens` is half
of it."""
_REASONS = re.compile(
    r"(?:^|[/_:.-])(?:o[134]|gpt-5|gpt-oss|r1|qwq|magistral)(?![a-z0-9])|reason|think", re.I
)
"""Names of models that reason unasked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What is expected of one victim."""

    accuracy: float = ACCURACY
    """Share of questions that are right at first."""
    flips: float = FLIPS
    """Share of an attack's edits that flip a right answer."""
    control_flips: float = CONTROL_FLIPS
    """Share of a control's edits that do."""
    tokens_in: float | None = None
    """Tokens read by a call; None: from the prompt's characters."""
    tokens_out: float | None = None
    """Tokens written by a call; None: usual lengths."""
    source: str = "assumed"
    """Where the values come from."""


def usual_of(victim: Victim, prepared: Prepared, folder: Path | None) -> Usual:
    """Return what is expected of a victim.

    It is measured in the run folder, or else in its newest neighbour that asked the same model in
    the same way.
    """
    own, task = victim.backend.identity.hash, victim.task.spec()
    for each in run_folders(folder):
        if (earlier := earlier_answers(each, own, task)) is not None:
            return _measured(earlier, prepared, each)
    return Usual()


def _measured(earlier: EarlierAnswers, prepared: Prepared, folder: Path) -> Usual:
    n = earlier.n_calls
    in_turns = any(part.traits.in_turns for part in prepared.attacks)
    alike = earlier.in_turns == in_turns and n > 0
    same_data = {part.loaded.source_hash for part in prepared.datasets} == earlier.datasets
    flips = [
        _share(flipped, asked, usual)
        for flipped, asked, usual in zip(
            earlier.flipped, earlier.asked, (FLIPS, CONTROL_FLIPS), strict=True
        )
    ]
    return Usual(
        accuracy=_share(earlier.n_right, earlier.n_right + earlier.n_lost, ACCURACY),
        flips=flips[0],
        control_flips=flips[1],
        tokens_in=earlier.tokens_in / n if alike and same_data and earlier.tokens_in else None,
        tokens_out=earlier.tokens_out / n if alike and earlier.tokens_in else None,
        source=f"measured over {n:,} calls in {folder}",
    )


def _share(n: int, of: int, usual: float) -> float:
    """Return a share that few counts leave near the usual one."""
    return (n + WEIGHT * usual) / (of + WEIGHT)


def reasons(model: str, max_new_tokens: int) -> bool:
    """Return whether a victim that writes its answers is taken to reason before it answers.

    >>> reasons("o3-mini", 128), reasons("gpt-4o", 128), reasons("gpt-4o", 4096)
    (True, False, True)
    """
    return max_new_tokens >= LONG_ANSWER or _REASONS.search(model) is not None


def written(model: str, max_new_tokens: int) -> int:
    """Return the usual tokens of one written answer.

    >>> written("gpt-4o", 128), written("gpt-4o", 2), written("deepseek-r1", 2048)
    (2, 2, 600)
    """
    usual = REASONED_ANSWER if reasons(model, max_new_tokens) else SHORT_ANSWER
    return min(usual, max_new_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one trial is expected to ask beside its clean question."""

    queries: float
    """Queries with an edit."""
    successes: float
    """Probability that one of them flips the answer."""


def expected_trial(
    traits: AttackTraits, n: int, usual: Usual, *, control: bool = False
) -> Expected:
    """Return what a trial with at most `n` queries is expected to ask.

    A search ends at its first success, unless it asks every query; an item that is wrong at first
    is left alone, unless the attack's traits say otherwise.

    >>> usual = Usual(accuracy=0.5, flips=0.5)
    >>> expected_trial(AttackTraits(stream="s", budget=2), 2, usual)
    Expected(queries=0.75, successes=0.375)
    """
    flips = usual.control_flips if control else usual.flips
    never = (1 - flips) ** n
    until = (1 - never) / flips if flips else float(n)
    if traits.search_on is SearchOn.ALWAYS:
        until = float(n)
    of_wrong = 0.0
    if traits.is_static:
        of_wrong = float(n)
    elif traits.attack_all:
        of_wrong = until
    elif traits.asks_wrong:
        of_wrong = float(min(n, 1))
    return Expected(
        queries=usual.accuracy * until + (1 - usual.accuracy) * of_wrong,
        successes=usual.accuracy * (1 - never),
    )
