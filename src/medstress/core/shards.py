"""Shards: the parts of one plan that several machines run, cut by whole items."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Any

from medstress.core.errors import UsageError, setting

_WRITTEN = re.compile(r"(auto|[0-9]{1,9})/([0-9]{1,9})")
_ARRAY = "SLURM_ARRAY_TASK_"
MOST_SHARDS = 100_000
"""More is a slip of the hand."""
_TOGETHER = 8
"""Most items of one passage that stay together: then a shard has few more than another."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of the equal parts of a plan."""

    of: int
    """How many parts there are."""
    number: int
    """Which part this is, from 1."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, whole: int) -> int:
        """Return its part of a number; the parts of all shards sum to it.

        >>> [Shard(3, number).share(10) for number in (1, 2, 3)]
        [3, 3, 4]
        """
        return whole * self.number // self.of - whole * (self.number - 1) // self.of


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Read K/N, or auto/N, where K is the place of this process in an array of Slurm.

    Args:
        text: as given with --shard.
        environment: the variables of the process.

    Raises:
        UsageError: it is neither, or there is no array of N tasks.

    >>> parse_shard("3/64", {})
    Shard(of=64, number=3)
    >>> parse_shard("auto/4", {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5"})
    Shard(of=4, number=3)
    """
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        raise _refused(text, "expected K/N, such as 3/64, or auto/N in a job array of Slurm")
    of = int(written[2])
    if of < 1:
        raise _refused(text, "expected at least one shard")
    if of > MOST_SHARDS:
        raise _refused(text, f"expected at most {MOST_SHARDS:,} shards")
    number = _place(text, of, environment) if written[1] == "auto" else int(written[1])
    if not 1 <= number <= of:
        nearest = f"{min(max(number, 1), of)}/{of}"
        why = f"shards are numbered from 1 to {of}, got {number}"
        raise _refused(text, why).with_flag("--shard", nearest)
    return Shard(of, number)


def _place(text: str, of: int, environment: Mapping[str, str]) -> int:
    """Return the place of this task in its array, from 1."""
    here = _number(text, environment, "ID")
    if here is None:
        raise _refused(
            text,
            f"{_ARRAY}ID is not set, so this is no task of a job array of Slurm; give the number, "
            f"as in --shard 1/{of}",
        )
    step = _number(text, environment, "STEP") or 1
    first = _number(text, environment, "MIN")
    n_tasks = _number(text, environment, "COUNT")
    if n_tasks is not None and n_tasks != of:
        # Of an array that holds only some shards, such as 3,7, the places say nothing.
        raise _refused(
            text,
            f"the job array has {n_tasks} tasks and not {of}; give the number, as in "
            f"--shard ${_ARRAY}ID/{of}",
        )
    return (here - (1 if first is None else first)) // step + 1


def _number(text: str, environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(f"{_ARRAY}{name}", "").strip()
    if not value:
        return None
    if not value.isdecimal():
        raise _refused(text, f"expected a number in {_ARRAY}{name}, got {value!r}")
    return int(value)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"{setting('shard', text)}: {why}")


def cut(datasets: Sequence[Sequence[Any]], n_shards: int) -> list[list[int]]:
    """Return the shard of every item, from 1, by data set.

    Items of equal content stay together, and so do items that share a passage, which their prompts
    share, eight at a time. In the plan's order each such group goes to the shard with the fewest
    items of the data set. What comes later decides nothing, so a plan that only grows at its end
    moves nothing.

    Args:
        datasets: the items of every data set, in the order of the plan.
        n_shards: how many shards there are.
    """
    shards_of: list[list[int]] = []
    of_content: dict[str, int] = {}
    of_passage: dict[str, tuple[int, int]] = {}  # its shard, and how many items it has there
    for number, items in enumerate(datasets):
        loads, shards = _Loads(n_shards, first=number), list[int]()
        for item in items:
            passage = getattr(item, "passage", "")
            shard, n = of_passage.get(passage, (0, 0)) if passage else (0, 0)
            if n >= _TOGETHER or not shard:
                shard, n = loads.least(), 0
            shard = of_content.setdefault(item.hash, shard)
            if passage:
                of_passage[passage] = (shard, n + 1)
            loads.add(shard)
            shards.append(shard)
        shards_of.append(shards)
    return shards_of


class _Loads:
    """How many items of one data set every shard has."""

    def __init__(self, n_shards: int, first: int) -> None:
        # The last shards are a little smaller; every data set begins with another one.
        self._order = [(first + i) % n_shards for i in range(n_shards)]
        self._n = [0] * n_shards
        # A heap of (number of items when last looked at, place in that order).
        self._least = [(0, place) for place in range(n_shards)]

    def least(self) -> int:
        """Return the shard with the fewest items, from 1."""
        while True:
            n, place = self._least[0]
            shard = self._order[place]
            if n == self._n[shard]:
                return shard + 1
            heapreplace(self._least, (self._n[shard], place))

    def add(self, shard: int) -> None:
        """Count an item."""
        self._n[shard - 1] += 1
