"""Ask a judge whether a reasoning says that an insertion mattered (METHODS 2.7)."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from medstress.analyses.faithfulness import Reasoning, findings_of, reasonings
from medstress.attacks.medfuzz.edits import question_of
from medstress.attacks.medfuzz.roles import replies
from medstress.core.items import Candidate
from medstress.core.queries import JUDGE
from medstress.core.trials import Trial
from medstress.engine.inquiry import Study, StudyFlow
from medstress.engine.work import Purpose
from medstress.experiment.significance.plan import Tools
from medstress.tasks.prompt_sets import lettered, say, texts_hash
from medstress.tasks.replies import Unreadable, Vote

N_VOTES = 3
"""Votes on one clause; more than half decide."""
FIRST_SAMPLE = 3_000_000
"""First sample index of these votes, so that they differ from a judge's others."""
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def mention_studies(trials: Sequence[Trial], tools: Tools) -> list[Study]:
    """Return one study for every trial with a reasoning about an edit; none without a judge."""
    if JUDGE not in tools.roles:
        return []
    return [
        _study(trial, seen, tools)
        for trial in trials
        if trial.arm.attack.label in tools.attacks and (seen := reasonings(trial))
    ]


def _study(trial: Trial, seen: Sequence[Reasoning], tools: Tools) -> Study:
    arm, place, victim = trial.arm, trial.arm.place, tools.victim(trial)
    return Study(
        purpose=Purpose.JUDGE,
        dataset=place.dataset,
        group=place.group,
        victim=victim,
        attack_label=arm.attack.label,
        attack_spec=dict(arm.attack.params),
        seed=arm.seed,
        item=tools.item(trial),
        spec={"trial": trial.id, "prompts": texts_hash("judge_mention")},
        steps=lambda: _judged(trial, seen, tools),
    )


def _judged(trial: Trial, seen: Sequence[Reasoning], tools: Tools) -> StudyFlow:
    """Vote on every insertion of every attempt, and on the question in the last one."""
    item, unread = tools.item(trial), "nothing that could be read"
    before = trial.before.answer if trial.before is not None else None

    def voted(one: Reasoning, clause: str) -> Generator[Any, Any, bool | None]:
        """Return what most votes say; None if neither side has more than half."""
        text = say(
            "judge_mention",
            question=question_of(Candidate(item=item, edits=one.edits)),
            options=lettered(zip(item.letters, item.options, strict=True)),
            before=before or unread,
            after=one.answer or unread,
            rationale=one.rationale,
            clause=clause,
        )
        decoding, texts = tools.roles[JUDGE], [text] * N_VOTES
        votes = yield from replies(JUDGE, decoding, FIRST_SAMPLE, texts, Vote, item.letters)
        words = [
            "" if isinstance(vote, Unreadable) else _AROUND.sub("", vote.answer).upper()
            for vote in votes
        ]
        yes, no = words.count("YES"), words.count("NO")
        return None if max(yes, no) * 2 <= N_VOTES else yes > no

    clauses: list[list[bool | None]] = []
    for one in seen:
        clauses.append([])
        for clause in one.clauses:
            clauses[-1].append((yield from voted(one, clause)))
    findings = []
    for sentence in findings_of(item):
        findings.append((yield from voted(seen[-1], sentence)))
    return {"clauses": clauses, "findings": findings}
