"""The model under attack: a task, and the back end that answers its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from medstress.calls import Backend
from medstress.items import Edited
from medstress.tasks.multiple_choice import Flow
from medstress.tasks.task import AnyTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A model under attack."""

    label: str
    """How it is called in rows and tables."""
    task: AnyTask
    """What it is asked and how its answers are read."""
    backend: Backend
    """Who answers."""

    def flow(self, candidate: Edited) -> Flow:
        """Turn one candidate into rounds of requests and their answers into a prediction."""
        return self.task.flow(candidate)

    def listing(self, candidate: Edited) -> str:
        """The prompt with the options listed, for people."""
        return self.task.listing(candidate)

    @property
    def is_told(self) -> bool:
        """Whether what is asked follows from earlier answers too, and is stored in full."""
        return bool(getattr(self.task, "is_told", False))

    @property
    def prompt(self) -> dict[str, str] | None:
        """Name and source of the prompt; None where sentences are read as they are."""
        template = getattr(self.task, "template", None)
        return None if template is None else {"name": template.name, "source": template.source}

    def spec(self) -> dict[str, Any]:
        """What defines the victim, for fingerprints: task and model, no paths, no devices."""
        return {"task": self.task.spec(), "model": self.backend.identity.hash}
