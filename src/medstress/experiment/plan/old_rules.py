"""Keep the rules that a folder began with: prompts, readers of answers, words of noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.hashing import content_hash
from medstress.entities.lexicon import FIRST_EDITION_SENTENCES
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.sentence_groups import SentenceGroupPart, sentence_resources
from medstress.tasks.reading import reading_of
from medstress.tasks.task import Task
from medstress.tasks.ties import ties_of, with_ties
from medstress.tasks.wrapping import parser_of, reading_with


def keep_rules(prepared: Prepared, manifest: Mapping[str, Any]) -> None:
    """Keep the rules of a folder's first trials where later versions changed them.

    Otherwise the folder could not be resumed: it would seem to hold another experiment.

    Args:
        prepared: the experiment, with its victims open.
        manifest: the folder's manifest.
    """
    _keep_readers(prepared, manifest["victims"])
    _keep_lexicon(prepared, manifest.get("groups", {}))


def _keep_lexicon(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Keep lexicons that selected words by their count, not by their frequency."""
    for i, group in enumerate(prepared.groups):
        stored = known.get(group.label)
        if stored is None or not isinstance(group, SentenceGroupPart):
            continue
        if stored.get("n_lexicon") and "lexicon" not in stored:
            built = sentence_resources(
                prepared.attacks, prepared.datasets, prepared.base, FIRST_EDITION_SENTENCES
            )
            old = replace(group, resources=built, lexicon=None)
            prepared.groups = [*prepared.groups[:i], old, *prepared.groups[i + 1 :]]


def _keep_readers(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Keep how victims read texts and break ties.

    In a folder that began before cut replies were recognised, replies are still read whole, and
    the last turns of conversations stay as short as they were. A parser that the experiment names
    is not replaced; it counts as a change.
    """
    for i, (table, victim) in enumerate(
        zip(prepared.experiment.victim, prepared.victims, strict=True)
    ):
        if victim.label not in known:
            continue
        stored, task = known[victim.label]["task"], victim.task
        if hasattr(task, "ties"):
            task = with_ties(task, ties_of(stored))
        first_parser = parser_of(stored)
        if first_parser is not None:  # tasks of sentences have no parser
            kept = {"parser": first_parser} if table.parser is None else {}
            task = reading_with(cast(Task, task), **kept, reading=reading_of(stored))
        prepared.victims[i] = replace(victim, task=task)


def keep_prompts(prepared: Prepared, known: Mapping[str, str]) -> None:
    """Let attacks of a folder keep the prompts of its first trials.

    Shipped prompt sets have changed since the first edition; they also fill in the files that a
    user's set lacks. If the folder holds an attack with the former prompts and not with the
    current ones, the former prompts are used.

    Args:
        prepared: the experiment.
        known: label -> hash of the attacks in the folder.
    """
    held = set(known.values())
    for i, part in enumerate(prepared.attacks):
        before = part.attack.as_it_was if isinstance(part.attack, MedFuzz) else None
        if before is None or content_hash(part.attack.spec()) in held:
            continue
        if content_hash(before.spec()) in held:
            prepared.attacks[i] = replace(part, attack=before)


def keep_labels(prepared: Prepared, known: Mapping[str, str]) -> None:
    """Let attacks with a default label keep the label that the folder gave them.

    A default label grows longer when another attack of the same name joins.
    """
    labels = {value: label for label, value in known.items()}
    taken = {part.label for part in prepared.attacks}
    renamed: dict[str, str] = {}
    for i, part in enumerate(prepared.attacks):
        old = labels.get(content_hash(part.attack.spec()))
        if old is not None and old not in taken and not part.is_labelled:
            prepared.attacks[i] = replace(part, label=old)
            renamed[part.label] = old
    # New control arms, and those left out, follow the label of their attack.
    for i, part in enumerate(prepared.attacks):
        if isinstance(part.attack, ControlArm):
            ending = f" / {part.attack.control.name}"
            of = part.label.removesuffix(ending)
            if of in renamed:
                prepared.attacks[i] = replace(part, label=f"{renamed[of]}{ending}")
    held = prepared.controls.left_out
    prepared.controls = replace(
        prepared.controls, left_out={renamed.get(of, of): each for of, each in held.items()}
    )
