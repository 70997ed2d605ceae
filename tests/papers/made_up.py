"""Runs that never were: trials whose outcomes are given, and the summary of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from medstress.core.items import Mention, Question
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.summary import LEDGER_FIELDS, summarise

VICTIM = {
    "name": "mine",
    "backend": "python",
    "parameters": 2e9,
    "group": "generalist",
}
NAMES = ("warfarin", "heparin", "colchicine", "sotalol")

Outcome = Callable[[int, Mapping[str, Any]], int | None]
"""(number of the item, attack) -> query of the first success, or None."""


def substitution(sampler: str, n: float | None = None, budget: int = 1, **keys: Any) -> Any:
    spec = {"name": "entity_substitution", "sampler": sampler, "n": n, "budget": budget}
    return {**spec, **keys}


class MadeUp:
    """A small run: what `make_all` is handed."""

    def __init__(
        self,
        attacks: Mapping[str, Mapping[str, Any]],
        outcome: Outcome,
        *,
        n_items: int = 40,
        wrong: int = 8,
        victims: Sequence[Mapping[str, Any]] = (VICTIM,),
        datasets: Sequence[str] = ("sample",),
        groups: Sequence[tuple[str, str, str]] = (("drugs", "drugs", "ngram"),),
        seeds: Sequence[int | None] = (0,),
        valid: Callable[[int], bool] = lambda i: True,
        complete: bool = True,
    ) -> None:
        self.trials = [
            self._trial(
                place, label, spec, i, seed, None if i < wrong else outcome(i, spec), wrong, valid
            )
            for place in (
                (dataset, group[0], victim["name"])
                for dataset in datasets
                for group in groups
                for victim in victims
            )
            for label, spec in attacks.items()
            for seed in seeds
            for i in range(n_items)
        ]
        self.items = {
            (dataset, f"q{i}"): question(i) for dataset in datasets for i in range(n_items)
        }
        self.manifest = {
            "config": {
                "experiment": {"controls": False, "name": "made-up"},
                "dataset": [{"name": name} for name in datasets],
                "entities": [{"name": g[0], "type": g[1], "embedding": g[2]} for g in groups],
                "victim": [dict(victim) for victim in victims],
            },
            "datasets": {name: {} for name in datasets},
            "groups": {g[0]: {"embedding": g[2]} for g in groups},
            "victims": {victim["name"]: {} for victim in victims},
        }
        keys = {(t.dataset, t.group, t.victim, t.attack, t.seed) for t in self.trials}
        ledgers = {key: dict.fromkeys(LEDGER_FIELDS, 0) for key in keys}
        for t in self.trials:
            ledger = ledgers[t.dataset, t.group, t.victim, t.attack, t.seed]
            ledger["asked"] += t.n_asked
            ledger["paid"] += t.n_paid
        budgets = {label: spec["budget"] for label, spec in attacks.items()}
        experiment = {"name": "made-up", "complete": complete}
        self.summary = summarise(self.trials, experiment, ledgers, {}, budgets)

    @staticmethod
    def _trial(
        place: tuple[str, str, str],
        label: str,
        spec: Mapping[str, Any],
        i: int,
        seed: int | None,
        first: int | None,
        wrong: int,
        valid: Callable[[int], bool],
    ) -> TrialRow:
        verdict = Verdict.HELD if first is None else Verdict.FLIPPED
        if i < wrong:
            verdict = Verdict.ALREADY_WRONG
        asked = 0 if i < wrong else (first or spec["budget"])
        is_valid = valid(i)
        values: dict[str, Any] = {
            **dict.fromkeys((field.name for field in fields(TrialRow)), None),
            "trial_id": json.dumps([*place, label, i, seed]),
            "run": "made-up",
            "dataset": place[0],
            "group": place[1],
            "victim": place[2],
            "item_id": f"q{i}",
            "item_hash": f"hash-{i}",
            "unit": "item",
            "attack": label,
            "attack_spec": json.dumps(spec),
            "arm": "attack",
            "seed": seed,
            "repeat": 0,
            "verdict": verdict,
            "n_options": 4,
            "key": "ABCD"[i % 4],
            "answer_before": "ABCD"[i % 4] if i >= wrong else "ABCD"[(i + 1) % 4],
            "answer_after": "ABCD"[(i + 1) % 4],
            "n_asked": asked,
            "n_paid": asked,
            "n_cached": 0,
            "n_failed": 0,
            "n_unreadable": 0,
            "first_success": first,
            "first_unrefuted_success": first if is_valid else None,
            "edits": "[]",
            "censored": False,
        }
        if first is not None:
            name = NAMES[i % len(NAMES)]
            letter = "ABCD"[(i + 1) % 4]
            values |= {
                "option": letter,
                "replaced": "aspirin",
                "replacement": name,
                "edits": json.dumps([[letter, 5, 12, name]]),
                "variant_class": "different" if is_valid else "key_plus_words",
                "valid": None if is_valid else False,
                "validity_reason": "rule" if is_valid else "key_plus_words",
                "score_before": 0.9,
                "score_after": 0.2,
            }
        return TrialRow(**values)


def question(i: int) -> Question:
    """Every option is `Take aspirin <letter>`."""
    options = tuple(f"Take aspirin {letter}" for letter in "ABCD")
    return Question(
        id=f"q{i}",
        context="A man of 54 & his <wife>_1.",
        stem="Which drug?",
        options=options,
        key="ABCD"[i % 4],
        mentions=tuple(Mention(field=x, start=5, end=12, type="T121") for x in "ABCD"),
    )
