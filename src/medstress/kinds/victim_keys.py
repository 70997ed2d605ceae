"""The keys of a victim that define its prompts and its way of answering."""

from __future__ import annotations

from typing import Any, Protocol


class VictimKeys(Protocol):
    """Keys of a `[[victim]]` table; `medstress.experiment.file.model_tables` describes them."""

    @property
    def backend(self) -> str:
        """Name of the back end."""

    @property
    def answer_by(self) -> str | None:
        """How the victim answers; None: the back end's default."""

    @property
    def text_score(self) -> str:
        """How a likelihood becomes a score."""

    @property
    def prompt(self) -> str | dict[str, str]:
        """A prompt, or a table of them by data set."""

    @property
    def parser(self) -> str:
        """How an answer is read from text."""

    @property
    def thoughts(self) -> tuple[str, str] | None:
        """Marks of its thoughts."""

    @property
    def max_new_tokens(self) -> int:
        """Most tokens of a written answer."""

    @property
    def reasoning_tokens(self) -> int | None:
        """Most tokens of a reasoning turn."""

    @property
    def temperature(self) -> float:
        """0 is greedy."""

    @property
    def labels(self) -> dict[str, str] | None:
        """Its names of classes -> the data's names."""

    @property
    def shots(self) -> int:
        """Number of answered examples before each prompt."""

    @property
    def shots_from(self) -> str | None:
        """Source of the examples."""

    @property
    def shots_seed(self) -> int:
        """Seed that draws the examples."""

    @property
    def wrap(self) -> tuple[dict[str, Any], ...]:
        """Defences around its task."""
