"""Choose trials to show, spread over the attacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow

LIMIT = 200
"""Largest number of failures in the table of them."""


def is_success(trial: TrialRow) -> bool:
    """Return True for a successful attack; control arms do not count."""
    return trial.verdict is Verdict.FLIPPED and trial.arm == "attack"


def choose(trials: Iterable[TrialRow], limit: int, salt: str) -> list[TrialRow]:
    """Choose up to `limit` trials, spread over the attacks as evenly as possible.

    Within an attack the choice is pseudo-random, by the hash of `salt` and trial identifier, so it
    does not depend on the order of the trials or on other attacks.

    Returns:
        The trials in the order of attack, data set, group, victim, item and seed.
    """
    return sorted(ranked(trials, salt)[:limit], key=_sort_key)


def ranked(
    trials: Iterable[TrialRow],
    salt: str,
    by: Callable[[TrialRow], tuple[str, ...]] = lambda trial: (trial.attack,),
) -> list[TrialRow]:
    """Return all trials in the order in which they are chosen.

    Args:
        trials: in any order.
        salt: seed of the order.
        by: what the choice is spread over.
    """
    parts: dict[tuple[str, ...], list[TrialRow]] = defaultdict(list)
    for trial in sorted(trials, key=lambda each: digest([salt, each.trial_id])):
        parts[by(trial)].append(trial)
    places = [
        (rank, part, trial) for part in sorted(parts) for rank, trial in enumerate(parts[part])
    ]
    places.sort(key=lambda each: each[:2])
    return [trial for _, _, trial in places]


def _sort_key(trial: TrialRow) -> tuple[str, ...]:
    seed = "" if trial.seed is None else f"{trial.seed:09}"
    names = (trial.attack, trial.dataset, trial.group, trial.victim, trial.item_id)
    return (*names, seed, trial.trial_id)


def short_ids(trial_ids: Sequence[str]) -> list[str]:
    """Return a short id for each trial: the first letters of its hash, as a folder keeps them.

    An id stays the same while a run grows. The few that would be alike, about one pair in a
    billion trials' worth of runs, stay whole.

    >>> short_ids(["blake2b-128:9828b92a95648a61c26ccadc2e3878c2"])
    ['9828b92a9564']
    """
    found = [_short(each) for each in trial_ids]
    seen: dict[str, int] = defaultdict(int)
    for short in found:
        seen[short] += 1
    return [
        short if seen[short] == 1 else _bare(whole)
        for short, whole in zip(found, trial_ids, strict=True)
    ]


_SHORT = 12
_HEX = frozenset("0123456789abcdef")


def _bare(trial_id: str) -> str:
    """Return an id without the name of its hash function; an id of another form as its hash."""
    bare = trial_id.rpartition(":")[2]
    return bare if len(bare) >= _SHORT and _HEX.issuperset(bare) else _hashed(trial_id)


def _short(trial_id: str) -> str:
    return _bare(trial_id)[:_SHORT]


def _hashed(trial_id: str) -> str:
    return digest([trial_id]).hex()
