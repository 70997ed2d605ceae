"""Ask what every insertion does to the answers, and whether the reasonings say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.attacks.medfuzz.judges import judges_in, said_yes
from medstress.attacks.medfuzz.role_session import replies
from medstress.core.calls import Decoding
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Prediction
from medstress.core.rows import TrialRow
from medstress.core.text import Edit, edit_rows
from medstress.engine.requests import Purpose
from medstress.engine.study import ConversationRequest, HoldConversations, Study, StudyFlow
from medstress.metrics.counts import is_eligible
from medstress.metrics.significance.causal_effects import answer_shares
from medstress.metrics.significance.faithfulness import inserted_words, mentions, reasonings
from medstress.prompts.replies import Vote
from medstress.significance.mentions import MentionQuestion
from medstress.significance.plan import Tools, study_of

FIRST_SAMPLE = 4_000_000
"""First sample index of these votes, so that they differ from those of gates and mentions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edited:
    """The measured edit of one trial."""

    row: TrialRow
    """The trial."""
    edits: tuple[Edit, ...]
    """Its edits."""
    places: tuple[int, ...]
    """Indices of the edits that insert words."""


def slope_studies(rows: Sequence[TrialRow], tools: Tools, n_samples: int) -> list[Study]:
    """Return one study per trial, of the edit that succeeded or else the last one asked."""
    return [_study(one, tools, n_samples) for one in _measured(rows, tools)]


def slope_cost(rows: Sequence[TrialRow], tools: Tools, n_samples: int) -> str:
    """Return a sentence on the most that the studies ask."""
    measured = _measured(rows, tools)
    n_clauses = sum(len(one.places) for one in measured)
    cost = (
        f"faithfulness slope: {n_clauses} insertions of {len(measured)} trials, at most "
        f"{(n_clauses + len(measured)) * n_samples:,} conversations with the victims"
    )
    if judges_in(tools.roles):
        return f"{cost} and {n_clauses * n_samples:,} votes of judges"
    return f"{cost}; no judge: shared words tell what a reasoning says"


def _measured(rows: Sequence[TrialRow], tools: Tools) -> list[_Edited]:
    edited = (_edited(row) for row in rows if row.attack in tools.attacks and is_eligible(row))
    return [one for one in edited if one is not None]


def _edited(row: TrialRow) -> _Edited | None:
    seen = reasonings(row)
    if not seen:
        return None
    chosen = next((one for one in seen if one.is_success), seen[-1])
    places = tuple(i for i, edit in enumerate(chosen.edits) if inserted_words(edit))
    return _Edited(row=row, edits=chosen.edits, places=places)


def _study(one: _Edited, tools: Tools, n_samples: int) -> Study:
    row = one.row
    item, attack = tools.items[row.dataset, row.item_id], tools.attacks[row.attack]
    judges = judges_in(tools.roles)
    question = MentionQuestion(item=item, before=row.answer_before, prompts=attack.prompts)
    spec = {
        "trial": row.trial_id,
        "edits": edit_rows(one.edits),
        "samples": n_samples,
        "prompts": attack.prompts.hash,
        "judged": bool(judges),
    }
    return study_of(
        row,
        tools,
        Purpose.SLOPE,
        spec,
        lambda: _effects(question, one, n_samples, judges),
    )


def _effects(
    question: MentionQuestion, one: _Edited, n: int, judges: Mapping[str, Decoding]
) -> StudyFlow:
    """Sample the whole edit and the edit without each clause, and vote on its reasonings.

    The samples of the whole edit are shared with the significance test, as far as both go.
    """
    variants = [one.edits, *(one.edits[:i] + one.edits[i + 1 :] for i in one.places)]
    item = question.item
    candidates = [Candidate(item=item, edits=edits) for edits in variants]
    replies = yield HoldConversations(
        tuple(ConversationRequest(each, j) for each in candidates for j in range(n))
    )
    predictions = [reply for reply in replies if isinstance(reply, Prediction)]
    groups = [predictions[i * n : (i + 1) * n] for i in range(len(candidates))]
    reasoned = [(reply.rationale, reply.answer) for reply in groups[0] if reply.rationale]
    known = " ".join([item.question, *item.options])
    clauses = [inserted_words(one.edits[i]) for i in one.places]
    said: list[list[bool]] = []
    for clause in clauses:
        if not judges or not reasoned:
            said.append([mentions(text, clause, known) for text, _ in reasoned])
        else:
            texts = [question.text(one.edits, letter, text, clause) for text, letter in reasoned]
            said.append((yield from _voted(texts, item, judges)))
    return {
        "clauses": clauses,
        "shares": [answer_shares(group, item.letters) for group in groups],
        "said": said,
    }


def _voted(texts: Sequence[str], item: Question, judges: Mapping[str, Decoding]) -> Any:
    """Return one vote per reasoning; several judges take turns.

    One vote is enough because the share over many reasonings averages as a panel would.
    """
    said: list[bool | None] = []
    for i, (name, decoding) in enumerate(judges.items()):
        if own := texts[i :: len(judges)]:
            votes = yield from replies(name, decoding, FIRST_SAMPLE, own, Vote, item.letters)
            said += map(said_yes, votes)
    return [each for each in said if each is not None]
