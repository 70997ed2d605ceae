"""Rules by which a folder began, and which hold to its end: prompts, readers, words of noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from medstress.attacks.medfuzz import MedFuzz
from medstress.entities.lexicon import FIRST_EDITION_SENTENCES
from medstress.experiment.prepared import Prepared
from medstress.experiment.sentence_groups import SentenceGroupPart, sentence_resources
from medstress.hashing import content_hash
from medstress.tasks.reading import reading_of
from medstress.tasks.task import Task
from medstress.tasks.ties import rule_of, with_rule
from medstress.tasks.wrapping import parser_of, reading_with


def keep_rules(prepared: Prepared, manifest: Mapping[str, Any]) -> None:
    """Keep the rules of a folder's first trials that have changed since.

    Otherwise the folder could not be resumed, for it would be of another experiment now.

    Args:
        prepared: with its victims opened.
        manifest: the folder's.
    """
    _keep_readers(prepared, manifest["victims"])
    _keep_lexicon(prepared, manifest.get("groups", {}))


def _keep_lexicon(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Noise that chose words of the corpus by their number, not by their frequency."""
    for i, group in enumerate(prepared.groups):
        stored = known.get(group.label)
        if stored is None or not isinstance(group, SentenceGroupPart):
            continue
        if stored.get("n_lexicon") and "lexicon" not in stored:
            made = sentence_resources(
                prepared.attacks, prepared.datasets, prepared.base, FIRST_EDITION_SENTENCES
            )
            old = replace(group, resources=made, lexicon=None)
            prepared.groups = [*prepared.groups[:i], old, *prepared.groups[i + 1 :]]


def _keep_readers(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """How victims read texts and break ties.

    A folder that began before cut replies were known goes on as it began: replies are read whole,
    and the last turns of conversations are as short as they were. A parser that the experiment
    names stays, and is told apart like any other change.
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
        before = part.attack.as_it_was if isinstance(part.attack, MedFuzz) else None
        if before is None or content_hash(part.attack.spec()) in held:
            continue
        if content_hash(before.spec()) in held:
            prepared.attacks[i] = replace(part, attack=before)
