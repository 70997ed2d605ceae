"""Rules by which a folder's victims were read when it began, and are read to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medstress.experiment.prepared import Prepared
from medstress.tasks.ties import rule_of, with_rule


def keep_rules(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Let victims that a folder holds break ties as they did in its first trials.

    Otherwise the folder could not be resumed: its victims would be others now.

    Args:
        prepared: with its victims opened.
        known: `victims` of the folder's manifest.
    """
    for i, victim in enumerate(prepared.victims):
        stored = known.get(victim.label)
        if stored is not None and hasattr(victim.task, "ties"):
            task = with_rule(victim.task, rule_of(stored["task"]))
            prepared.victims[i] = replace(victim, task=task)
