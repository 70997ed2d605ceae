"""The texts of a call that are explained, and the same call with other texts in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from medstress.core.calls import (
    Answer,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Generate,
    Prompt,
    Rank,
    Request,
    Score,
    Tag,
)
from medstress.core.errors import TrialError
from medstress.tasks.multiple_choice import Flow, changed

Texts: TypeAlias = tuple[str, ...]


def texts_of(call: Call) -> Texts:
    """Return the texts of a call that are explained.

    A plain prompt is explained as a whole; of a conversation, the last turn of the user, which
    shows the question. A multiple-choice head reads the question and each option, a tagger its
    tokens, and a model of pairs both texts.

    Raises:
        TrialError: the call is a conversation without a turn of the user.
    """
    match call:
        case Score() | Generate() | Choose():
            if isinstance(call.prompt, str):
                return (call.prompt,)
            said = [turn.content for turn in call.prompt if turn.role == "user"]
            if not said:
                raise TrialError("not explained: the conversation has no turn of the user")
            return (said[-1],)
        case Rank():
            return (call.prompt, *call.options)
        case Tag():
            return call.tokens
        case Compare() | Classify():
            return (call.text_a, call.text_b)


def with_texts(call: Call, old: Texts, new: Texts) -> Call:
    """Return a call with other texts, wherever the old ones stand in it.

    Later turns of a conversation repeat its first ones, and there the texts are replaced too. A
    call that does not show them stays as it is, such as that for the likelihood of an option alone.

    >>> with_texts(Choose("Is it? A. yes", "A"), ("Is it? A. yes",), ("... A. yes",)).prompt
    '... A. yes'
    """
    match call:
        case Choose():
            return replace(call, prompt=_with_text(call.prompt, old[0], new[0]))
        case Score() | Generate():
            return replace(call, prompt=_with_prompt(call.prompt, old[0], new[0]))
        case Rank():
            if texts_of(call) != old:
                return call
            return replace(call, prompt=new[0], options=new[1:])
        case Tag():
            return replace(call, tokens=new) if call.tokens == old else call
        case Compare() | Classify():
            if texts_of(call) != old:
                return call
            return replace(call, text_a=new[0], text_b=new[1])


def _with_text(text: str, old: str, new: str) -> str:
    # A conversation with a model without turns is one text that begins with the first turns.
    return new + text[len(old) :] if text.startswith(old) else text


def _with_prompt(prompt: Prompt, old: str, new: str) -> Prompt:
    if isinstance(prompt, str):
        return _with_text(prompt, old, new)
    return tuple(
        replace(turn, content=new) if turn.role == "user" and turn.content == old else turn
        for turn in prompt
    )


def masked_flow(flow: Flow, old: Texts, new: Texts) -> Flow:
    """Run a flow that shows other texts; its answers are read as if it showed its own."""

    def ask(request: Request) -> Request:
        return replace(request, call=with_texts(request.call, old, new))

    def read(answer: Answer) -> Answer:
        # Some functions return their prompt followed by the answer.
        if isinstance(answer, Chosen) and answer.text is not None and answer.text.startswith(new):
            shown = next(text for text in new if answer.text.startswith(text))
            return replace(answer, text=old[new.index(shown)] + answer.text[len(shown) :])
        return answer

    return changed(flow, ask, read)


def first_texts(flow: Flow) -> Texts:
    """Return the explained texts of a flow's first call; the flow is closed."""
    try:
        return texts_of(next(flow)[0].call)
    finally:
        flow.close()
