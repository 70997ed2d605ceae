"""What the tables and the wording say of a name beside the key and the other options.

It is kept with every success for the people who judge it. What refutes a name is decided by the
rules alone (`medstress.entities.name_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from medstress.core.evidence import Evidence, of_reason
from medstress.core.items import Question
from medstress.core.validity import VARIANT_CLASSES
from medstress.entities.name_rules import EQUAL, NameRules, option_texts
from medstress.entities.names import SYNONYM, normalise
from medstress.entities.relations import WORDING, Relation, Relations, settled

_EXCEPTION = re.compile(r"\b(?:not|except|least|incorrect|false|contraindicated)\b", re.IGNORECASE)
"""Words of questions that ask for the exception, where several options fit what is described."""


def option_evidence(
    item: Question, name: str, field: str, rules: NameRules, relations: Relations
) -> tuple[Evidence, ...]:
    """Return what is known of a name that replaces an entity of a wrong option.

    First what refutes it by the rules, then the tables: against the key, against entities within
    the key, and against the options that stay.

    Args:
        item: the question.
        name: the name.
        field: letter of the option that it is put in.
        rules: the rules of the attack.
        relations: the shipped tables, and the user's synonyms.
    """
    return tuple(dict.fromkeys(_pieces(item, name, field, rules, relations)))


def _pieces(
    item: Question, name: str, field: str, rules: NameRules, relations: Relations
) -> Iterator[Evidence]:
    objection = rules.objection(item, name)
    is_synonym = objection == VARIANT_CLASSES[SYNONYM]
    key, *parts = option_texts(item, item.key)
    found = [each.as_evidence() for each in _of_tables(relations, key, name)]
    for part in parts:
        # Another name of a part of the key need not be right where the whole key is.
        if normalise(part) != normalise(key):
            same = (each for each in _of_tables(relations, part, name) if each.value == "same")
            found += (replace(e.as_evidence(), valid=False if is_synonym else None) for e in same)
    # A table that knows a synonym says so itself.
    if not (is_synonym and any(each.valid is False for each in found)):
        yield from of_reason(objection, False if objection else None)
    yield from found
    for letter in item.letters:
        if letter in (item.key, field) or objection == EQUAL:
            continue
        against = relations.between(item.option(letter), name)
        if settled(against):
            yield replace(against[0].as_evidence(), kind="duplicate_of_option")
    if asked := _EXCEPTION.search(item.stem):
        yield Evidence(kind="exception_asked", source=f"the question says {asked[0].lower()!r}")


def _of_tables(relations: Relations, key: str, name: str) -> Iterator[Relation]:
    """Return what tables say; what the words alone say is the rules' part."""
    return (each for each in relations.between(key, name) if each.source != WORDING)
