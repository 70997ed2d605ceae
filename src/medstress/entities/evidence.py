"""What the shipped tables and hierarchies, and the user's, say of a name beside the key.

It is kept with every success for the people who judge it. What refutes a name is decided by the
rules alone (`medstress.entities.name_rules`); everything else settles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from medstress.core.evidence import Evidence, of_reason
from medstress.core.items import Question
from medstress.entities.name_rules import NameRules, option_texts
from medstress.entities.names import normalise
from medstress.entities.ontologies import TITLES, OntologyName, parent_headings
from medstress.entities.recognisers.gazetteer import is_initials
from medstress.entities.synonyms import SynonymGroups
from medstress.entities.tables import shipped_rows

_EXCEPTION = re.compile(r"\b(?:not|except|least|incorrect|false|contraindicated)\b", re.IGNORECASE)
"""Words of questions that ask for the exception, where several options fit what is described."""
SHIPPED = "shipped synonyms"
_KINDS = {"brand": "brand", "common": "generic", "preferred": "generic"}


def evidence_of(
    item: Question, name: str, rules: NameRules, synonyms: SynonymGroups
) -> tuple[Evidence, ...]:
    """Return what is known of a name beside the key, what refutes it first.

    Args:
        item: the question.
        name: the name that replaces an entity of a wrong option.
        rules: the rules of the attack.
        synonyms: the user's synonyms, or the shipped ones.
    """
    return tuple(dict.fromkeys(_pieces(item, name, rules, synonyms)))


def _pieces(
    item: Question, name: str, rules: NameRules, synonyms: SynonymGroups
) -> Iterator[Evidence]:
    objection = rules.objection(item, name)
    references = option_texts(item, item.key)
    kinds = [kind for text in references if (kind := drug_relation(text, name)) is not None]
    if objection == "synonym":
        kind = kinds[0] if kinds else "synonym"
        source = SHIPPED if synonyms.label == "default" else Path(synonyms.label).name
        yield Evidence(kind=kind, source=source, valid=False)
    else:
        yield from of_reason(objection, False if objection else None)
        yield from (Evidence(kind=kind, source=SHIPPED) for kind in kinds)
    for text in references:
        if is_initials(normalise(name), text) or is_initials(normalise(text), name):
            yield Evidence(kind="abbreviation", source="initials")
        for title in TITLES:
            relation = disease_relation(text, name, title, synonyms)
            if relation is not None:
                yield Evidence(kind=relation, source=TITLES[title])
    if found := _EXCEPTION.search(item.stem):
        yield Evidence(kind="exception_asked", source=f"the question says {found[0].lower()!r}")


def drug_relation(key: str, name: str) -> str | None:
    """Return what a name is to the key in the shipped drug table, None unless of one concept.

    >>> drug_relation("salmeterol", "serevent"), drug_relation("salmeterol", "salmeterol xinafoate")
    ('brand', 'salt')
    >>> drug_relation("serevent", "salmeterol"), drug_relation("serevent", "placidyl")
    ('generic', None)
    """
    first, second = normalise(key), normalise(name)
    ours, theirs = _drugs().get(first, {}), _drugs().get(second, {})
    shared = sorted(ours.keys() & theirs.keys())
    if not shared or first == second:
        return None
    short, long = sorted((first, second), key=len)
    if long.startswith(f"{short} "):
        return "salt"
    return _KINDS.get(theirs[shared[0]], "synonym")


@cache
def _drugs() -> dict[str, dict[str, str]]:
    """Return normalised name -> concept -> its kind there."""
    found: dict[str, dict[str, str]] = {}
    for concept, name, kind, _ in shipped_rows("drugs"):
        found.setdefault(normalise(name), {})[concept] = kind
    return found


def disease_relation(
    key: str, name: str, title: OntologyName, synonyms: SynonymGroups
) -> str | None:
    """Return what a name is to the key in a shipped hierarchy of diseases; None if nothing near.

    Names are looked up among the shipped synonyms; with the user's, nothing is found.

    >>> from medstress.entities.synonyms import load_synonyms
    >>> disease_relation("asthma", "status asthmaticus", "mesh", load_synonyms("default", Path()))
    'child'
    """
    nodes, parents = _hierarchy(title)
    ours, theirs = (
        {nodes[concept] for concept in synonyms.concepts_of(text) if concept in nodes}
        for text in (key, name)
    )
    above, below = (
        {parent for node in places for parent in parents.get(node, ())} for places in (ours, theirs)
    )
    if ours & theirs:
        return "same_concept"
    if above & theirs:
        return "parent"
    if below & ours:
        return "child"
    return "sibling" if above & below else None


@cache
def _hierarchy(title: OntologyName) -> tuple[dict[str, str], Mapping[str, Iterable[str]]]:
    """Return concept of the shipped disease table -> node, and node -> its parents.

    `load_ontology` holds the same as a graph with every name, which takes a second to build; a run
    has the names already, in its synonyms.
    """
    rows = list(shipped_rows(title))
    if title == "mesh":
        return {f"diseases:{heading}": heading for heading, _ in rows}, parent_headings(rows)
    nodes = {
        f"diseases:{f'MONDO:{node}' if same == '=' else same}": node for node, _, same, *_ in rows
    }
    return nodes, {node: above.split() for node, above, *_ in rows}
