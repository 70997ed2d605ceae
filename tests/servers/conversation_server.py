"""A `FaultServer` that answers whole conversations by scripted models."""

from collections.abc import Mapping
from typing import Any

from fault_server import Asked, FaultServer
from medstress.testing.models import Conversation, Speaker


class ConversationServer(FaultServer):
    """The server; a context manager.

    Args:
        speak: the scripted model, such as `rule_target`; or several by name, all on this server.
        keys: of `FaultServer`, but for `answer`.

    Attributes:
        turns: model and conversation of every prompt, which joins its turns by blank lines.
    """

    def __init__(self, speak: Speaker | Mapping[str, Speaker], **keys: Any) -> None:
        self.turns: dict[str, tuple[str, Conversation]] = {}
        name = keys.get("model", "fault-model")
        self.speakers = dict(speak) if isinstance(speak, Mapping) else {name: speak}
        if isinstance(speak, Mapping):
            keys |= {"model": next(iter(speak)), "lists": tuple(speak)}
        super().__init__(answer=self._speak, **keys)

    def _speak(self, prompt: str) -> str:
        model, turns = self.turns[prompt]
        return self.speakers[model]([turns])[0]

    def register(self, path: str, body: Mapping[str, Any]) -> Asked:
        """Log a request and keep its turns."""
        messages = [dict(message) for message in body["messages"]]
        prompt = "\n\n".join(message["content"] for message in messages)
        self.turns[prompt] = body["model"], messages
        return super().register(path, body)

    def _refused(self, body: Mapping[str, Any]) -> tuple[int, bytes] | None:
        is_ours = body["model"] in self.speakers
        return super()._refused({**body, "model": self.model} if is_ours else body)

    def _answer(self, asked: Asked) -> dict[str, Any]:
        reply = super()._answer(asked)
        return {**reply, "model": asked.body["model"]} if len(self.speakers) > 1 else reply
