"""The tasks of victims of questions: prompt, way of answering, examples, defences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medstress.core import registry
from medstress.core.calls import Decoding
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.datasets.source import DatasetOptions, Loaded, draw
from medstress.kinds import Tasks, VictimKeys, VictimRequest
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, Task, TextScore
from medstress.tasks.templates import load_template
from medstress.tasks.wrappers import SPARE, wrapped

SHIPPED = "qstab"
"""The default prompt."""
_CALLS = {
    AnswerBy.LETTER: "score",
    AnswerBy.TEXT: "score",
    AnswerBy.GENERATE: "generate",
    AnswerBy.HEAD: "rank",
}
"""Way of answering -> its kind of call."""


def prompted_tasks(asked: VictimRequest) -> Tasks:
    """Build the task of a victim of questions, and tasks for data sets with their own prompts.

    Raises:
        UsageError: the back end cannot do the task, or there are not enough examples.
    """
    table, base, label = asked.table, asked.base, asked.label
    examples = draw_examples(table, base, label)

    def task(prompt: str) -> Task:
        own = task_of(table, base, asked.backend.traits.calls, label, prompt)
        return wrapped(own, table.wrap, base, label, examples)

    default = prompt_for(table.prompt)
    prompts = {dataset: prompt_for(table.prompt, dataset, name) for dataset, name in asked.datasets}
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
                f"victim {label!r}: answer_by is not for functions, which answer as they like; "
                "leave it out"
            )
        return MultipleChoice(
            template=template, answer_by=AnswerBy.CHOICE, parser=parser, thoughts=table.thoughts
        )
    answer_by = AnswerBy(table.answer_by or AnswerBy.LETTER)
    if _CALLS[answer_by] not in kinds:
        raise UsageError(
            f"victim {label!r}: backend {table.backend!r} cannot answer by {answer_by.value}"
        )
    if answer_by is AnswerBy.HEAD and (template.lists_options or template.chat):
        raise UsageError(
            f"victim {label!r}: a head reads the question and one option at a time, and prompt "
            f"{prompt!r} {'lists the options' if template.lists_options else 'is a chat'}; "
            'use prompt = "question" or a plain template with lists_options = false'
        )
    if answer_by is AnswerBy.TEXT and template.chat and table.backend == "openai":
        raise UsageError(
            f"victim {label!r}: servers give no log probabilities of a conversation, which prompt "
            f'{prompt!r} is, so answer_by = "text" needs a prompt that is plain text'
        )
    if answer_by is AnswerBy.TEXT and table.backend == "llama_cpp":
        from medstress.backends.llama_cpp import NO_TEXT

        raise UsageError(f"victim {label!r}: {NO_TEXT}")
    if answer_by not in (AnswerBy.TEXT, AnswerBy.HEAD) and not template.lists_options:
        raise UsageError(
            f"victim {label!r}: prompt {prompt!r} does not list the options, so only "
            'answer_by = "text" or "head" makes sense with it'
        )
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


def draw_examples(table: VictimKeys, base: Path, label: str) -> tuple[Question, ...]:
    """Draw a victim's examples, and two more in case the item is among them.

    Questions of the same text are drawn once.

    Raises:
        UsageError: `shots` without `shots_from` or the other way round, or too few questions.
    """
    given = table.shots_from
    if not table.shots and given is None:
        return ()
    if not table.shots or given is None:
        lacks, has = ("shots", "shots_from") if given else ("shots_from", "shots")
        raise UsageError(f"victim {label!r}: {has} is set and {lacks} is not: give both or neither")
    distinct: dict[str, Question] = {}
    for question in _load(given, base, label):
        distinct.setdefault(question.question, question)
    wanted = table.shots + SPARE
    if len(distinct) < wanted:
        raise UsageError(
            f"victim {label!r}: shots = {table.shots} needs {wanted} different questions, two of "
            f"them in reserve, and shots_from = {given!r} holds {len(distinct)}"
        )
    return draw(tuple(distinct.values()), wanted, table.shots_seed)


def _load(given: str, base: Path, label: str) -> tuple[Question, ...]:
    name, colon, place = given.partition(":")
    if not colon:
        ending = {".jsonl": "jsonl", ".parquet": "parquet"}.get(Path(given).suffix)
        name, place = (ending, given) if ending else (given, "")
    if name not in registry.installed("datasets"):
        raise UsageError(
            f"victim {label!r}: shots_from = {given!r}: expected 'sample', a .jsonl or .parquet "
            "file, or a data set and its file such as 'medqa:train.jsonl'"
        )
    path = base / Path(place).expanduser() if place else None
    loaded: Loaded = registry.load("datasets", name)(DatasetOptions(path=path))
    return loaded.questions
