"""How a server shows a reply with thoughts before it, cut off at the most tokens it may have."""

from typing import NamedTuple


class Shown(NamedTuple):
    """A reply as a server sends it."""

    content: str | None
    """The text; None where the thoughts took all tokens and stand apart."""
    reasoning: str | None
    """The thoughts, where they stand apart."""
    finish_reason: str
    """`stop`, or `length` where it was cut off."""

    @property
    def message(self) -> dict[str, str | None]:
        """The fields of a chat message."""
        apart = {"reasoning_content": self.reasoning} if self.reasoning else {}
        return {"content": self.content, **apart}


def shown(text: str, thoughts: str | None, most: int | None, *, apart: bool) -> Shown:
    """Think, answer, and stop at so many tokens.

    Args:
        text: the answer.
        thoughts: what is thought before it; None: nothing.
        most: the most words of both together; None: no bound.
        apart: whether thoughts stand beside the text (`reasoning_content`), else in tags in it.

    >>> shown("B", "A or B?", 9, apart=False)
    Shown(content='<think>A or B?</think>B', reasoning=None, finish_reason='stop')
    >>> shown("B", "A or B?", 2, apart=False)
    Shown(content='<think>A or', reasoning=None, finish_reason='length')
    >>> shown("B", "A or B?", 2, apart=True)
    Shown(content=None, reasoning='A or', finish_reason='length')
    """
    thought, n = (thoughts or "").split(), len(text.split())
    is_cut = most is not None and len(thought) + n > most
    left = None if most is None else most - len(thought)
    ends = left is None or left > 0  # the thoughts came to their end
    content = text if not is_cut else " ".join(text.split()[:left]) if ends else None
    kept = thoughts if ends else " ".join(thought[:most])
    reason = "length" if is_cut else "stop"
    if kept is None or apart:
        return Shown(content, kept, reason)
    return Shown(f"<think>{kept}" + (f"</think>{content}" if ends else ""), None, reason)
