"""Texts that follow a JSON schema: what is sent, noted, refused, and left out."""

from typing import Any

import pytest

from fault_server import FaultServer
from medstress.backends.mock import MockBackend
from medstress.core.calls import Failure, Generate, Generated, Message, ModelIdentity, Request
from medstress.core.hashing import canonical_json
from medstress.testing import ScriptedBackend

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["A", "B"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
ASKED = Generate((Message("user", "Which?"),), schema=canonical_json(SCHEMA))
GOOD = '{"answer": "B"}'
SOMEONE = ModelIdentity(name="someone", hash="1")


def openai_backend(server: FaultServer, **options: Any) -> Any:
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from medstress.backends.openai import open_backend
    from medstress.backends.options import BackendOptions

    return open_backend(BackendOptions(base_url=server.url, model=server.model, **options))


def test_the_schema_is_sent_and_an_answer_that_follows_it_comes_back():
    with FaultServer(answer=lambda prompt: GOOD) as server:
        backend = openai_backend(server)
        (reply,) = backend.answer([ASKED])
        backend.close()
    assert isinstance(reply, Generated)
    assert reply.text == GOOD
    asked = server.log[0].body["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"] == SCHEMA
    assert asked["json_schema"]["strict"] is True


def test_a_refusal_says_nothing_about_schemas():
    with FaultServer(faults=lambda asked: "refusal") as server:
        backend = openai_backend(server)
        (reply,) = backend.answer([ASKED])
        endpoint = backend.endpoint
        backend.close()
    assert not isinstance(reply, Failure)
    assert reply.text == "I cannot help with that."
    assert "ignores_schemas" not in endpoint


@pytest.mark.parametrize(
    ("text", "finish", "ignores"),
    [
        (GOOD, "stop", False),
        ("Yes, the ans", "length", True),
        ('{"answer": ', "length", False),
        ('{"answer": ', "stop", True),
        ("B", "stop", True),
        (f"```json\n{GOOD}\n```", "stop", True),
        ('{"letter": "B"}', "stop", True),
    ],
)
def test_a_text_that_is_not_the_schema_is_an_answer_and_that_is_said_once(
    text, finish, ignores, caplog
):
    choice = {"finish_reason": finish, "message": {"content": text}}
    with FaultServer(plant=lambda asked: (200, {"choices": [choice]})) as server:
        backend = openai_backend(server)
        replies = [*backend.answer([ASKED]), *backend.answer([ASKED])]
        endpoint = backend.endpoint
        backend.close()
        resumed = openai_backend(server)
        resumed.expect(endpoint)
        resumed.answer([ASKED])
        resumed.close()
        assert all("response_format" in asked.body for asked in server.log)
    assert [reply.text for reply in replies] == [text] * 2
    assert endpoint.get("ignores_schemas", False) == ignores
    assert caplog.text.count("does not follow the JSON schema") == ignores


def test_a_schema_is_part_of_the_key_and_calls_without_one_keep_theirs():
    plain = Generate("Q")
    assert plain.canonical() == ["generate", "Q", [128, 0.0]]
    with_schema = Request(Generate("Q", schema="{}"))
    assert with_schema.key(SOMEONE) != Request(plain).key(SOMEONE)


def test_only_back_ends_that_declare_it_are_given_a_schema():
    request = Request(ASKED, sample=2)
    plain = request.fitted(MockBackend())
    assert plain == Request(Generate(ASKED.prompt), sample=2)
    declared = ScriptedBackend(structured=True)
    assert request.fitted(declared) is request
    with FaultServer() as server:
        told_not_to = openai_backend(server, structured=False)
        assert request.fitted(told_not_to) == plain
        told_not_to.close()
