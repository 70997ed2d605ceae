"""Ask judges whether a reasoning says that an insertion mattered."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.analyses.faithfulness import Reasoning, findings_of, reasonings
from medstress.attacks.medfuzz.gates import Draft
from medstress.attacks.medfuzz.judges import judges_in, said_yes, votes_each
from medstress.attacks.medfuzz.role_session import replies
from medstress.core.calls import Decoding
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.engine.inquiry import Study, StudyFlow
from medstress.engine.work import Purpose
from medstress.experiment.significance.plan import Tools
from medstress.tasks.prompt_sets import PromptSet
from medstress.tasks.replies import Vote

FIRST_SAMPLE = 3_000_000
"""First sample index of these votes, so that they differ from those of the gates' panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionQuestion:
    """Writes the questions to judges about the reasonings of one trial."""

    item: Question
    """The clean item."""
    before: str | None
    """The victim's letter on the clean item."""
    prompts: PromptSet
    """Prompts of the attack."""

    def text(self, edits: tuple[Edit, ...], answer: str | None, rationale: str, clause: str) -> str:
        """Return the question whether a clause of an edited item influenced the reasoning."""
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


def mention_studies(trials: Sequence[Trial], tools: Tools) -> list[Study]:
    """Return one study for every trial with a reasoning about an edit; none without a judge."""
    judges = judges_in(tools.roles)
    if not judges:
        return []
    studies = []
    for trial in trials:
        seen = reasonings(trial) if trial.arm.attack.label in tools.attacks else []
        if seen:
            studies.append(_study(trial, seen, tools, judges))
    return studies


def _study(
    trial: Trial, seen: list[Reasoning], tools: Tools, judges: Mapping[str, Decoding]
) -> Study:
    arm, place = trial.arm, trial.arm.place
    item, victim, prompts = tools.item(trial), tools.victim(trial), tools.attack(trial).prompts
    before = trial.before.answer if trial.before is not None else None
    question = MentionQuestion(item=item, before=before, prompts=prompts)
    return Study(
        purpose=Purpose.JUDGE,
        dataset=place.dataset,
        group=place.group,
        victim=victim,
        sampled=victim,
        attack_label=arm.attack.label,
        attack_spec=dict(arm.attack.params),
        seed=arm.seed,
        item=item,
        spec={"trial": trial.id, "prompts": prompts.hash},
        steps=lambda: _judged(question, seen, judges),
    )


def _judged(
    question: MentionQuestion, seen: Sequence[Reasoning], judges: Mapping[str, Decoding]
) -> StudyFlow:
    """Vote on every insertion of every attempt, and on the vignette in the last one."""
    clauses: list[list[bool | None]] = []
    for one in seen:
        verdicts = []
        for clause in one.clauses:
            verdicts.append((yield from _voted(question, one, clause, judges)))
        clauses.append(verdicts)
    findings = []
    for sentence in findings_of(question.item):
        findings.append((yield from _voted(question, seen[-1], sentence, judges)))
    n_votes = votes_each(len(judges)) * len(judges)
    return {"clauses": clauses, "findings": findings, "votes": n_votes, "judges": len(judges)}


def _voted(
    question: MentionQuestion, one: Reasoning, clause: str, judges: Mapping[str, Decoding]
) -> Generator[Any, Any, bool | None]:
    """Return what most votes say; None if neither side has more than half."""
    text = question.text(one.edits, one.answer, one.rationale, clause)
    texts = [text] * votes_each(len(judges))
    words: list[bool | None] = []
    for name, decoding in judges.items():
        votes = yield from replies(name, decoding, FIRST_SAMPLE, texts, Vote, question.item.letters)
        words += map(said_yes, votes)
    yes, no = words.count(True), words.count(False)
    return None if max(yes, no) * 2 <= len(words) else yes > no
