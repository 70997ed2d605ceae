"""The prompts that models were sent, rendered from items, edits and the manifest's templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.calls import Answer, Call, Message, Prompt
from medstress.core.items import Edited
from medstress.core.outcomes import Prediction


class Prompts:
    """The tasks of a run's models, made again from its manifest; nothing is asked."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        """Make the task of every model, and of data sets with a prompt of their own."""
        from medstress.kinds import kind_described

        self._tasks: dict[tuple[str, str | None], Any] = {}
        for label, victim in manifest["victims"].items():
            # Models that share the items have one name in rows, and the same task.
            name = str(victim.get("part_of", label))
            for dataset, stored in {None: victim, **victim.get("by_dataset", {})}.items():
                self._tasks[name, dataset] = kind_described(stored["task"]).task_from_spec(
                    stored["task"], stored["prompt"]
                )

    def call(self, model: str, dataset: str, candidate: Edited) -> Call | None:
        """Return the first call of a query; None if the template cannot be rendered here."""
        template = self._template(model, dataset)
        if template is not None and not template.is_shown:
            return None
        first: Call = next(self._task(model, dataset).flow(candidate))[0].call
        return first

    def listing(self, model: str, dataset: str, candidate: Edited) -> str | None:
        """Return the prompt with the options listed; None if it cannot be rendered here."""
        template = self._template(model, dataset)
        # A prompt that does not list the options is shown with a template that does.
        if template is not None and template.lists_options and not template.is_shown:
            return None
        text: str | None = self._task(model, dataset).listing(candidate)
        return text

    def sent(self, model: str, dataset: str, candidate: Edited) -> Prompt | None:
        """Return the prompt of a single question as it is sent."""
        call, template = self.call(model, dataset, candidate), self._template(model, dataset)
        prompt = as_text(getattr(call, "prompt", None))
        if isinstance(prompt, str) and template and template.lists_options and not template.chat:
            return prompt
        # Sentences are sent as they are shown.
        is_shown = call is not None and prompt is None
        return self.listing(model, dataset, candidate) if is_shown else prompt

    def prediction(
        self, model: str, dataset: str, candidate: Edited, answers: Sequence[Answer]
    ) -> Prediction:
        """Return what a model's stored answers about a candidate say."""
        flow, left = self._task(model, dataset).flow(candidate), list(answers)
        requests = next(flow)
        while True:
            taken, left = left[: len(requests)], left[len(requests) :]
            try:
                requests = flow.send(tuple(taken))
            except StopIteration as stop:
                prediction: Prediction = stop.value
                return prediction

    def has_form(self, model: str, dataset: str) -> bool:
        """Return whether the calls of single questions follow from item, edits and template."""
        template = self._template(model, dataset)
        return template is None or template.form is not None

    def _task(self, model: str, dataset: str) -> Any:
        return self._tasks.get((model, dataset)) or self._tasks[model, None]

    def _template(self, model: str, dataset: str) -> Any:
        return getattr(self._task(model, dataset), "template", None)


def as_text(prompt: Prompt | None) -> Prompt | None:
    """Return a prompt as one text, or its turns if the model has spoken in it."""
    if prompt is None or isinstance(prompt, str) or any(m.role == "assistant" for m in prompt):
        return prompt
    return "\n\n".join(message.content for message in prompt)


def stored_prompt(requests: Sequence[str]) -> Prompt | None:
    """Return the longest prompt of a query's stored calls.

    The last turn of a conversation repeats the turns before it, so the longest prompt has all.
    """
    prompts = [json.loads(request)[1] for request in requests]
    if not prompts:
        return None
    longest = max(prompts, key=lambda prompt: len(str(prompt)))
    if isinstance(longest, str):
        return longest
    return as_text(tuple(Message(role, content) for role, content in longest))
