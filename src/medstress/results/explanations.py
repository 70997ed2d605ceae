"""The explanations that a run stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from medstress.core.rows import TrialRow
from medstress.files.frames import Types
from medstress.metrics.explanations import Explained, Side
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows

PURPOSE = "explain"
COLUMNS: Types = {
    **dict.fromkeys(("trial_id", "dataset", "item_id", "victim", "attack"), str),
    **{"seed": int, "verdict": str, "regime": str, "side": str, "position": int, "token": str},
    **{"place": str, "edited": bool, "key": str, "answer": str},
    **{"value_key": float, "value_answer": float, "values": None},
    **{"value": str, "units": str, "mask": str, "base_key": float, "full_key": float},
    **{"evaluations": int, "gap": float},
}
"""The columns of `explanation_records`."""


def explained_trials(run: StoredRun) -> list[Explained]:
    """Return the explanations, in the order of trials; of each trial one with each mask.

    It is the one with the most evaluations, and the last of those.

    The result is kept with the open run: do not change it.
    """
    return run.once(_explained_trials)


def unexplained(run: StoredRun) -> dict[str, str]:
    """Return trial id -> why its explanation failed, for trials without one."""
    notes: dict[str, str] = {}
    for one in run.inquiries():
        if one.purpose == PURPOSE:
            notes.pop(one.spec["trial"], None)
            if one.note is not None:
                notes[one.spec["trial"]] = one.note
    for explained in explained_trials(run):
        notes.pop(explained.trial.trial_id, None)
    return notes


def _explained_trials(run: StoredRun) -> list[Explained]:
    found: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}
    for one in run.inquiries():
        if one.purpose != PURPOSE or not one.findings:
            continue
        by_mask = found.setdefault(one.spec["trial"], {})
        known = by_mask.get(one.spec["mask"])
        if known is None or known[0]["evaluations"] <= one.spec["evaluations"]:
            by_mask[one.spec["mask"]] = (one.spec, one.findings)
    if not found:
        return []
    return [
        _explained(row, *each)
        for row in trial_rows(run)
        for each in found.get(row.trial_id, {}).values()
    ]


def _explained(row: TrialRow, spec: dict[str, Any], found: dict[str, Any]) -> Explained:
    return Explained(
        trial=row,
        outputs=tuple(found["outputs"]),
        key=found["key"],
        value=found["value"],
        units=found["units"],
        mask=spec["mask"],
        before=_side(found["before"]),
        after=_side(found["after"]),
    )


def _side(found: dict[str, Any]) -> Side:
    return Side(
        answer=found["answer"],
        tokens=tuple(found["tokens"]),
        segments=tuple((place, edited, n) for place, edited, n in found["segments"]),
        values=np.array(found["values"], dtype=np.float64),
        base=np.array(found["base"], dtype=np.float64),
        full=np.array(found["full"], dtype=np.float64),
        evaluations=found["evaluations"],
        gap=found["gap"],
    )


def explanation_records(run: StoredRun) -> Iterator[dict[str, Any]]:
    """Yield the tokens of all explained prompts."""
    for one in explained_trials(run):
        trial = one.trial
        for name, side in (("before", one.before), ("after", one.after)):
            answer = one.of(side, side.answer)
            key = one.of(side, one.key)
            assert key is not None
            for i, token in enumerate(side.tokens):
                yield {
                    "trial_id": trial.trial_id,
                    "dataset": trial.dataset,
                    "item_id": trial.item_id,
                    "victim": trial.victim,
                    "attack": trial.attack,
                    "seed": trial.seed,
                    "verdict": trial.verdict.value,
                    "regime": one.regime,
                    "side": name,
                    "position": i,
                    "token": token,
                    "place": side.places[i],
                    "edited": bool(side.edited[i]),
                    "key": one.key,
                    "answer": side.answer,
                    "value_key": float(key[i]),
                    "value_answer": None if answer is None else float(answer[i]),
                    "values": dict(zip(one.outputs, side.values[i].tolist(), strict=True)),
                    "value": one.value,
                    "units": one.units,
                    "mask": one.mask,
                    "base_key": float(side.base[one.outputs.index(one.key)]),
                    "full_key": float(side.full[one.outputs.index(one.key)]),
                    "evaluations": side.evaluations,
                    "gap": side.gap,
                }
