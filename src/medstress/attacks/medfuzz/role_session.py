"""A conversation with another role, kept over many questions; replies are JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.queries import Steps, consult
from medstress.tasks.prompt_sets import PromptSet
from medstress.tasks.reading import without_thoughts
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

R = TypeVar("R", bound=Reply)


class RoleSession:
    """One conversation.

    Args:
        role: who is asked, such as `attacker`.
        decoding: how it generates.
        sample: index of this conversation among those that begin alike; unused at temperature 0.
        prompts: holds the words that ask for a repair.
        letters: of the item's options.
        system: the conversation's first turn; empty for none.
    """

    def __init__(
        self,
        role: str,
        decoding: Decoding,
        sample: int,
        prompts: PromptSet,
        letters: str,
        system: str = "",
    ) -> None:
        self._role = role
        self._decoding = decoding
        self._sample = sample if decoding.temperature > 0 else 0
        self._prompts = prompts
        self._letters = letters
        self._turns = [Message("system", system)] if system else []

    def ask(
        self, text: str, kind: type[R], objection: Callable[[R], str | None] | None = None
    ) -> Steps[R | Unreadable]:
        """Say something and read the reply; ask once more if it cannot be used.

        Args:
            text: what is said.
            kind: the form of the reply.
            objection: says what is wrong with a reply of this form, or None.
        """
        found = read_reply((yield from self.say(text, kind)), kind, objection)
        if isinstance(found, Unreadable):
            repair = self._prompts.render("repair", reason=found.reason)
            found = read_reply((yield from self.say(repair, kind)), kind, objection)
        return found

    def say(self, text: str, kind: type[Reply]) -> Steps[str]:
        """Say something and return the reply without thoughts; servers get the schema of `kind`."""
        self._turns.append(Message("user", text))
        schema = schema_of(kind, self._letters)
        call = Generate(tuple(self._turns), self._decoding, schema=schema)
        (answer,) = yield from consult(self._role, [call], self._sample)
        assert isinstance(answer, Generated)
        said = without_thoughts(answer.text)
        self._turns.append(Message("assistant", said))
        return said


def replies(
    role: str, decoding: Decoding, sample: int, texts: Sequence[str], kind: type[R], letters: str
) -> Steps[list[R | Unreadable]]:
    """Ask several questions at once, each in its own conversation.

    Equal questions are samples of one another; at temperature 0 their replies are equal.
    """
    schema = schema_of(kind, letters)
    calls = [Generate((Message("user", text),), decoding, schema=schema) for text in texts]
    answers = yield from consult(role, calls, sample if decoding.temperature > 0 else 0)
    generated = [answer.text for answer in answers if isinstance(answer, Generated)]
    return [read_reply(text, kind) for text in generated]
