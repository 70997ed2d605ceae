"""The prompts that models were sent, from items, edits, the templates in a manifest, and calls.

Victims' tasks are rebuilt only when a prompt is asked for, because that loads tasks and attacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from medstress.core.calls import Answer, Call, Message, Prompt
from medstress.core.errors import StoreError
from medstress.core.items import FOLLOW_UP, Edited, Item
from medstress.core.outcomes import Prediction
from medstress.core.trials import Trial
from medstress.store.database import FILE
from medstress.store.reader import RunReader

if TYPE_CHECKING:
    from medstress.tasks.multiple_choice import AnyTask
    from medstress.tasks.templates import Template

NOT_SHOWN = "prompt not shown"
"""Replaces a prompt whose template would have to be executed."""
Requests: TypeAlias = Callable[[int, str, int], Sequence[str]]
"""(number of a trial, purpose, query) -> its calls that are stored in full, as JSON."""
_SHOWN_AT_LEAST, _SHOWN_A_BYTE = 64 << 20, 64
"""The most characters of prompts that a run of a size can have in its rows."""


class Shown(NamedTuple):
    """The prompts of a success: as they were sent, and with the options listed."""

    before: Prompt | None
    after: Prompt | None
    listing_before: str | None
    listing_after: str | None


class Prompts:
    """The tasks of a run's victims, rebuilt from the manifest."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        from medstress.tasks.kinds import kind_described

        self._tasks: dict[tuple[str, str | None], AnyTask] = {}
        """By victim and data set; None is for all data sets without a prompt of their own."""
        for label, victim in manifest["victims"].items():
            # Victims that share the items have one name in rows, and the same task.
            name = victim.get("part_of", label)
            for dataset, stored in {None: victim, **victim.get("by_dataset", {})}.items():
                self._tasks[name, dataset] = kind_described(stored["task"]).task_from_spec(
                    stored["task"], stored["prompt"]
                )
        self._clean: dict[tuple[str, str, str], tuple[Prompt | None, str | None]] = {}

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

    def clean(self, victim: str, dataset: str, item: Item) -> tuple[Prompt | None, str | None]:
        """Return `shown` for a clean item, computed once."""
        place = victim, dataset, item.id
        if place not in self._clean:
            self._clean[place] = self.shown(victim, dataset, item.candidate())
        return self._clean[place]

    def has_form(self, victim: str, dataset: str) -> bool:
        """Return whether calls of single questions follow from item, edits and prompt."""
        template = self._template(victim, dataset)
        return template is None or not template.is_jinja

    def task(self, victim: str, dataset: str) -> AnyTask:
        """Return the task of a victim on a data set."""
        return self._tasks.get((victim, dataset)) or self._tasks[victim, None]

    def hides_passages(self, victim: str, dataset: str) -> bool:
        """Return whether a victim's prompts leave out the passages of items."""
        template = self._template(victim, dataset)
        return template is not None and not template.shows("passage")

    def _template(self, victim: str, dataset: str) -> Template | None:
        return getattr(self.task(victim, dataset), "template", None)


class ShownPrompts:
    """The prompts of successes, from an open run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._prompts = Prompts(reader.manifest)
        # Prompts are rendered again for each row, so a forged small folder could use up all memory.
        size = (reader.folder / FILE).stat().st_size
        self._room = max(_SHOWN_AT_LEAST, _SHOWN_A_BYTE * size)

    def of(self, trial: Trial) -> Shown:
        """Return the prompts of a success, before any edit and after those of its pick.

        Raises:
            StoreError: the run shows more than a run of its size can hold.
        """
        listings = self._reader.result(trial.number).get("listings")
        shown = shown_of(trial, listings, self._prompts, self._reader.requests)
        texts = {text for text in (shown.after, shown.listing_after) if isinstance(text, str)}
        self._room -= sum(map(len, texts))
        if self._room < 0:
            raise StoreError(
                f"{self._reader.folder / FILE} gives more prompts than a run of its size can have; "
                "medstress did not write this file"
            )
        return shown


def shown_of(
    trial: Trial, listings: Sequence[str] | None, prompts: Prompts, requests: Requests
) -> Shown:
    """Return the prompts of a success, before any edit and after those of its pick.

    Args:
        trial: the success.
        listings: those that were stored with it; None if they follow from item and template.
        prompts: of the run's victims.
        requests: gives the calls that are stored in full.
    """
    place = trial.arm.place.victim, trial.arm.place.dataset
    if listings:
        shown = Shown(listings[0], listings[1], listings[0], listings[1])
    else:
        before, listing_before = prompts.clean(*place, trial.item)
        after, listing_after = prompts.shown(*place, trial.item.candidate(trial.edits))
        shown = Shown(before, after, listing_before, listing_after)
    # Conversations, and prompts that no form can reproduce, are stored in full.
    is_stored = (
        bool(trial.records)
        or any(edit.field == FOLLOW_UP for edit in trial.edits)
        or not prompts.has_form(*place)
    )
    if is_stored and trial.pick is not None:
        after = stored_prompt(requests(trial.number, "attack", trial.pick.query))
        if after is not None:
            before = stored_prompt(requests(trial.number, "baseline", 0))
            shown = shown._replace(before=before or shown.before, after=after)
    if shown.after is None:
        shown = shown._replace(before=NOT_SHOWN, after=NOT_SHOWN)
    if shown.listing_after is None:
        shown = shown._replace(listing_before=NOT_SHOWN, listing_after=NOT_SHOWN)
    return shown


def _as_text(prompt: Prompt | None) -> Prompt | None:
    """Return a prompt as one text, or its turns if the model has spoken in it."""
    if prompt is None or isinstance(prompt, str) or any(m.role == "assistant" for m in prompt):
        return prompt
    return "\n\n".join(message.content for message in prompt)


def stored_prompt(requests: Sequence[str]) -> Prompt | None:
    """Return the longest prompt of a query's stored calls.

    The last turn of a conversation repeats the turns before it, so the longest prompt has all.
    """
    prompts = [json.loads(request)[0][1] for request in requests]
    if not prompts:
        return None
    longest = max(prompts, key=lambda prompt: len(str(prompt)))
    if isinstance(longest, str):
        return longest
    return _as_text(tuple(Message(role, content) for role, content in longest))
