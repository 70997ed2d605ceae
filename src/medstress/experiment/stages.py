"""Stages: what is asked after the trials of a run, and what takes the place of what.

A stage is a pure function of an experiment and its run, the same in every process: it asks and
writes nothing. Another gives what is said before it costs money, a third what the manifest keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from medstress.analyses.run import Run
from medstress.core.hashing import canonical_json
from medstress.engine.work import Purpose, Work
from medstress.experiment.plan.plan import Prepared
from medstress.store.run_store import EndedFollowUp

CHOICES = "choices"
"""Manifest entry: name of a stage -> what was chosen for it, in the order of the commands."""
_DERIVED = ("edits", "top", "asked", "trials", "verdict", "prompts")
"""Keys of a spec that follow from the trials, so that an extension may change them."""


class FollowUp(Work, Protocol):
    """An inquiry, a study or an explanation."""

    @property
    def purpose(self) -> Purpose:
        """What it is asked for."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the analysis needs to interpret the answers; part of the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Works that need the trials of a run."""

    name: str
    works: Callable[[Prepared, Run], Iterable[FollowUp]]
    """What is asked; what has ended is among it."""
    purposes: frozenset[Purpose]
    """Of its works; `--retry-failed` begins works of an experiment's own stages again."""
    most: Callable[[Prepared, Any], int] = lambda *_: 0
    """The most queries of one work to its victim."""
    words: Callable[[Prepared, Run], Iterable[str]] = lambda *_: ()
    """What the user should read before it costs money."""
    entries: Callable[[Prepared, Run], Mapping[str, Any]] = lambda *_: {}
    """What the manifest keeps of it from before its first call."""
    choice: Callable[[Prepared, Run], Mapping[str, Any]] = lambda *_: {}
    """Settings, and the ids of the trials that were chosen by them, by hand or by what people say;
    the manifest keeps every choice (`CHOICES`)."""
    is_whole: bool = False
    """Whether works of these purposes that it does not name are superseded."""


def superseded(stage: Stage, works: Sequence[FollowUp], ended: Iterable[EndedFollowUp]) -> set[str]:
    """Return the follow-ups of a folder that a stage replaces.

    An extension changes what is asked: other names lead, other controls are shared. The root and
    `--retry-failed` leave out what was asked in their place before.

    Args:
        stage: what asks.
        works: what it asks now.
        ended: what the folder holds.
    """
    now = {work.id for work in works}
    places = {_place(work.purpose, names_of(work), work.spec) for work in works}
    return {
        one.id
        for one in ended
        if one.id not in now
        and (
            (stage.is_whole and one.purpose in stage.purposes)
            or _place(one.purpose, one.place, one.spec) in places
        )
    }


def names_of(work: FollowUp) -> tuple[str, ...]:
    """Return data set, group, victim, attack and item of a work."""
    return (work.dataset, work.group, work.victim.label, work.attack_label, work.item.id)


def _place(purpose: str, names: tuple[str, ...], spec: Mapping[str, Any]) -> str:
    """Return what two follow-ups share if one replaces the other."""
    own = {key: value for key, value in spec.items() if key not in _DERIVED}
    return canonical_json([purpose, names, own])
