"""Rebuild the prompts that victims were sent, from items, edits, templates and stored calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.calls import Answer, Call, Message, Prompt
from medstress.core.items import Edited, Item
from medstress.core.outcomes import Prediction
from medstress.kinds import kind_described
from medstress.results.load import StoredRun
from medstress.results.victims import victim_of
from medstress.store.run_store import FILE
from medstress.tasks.task import AnyTask
from medstress.tasks.templates import Template

_SHOWN_AT_LEAST = 64 << 20
_SHOWN_A_BYTE = 64


class Prompts:
    """The tasks of a run's victims, rebuilt from the manifest."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._tasks: dict[tuple[str, str | None], AnyTask] = {}
        """By victim and data set; None is for all data sets without a prompt of their own."""
        for label, victim in manifest["victims"].items():
            # Victims that share the items have one name in rows, and the same task.
            name = victim_of(label, victim)
            for dataset, stored in {None: victim, **victim.get("by_dataset", {})}.items():
                self._tasks[name, dataset] = kind_described(stored["task"]).task_from_spec(
                    stored["task"], stored["prompt"]
                )
        self._clean: dict[tuple[str, int], tuple[Prompt | None, str | None]] = {}

    def call(self, victim: str, dataset: str, candidate: Edited, number: int) -> Call | None:
        """Return the number-th call of a query; None if the template cannot reproduce it."""
        template = self._template(victim, dataset)
        if template is not None and not template.is_shown:
            return None
        return next(self.task(victim, dataset).flow(candidate))[number].call

    def prediction(
        self, victim: str, dataset: str, candidate: Edited, answers: Sequence[Answer]
    ) -> Prediction:
        """Return what a victim's stored answers about a candidate say."""
        flow, left = self.task(victim, dataset).flow(candidate), list(answers)
        requests = next(flow)
        while True:
            taken, left = left[: len(requests)], left[len(requests) :]
            try:
                requests = flow.send(tuple(taken))
            except StopIteration as stop:
                prediction: Prediction = stop.value
                return prediction

    def listing(self, victim: str, dataset: str, candidate: Edited) -> str | None:
        """Return the prompt with the options listed; None if it cannot be reproduced."""
        template = self._template(victim, dataset)
        # A prompt that does not list the options is shown with a template that does.
        if template is not None and template.lists_options and not template.is_shown:
            return None
        return self.task(victim, dataset).listing(candidate)

    def shown(
        self, victim: str, dataset: str, candidate: Edited
    ) -> tuple[Prompt | None, str | None]:
        """Return the prompt of a single question as it is sent, and with the options listed."""
        call, template = self.call(victim, dataset, candidate, 0), self._template(victim, dataset)
        sent = _as_text(getattr(call, "prompt", None))
        if isinstance(sent, str) and template and template.lists_options and not template.chat:
            return sent, sent
        listing = self.listing(victim, dataset, candidate)
        # Sentences are sent as they are shown.
        return listing if call is not None and sent is None else sent, listing

    def clean(
        self, victim: str, dataset: str, row: int, item: Item
    ) -> tuple[Prompt | None, str | None]:
        """Return `shown` for a clean item; `row` is its number in the run, for caching."""
        if (victim, row) not in self._clean:
            self._clean[victim, row] = self.shown(victim, dataset, item.candidate())
        return self._clean[victim, row]

    def has_form(self, victim: str, dataset: str) -> bool:
        """True if the calls of single questions follow from item, edits and template."""
        template = self._template(victim, dataset)
        return template is None or template.form is not None

    def task(self, victim: str, dataset: str) -> AnyTask:
        """Return the task of a victim on a data set."""
        return self._tasks.get((victim, dataset)) or self._tasks[victim, None]

    def hides_passages(self, victim: str, dataset: str) -> bool:
        """Return whether a victim's prompts leave out the passages of items."""
        template = self._template(victim, dataset)
        return template is not None and not template.shows("passage")

    def _template(self, victim: str, dataset: str) -> Template | None:
        return getattr(self.task(victim, dataset), "template", None)


def _as_text(prompt: Prompt | None) -> Prompt | None:
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
    longest = max(prompts, key=lambda each: len(str(each)))
    if isinstance(longest, str):
        return longest
    return _as_text(tuple(Message(role, content) for role, content in longest))


def most_shown(run: StoredRun) -> int:
    """Return the most characters of prompts that a run of its size can have in its rows."""
    return max(_SHOWN_AT_LEAST, _SHOWN_A_BYTE * (run.folder / FILE).stat().st_size)
