"""The model under attack: a task, and the back end that answers its calls.

Here too: what a kind of items is told of a victim to build its tasks, and the tasks of victims of
questions (prompt, way of answering, examples, defences).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from medstress.core.calls import Backend, Decoding
from medstress.core.errors import UsageError
from medstress.core.items import Edited, Question
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import (
    AnswerBy,
    AnyTask,
    Flow,
    MultipleChoice,
    Task,
    TextScore,
    listed,
)
from medstress.tasks.templates import Template, load_template
from medstress.tasks.wrappers import Wrapper, wrapped

SHIPPED = "qstab"
"""The default prompt."""
NO_TEXT = (
    'llama.cpp gives no log probabilities of a prompt, so answer_by = "text" cannot be done with '
    'backend = "llama_cpp"; use "letter", "generate", or backend = "transformers", which reads '
    "GGUF files too"
)
_CALLS = {
    AnswerBy.LETTER: "score",
    AnswerBy.TEXT: "score",
    AnswerBy.GENERATE: "generate",
    AnswerBy.HEAD: "rank",
}
"""Way of answering -> its kind of call."""


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
    too_long: Mapping[tuple[str, str, bool], str] = field(default_factory=dict)
    """(data set, item, in turns) -> why the model cannot read its clean prompt; it is not asked."""

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


# -- what a kind builds tasks from ------------------------------------------------------------
class VictimKeys(Protocol):
    """Keys of a `[[victim]]` table; `medstress.experiment.config` describes them."""

    backend: str
    prompt: str | dict[str, str]
    answer_by: Any
    """A text or None; like the next two, one of the words that the table knows."""
    text_score: Any
    parser: Any
    thoughts: tuple[str, str] | None
    max_new_tokens: int
    reasoning_tokens: int | None
    temperature: float
    labels: dict[str, str] | None
    shots: int
    shots_from: str | None
    shots_seed: int
    wrap: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRequest:
    """A victim and the data it is asked about, from which a kind builds the victim's tasks."""

    table: VictimKeys
    """The victim's keys."""
    label: str
    """The victim's label, for messages."""
    base: Path
    """Folder that relative paths start from."""
    backend: Backend
    """Answers the victim's calls."""
    classes: tuple[str, ...] = ()
    """See `Kind.classes`."""
    datasets: Sequence[tuple[str, str]] = ()
    """(label, name) of each data set, for prompts by data set."""
    examples: Callable[[], tuple[Question, ...]] = tuple
    """Draws the victim's examples; only victims with prompts have some."""

    def refuse(self, kind: str, *keys: str) -> None:
        """Refuse keys that do not apply to a kind.

        Raises:
            UsageError: a key is set; the message names it.
        """
        for key in keys:
            if getattr(self.table, key):
                raise UsageError(f"model {self.label!r}: {key} is for questions, not for {kind}")

    def cannot(self, kind: str, also: str = "") -> UsageError:
        """Return the error for a back end that cannot answer a kind."""
        return UsageError(
            f"model {self.label!r}: backend {self.table.backend!r} cannot answer {kind}{also}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of a victim."""

    default: AnyTask
    """Task for data sets without a task of their own."""
    by_dataset: tuple[tuple[str, AnyTask], ...] = ()
    """(label, task) of each data set with a task of its own."""


# -- victims of questions ---------------------------------------------------------------------
def prompted_tasks(request: VictimRequest) -> Tasks:
    """Build the task of a victim of questions, and tasks for data sets with their own prompts.

    Raises:
        UsageError: the back end cannot do the task, or there are not enough examples.
    """
    table, base, label = request.table, request.base, request.label
    examples = request.examples()

    def task(prompt: str) -> Task:
        own = task_of(table, base, request.backend.traits.calls, label, prompt)
        return wrapped(own, table.wrap, base, label, examples)

    default = prompt_for(table.prompt)
    prompts = {
        dataset: prompt_for(table.prompt, dataset, name) for dataset, name in request.datasets
    }
    own = tuple((dataset, task(name)) for dataset, name in prompts.items() if name != default)
    return Tasks(default=task(default), by_dataset=own)


def task_of(
    table: VictimKeys,
    base: Path,
    kinds: frozenset[str],
    label: str,
    prompt: str | None = None,
) -> MultipleChoice:
    """Build the multiple-choice task of a victim and check that its back end can do it.

    `prompt` is one of the table's prompts; default: the one for data sets without an entry.

    Raises:
        UsageError: the back end cannot do the task with this prompt.
    """
    prompt = prompt or prompt_for(table.prompt)
    template = load_template(prompt, base)
    parser = table.parser
    is_function = "choose" in kinds and "score" not in kinds
    if is_function or (table.answer_by is None and "choose" in kinds):
        if table.answer_by is not None:
            raise UsageError(
                f"model {label!r}: answer_by is not for functions, which answer as they like; "
                "leave it out"
            )
        return MultipleChoice(
            template=template, answer_by=AnswerBy.CHOICE, parser=parser, thoughts=table.thoughts
        )
    answer_by, problem = AnswerBy(table.answer_by or AnswerBy.LETTER), ""
    if _CALLS[answer_by] not in kinds:
        problem = f"backend {table.backend!r} cannot answer by {answer_by.value}"
    elif answer_by is AnswerBy.HEAD and (template.lists_options or template.chat):
        problem = (
            f"a head reads the question and one option at a time, so prompt {prompt!r} must be "
            'plain text without the options, such as prompt = "question"'
        )
    elif answer_by is AnswerBy.TEXT and template.chat and table.backend == "openai":
        problem = (
            f"servers give no log probabilities of a conversation, which prompt {prompt!r} is, so "
            'answer_by = "text" needs a prompt that is plain text'
        )
    elif answer_by is AnswerBy.TEXT and table.backend == "llama_cpp":
        problem = NO_TEXT
    elif answer_by not in (AnswerBy.TEXT, AnswerBy.HEAD) and not template.lists_options:
        problem = (
            f'prompt {prompt!r} does not list the options, so only answer_by = "text" or '
            '"head" makes sense with it'
        )
    if problem:
        raise UsageError(f"model {label!r}: {problem}")
    return MultipleChoice(
        template=template,
        answer_by=answer_by,
        text_score=TextScore(table.text_score),
        parser=parser,
        thoughts=table.thoughts,
        decoding=Decoding(max_new_tokens=table.max_new_tokens, temperature=table.temperature),
        reasoning_tokens=table.reasoning_tokens,
    )


def prompt_for(prompt: str | Mapping[str, str], label: str = "", name: str = "") -> str:
    """Return the prompt for a data set: by its label, else by its name, else the default.

    Args:
        prompt: the victim's key `prompt`.
        label: label of the data set.
        name: name of its source.

    >>> [prompt_for({"medmcqa": "medmcqa"}, label) for label in ("medmcqa", "sample")]
    ['medmcqa', 'qstab']
    """
    if isinstance(prompt, str):
        return prompt
    return prompt.get(label) or prompt.get(name) or prompt.get("default", SHIPPED)
