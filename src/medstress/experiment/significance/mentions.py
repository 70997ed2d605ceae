"""Asking judges whether a reasoning says that an insertion mattered."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.attacks.edit_gates import Draft
from medstress.attacks.judges import judges_in, said_yes, votes_each
from medstress.attacks.role_session import replies
from medstress.calls import Decoding
from medstress.experiment.significance.plan import Tools
from medstress.items import Candidate, Question
from medstress.metrics.faithfulness import Reasoning, findings_of, reasonings
from medstress.prompts import PromptSet
from medstress.prompts.replies import Vote
from medstress.rows import TrialRow
from medstress.scheduler.need import Purpose
from medstress.scheduler.study import Study, StudyFlow
from medstress.text import Edit

FIRST_SAMPLE = 3_000_000
"""Sample indices of these votes, apart from those of the gates' panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks about the reasonings of one trial."""

    item: Question
    """Before any edit."""
    before: str | None
    """The victim's letter on the clean item."""
    prompts: PromptSet
    """What is asked."""

    def text(self, edits: tuple[Edit, ...], answer: str | None, rationale: str, clause: str) -> str:
        """The question whether a clause of an edited item influenced what followed."""
        letters, options = self.item.letters, self.item.options
        shown = Draft(candidate=Candidate(item=self.item, edits=edits), options={})
        return self.prompts.render(
            "judge_mention",
            question=shown.question,
            options=tuple(zip(letters, options, strict=True)),
            before=self.before,
            after=answer,
            rationale=rationale,
            clause=clause,
        )


def mention_studies(rows: Sequence[TrialRow], tools: Tools) -> list[Study]:
    """One study for every trial with a reasoning about an edit; none without a judge."""
    judges = judges_in(tools.roles)
    if not judges:
        return []
    found = []
    for row in rows:
        held = reasonings(row) if row.attack in tools.attacks else []
        if held:
            found.append(_study(row, held, tools, judges))
    return found


def _study(
    row: TrialRow, held: list[Reasoning], tools: Tools, judges: Mapping[str, Decoding]
) -> Study:
    item = tools.items[row.dataset, row.item_id]
    victim, prompts = tools.victims[row.victim].on(row.dataset), tools.attacks[row.attack].prompts
    asker = Asker(item=item, before=row.answer_before, prompts=prompts)
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
        spec={"trial": row.trial_id, "prompts": prompts.hash},
        steps=lambda: _judged(asker, held, judges),
    )


def _judged(asker: Asker, held: Sequence[Reasoning], judges: Mapping[str, Decoding]) -> StudyFlow:
    """Vote on every insertion of every attempt, and on the vignette in the last one."""
    clauses: list[list[bool | None]] = []
    for one in held:
        said = []
        for clause in one.clauses:
            said.append((yield from _voted(asker, one, clause, judges)))
        clauses.append(said)
    findings = []
    for sentence in findings_of(asker.item):
        findings.append((yield from _voted(asker, held[-1], sentence, judges)))
    n_votes = votes_each(len(judges)) * len(judges)
    return {"clauses": clauses, "findings": findings, "votes": n_votes, "judges": len(judges)}


def _voted(
    asker: Asker, one: Reasoning, clause: str, judges: Mapping[str, Decoding]
) -> Generator[Any, Any, bool | None]:
    """What most votes say; None where neither side has more than half."""
    text = asker.text(one.edits, one.answer, one.rationale, clause)
    texts = [text] * votes_each(len(judges))
    found: list[bool | None] = []
    for name, decoding in judges.items():
        votes = yield from replies(name, decoding, FIRST_SAMPLE, texts, Vote, asker.item.letters)
        found += map(said_yes, votes)
    yes, no = found.count(True), found.count(False)
    return None if max(yes, no) * 2 <= len(found) else yes > no
