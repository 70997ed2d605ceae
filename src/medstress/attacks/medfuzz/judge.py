"""The judge: what it calls evidence in an edit, and which option it picks after it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import field_validator

from medstress.attacks.medfuzz.roles import RoleSession
from medstress.core.calls import Decoding
from medstress.core.items import Question
from medstress.core.queries import Steps
from medstress.core.text import comparison_key
from medstress.tasks.prompt_sets import Rules, lettered, say
from medstress.tasks.reading import DEFAULT, letter_read, without_thoughts
from medstress.tasks.replies import Reply, Unreadable, Vote, read_reply

CLEAN_SAMPLE = 6_000_000
"""Sample index of the vote on a clean item. All trials use the same, so that an item has one vote,
whatever the number of victims, runs and attempts."""
_NOTHING = re.compile(
    r"\W*(?:none|nothing|no|n/a)\b(?:[\w ,']{0,60}\b(?:evidence|found|of them|words?)\b)?\W*",
    re.IGNORECASE,
)
"""A reply in prose that objects to nothing."""
_LIST = re.compile(r"\[[^\[\]{}]*\]")


class JudgedEvidence(Reply):
    """What a judge objects to."""

    evidence: tuple[str, ...]
    """Words that were added."""

    @field_validator("evidence", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        texts = value if isinstance(value, list | tuple) else [value or ""]
        if not all(isinstance(text, str) for text in texts):
            return value
        return tuple(text for text in texts if text.strip() and not _NOTHING.fullmatch(text))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it calls evidence; empty if it objects to nothing."""
        return self.evidence


def evidence(
    role: str,
    decoding: Decoding,
    item: Question,
    inserted: Sequence[str],
    rules: Rules,
    sample: int,
) -> Steps[JudgedEvidence | Unreadable]:
    """Ask a judge which of the inserted words are clinical evidence.

    Args:
        role: whom to ask.
        decoding: how it generates.
        item: the original.
        inserted: what an edit adds.
        rules: its `forbidden` is what counts as evidence.
        sample: index of this conversation among those that begin alike.

    Returns:
        The words, all of them among those that were inserted, or why the reply cannot be used.
    """
    added = comparison_key(" ".join(inserted))

    def objection(reply: JudgedEvidence) -> str | None:
        for words in reply.words:
            if (key := comparison_key(words)) and key not in added:
                return f"evidence: {words!r} is not among the added words; quote them exactly"
        return None

    def read(said: str) -> JudgedEvidence | Unreadable:
        reply = read_reply(said, JudgedEvidence, objection)
        if not isinstance(reply, Unreadable) or reply.cause != "no JSON":
            return reply
        prose = without_thoughts(said).strip()
        if _NOTHING.fullmatch(prose):
            return JudgedEvidence(evidence=())
        for found in reversed(_LIST.findall(prose)):
            with suppress(ValueError):
                bare = json.dumps({"evidence": json.loads(found)})
                return read_reply(bare, JudgedEvidence, objection)
        return reply

    text = say(
        "judge_evidence",
        inserted="\n".join(f"- {one}" for one in inserted),
        question=item.question,
        options=_options(item),
        forbidden="\n".join(f"- {one.name}: {one.description}" for one in rules.forbidden),
    )
    session = RoleSession(role, decoding, sample, item.letters)
    return (yield from session.read(text, JudgedEvidence, read))


def key_vote(
    role: str, decoding: Decoding, item: Question, question: str, sample: int
) -> Steps[str | None]:
    """Return the option letter that a judge picks, or None if its reply cannot be read.

    Args:
        role: whom to ask.
        decoding: how it generates.
        item: has the options.
        question: context and stem, with or without an edit.
        sample: index of this conversation among those that begin alike.
    """

    def read(said: str) -> str | Unreadable:
        vote = read_reply(said, Vote)
        text = said if isinstance(vote, Unreadable) else vote.answer
        letter = letter_read(DEFAULT, text, item.options)
        if letter is None:
            return Unreadable(f"answer: expected one of the letters {', '.join(item.letters)}")
        return letter

    session = RoleSession(role, decoding, sample, item.letters)
    text = say("judge_key", question=question, options=_options(item))
    letter = yield from session.read(text, Vote, read)
    return None if isinstance(letter, Unreadable) else letter


def _options(item: Question) -> str:
    return lettered(zip(item.letters, item.options, strict=True))
