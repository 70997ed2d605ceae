"""A `FaultServer` that answers whole conversations by a scripted model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fault_server import Asked, FaultServer
from medstress.testing.conversations import Conversation, Speaker


class ConversationServer(FaultServer):
    """The server; a context manager.

    Args:
        speak: the scripted model, such as `rule_target`.
        keys: of `FaultServer`, but for `answer`.

    Attributes:
        turns: the conversation of every prompt, which joins its turns by blank lines.
    """

    def __init__(self, speak: Speaker, **keys: Any) -> None:
        self.turns: dict[str, Conversation] = {}
        super().__init__(answer=lambda prompt: speak([self.turns[prompt]])[0], **keys)

    def register(self, path: str, body: Mapping[str, Any]) -> Asked:
        """Log a request and keep its turns."""
        asked = super().register(path, body)
        self.turns[asked.prompt] = [dict(message) for message in body["messages"]]
        return asked
