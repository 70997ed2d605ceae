"""Rules and words of a folder when it began, with which it goes on to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from medstress.experiment.prepared import Prepared
from medstress.hashing import content_hash
from medstress.tasks.task import Task
from medstress.tasks.ties import rule_of, with_rule
from medstress.tasks.wrapping import parser_of, reading_with


def keep_rules(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Let victims that a folder holds read texts and break ties as they did in its first trials.

    Both rules have changed; otherwise the folder could not be resumed, for its victims would be
    others now. A parser that the experiment names stays, and is told apart like any other change.

    Args:
        prepared: with its victims opened.
        known: `victims` of the folder's manifest.
    """
    for i, (table, victim) in enumerate(
        zip(prepared.experiment.victim, prepared.victims, strict=True)
    ):
        if victim.label not in known:
            continue
        stored, task = known[victim.label]["task"], victim.task
        if hasattr(task, "ties"):
            task = with_rule(task, rule_of(stored))
        began = parser_of(stored)
        if table.parser is None and began is not None:
            task = reading_with(cast(Task, task), began)  # one of sentences has no parser
        prepared.victims[i] = replace(victim, task=task)


def keep_prompts(prepared: Prepared, known: Mapping[str, str]) -> None:
    """Let attacks that a folder holds say what they said in its first trials.

    The words of shipped sets have changed since the first edition, and a file that a set of the
    user's lacks comes from one of them. Where the folder holds the attack as it was and not as it
    is, the former words stay.

    Args:
        prepared: with its attacks made.
        known: label -> hash of the attacks in the folder.
    """
    held = set(known.values())
    for i, part in enumerate(prepared.attacks):
        before = getattr(part.attack, "as_it_was", None)
        if before is None or content_hash(part.attack.spec()) in held:
            continue
        if content_hash(before.spec()) in held:
            prepared.attacks[i] = replace(part, attack=before)
