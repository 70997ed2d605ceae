"""Records: what the code of a case stands for, as it is stored with a room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from medstress.core.text import edit_rows
from medstress.report.review.blinding import code
from medstress.report.review.sample import Drawable
from medstress.store.reviews import ATTACKED, CLEAN

Record: TypeAlias = Mapping[str, Any]
"""Fields: id, trials, dataset, item, unit, edits, hidden; of planted controls also control,
control_of, at and name; of items to answer also shown and pair."""


def record_of(key: bytes, one: Drawable) -> dict[str, Any]:
    """Return what a case of one trial stands for."""
    edits = edit_rows(one.edits)
    # What is not hidden has no place in the code, so that codes of earlier rooms hold.
    hidden = ["passage"] if one.hides_passage else []
    return {
        "id": code(key, "case", one.dataset, one.item_id, one.unit, edits, *hidden),
        "trials": [one.trial_id],
        "dataset": one.dataset,
        "item": one.item_id,
        "unit": one.unit,
        "edits": edits,
        "hidden": hidden,
    }


def judge_records(key: bytes, drawn: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Return one record for each text: trials that showed the same are judged together."""
    records: dict[str, dict[str, Any]] = {}
    for one in drawn:
        record = record_of(key, one)
        known = records.setdefault(record["id"], record)
        if known is not record:
            known["trials"].append(one.trial_id)
    return list(records.values())


def answer_records(key: bytes, drawn: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Return two records for each item, of which a rater sees one."""
    records = []
    for one in drawn:
        record = record_of(key, one)
        pair = code(key, "pair", record["id"])
        for version, edits in ((CLEAN, []), (ATTACKED, record["edits"])):
            name = code(key, version, record["id"])
            records.append({**record, "id": name, "edits": edits, "shown": version, "pair": pair})
    return records


def pairs_of(records: Sequence[Record]) -> list[list[str]]:
    """Return the two codes of each item: a rater sees all the first ones, or all the second ones.

    In half of the pairs, by their codes, the clean one is first: so each rater sees as many clean
    items as attacked ones, and the next rater sees the others.
    """
    of_pair: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        of_pair[record["pair"]][record["shown"]] = record["id"]
    found = []
    for at, pair in enumerate(sorted(of_pair)):
        both = of_pair[pair]
        clean_first = at < len(of_pair) / 2
        found.append(
            [both[CLEAN], both[ATTACKED]] if clean_first else [both[ATTACKED], both[CLEAN]]
        )
    # In the order of the first codes, which does not tell the halves apart.
    return sorted(found)
