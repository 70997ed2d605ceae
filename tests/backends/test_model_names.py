"""The requested name, the server's list, and the name that answers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fault_server import FaultServer
from late import needs
from medstress.backends.openai import OpenAiBackend, is_same_model, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Score
from medstress.core.errors import UsageError

pytestmark = needs("openai")

LETTER = Score("Which?\nAnswer:", (" A", " B"), first_token=True)


def opened(server: FaultServer, model: str, **options: Any) -> OpenAiBackend:
    return open_backend(BackendOptions(base_url=server.url, model=model, **options))


def refusal(server: FaultServer, model: str, **options: Any) -> str:
    """The sentence that refuses a model when the server is greeted."""
    with pytest.raises(UsageError) as caught:
        opened(server, model, **options)
    assert not server.log, "nothing was charged"
    return str(caught.value)


@pytest.mark.parametrize(
    ("requested", "same", "others"),
    [
        ("gpt-4o", "gpt-4o GPT-4o gpt-4o-2024-08-06 openai/gpt-4o-2024-08-06", "gpt-4o-mini"),
        (
            "gpt-4",
            "gpt-4-0613",
            "gpt-4o gpt-4-turbo gpt-4-turbo-2024-04-09 not-gpt-4 org/other-gpt-4 gpt-4/other "
            "gpt-4-2024-08-0667",
        ),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "gpt-4o gpt-4o-2024-05-13"),
        ("mistral-large", "mistral-large-2411", "mistral-large-instruct"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929 claude-sonnet-4-5@20250929", ""),
        (
            "claude-3-7-sonnet-latest",
            "claude-3-7-sonnet-20250219",
            "claude-3-7-opus-20250219 -20250219",
        ),
        ("llama3.1", "llama3.1:latest", "llama3.1:70b llama3"),
        (
            "llama-8b",
            "/srv/llama-8b.gguf C:\\models\\llama-8b-Q4_K_M.gguf org/llama-8b llama-8b-AWQ",
            "llama-8b-instruct llama-80b",
        ),
        ("qwen-7b", "qwen-7b-4bit", "qwen-70b"),
        ("llama-3", "llama-3", "llama-3.1 llama-3-8b llama3-70b-8192"),
        ("org/m", "a/b/org/m-fp8", "m m-q4o"),
        ("-latest", "-latest", "-20250219"),
        ("m", "m", "m-q4o"),
    ],
)
def test_a_name_may_add_a_path_a_suffix_and_a_date_and_nothing_else(requested, same, others):
    assert [name for name in same.split() if not is_same_model(name, requested)] == []
    assert [name for name in others.split() if is_same_model(name, requested)] == []
    assert not is_same_model("", requested)


def test_a_model_that_is_not_listed_is_refused_before_it_is_asked(said):
    with FaultServer(model="gpt-4", lists=["gpt-4o", "gpt-4o-mini"]) as server:
        said(refusal(server, "gpt-4"), "match_model", "'gpt-4o'")
        assert "lists no model 'gpt-4o-2024'" in refusal(server, "gpt-4o-2024")
        opened(server, "gpt-4", match_model="any").close()


def test_a_listed_name_may_add_to_the_requested_one_unless_it_must_be_exact():
    with FaultServer(model="llama-8b", lists=["other", "/models/llama-8b.gguf"]) as server:
        opened(server, "llama-8b").close()
        assert "/models/llama-8b.gguf" in refusal(server, "llama-8b", match_model="exact")


@pytest.mark.parametrize(
    "body",
    [
        '{"data": [{"id": "m"}], "has_more": true}',
        '{"data": [{"id": "m"}], "next": "https://elsewhere/models"}',
        '{"data": [{"id": "m"}], "nextPageToken": "x"}',
        '{"data": []}',
        '{"data": null}',
        '{"data": [{"name": 1}, 5, null]}',
        "[]",
        "nothing",
    ],
)
def test_a_list_that_is_not_known_to_be_whole_refuses_nothing(monkeypatch, body):
    with FaultServer(model="x") as server:
        monkeypatch.setattr(server, "listing", lambda path: (200, body.encode()))
        opened(server, "x").close()


@pytest.mark.parametrize(
    "body", ['[{"id": "m"}, {"id": "org/x"}]', '{"models": [{"name": "x:latest"}]}']
)
def test_rows_alone_and_rows_of_names_are_read(monkeypatch, body):
    with FaultServer(model="x") as server:
        monkeypatch.setattr(server, "listing", lambda path: (200, body.encode()))
        opened(server, "x").close()
        assert "lists no model 'y'" in refusal(server, "y")


@pytest.mark.parametrize(
    ("answers_as", "match", "accepted"),
    [
        ("m-2024-08-06", "exact", False),
        ("m-2024-08-06", "loose", True),
        ("m-large", "loose", False),
        ("m-large", "any", True),
        ("m", "exact", True),
    ],
)
def test_the_answering_name_is_matched_as_the_experiment_says(answers_as, match, accepted):
    with FaultServer(model="m", answers_as=answers_as) as server:
        backend = opened(server, "m", match_model=match)
        if accepted:
            backend.answer([LETTER])
            server.answers_as = "m-2025-01-01"
            with pytest.raises(UsageError, match="the answers of two models must not be mixed"):
                backend.answer([LETTER])
        else:
            with pytest.raises(UsageError, match=f"answered as '{answers_as}'"):
                backend.answer([LETTER])
        backend.close()


def test_a_server_that_answers_as_another_model_is_asked_once():
    with FaultServer(model="m", answers_as="m-large") as server:
        backend = opened(server, "m")
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(backend.answer, [LETTER]) for _ in range(8)]
        sentences = {str(one.exception()) for one in asked}
        assert len(server.log) == len(sentences) == 1
        backend.close()
