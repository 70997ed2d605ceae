"""The model under attack: a task, and the back end that answers its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from medstress.calls import Backend
from medstress.items import Edited
from medstress.tasks.multiple_choice import Flow
from medstress.tasks.task import AnyTask
from medstress.tasks.templates import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A model under attack."""

    label: str
    """How it is called in rows and tables."""
    task: AnyTask
    """What it is asked and how its answers are read."""
    backend: Backend
    """Who answers."""
    by_dataset: tuple[tuple[str, AnyTask], ...] = ()
    """Data sets that it is asked about with another prompt: label and task."""

    def on(self, dataset: str) -> Victim:
        """The victim as it is asked about the items of a data set."""
        task = dict(self.by_dataset).get(dataset)
        return self if task is None else replace(self, task=task, by_dataset=())

    def flow(self, candidate: Edited) -> Flow:
        """Turn one candidate into rounds of requests and their answers into a prediction."""
        return self.task.flow(candidate)

    def listing(self, candidate: Edited) -> str:
        """The prompt with the options listed, for people."""
        return self.task.listing(candidate)

    @property
    def is_told(self) -> bool:
        """Whether its requests are stored as they are (`medstress.tasks.task.Task`)."""
        return bool(getattr(self.task, "is_told", False))

    @property
    def prompt(self) -> dict[str, Any] | None:
        """Name, source and form of the prompt; None where sentences are read as they are."""
        return None if self._template is None else self._template.as_told()

    def kept_listings(self, candidates: Sequence[Edited]) -> list[str] | None:
        """Listings that must be stored; None where the form of the prompt gives them back."""
        template = self._template
        if template is None or template.form is not None or not template.lists_options:
            return None
        return [self.listing(candidate) for candidate in candidates]

    def prompt_specs(self) -> dict[str, dict[str, Any]]:
        """What defines the tasks of data sets with another prompt, by data set."""
        return {dataset: task.spec() for dataset, task in self.by_dataset}

    @property
    def _template(self) -> Template | None:
        return getattr(self.task, "template", None)

    def spec(self) -> dict[str, Any]:
        """What defines the victim, for fingerprints: task and model, no paths, no devices.

        What differs by data set is not in it (`prompt_specs`): another data set may join a run.
        """
        return {"task": self.task.spec(), "model": self.backend.identity.hash}
