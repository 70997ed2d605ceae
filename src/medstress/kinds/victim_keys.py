"""The keys of a victim that say what it is asked and how it answers."""

from __future__ import annotations

from typing import Any, Protocol


class VictimKeys(Protocol):
    """Of a `[[victim]]` table (`medstress.experiment.model_tables`, where each is described)."""

    @property
    def backend(self) -> str:
        """Who answers."""

    @property
    def answer_by(self) -> str | None:
        """How; None: as the back end likes."""

    @property
    def text_score(self) -> str:
        """How a likelihood becomes a score."""

    @property
    def prompt(self) -> str | dict[str, str]:
        """A prompt, or a table of them by data set."""

    @property
    def parser(self) -> str | None:
        """How a text is read."""

    @property
    def max_new_tokens(self) -> int:
        """Most tokens of an answer that is written."""

    @property
    def reasoning_tokens(self) -> int | None:
        """Most tokens of a turn that reasons."""

    @property
    def temperature(self) -> float:
        """0 is greedy."""

    @property
    def labels(self) -> dict[str, str] | None:
        """Its names of classes -> those of the data."""

    @property
    def shots(self) -> int:
        """Answered examples before each prompt."""

    @property
    def shots_from(self) -> str | None:
        """Where they come from."""

    @property
    def shots_seed(self) -> int:
        """Which of them are drawn."""

    @property
    def wrap(self) -> tuple[dict[str, Any], ...]:
        """Defences around what it is asked."""
