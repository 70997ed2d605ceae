"""The model under attack: a task, and the back end that answers its calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medstress.core.calls import Backend
from medstress.core.items import Edited
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, AnyTask, Flow, MultipleChoice, listed
from medstress.tasks.templates import Template
from medstress.tasks.wrappers import Wrapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A model under attack."""

    label: str
    """Name in rows and tables."""
    task: AnyTask
    """Builds its requests and reads its answers."""
    backend: Backend
    """Answers its calls."""
    by_dataset: tuple[tuple[str, AnyTask], ...] = ()
    """(label, task) of each data set with a prompt of its own."""
    too_long: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(data set, item) -> why the model cannot read its clean prompt; such items are not asked."""

    def on(self, dataset: str) -> Victim:
        """Return the victim with its task for a data set."""
        task = dict(self.by_dataset).get(dataset)
        return self if task is None else replace(self, task=task, by_dataset=())

    def shows(self, name: str) -> bool:
        """Return whether its prompt shows a field of an item, or lists the `options`.

        See `Template.shows`. Conversations always list them.
        """
        task, template = self.task, self._template
        if template is None or (name == "options" and isinstance(task, Conversation)):
            return True
        while isinstance(task, Wrapper):
            task = task.inner
        is_listed = isinstance(task, MultipleChoice) and task.answer_by is AnswerBy.CHOICE
        return (listed(template) if is_listed else template).shows(name)

    def misses(self, names: Collection[str]) -> bool:
        """Return whether its prompt shows none of some fields; False if none is named."""
        return bool(names) and not any(map(self.shows, names))

    def flow(self, candidate: Edited) -> Flow:
        """Turn one candidate into rounds of requests and their answers into a prediction."""
        return self.task.flow(candidate)

    def listing(self, candidate: Edited) -> str:
        """Return the prompt with the options listed, for people."""
        return self.task.listing(candidate)

    @property
    def stores_requests(self) -> bool:
        """True if its requests are stored in full (`medstress.tasks.multiple_choice.Task`)."""
        return bool(getattr(self.task, "stores_requests", False))

    @property
    def prompt(self) -> dict[str, Any] | None:
        """Name and text of the prompt; None if sentences are read without a prompt."""
        return None if self._template is None else self._template.as_json()

    def kept_listings(self, candidates: Sequence[Edited]) -> list[str] | None:
        """Return listings that must be stored; None if they can be made again without Jinja."""
        template = self._template
        if template is None or not template.is_jinja or not template.lists_options:
            return None
        return [self.listing(candidate) for candidate in candidates]

    def prompt_specs(self) -> dict[str, dict[str, Any]]:
        """Return the specs of tasks with a prompt of their own, by data set."""
        return {dataset: task.spec() for dataset, task in self.by_dataset}

    @property
    def _template(self) -> Template | None:
        return getattr(self.task, "template", None)

    def spec(self) -> dict[str, Any]:
        """Return what defines the victim, for fingerprints: task and model, no paths or devices.

        Prompts by data set are left out (see `prompt_specs`), because a data set may join a run.
        """
        return {"task": self.task.spec(), "model": self.backend.identity.hash}
