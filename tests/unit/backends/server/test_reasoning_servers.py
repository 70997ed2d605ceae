"""Servers of models that reason: what they cut off, and the temperature they take."""

import json
from typing import Any

import pytest

from fault_server import FaultServer
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Generated, Message, Scored
from medstress.store.codec import decode_answer, encode_answer

pytest.importorskip("openai", reason="needs the extra medstress[openai]")

from medstress.backends.openai import OpenAiBackend, open_backend


def ask(server: FaultServer, *calls: Any) -> tuple[list[Any], OpenAiBackend]:
    """Ask one after the other; returns the answers and the closed back end."""
    with server:
        options = BackendOptions(model=server.model, base_url=server.url)
        backend = open_backend(options)
        found = [backend.answer([call])[0] for call in calls]
        backend.close()
    return found, backend


def chat(text: str = "Which?", most: int = 8, temperature: float = 0.0) -> Generate:
    return Generate(
        (Message("user", text),), Decoding(max_new_tokens=most, temperature=temperature)
    )


def temperatures(server: FaultServer) -> list[float | None]:
    return [asked.body.get("temperature") for asked in server.log]


def test_a_server_that_insists_on_temperature_1_is_asked_at_1_and_refuses_one_request():
    server = FaultServer(answer=lambda prompt: "B", temperature=1.0)
    found, backend = ask(server, chat("one"), chat("two"), chat("three", temperature=0.4))
    assert [reply.text for reply in found] == ["B"] * 3
    assert temperatures(server) == [0.0, 1.0, 1.0, 1.0]
    told = backend.endpoint["temperature"]
    assert (told["asked"], told["sent"]) == (0.0, 1.0)
    assert "does not support 0 with this model" in told["said"]


def test_a_server_that_takes_no_temperature_of_ours_goes_by_its_own():
    server = FaultServer(answer=lambda prompt: "B", temperature=0.6)
    found, backend = ask(server, chat("one"), chat("two"))
    assert [reply.text for reply in found] == ["B"] * 2
    assert temperatures(server) == [0.0, 1.0, None, None]
    assert backend.endpoint["temperature"]["sent"] is None


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", True),
        ("Unsupported parameter: 'temperature' is not supported with this model.", True),
        ("`temperature` may only be set to 1 when thinking is enabled.", True),
        ("invalid temperature: only 1 is allowed for this model", True),
        ("temperature must be between 0 and 2", False),
        ("temperature: only values < 2 are supported", False),
        ("maximum context length is 10 tokens", False),
    ],
)
def test_only_what_insists_on_a_temperature_changes_it(said, understood):
    refused = (400, {"error": {"message": said}})
    server = FaultServer(plant=lambda asked: refused if asked.number == 0 else None)
    ask(server, chat())
    assert temperatures(server) == ([0.0, 1.0] if understood else [0.0])


@pytest.mark.parametrize("apart", [True, False])
def test_a_model_cut_off_while_it_reasons_has_said_nothing_and_is_asked_once(apart):
    server = FaultServer(
        answer=lambda prompt: "B",
        thoughts=lambda prompt: "Maybe A, or " * 20,
        cuts=True,
        apart=apart,
    )
    (found,), _ = ask(server, chat(most=5))
    assert isinstance(found, Generated)
    assert (found.finish_reason, found.is_cut) == ("length", True)
    assert (found.text, found.reasoning) == (
        ("", "Maybe A, or Maybe A,") if apart else ("<think>Maybe A, or Maybe A,", None)
    )
    assert len(server.log) == 1


def test_thoughts_beside_the_text_are_kept_and_are_no_part_of_it():
    server = FaultServer(answer=lambda prompt: "B", thoughts=lambda prompt: "Not A.", cuts=True)
    (found,), _ = ask(server, chat())
    assert (found.text, found.reasoning, found.finish_reason) == ("B", "Not A.", None)


@pytest.mark.parametrize("most", [3, 200])
def test_thoughts_in_the_text_do_not_break_a_schema(most):
    """Not even where they are cut off: the server may keep to it all the same."""
    schema = json.dumps(
        {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    )
    server = FaultServer(
        answer=lambda prompt: '{"answer":"B"}',
        thoughts=lambda prompt: 'Is it {"answer": "A"} or',
        apart=False,
        cuts=True,
    )
    call = Generate((Message("user", "?"),), Decoding(max_new_tokens=most), schema=schema)
    (found,), _ = ask(server, call)
    assert isinstance(found, Generated)
    assert found.is_cut is (most == 3)


@pytest.mark.parametrize(
    "answer",
    [
        Generated(text="B"),
        Generated(text="", finish_reason="length", reasoning="Maybe A"),
        Generated(text="B", reasoning="Not A."),
        Generated(text="B is", finish_reason="length"),
        Generated(text="", finish_reason="content_filter", note="withheld"),
        Scored(log_probs=(-1.0, -2.0), n_tokens=(1, 1), note="letters without a space"),
    ],
)
def test_the_ledger_keeps_why_a_text_ended_and_what_was_thought(answer):
    assert decode_answer(encode_answer(answer), 0, 0) == answer
