"""Asking what every insertion does to the answers, and whether the reasonings say so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.calls import Decoding, Generate, Generated, Message
from medstress.experiment.significance.mentions import JUDGE
from medstress.experiment.significance.plan import Tools, study_of
from medstress.items import Candidate, Question
from medstress.metrics.causal_effects import answer_shares
from medstress.metrics.counts import is_eligible
from medstress.metrics.faithfulness import mentions
from medstress.outcomes import Prediction
from medstress.prompts import PromptSet
from medstress.prompts.replies import Letter, Unreadable, read_reply, schema_of
from medstress.queries import Consult
from medstress.rows import TrialRow
from medstress.scheduler.need import Purpose
from medstress.scheduler.study import Converse, Look, Study, Studying
from medstress.text import Edit

FIRST_SAMPLE = 4_000_000
"""Sample indices of these votes, apart from those of gates and mentions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edited:
    """The edit of one trial that is measured."""

    row: TrialRow
    """The trial."""
    edits: tuple[Edit, ...]
    """What was inserted."""
    places: tuple[int, ...]
    """Which of the edits insert words."""


def slope_studies(rows: Sequence[TrialRow], tools: Tools, n_samples: int) -> list[Study]:
    """One study a trial: of the edit that succeeded, else of the last that the victim saw."""
    return [_study(one, tools, n_samples) for one in _measured(rows, tools)]


def slope_cost(rows: Sequence[TrialRow], tools: Tools, n_samples: int) -> str:
    """What the studies ask at most, as a sentence."""
    found = _measured(rows, tools)
    n_clauses = sum(len(one.places) for one in found)
    told = (
        f"faithfulness slope: {n_clauses} insertions of {len(found)} trials, at most "
        f"{(n_clauses + len(found)) * n_samples:,} conversations with the victims"
    )
    if JUDGE in tools.roles:
        return f"{told} and {n_clauses * n_samples:,} calls to the judge"
    return f"{told}; no judge: shared words tell what a reasoning says"


def _measured(rows: Sequence[TrialRow], tools: Tools) -> list[_Edited]:
    found = (_edited(row) for row in rows if row.attack in tools.attacks and is_eligible(row))
    return [one for one in found if one is not None]


def _edited(row: TrialRow) -> _Edited | None:
    edits: dict[int, list[list[Any]]] = {}
    seen: list[int] = []
    for entry in json.loads(row.attempts or "[]"):
        attempt = entry.get("attempt")
        if attempt and "edits" in entry:
            edits[attempt] = entry["edits"]
        if attempt and entry.get("rationale") and edits.get(attempt):
            seen.append(attempt)
    if not seen:
        return None
    chosen = row.first_success_attempt if row.first_success_attempt in seen else seen[-1]
    assert chosen is not None
    held = tuple(
        Edit(field=field, start=start, end=end, replacement=text)
        for field, start, end, text in edits[chosen]
    )
    places = tuple(i for i, edit in enumerate(held) if _words(edit))
    return _Edited(row=row, edits=held, places=places) if places else None


def _words(edit: Edit) -> str:
    return edit.replacement.strip(" ,.;")


def _study(one: _Edited, tools: Tools, n_samples: int) -> Study:
    row = one.row
    item, attack = tools.items[row.dataset, row.item_id], tools.attacks[row.attack]
    decoding = tools.roles.get(JUDGE)
    told = {
        "trial": row.trial_id,
        "edits": [[e.field, e.start, e.end, e.replacement] for e in one.edits],
        "samples": n_samples,
        "prompts": attack.prompts.hash,
        "judged": decoding is not None,
    }
    return study_of(
        row,
        tools,
        Purpose.SLOPE,
        told,
        lambda: _effects(item, one, n_samples, attack.prompts, decoding),
    )


def _effects(
    item: Question, one: _Edited, n: int, prompts: PromptSet, decoding: Decoding | None
) -> Studying:
    """Sample the whole edit and the edit without each clause; vote on its reasonings.

    The samples of the whole edit are those of the significance test, as far as both go.
    """
    variants = [one.edits, *(one.edits[:i] + one.edits[i + 1 :] for i in one.places)]
    candidates = [Candidate(item=item, edits=edits) for edits in variants]
    replies = yield Look(tuple(Converse(each, j) for each in candidates for j in range(n)))
    told = [reply for reply in replies if isinstance(reply, Prediction)]
    groups = [told[i * n : (i + 1) * n] for i in range(len(candidates))]
    rationales = [reply.rationale for reply in groups[0] if reply.rationale]
    known = " ".join([item.question, *item.options])
    clauses = [_words(one.edits[i]) for i in one.places]
    said: list[list[bool]] = []
    for clause in clauses:
        if decoding is None or not rationales:
            said.append([mentions(text, clause, known) for text in rationales])
        else:
            said.append((yield from _voted(rationales, clause, item, prompts, decoding)))
    return {
        "clauses": clauses,
        "shares": [answer_shares(group, item.letters) for group in groups],
        "said": said,
    }


def _voted(
    rationales: Sequence[str],
    clause: str,
    item: Question,
    prompts: PromptSet,
    decoding: Decoding,
) -> Any:
    """One vote a reasoning: the share over many reasonings averages what a panel would."""
    calls = tuple(
        Generate(
            (Message("user", prompts.render("judge_mention", rationale=text, clause=clause)),),
            decoding,
            schema=schema_of(Letter, item.letters),
        )
        for text in rationales
    )
    answers = yield Consult(JUDGE, calls, FIRST_SAMPLE if decoding.temperature > 0 else 0)
    replies = [read_reply(a.text, Letter) for a in answers if isinstance(a, Generated)]
    words = [r.answer.strip().upper() for r in replies if not isinstance(r, Unreadable)]
    return [word == "YES" for word in words if word in ("YES", "NO")]
