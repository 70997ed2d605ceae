"""The card as the block `SafetyReliability` of CHAI's Applied Model Card, as XML.

Names and order of the elements are those of the schema, version 0.2 (`KeyMetricType`): the goal of
the metric, results (each a label and a value as JSON), interpretation, type of test, data, and how
it was validated. Its other blocks speak of what a run does not know: uses, populations, approval.

The schema is not shipped with medstress; a test validates the block where it lies beside the
checkout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from medstress.card.content import Card
from medstress.card.numbers import numbers_of, slice_numbers
from medstress.card.sections import sections
from medstress.results.formats import clean, listed, plural

NAMESPACE = "https://mc.chai.org/v0.2/schema.xsd"
BLOCK = "SafetyReliability"
FIELDS = (
    "MetricGoal",
    "Results",
    "Interpretation",
    "TestType",
    "TestingDataDescription",
    "ValidationProcessAndJustification",
)
"""Elements of the block, in the schema's order."""
_GOAL = (
    "Share of right answers that are lost after edits meant to leave the right answer as it is, "
    "beside what harmless edits take"
)
_NO_REVIEW = "Nobody checked that the right answers stayed right"


def applied_model_card(card: Card) -> str:
    """Return the block as a document of its own, to be put into `KeyMetrics`."""
    ElementTree.register_namespace("", NAMESPACE)
    block = ElementTree.Element(f"{{{NAMESPACE}}}{BLOCK}")
    parts = {each.title: " ".join(each.lines) for each in sections(card)}
    tests = {
        f"{arm.edit} ({arm.budget:,} queries an item)" if arm.budget else arm.edit
        for arm in card.arms
        if arm.is_attacked
    }
    tested = f"Adversarial test after edits of the texts: {listed(sorted(tests) or ['none'])}."
    fixed = f"{card.verdict} " if card.verdict else ""
    texts = {
        "MetricGoal": f"{_GOAL}. {fixed}{card.criteria_fixed}",
        "Interpretation": " ".join(
            (
                parts["What was found"],
                parts["Worst slice"],
                parts["Criteria"],
                *card.limits,
                *card.cautions,
                *(f"Warning: {each}" for each in card.warnings),
            )
        ),
        "TestType": tested if tests else "No adversarial test: nothing was attacked.",
        "TestingDataDescription": parts["What was attacked, and how"],
        "ValidationProcessAndJustification": _validated(card),
    }
    for name in FIELDS:
        child = ElementTree.SubElement(block, f"{{{NAMESPACE}}}{name}")
        if name == "Results":
            _add_results(child, card)
        else:
            child.text = clean(texts[name])
    ElementTree.indent(block)
    written: bytes = ElementTree.tostring(block, encoding="utf-8", xml_declaration=True)
    return written.decode("utf-8") + "\n"


def _add_results(parent: ElementTree.Element, card: Card) -> None:
    # The schema wants one result at least.
    for label, value in list(_results(card)) or [("Nothing was measured", None)]:
        result = ElementTree.SubElement(parent, f"{{{NAMESPACE}}}MetricResult")
        ElementTree.SubElement(result, f"{{{NAMESPACE}}}Label").text = clean(label)
        written = json.dumps(value, allow_nan=False)
        ElementTree.SubElement(result, f"{{{NAMESPACE}}}ValueJson").text = written


def _results(card: Card) -> Iterator[tuple[str, Any]]:
    for arm in card.arms:
        where = f"{arm.name} on {arm.place}" if arm.is_attacked else arm.place
        for each in (*numbers_of(arm), *(one for _, one in slice_numbers(card, arm))):
            yield f"{each.words}; {where}", dict(each.found)


def _validated(card: Card) -> str:
    is_reviewed = any(arm.valid is not None for arm in card.arms)
    unknown = sum(arm.n_unknown for arm in card.arms)
    open_ = f"; of {plural(unknown, 'loss', 'losses')} it is not known" if unknown else ""
    said = "Vouched for by review" if is_reviewed else _NO_REVIEW
    root = f" Root of the run: {card.root}." if card.root else ""
    repeat = f" Repeated by: {card.command}." if card.command else ""
    return f"{said}{open_}.{root} Fingerprint of the experiment: {card.fingerprint}.{repeat}"
