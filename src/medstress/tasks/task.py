"""What a victim needs of a task, wrapped or not."""

from __future__ import annotations

from typing import Any, Protocol

from medstress.items import Candidate
from medstress.tasks.multiple_choice import Flow
from medstress.tasks.templates import Template


class Task(Protocol):
    """Turns candidates into rounds of requests, and their answers into predictions."""

    @property
    def template(self) -> Template:
        """The prompt that everything is asked with."""

    @property
    def is_sampled(self) -> bool:
        """Whether asking again, as another sample, may bring another answer."""

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses, from 0."""

    def n_calls(self, n_options: int) -> int:
        """Calls of one query about an item with so many options."""

    def flow(self, candidate: Candidate) -> Flow:
        """Turn one candidate into calls and their answers into a prediction."""

    def listing(self, candidate: Candidate) -> str:
        """The prompt with the options listed, for people."""

    def spec(self) -> dict[str, Any]:
        """What defines the task, for fingerprints; enough to rebuild it, given the template."""
