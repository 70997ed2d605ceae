"""Rules by which a folder's victims were asked and read when it began, and are to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from medstress.attacks.medfuzz import MedFuzz
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
    """Let attacks that a folder holds go on with the words of the version that it began with.

    Shipped prompts are part of what an attack is; new words would make it another one.

    Args:
        prepared: its attacks are exchanged where the folder holds them with earlier prompts.
        known: label -> content hash of the attacks of the folder.
    """
    held = set(known.values())
    for i, part in enumerate(prepared.attacks):
        attack = part.attack
        if not isinstance(attack, MedFuzz) or content_hash(attack.spec()) in held:
            continue
        earlier = (replace(attack, template=prompts) for prompts in attack.prompts.earlier)
        began = next((each for each in earlier if content_hash(each.spec()) in held), attack)
        prepared.attacks[i] = replace(part, attack=began)
