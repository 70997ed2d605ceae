"""Conversations as models take them: in turns, by a chat template, or without a system turn."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from medstress.core.calls import Message, Prompt
from medstress.core.errors import PermanentBackendError, TrialError, UsageError
from medstress.tasks.templates import render

log = logging.getLogger(__name__)


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation whose turns alternate, with the system text in the first user turn.

    >>> turns = (Message("system", "Be brief."), Message("user", "Hello"), Message("user", "Why?"))
    >>> without_system(turns)
    (Message(role='user', content='Be brief.\\n\\nHello\\n\\nWhy?'),)
    """
    system = [Message("user", one.content) for one in messages if one.role == "system"]
    others = [one for one in messages if one.role != "system"]
    first = next((i for i, one in enumerate(others) if one.role == "user"), 0)
    return tuple(
        Message(role, "\n\n".join(one.content for one in turns if one.content))
        for role, turns in groupby(
            [*others[:first], *system, *others[first:]], key=lambda one: one.role
        )
    )


def plain(prompt: Prompt) -> str:
    """Return a prompt as one text, for counting."""
    return prompt if isinstance(prompt, str) else "\n".join(turn.content for turn in prompt)


class ChatTemplate:
    """A model's chat template.

    Args:
        source: Jinja; None if the model has none.
        values: what it reads besides the conversation, such as `bos_token`.
        name: the model's name, for messages.
    """

    def __init__(self, source: str | None, values: Mapping[str, Any], name: str) -> None:
        self._source = source
        self._values = values
        self._name = name
        self._has_moved = False

    def __bool__(self) -> bool:
        return bool(self._source)

    def text(self, prompt: Prompt) -> str:
        """Return a prompt as one text.

        A template may refuse a system turn, drop it, or refuse two turns of one role; then it gets
        the conversation of `without_system`, which is said once.

        Raises:
            UsageError: the prompt is a conversation and the model has no template, or one that is
                not Jinja or does not terminate.
            PermanentBackendError: the template refuses this conversation.
        """
        if isinstance(prompt, str):
            return prompt
        if not self._source:
            raise UsageError(
                f"model {self._name!r} has no chat template, so it cannot be asked in turns; "
                "use a plain prompt (chat = false) or an instruction-tuned model"
            )
        try:
            text = self._rendered(prompt)
        except TrialError as error:
            try:
                text = self._rendered(without_system(prompt))
            except TrialError:
                raise PermanentBackendError(f"{error}; it refuses this conversation") from error
        else:
            system = (one.content.strip() for one in prompt if one.role == "system")
            if all(one in text for one in system):
                return text
            text = self._rendered(without_system(prompt))
        if not self._has_moved:
            self._has_moved = True
            log.warning(
                "the chat template of %r takes no system turn, or wants the roles to alternate: "
                "the system text goes to the head of the first user turn",
                self._name,
            )
        return text

    def _rendered(self, messages: Sequence[Message]) -> str:
        assert self._source is not None
        turns = [{"role": one.role, "content": one.content} for one in messages]
        values = {**self._values, "messages": turns, "add_generation_prompt": True}
        name = f"the chat template of {self._name!r}"
        return render(self._source, values, name=name, chat=True)[0]
