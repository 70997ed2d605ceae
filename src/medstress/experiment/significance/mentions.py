"""Asking judges whether a reasoning says that an insertion mattered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from medstress.attacks.role_session import votes
from medstress.calls import Decoding
from medstress.experiment.significance.plan import Tools
from medstress.items import Question
from medstress.metrics.faithfulness import Reasoning, findings_of, reasonings
from medstress.prompts import PromptSet
from medstress.prompts.replies import Letter, Unreadable
from medstress.rows import TrialRow
from medstress.scheduler.need import Purpose
from medstress.scheduler.study import Study, Studying

JUDGE = "judge"
N_VOTES = 3
FIRST_SAMPLE = 3_000_000
"""Sample indices of these votes, apart from those of the gates' panel."""


def mention_studies(rows: Sequence[TrialRow], tools: Tools) -> list[Study]:
    """One study for every trial with a reasoning about an edit; none without a judge."""
    decoding = tools.roles.get(JUDGE)
    if decoding is None:
        return []
    found = []
    for row in rows:
        held = reasonings(row) if row.attack in tools.attacks else []
        if held:
            found.append(_study(row, held, tools, decoding))
    return found


def _study(row: TrialRow, held: list[Reasoning], tools: Tools, decoding: Decoding) -> Study:
    item = tools.items[row.dataset, row.item_id]
    victim, prompts = tools.victims[row.victim].on(row.dataset), tools.attacks[row.attack].prompts
    return Study(
        purpose=Purpose.JUDGE,
        dataset=row.dataset,
        group=row.group,
        victim=victim,
        sampled=victim,
        attack_label=row.attack,
        attack_spec=json.loads(row.attack_spec),
        seed=row.seed,
        item=item,
        told={"trial": row.trial_id, "prompts": prompts.hash},
        steps=lambda: _judged(item, held, prompts, decoding),
    )


def _judged(
    item: Question, held: Sequence[Reasoning], prompts: PromptSet, decoding: Decoding
) -> Studying:
    """Vote on every insertion of every attempt, and on the vignette in the last one."""
    clauses: list[list[bool | None]] = []
    for one in held:
        said = []
        for clause in one.clauses:
            said.append((yield from _voted(one.rationale, clause, item, prompts, decoding)))
        clauses.append(said)
    findings = []
    for sentence in findings_of(item):
        last = held[-1].rationale
        findings.append((yield from _voted(last, sentence, item, prompts, decoding)))
    return {"clauses": clauses, "findings": findings}


def _voted(
    rationale: str, clause: str, item: Question, prompts: PromptSet, decoding: Decoding
) -> Any:
    text = prompts.render("judge_mention", rationale=rationale, clause=clause)
    found = yield from votes(JUDGE, decoding, FIRST_SAMPLE, text, Letter, item.letters, N_VOTES)
    words = [None if isinstance(v, Unreadable) else v.answer.strip().upper() for v in found]
    yes, no = words.count("YES"), words.count("NO")
    # A majority of three: two unreadable votes leave it open.
    return None if max(yes, no) * 2 <= N_VOTES else yes > no
