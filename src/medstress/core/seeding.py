"""Random streams that do not depend on the order in which trials run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medstress.core.hashing import digest

if TYPE_CHECKING:
    from numpy.random import Generator


def rng_for(seed: int, stream: str, dataset: str, item_id: str, repeat: int = 0) -> Generator:
    """Return the random generator of one trial.

    `stream` names the attack and its entity group but not the sampler, exponent, budget or
    victim, so that arms which differ only in those share random numbers.

    >>> first, again = (rng_for(0, "swap/drugs", "sample", "q1") for _ in range(2))
    >>> first.random() == again.random()
    True
    """
    from numpy.random import Generator, Philox

    key = int.from_bytes(digest([seed, stream, dataset, item_id, repeat]), "little")
    return Generator(Philox(key=key))
