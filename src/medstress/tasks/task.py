"""The protocol of a victim's task, wrapped or not."""

from __future__ import annotations

from typing import Any, Protocol

from medstress.tasks.multiple_choice import Flow
from medstress.tasks.templates import Template


class AnyTask(Protocol):
    """Turns candidates into rounds of requests, and their answers into predictions."""

    def flow(self, candidate: Any) -> Flow:
        """Turn one candidate into calls and their answers into a prediction."""

    def listing(self, candidate: Any) -> str:
        """Return what people see: the prompt with the options listed, or the sentence."""

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints; with the template it can be rebuilt."""


class Task(AnyTask, Protocol):
    """A task with a prompt."""

    @property
    def template(self) -> Template:
        """The prompt."""

    @property
    def is_sampled(self) -> bool:
        """True if another sample may give another answer."""

    @property
    def stores_requests(self) -> bool:
        """True if requests are stored in full, because item, edits and the prompt's form cannot
        reproduce them."""

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses, from 0."""

    def n_calls(self, n_options: int) -> int:
        """Return the most calls of one query about an item with `n_options` options."""
