"""What an attack did to an item, as a clause: "after one wrong option was renamed"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.results.names import attack_words

_CLAUSES = {
    "none": "nothing was attacked",
    "discrete_zoo": "one name was replaced by a searched one",
    "medfuzz": "the vignette was reworded",
    "attacked": "stored edits were made",
    "lasa": "a name was replaced by one that looks or sounds alike",
    "swap_noise": "letters were swapped",
    "keyboard_noise": "letters were mistyped",
    "ocr_noise": "letters were misread as a scanner does",
    "case_noise": "upper and lower case were changed",
    "hyphen_noise": "hyphens and spaces were changed",
    "synonym": "names were replaced by synonyms",
    "abbreviation": "names were abbreviated or spelt out",
    "non_entity_noise": "words outside the entities were changed",
    "no_op": "only white space, punctuation or letter case moved",
    "same_type": "random names of the type were put in",
    "neutral_insertion": "sentences that do not matter were put in",
    "paraphrase": "the question was put in other words",
    "option_shuffle": "the options were put in another order",
    "repeat": "the same prompt was asked again",
    "passage_swap": "a name in the passage was exchanged",
    "passage_distractor": "a distracting sentence was put into the passage",
    "passage_other": "the passage was replaced by another",
    "passage_none": "the passage was left out",
}


def edit_clause(spec: Mapping[str, Any]) -> str:
    """Return what an attack does, as a clause in the past tense.

    >>> edit_clause({"name": "entity_substitution"})
    'one wrong option was renamed'
    >>> edit_clause({"name": "entity_substitution", "field": "passage"})
    'a name in the passage was replaced'
    >>> edit_clause({"name": "of a plug-in", "search": "greedy"})
    'an attack by of a plug-in, searched'
    """
    name = str(spec.get("name"))
    if name == "entity_substitution":
        field = spec.get("field", "options")
        renamed = "one wrong option was renamed"
        return renamed if field == "options" else f"a name in the {field} was replaced"
    return _CLAUSES.get(name) or f"an attack by {attack_words(spec)}"
