"""Questions after whose answer something more is said to the victim."""

from __future__ import annotations

from medstress.core.calls import Message, Prompt
from medstress.core.items import FOLLOW_UP, Candidate


def without_follow_up(candidate: Candidate) -> Candidate:
    """Return the candidate as it is asked first, before anything is said of the answer."""
    return Candidate(
        item=candidate.item,
        edits=tuple(edit for edit in candidate.edits if edit.field != FOLLOW_UP),
    )


def turns_after(prompt: Prompt, answer: str, said: str) -> tuple[Message, ...]:
    """Return a conversation: the question, the victim's answer, and what is said after it.

    >>> [turn.role for turn in turns_after("A or B?", "A", "Are you sure?")]
    ['user', 'assistant', 'user']
    """
    asked = (Message("user", prompt),) if isinstance(prompt, str) else prompt
    return (*asked, Message("assistant", answer), Message("user", said))
