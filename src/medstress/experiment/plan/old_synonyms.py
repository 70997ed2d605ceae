"""Keep the related names of folders of the first edition: the nearest name of every mention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from medstress.attacks.noise import NonEntityNoise, Synonym
from medstress.attacks.noise.synonym import FIRST_EDITION
from medstress.experiment.file.config import AttackTable
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.sentence_groups import SentenceGroupPart, sentence_resources


def keep_synonyms(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Let synonyms of a folder, and their controls, put in the names of its first trials.

    An attack whose table has the key `names` is not replaced; it counts as a change.

    Args:
        prepared: the experiment.
        known: `attacks` of the folder's manifest.
    """
    tables = dict(_old_tables(prepared, known))
    if not tables:
        return
    for i, part in enumerate(prepared.attacks):
        attack: Any = part.attack
        if part.label in tables:
            attack = replace(attack, names=FIRST_EDITION, embedding=tables[part.label])
        elif isinstance(attack, NonEntityNoise) and "of" in known.get(part.label, {}):
            attack = replace(attack, of={**known[part.label]["of"], "names": FIRST_EDITION})
        prepared.attacks[i] = replace(part, attack=attack)
    built = sentence_resources(prepared.attacks, prepared.datasets, prepared.base)
    prepared.groups = [
        replace(group, resources=built) if isinstance(group, SentenceGroupPart) else group
        for group in prepared.groups
    ]


def old_settings(prepared: Prepared, known: Mapping[str, Any]) -> list[str]:
    """Return the settings of `keep_synonyms` as overrides, to prepare the experiment anew."""
    parts = {part.label: part for part in prepared.attacks}
    return [
        f"attack.{label if parts[label].is_labelled else Synonym.name}.{key}={value!r}"
        for label, embedding in _old_tables(prepared, known)
        for key, value in (("names", FIRST_EDITION), ("embedding", embedding))
    ]


def _old_tables(prepared: Prepared, known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, embedding) of the attacks that began with the first edition's names."""
    tables = [t for t in prepared.experiment.attack if t.name == Synonym.name and t.use]
    if any("names" in table.parameters for table in tables):
        return
    for part in prepared.attacks:
        stored = known.get(part.label, {})
        if (
            isinstance(part.attack, Synonym)
            and part.attack.mode == stored.get("mode") == "related"
            and "names" not in stored
            and _embeds_alike(tables, part.label, stored["embedding"])
        ):
            yield part.label, stored["embedding"]


def _embeds_alike(tables: list[AttackTable], label: str, embedding: str) -> bool:
    """True if no table of that attack names another embedding."""
    given = {t.parameters.get("embedding", embedding) for t in tables if t.label in (None, label)}
    return given == {embedding}
