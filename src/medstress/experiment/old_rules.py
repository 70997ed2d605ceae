"""Rules by which a folder's victims were read when it began, and are read to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from medstress.experiment.prepared import Prepared
from medstress.tasks.reading import reading_of
from medstress.tasks.task import Task
from medstress.tasks.ties import rule_of, with_rule
from medstress.tasks.wrapping import parser_of, reading_with


def keep_rules(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Let victims that a folder holds read texts and break ties as they did in its first trials.

    These rules have changed; otherwise the folder could not be resumed, for its victims would be
    others now. One that began before cut replies were known goes on as it began: replies are read
    whole, and the last turns of conversations are as short as they were. A parser that the
    experiment names stays, and is told apart like any other change.

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
        if began is not None:  # a task of sentences has no parser
            kept = {"parser": began} if table.parser is None else {}
            task = reading_with(cast(Task, task), **kept, reading=reading_of(stored))
        prepared.victims[i] = replace(victim, task=task)
