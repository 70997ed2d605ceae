"""The requested name, the server's list, and the name that answers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fault_server import FaultServer
from medstress.backends.options import BackendOptions
from medstress.backends.replies import additions, suggested
from medstress.core.calls import Score, Scored
from medstress.core.errors import UsageError

pytest.importorskip("openai", reason="needs the extra medstress[openai]")

from medstress.backends.openai import OpenAiBackend, open_backend

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
    ("name", "requested", "parts"),
    [
        ("gpt-4o", "gpt-4o", {}),
        ("GPT-4o", "gpt-4o", {}),
        ("gpt-4o-2024-08-06", "gpt-4o", {"date": "-2024-08-06"}),
        ("gpt-4-0613", "gpt-4", {"date": "-0613"}),
        ("mistral-large-2411", "mistral-large", {"date": "-2411"}),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", {"date": "-20250929"}),
        ("claude-3-7-sonnet-20250219", "claude-3-7-sonnet-latest", {"date": "-20250219"}),
        ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet", {"date": "@20240620"}),
        ("llama3.1:latest", "llama3.1", {"suffix": ":latest"}),
        ("/srv/models/llama-8b.gguf", "llama-8b", {"path": "/srv/models/", "suffix": ".gguf"}),
        ("C:\\models\\llama-8b-Q4_K_M.gguf", "llama-8b", {"path": "C:\\models\\"}),
        ("org/llama-8b", "llama-8b", {"path": "org/"}),
        ("models/gemini-2.0-flash", "gemini-2.0-flash", {"path": "models/"}),
        ("llama-8b-AWQ", "llama-8b", {"suffix": "-AWQ"}),
        ("qwen-7b-4bit", "qwen-7b", {"suffix": "-4bit"}),
        ("a/b/org/m-fp8", "org/m", {"path": "a/b/", "suffix": "-fp8"}),
        ("openai/gpt-4o-2024-08-06", "gpt-4o", {"path": "openai/", "date": "-2024-08-06"}),
    ],
)
def test_a_name_may_add_a_path_a_suffix_and_a_date(name, requested, parts):
    found = additions(name, requested)
    assert found is not None
    assert parts.items() <= found.items()
    assert bool(found) == bool(parts)


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        ("gpt-4o", "gpt-4"),
        ("gpt-4o-mini", "gpt-4o"),
        ("gpt-4-turbo", "gpt-4"),
        ("gpt-4-turbo-2024-04-09", "gpt-4"),
        ("llama-70b", "llama-7b"),
        ("qwen-70b", "qwen-7"),
        ("llama-3.1", "llama-3"),
        ("llama-3-8b", "llama-3"),
        ("llama3-70b-8192", "llama3-70b"),
        ("o1-mini", "o1"),
        ("llama-8b-instruct", "llama-8b"),
        ("llama3.1:70b", "llama3.1"),
        ("not-gpt-4", "gpt-4"),
        ("org/other-gpt-4", "gpt-4"),
        ("gpt-4/other", "gpt-4"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("gpt-4-2024-08-0667", "gpt-4"),
        ("m-q4o", "m"),
        ("claude-3-7-opus-20250219", "claude-3-7-sonnet-latest"),
        ("-20250219", "-latest"),
        ("", "m"),
    ],
)
def test_another_size_variant_or_version_is_another_model(name, requested):
    assert additions(name, requested) is None


def test_a_model_that_is_not_listed_is_refused_before_it_is_asked(said):
    with FaultServer(model="gpt-4", lists=["gpt-4o", "gpt-4o-mini"]) as server:
        said(refusal(server, "gpt-4"), "match_model", "'gpt-4o'")
        assert "lists no model 'gpt-4o-2024'" in refusal(server, "gpt-4o-2024")
        opened(server, "gpt-4", match_model="any").close()


def test_a_listed_name_may_add_to_the_requested_one_unless_it_must_be_exact():
    with FaultServer(model="llama-8b", lists=["other", "/models/llama-8b.gguf"]) as server:
        backend = opened(server, "llama-8b")
        (reply,) = backend.answer([LETTER])
        backend.close()
        assert isinstance(reply, Scored)
        told = refusal_of(server)
    assert "did you mean '/models/llama-8b.gguf'?" in told


def refusal_of(server: FaultServer) -> str:
    with pytest.raises(UsageError) as caught:
        opened(server, "llama-8b", match_model="exact")
    return str(caught.value)


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


def test_a_server_without_a_list_is_asked_all_the_same():
    with FaultServer(lists=[]) as server:
        opened(server, "whatever").close()


def test_an_alias_that_the_server_describes_need_not_be_listed():
    describes = {"m-latest": "m-20250219", "gpt-4": "gpt-4o"}
    with FaultServer(lists=["m"], describes=describes) as server:
        opened(server, "m-latest").close()
        assert "lists no model 'gpt-4'" in refusal(server, "gpt-4")


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


@pytest.mark.parametrize(
    ("requested", "listed", "meant"),
    [
        ("qwen-7b-AWQ", ["org/qwen-70b", "org/qwen-7b:latest"], "org/qwen-7b:latest"),
        ("qwen-7b", ["qwen-70b", "qwen-72b"], ""),
        ("gpt-mni", ["gpt-mini"], "gpt-mini"),
    ],
)
def test_a_suggested_model_is_never_one_of_another_size(requested, listed, meant):
    assert suggested(requested, listed) == (f"; did you mean {meant!r}?" if meant else "")


@pytest.mark.parametrize(("listed", "may_be_set"), [(["m"], False), (["m", "m-large"], True)])
def test_a_server_that_answers_as_another_model_is_asked_once(listed, may_be_set):
    with FaultServer(model="m", answers_as="m-large", lists=listed) as server:
        backend = opened(server, "m")
        with ThreadPoolExecutor(8) as threads:
            found = [threads.submit(backend.answer, [LETTER]) for _ in range(8)]
        told = {str(each.exception()) for each in found}
        assert len(server.log) == 1
        assert len(told) == 1
        sentence = told.pop()
        assert "--set victim.match_model=any" in sentence
        assert ("set model = 'm-large'" in sentence) is may_be_set, "a list that refuses it"
        backend.close()
