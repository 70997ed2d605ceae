"""Paraphrases that a model writes, and a check that drops those that lose a fact."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Annotated

from pydantic import Field

from medstress.attacks.controls.facts import Original
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.items import Candidate, Question
from medstress.core.queries import LOOKAHEAD, Predict, Steps, ask_in_turn, consult
from medstress.core.text import Edit
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

ROLE = "paraphraser"
AT_ONCE = 8
"""Paraphrases asked of the role at once after the first one."""
LONGEST = 3
"""A paraphrase of more than this many times the words of the question is dropped."""


class Reworded(Reply):
    """The question in other words."""

    context: str = ""
    """What stands before the sentence that asks."""
    question: Annotated[str, Field(min_length=1)]
    """The sentence that asks."""


def ask_written(
    item: Question,
    decoding: Decoding,
    first_sample: int,
    original: Original,
    spare: Iterator[Predict],
    most: int,
) -> Steps[Candidate | None]:
    """Ask up to `most` paraphrases that a role writes, until one reaches the goal.

    Args:
        item: the question.
        decoding: how the role generates.
        first_sample: index of the first paraphrase among samples of the role; unused at
            temperature 0.
        original: checks the paraphrases.
        spare: paraphrases in place of those that are unreadable, repeat another or fail the check.
        most: how many.
    """
    call = Generate(
        (Message("user", _prompt(item)),), decoding, schema=schema_of(Reworded, item.letters)
    )
    is_sampled = decoding.temperature > 0
    n_asked, sample = 0, first_sample if is_sampled else 0
    seen: set[tuple[str, str]] = set()
    while n_asked < most:
        # One first: it is often enough. What is asked does not depend on how many are asked.
        n = min(AT_ONCE if n_asked else 1, most - n_asked)
        # At temperature 0 all replies would be the first one.
        calls = [call] * (n if is_sampled else not n_asked)
        answers = (yield from consult(ROLE, calls, sample)) if calls else ()
        sample += n
        queries: list[Predict] = []
        for answer in answers:
            assert isinstance(answer, Generated)
            candidate = _candidate(item, answer.text, original)
            if candidate is not None and (candidate.context, candidate.stem) not in seen:
                seen.add((candidate.context, candidate.stem))
                queries.append(Predict(candidate))
            else:
                queries += islice(spare, 1)
        queries += islice(spare, n - len(queries))
        if not queries:
            return None
        n_asked += n
        reached: Candidate | None = yield from ask_in_turn(queries, LOOKAHEAD)
        if reached is not None:
            return reached
    return None


def _candidate(item: Question, text: str, original: Original) -> Candidate | None:
    """Return the paraphrase of a reply; None if it cannot be used."""
    reply = read_reply(text, Reworded)
    if isinstance(reply, Unreadable) or bool(reply.context) != bool(item.context):
        return None
    whole = f"{reply.context} {reply.question}" if reply.context else reply.question
    if len(whole.split()) > LONGEST * len(original.words) or not original.is_kept_in(whole):
        return None
    texts = (
        {"context": reply.context, "stem": reply.question}
        if item.context
        else {"stem": reply.question}
    )
    return Candidate(
        item=item,
        edits=tuple(
            Edit(field=name, start=0, end=len(item.text_of(name)), replacement=new)
            for name, new in texts.items()
        ),
    )


def _prompt(item: Question) -> str:
    return _template().format(context=item.context, question=item.stem)


@lru_cache(maxsize=1)
def _template() -> str:
    path = files("medstress.attacks.controls") / "data" / "paraphraser.txt"
    return path.read_text("utf-8").strip()
