"""Conformance suites and small building blocks for tests of attacks, back ends and tasks.

Call `check_attack`, `check_backend`, `check_dataset` and `check_task` from your own tests; they
raise AssertionError with one sentence. Nothing here needs a model or a network.
"""

from __future__ import annotations

from medstress.testing.attacks import Driven, check_attack, drive
from medstress.testing.checks import check_backend, check_dataset, check_task
from medstress.testing.scripted import (
    ScriptedBackend,
    rule_target,
    scripted_attacker,
    scripted_judge,
    scripted_reply,
)
from medstress.testing.tiny import (
    REPLACEMENTS,
    TINY_TYPE,
    PerturbationTable,
    PromptVictim,
    planted,
    small_run,
    tiny_questions,
    tiny_resources,
)

__all__ = [
    "REPLACEMENTS",
    "TINY_TYPE",
    "Driven",
    "PerturbationTable",
    "PromptVictim",
    "ScriptedBackend",
    "check_attack",
    "check_backend",
    "check_dataset",
    "check_task",
    "drive",
    "planted",
    "rule_target",
    "scripted_attacker",
    "scripted_judge",
    "scripted_reply",
    "small_run",
    "tiny_questions",
    "tiny_resources",
]
