"""What a victim needs of a task, wrapped or not."""

from __future__ import annotations

from typing import Any, Protocol

from medstress.tasks.multiple_choice import Flow
from medstress.tasks.templates import Template
from medstress.tasks.ties import Ties


class AnyTask(Protocol):
    """Turns candidates into rounds of requests, and their answers into predictions."""

    def flow(self, candidate: Any) -> Flow:
        """Turn one candidate into calls and their answers into a prediction."""

    def listing(self, candidate: Any) -> str:
        """What is asked, for people: the prompt with the options listed, or the sentence."""

    def spec(self) -> dict[str, Any]:
        """What defines the task, for fingerprints; enough to rebuild it, given the template."""


class Task(AnyTask, Protocol):
    """A task that is asked with a prompt."""

    @property
    def template(self) -> Template:
        """The prompt that everything is asked with."""

    @property
    def is_sampled(self) -> bool:
        """Whether asking again, as another sample, may bring another answer."""

    @property
    def is_told(self) -> bool:
        """Whether its requests are stored as they are, because item, edits and the form of the
        prompt do not give them back."""

    @property
    def ties(self) -> Ties:
        """Which of several options with the highest score is the answer."""

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses, from 0."""

    def n_calls(self, n_options: int) -> int:
        """Calls of one query about an item with so many options."""
