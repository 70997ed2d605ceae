"""Build the tasks of victims of questions: prompt, way of answering, examples, defences."""

from __future__ import annotations

from pathlib import Path

from medstress.backends.llama_cpp import NO_TEXT
from medstress.core.calls import Decoding
from medstress.core.errors import UsageError
from medstress.kinds.examples import draw_examples
from medstress.kinds.kind import VictimRequest
from medstress.kinds.victim_keys import VictimKeys
from medstress.kinds.victim_prompts import SHIPPED, prompt_for
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.task import Task
from medstress.tasks.templates import Template, load_template
from medstress.tasks.wrapping import wrapped

_CALLS = {
    AnswerBy.LETTER: "score",
    AnswerBy.TEXT: "score",
    AnswerBy.GENERATE: "generate",
    AnswerBy.HEAD: "rank",
}
"""Way of answering -> its kind of call."""


def prompted_tasks(
    asked: VictimRequest, likely: AnswerBy = AnswerBy.LETTER, usual: str = SHIPPED
) -> tuple[Task, tuple[tuple[str, Task], ...]]:
    """Build the task of a victim of questions, and tasks for data sets with their own prompts.

    Args:
        asked: who is asked.
        likely: how a model answers if `answer_by` is not set.
        usual: the prompt if `prompt` is not set; a shipped one or a file.

    Raises:
        UsageError: the back end cannot do the task, or there are not enough examples.
    """
    table, base, label = asked.table, asked.base, asked.label
    examples = draw_examples(table, base, label)

    def task(prompt: str) -> Task:
        prompt = usual if prompt == SHIPPED else prompt
        own = task_of(table, base, asked.backend.traits.calls, label, prompt, likely)
        return wrapped(own, table.wrap, base, label, examples)

    default = prompt_for(table.prompt)
    prompts = {dataset: prompt_for(table.prompt, dataset, name) for dataset, name in asked.datasets}
    return task(default), tuple((d, task(n)) for d, n in prompts.items() if n != default)


def task_of(
    table: VictimKeys,
    base: Path,
    kinds: frozenset[str],
    label: str,
    prompt: str | None = None,
    likely: AnswerBy = AnswerBy.LETTER,
) -> MultipleChoice:
    """Build the multiple-choice task of a victim and check that its back end can do it.

    `prompt` is one of the table's prompts; default: the one for data sets without an entry.
    A model answers as `likely` says if `answer_by` is not set.

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
    answer_by = AnswerBy(table.answer_by or likely)
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


def head_template(prompt: str, base: Path) -> Template:
    """Load the template of the question that a head reads beside each option.

    Raises:
        UsageError: it lists the options or is a chat, which a head cannot read.
    """
    template = load_template(prompt, base)
    if template.lists_options or template.chat:
        raise UsageError(f"prompt {prompt!r}: expected a plain template with lists_options = false")
    return template
