"""Servers that do one thing that real ones do, and what is made of it."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from fault_server import Asked, FaultServer
from late import needs
from medstress.backends.openai import OpenAiBackend
from medstress.backends.options import BackendOptions
from medstress.backends.server import Patience
from medstress.core.calls import (
    WITHHELD,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    Reply,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.core.outcomes import is_too_long

pytestmark = needs("openai")

TURNS = (Message("system", "You are a doctor."), Message("user", "Which? A: x B: y"))
WRITE = Generate(TURNS, Decoding(max_new_tokens=16), schema='{"properties":{"answer":{}}}')
PLAIN = Generate(TURNS, Decoding(max_new_tokens=16))
TEXT = Generate("Which?", Decoding(max_new_tokens=16))
LETTERS = Score(TURNS, ("A", "B"), first_token=True)
JSON = '{"answer": "B"}'


def chat(content: Any, end: str | None = "stop", *, choice: Any = None, **message: Any) -> Any:
    """A reply of the chat endpoint."""
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": end, "message": said, **(choice or {})}
    usage = {"prompt_tokens": 10, "completion_tokens": 3}
    return {"model": "m", "choices": [choice], "usage": usage}


def always(reply: Any, status: int = 200) -> Callable[[Asked], Any]:
    return lambda asked: (status, reply)


def unless(
    takes: Callable[[Mapping[str, Any]], bool], words: Any, status: int = 400, content: str = JSON
) -> Callable[[Asked], Any]:
    """Refuse what a server does not take."""
    error = words if isinstance(words, dict) else {"error": {"message": words}}
    return lambda asked: (200, chat(content)) if takes(asked.body) else (status, error)


def ask(plant: Callable[[Asked], Any], *calls: Any) -> tuple[Any, FaultServer, Any]:
    """Ask one call after the other; returns the replies or what stops, the server and endpoint."""
    with FaultServer(model="m", plant=plant) as server:
        backend = OpenAiBackend(
            BackendOptions(base_url=server.url, model="m"),
            patience=Patience(attempts=3, first=0.001, longest=0.01),
        )
        replies: Any = []
        try:
            for call in calls:
                replies += backend.answer([call])
        except UsageError as error:
            with pytest.raises(UsageError):
                backend.answer([calls[-1]])  # nothing more is asked
            replies = error
        endpoint = backend.endpoint
        backend.close()
    return replies, server, endpoint


# -- what is no answer, although it looks like one -------------------------------------------
BROKEN = {
    "finish reason error, with half a text": (chat("The answer is B", "error"), "'error'", 3),
    "another finish reason": (chat("B", "model_length"), "'model_length'", 1),
    "an error in the choice": (
        chat("", choice={"error": {"code": 502, "message": "upstream died"}}),
        "502 (it says: upstream died)",
        3,
    ),
    "an error and text in the choice": (
        chat("B", choice={"error": {"code": 400, "message": "bad"}}),
        "400 (it says: bad)",
        1,
    ),
    "a call of a tool": (
        chat(None, "tool_calls", tool_calls=[{"id": "1"}]),
        "sent a call of a tool and no text",
        1,
    ),
    "a call of a tool and an empty text": (
        chat("", "tool_calls", tool_calls=[{"id": "1"}]),
        "sent a call of a tool and no text",
        1,
    ),
    "a picture alone": (chat([{"type": "image_url", "image_url": {}}]), "without a text: {", 3),
    "no choice": ({"model": "m", "choices": [], "note": "warming up"}, "warming up", 3),
    "no text": (chat(None, note="filtered?"), "without a text: {", 3),
    "choices null": ({"model": "m", "choices": None}, "sent 0 choices, not 1: {", 3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_answer_is_a_failure_that_says_why(name):
    reply, words, n = BROKEN[name]
    (failure,), server, _ = ask(always(reply), PLAIN)
    assert isinstance(failure, Failure)
    assert words in failure.error
    assert len(server.log) == n


STOPS = {
    "no quota, said with status 200": (
        {"choices": None, "error": {"code": 402, "message": "Insufficient credits"}},
        "answered 402: there is no quota left (it says: Insufficient credits)",
    ),
    "no quota, said in the choice": (
        chat("", choice={"error": {"code": "402", "message": "Insufficient credits"}}),
        "there is no quota left",
    ),
    "a wrong key, said with status 200": ({"error": {"code": 401, "message": "x"}}, "the key is"),
    "a key without permission": (
        {"error": {"code": 403, "message": "Your key has no permission under the content policy"}},
        "the key may not be used for this",
    ),
    "no quota, by name": (
        {"error": {"code": "insufficient_quota", "message": "x"}},
        "there is no quota left",
    ),
}


@pytest.mark.parametrize("name", STOPS)
def test_what_stops_a_run_costs_one_request(name):
    from concurrent.futures import ThreadPoolExecutor

    reply, words = STOPS[name]
    with FaultServer(model="m", plant=always(reply)) as server:
        backend = OpenAiBackend(BackendOptions(base_url=server.url, model="m"))
        with ThreadPoolExecutor(24) as threads:
            asked = [threads.submit(backend.answer, [PLAIN]) for _ in range(24)]
        said = {str(one.exception()) for one in asked}
        backend.close()
    assert len(server.log) == len(said) == 1
    assert words in said.pop()


# -- forms of an answer ----------------------------------------------------------------------
ANSWER = "The answer is B"
THOUGHT = [{"type": "text", "text": "Not A."}]
FORMS = {
    "parts": ([{"type": "text", "text": "The answer "}, {"type": "text", "text": "is B"}], None),
    "parts with thoughts": (
        [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "The answer is B"}],
        "Not A.",
    ),
    "a picture and a text": (
        [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": ANSWER}],
        None,
    ),
    "thoughts as text": (
        [{"type": "reasoning", "text": "Not A."}, {"type": "output_text", "text": ANSWER}],
        "Not A.",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_content_in_parts_is_a_text_and_its_thoughts_are_reasoning(name):
    content, reasoning = FORMS[name]
    (reply,), _, _ = ask(always(chat(content)), PLAIN)
    assert isinstance(reply, Generated)
    assert (reply.text, reply.reasoning) == ("The answer is B", reasoning)


FILTERED = {
    "finish reason": always(chat("The answer is B", WITHHELD)),
    "status 400": unless(
        lambda body: False,
        {"error": {"message": "filtered by content management", "code": "content_filter"}},
    ),
    "status 400, in words alone": unless(lambda body: False, "blocked by our content filter"),
    "status 200 with an error": always({"error": {"code": "content_filter", "message": "no"}}),
    "status 400, a prompt that is flagged": unless(
        lambda body: False,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    ),
    "status 403, of OpenRouter": unless(
        lambda body: False,
        'Your chosen model requires moderation and your input was flagged for "violence".',
        403,
    ),
    "status 403, of xAI": unless(
        lambda body: False,
        {"code": "no", "error": "Content violates usage guidelines. API key ID: 12, check: BIO"},
        403,
    ),
}


@pytest.mark.parametrize("name", FILTERED)
@pytest.mark.parametrize("call", [PLAIN, LETTERS, TEXT])
def test_what_a_filter_withholds_is_an_unreadable_answer_with_its_reason(name, call):
    (reply,), server, _ = ask(FILTERED[name], call)
    assert not isinstance(reply, Failure)
    if isinstance(reply, Generated):
        assert (reply.text, reply.finish_reason) == ("", WITHHELD)
    else:
        assert set(reply.log_probs) == {-float("inf")}
    assert "content filter of" in reply.note
    assert len(server.log) == 1


# -- fields that a server does not know ------------------------------------------------------
def lacks(field: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda body: field not in body


EXTRA = {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
UNKNOWN = {
    "seed": unless(lacks("seed"), "Unrecognized request argument supplied: seed"),
    "seed, 422 of FastAPI": unless(lacks("seed"), EXTRA, 422),
    "seed, named as a parameter": unless(
        lacks("seed"), {"error": {"message": "Unknown parameter", "param": "seed"}}
    ),
    "response_format": unless(lacks("response_format"), "response_format is not supported"),
    "response_format, prose": unless(lacks("response_format"), "structured output: no", 422),
    "temperature": unless(lacks("temperature"), "Unknown field: temperature", 422),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_field_is_left_out_and_sent_again_once(name):
    field = name.split(",")[0]
    replies, server, endpoint = ask(UNKNOWN[name], WRITE, WRITE, PLAIN)
    assert [reply.text for reply in replies] == [JSON] * 3
    assert [field in asked.body for asked in server.log] == [True, False, False, False]
    learned = endpoint.get("left_out", {}) if field != "temperature" else endpoint
    assert field in learned
    with FaultServer(model="m", plant=UNKNOWN[name]) as again:
        resumed = OpenAiBackend(BackendOptions(base_url=again.url, model="m"))
        resumed.expect(endpoint)
        resumed.answer([WRITE])
        resumed.close()
    assert len(again.log) == 1, "a resumed run asks as the first one learned to"


def test_a_renamed_length_and_a_temperature_of_one_are_sent():
    def plant(asked: Asked) -> Any:
        if "max_tokens" in asked.body:
            words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return 400, {"error": {"message": words}}
        if asked.body.get("temperature") != 1:
            return 400, {"error": {"message": "temperature: only the default (1) is supported"}}
        return 200, chat("B")

    replies, server, endpoint = ask(plant, PLAIN, PLAIN)
    assert [reply.text for reply in replies] == ["B", "B"]
    assert len(server.log) == 4
    assert server.log[-1].body["max_completion_tokens"] == 16
    assert endpoint["max_completion_tokens"] is True


def test_a_server_without_log_probabilities_stops_a_run_of_letters():
    told, _, _ = ask(unless(lacks("logprobs"), "logprobs is not supported", 422), LETTERS)
    assert isinstance(told, UsageError)
    assert 'use answer_by = "generate"' in str(told)
    assert "(it says: logprobs is not supported)" in str(told)


LONG = {
    "vLLM": "max_tokens or max_completion_tokens is too large: maximum context length is 8, seed",
    "vLLM, decoder": "The decoder prompt (length 9) is longer than the maximum model length of 8.",
    "llama.cpp": {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error"}},
    "llama.cpp, words": "the request exceeds the available context size, try increasing it",
    "OpenAI": {"error": {"code": "context_length_exceeded", "message": "no"}},
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8. Given: 9",
}


@pytest.mark.parametrize(("name", "status"), [*((name, 400) for name in LONG), ("OpenAI", 200)])
def test_a_prompt_that_is_too_long_changes_nothing_although_fields_are_named(name, status):
    (reply,), server, endpoint = ask(unless(lambda body: False, LONG[name], status), PLAIN)
    assert "too long for the context of 'm': shorten it, lower max_new_tokens" in reply.error
    assert is_too_long(reply.error)
    assert len(server.log) == 1
    assert endpoint.keys() == {"url", "model", "structured", "answered_as"}


def test_fields_are_omitted_and_added_as_the_experiment_says():
    with FaultServer(model="m") as server:
        same = {"base_url": server.url, "model": "m"}
        plain = OpenAiBackend(BackendOptions(**same))
        own = OpenAiBackend(
            BackendOptions(**same, omit=("seed",), extra_body={"reasoning_effort": "low"})
        )
        own.answer([PLAIN, LETTERS])
        assert own.identity != plain.identity, "its answers may be others"
        own.close()
        plain.close()
    assert all("seed" not in asked.body for asked in server.log)
    assert all(asked.body["reasoning_effort"] == "low" for asked in server.log)


# -- templates -------------------------------------------------------------------------------
def is_led(body: Mapping[str, Any]) -> bool:
    roles = [message["role"] for message in body["messages"]]
    return "system" not in roles and all(a != b for a, b in pairwise(roles))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "System role not supported"),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (500, "jinja: Only user and assistant roles are supported; system messages are not"),
    ],
)
def test_a_template_without_system_turns_gets_them_in_the_first_user_turn(status, words):
    replies, server, endpoint = ask(unless(is_led, words, status, "B"), PLAIN, PLAIN)
    assert [reply.text for reply in replies] == ["B", "B"]
    assert len(server.log) == 3
    text = f"{TURNS[0].content}\n\n{TURNS[1].content}"
    assert server.log[-1].body["messages"] == [{"role": "user", "content": text}]
    assert endpoint["without_system"] == words


# -- a window --------------------------------------------------------------------------------
@pytest.mark.parametrize(("window", "seen"), [(200, 200), (10_000, None)])
def test_a_server_that_cuts_long_prompts_without_a_word_is_noticed(window, seen):
    def plant(asked: Asked) -> Any:
        reply = chat("B")
        reply["usage"]["prompt_tokens"] = min(len(asked.prompt) // 4, window)
        return 200, reply

    sizes = (20, 60, 160, 180, 300, 400)
    calls = [Generate((Message("user", "word " * n),)) for n in sizes]
    _, _, endpoint = ask(plant, *calls)
    assert endpoint.get("reads_at_most") == seen


def test_a_constant_count_of_few_tokens_is_no_window():
    calls = [Generate((Message("user", "word " * n),)) for n in (20, 60, 160, 180)]
    _, _, endpoint = ask(always(chat("B")), *calls)
    assert "reads_at_most" not in endpoint


# -- letters ---------------------------------------------------------------------------------
def test_letters_with_and_without_a_space_are_one_letter_in_both_shapes():
    values = {"B": -0.05, " A": -4.0, "A": -7.0, " B": -6.0}
    tops = [{"token": token, "logprob": value} for token, value in values.items()]
    shapes: list[tuple[Any, Reply]] = [
        (chat("B", choice={"logprobs": {"content": [{"top_logprobs": tops}]}}), LETTERS),
        (
            {"model": "m", "choices": [{"text": "B", "logprobs": {"top_logprobs": [values]}}]},
            Score("Q", (" A", " B"), first_token=True),
        ),
    ]
    for reply, call in shapes:
        (scored,), _, _ = ask(always(reply), call)
        assert isinstance(scored, Scored)
        assert scored.log_probs == (-4.0, -0.05)
        assert scored.note == "letters without a space before them"


# -- models that reason ----------------------------------------------------------------------
def replies(server: FaultServer, *calls: Any) -> tuple[list[Any], Any]:
    """Ask one after the other; returns the replies and the endpoint."""
    with server:
        backend = OpenAiBackend(BackendOptions(model=server.model, base_url=server.url))
        asked = [backend.answer([call])[0] for call in calls]
        backend.close()
    return asked, backend.endpoint


@pytest.mark.parametrize(
    ("only", "sent"), [(1.0, [0.0, 1.0, 1.0, 1.0]), (0.6, [0.0, 1.0, None, None, None])]
)
def test_a_server_that_insists_on_its_temperature_is_asked_at_1_or_without(only, sent):
    server = FaultServer(answer=lambda prompt: "B", temperature=only)
    warm = Generate(TURNS, Decoding(max_new_tokens=16, temperature=0.4))
    asked, endpoint = replies(server, PLAIN, WRITE, warm)
    assert [reply.text for reply in asked] == ["B"] * 3
    assert [asked.body.get("temperature") for asked in server.log] == sent
    learned = endpoint["temperature"]
    assert (learned["asked"], learned["sent"]) == (0.0, sent[-1])
    assert "does not support 0 with this model" in learned["said"]


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", True),
        ("`temperature` may only be set to 1 when thinking is enabled.", True),
        ("temperature must be between 0 and 2", False),
        ("temperature: only values < 2 are supported", False),
    ],
)
def test_only_what_insists_on_a_temperature_changes_it(said, understood):
    refused = (400, {"error": {"message": said}})
    server = FaultServer(plant=lambda asked: refused if asked.number == 0 else None)
    replies(server, PLAIN)
    assert [one.body.get("temperature") for one in server.log] == [0.0, 1.0][: 1 + understood]


@pytest.mark.parametrize("apart", [True, False])
def test_a_model_cut_off_while_it_reasons_has_said_nothing_and_is_asked_once(apart):
    server = FaultServer(thoughts=lambda prompt: "Maybe A, or " * 20, cuts=True, apart=apart)
    (reply,), _ = replies(server, Generate(TURNS, Decoding(max_new_tokens=5)))
    assert (reply.finish_reason, reply.is_cut) == ("length", True)
    assert (reply.text, reply.reasoning) == (
        ("", "Maybe A, or Maybe A,") if apart else ("<think>Maybe A, or Maybe A,", None)
    )
    assert len(server.log) == 1


def test_thoughts_beside_the_text_are_kept_and_are_no_part_of_it():
    server = FaultServer(answer=lambda prompt: "B", thoughts=lambda prompt: "Not A.", cuts=True)
    (reply,), _ = replies(server, PLAIN)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("B", "Not A.", None)
