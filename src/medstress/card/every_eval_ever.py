"""The card as a record of Every Eval Ever: results of evaluations in one shape, as JSON.

Field names are those of `eval.schema.json`, version 0.3.0 (EvalEval Coalition, MIT licence). The
schema is not shipped with medstress; a test validates records where it lies beside the checkout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from medstress.card.content import Arm, Card
from medstress.card.numbers import Number, numbers_of, slice_numbers

SCHEMA_VERSION = "0.3.0"
_NOT_STATED = "not stated"
_LOCAL = ("transformers", "llama_cpp", "sentence_transformers")
"""Back ends that hold the model themselves."""


def every_eval_ever(card: Card) -> str:
    """Return one record with the accuracy before and after, the loss and its controls.

    *Differs from the schema's words*: `retrieved_timestamp` is when the run ended (or began), not
    when the record was made, so that the same card is the same bytes.
    """
    model = card.model
    when = card.finished or card.started
    epoch = str(datetime.fromisoformat(when).timestamp()) if when else "0"
    known = {key: str(value) for key, value in model.items() if key != "name"}
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"medstress {card.run}/{card.victim}/{epoch}",
        **({"evaluation_timestamp": when} if when else {}),
        "retrieved_timestamp": epoch,
        "source_metadata": {
            "source_name": "medstress",
            "source_type": "evaluation_run",
            # Who ran it, and how they stand to the model, no run folder knows.
            "source_organization_name": _NOT_STATED,
            "evaluator_relationship": "other",
            "additional_details": _texts(
                {
                    "state": card.state,
                    "root": card.root,
                    "root_note": card.root_note,
                    "fingerprint": card.fingerprint,
                    "found": " ".join(card.sentences),
                    "criteria": " ".join(filter(None, (card.verdict, card.criteria_fixed))),
                    "limits": " ".join((*card.limits, *card.cautions)),
                    "warnings": " ".join(card.warnings) or None,
                }
            ),
        },
        "eval_library": {"name": "medstress", "version": card.medstress or "unknown"},
        "model_info": {
            "name": card.victim,
            "id": str(model.get("name", card.victim)),
            # Whose machine a server or a function stands for, no run folder knows.
            "additional_details": {
                "deployment_type": "self_deployed" if known.get("backend") in _LOCAL else "unknown",
                "model_availability": "unknown",
                **known,
            },
        },
        "evaluation_results": [each for arm in card.arms for each in _results(card, arm)],
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _results(card: Card, arm: Arm) -> Iterator[dict[str, Any]]:
    for each in numbers_of(arm):
        yield _result(card, arm, each)
    for part, each in slice_numbers(card, arm):
        yield _result(card, arm, each, part)


def _result(card: Card, arm: Arm, number: Number, part: str | None = None) -> dict[str, Any]:
    hashes = {each["label"]: each["hash"] for each in card.data}
    found = number.found
    interval = {
        "lower": found["low"],
        "upper": found["high"],
        "confidence_level": 0.95,
        "method": found["method"],
    }
    has_interval = found["low"] is not None and found["high"] is not None
    attacked = {
        "budget": arm.budget,
        "control": arm.control,
        "unknown_validity": arm.n_unknown,
    }
    where = (arm.dataset, arm.group, arm.attack, number.name)
    return {
        "evaluation_result_id": "/".join((*where, part) if part else where),
        "evaluation_name": f"{arm.dataset}, {arm.group}: {arm.attack}",
        "source_data": {
            "dataset_name": arm.dataset,
            "source_type": "other",
            "additional_details": _texts(
                {
                    "hash": hashes.get(arm.dataset),
                    "group": arm.group,
                    "n_items": arm.n_items,
                    "slice": part,
                }
            ),
        },
        "metric_config": {
            "evaluation_description": number.words,
            "metric_id": f"medstress.{number.name}",
            "metric_name": number.name,
            **({"metric_parameters": attacked} if number.is_edited else {}),
            "lower_is_better": number.is_loss,
            "score_type": "continuous",
            "min_score": number.least,
            "max_score": 2 if number.name.endswith("_drop") else 1,
        },
        "score_details": {
            "score": found["value"],
            "uncertainty": {
                **({"confidence_interval": interval} if has_interval else {}),
                "num_samples": found["n"],
            },
        },
        "generation_config": {
            "additional_details": _texts({"command": card.command, "kind": card.kind})
        },
    }


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return what is known as texts, which the schema wants."""
    return {key: str(value) for key, value in values.items() if value is not None}
