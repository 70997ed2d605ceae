"""The openai back end against a server of ours: what it sends, reads and says."""

import math
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fault_server import FAULTS, Asked, FaultServer
from late import needs
from medstress.backends.mock import MockBackend
from medstress.backends.openai import OpenAiBackend, first_token_scores, open_backend, text_scores
from medstress.backends.options import BackendOptions
from medstress.backends.server import Patience, Server, address_of, key_of, trouble_of_status
from medstress.core.calls import (
    Call,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    ModelIdentity,
    Request,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.testing import ScriptedBackend

pytestmark = needs("openai")

LETTER = Score("Which?\nAnswer:", (" A", " B", " C", " D"), first_token=True)
CHAT = Score((Message("user", "Which?"),), ("A", "B", "C", "D"), first_token=True)
TEXT = Score("Which?\nAnswer:", (" aspirin", " warfarin sodium"))
KEY = "sk-test-0123456789abcdef"


@contextmanager
def backend_of(
    server: FaultServer, *, key: str | None = None, answer: float = 20.0, attempts: int = 8
) -> Iterator[OpenAiBackend]:
    """A back end that does not wait long between attempts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("THE_KEY", key or "none")
        backend = OpenAiBackend(
            BackendOptions(
                base_url=server.url,
                model=server.model,
                max_in_flight=4,
                api_key_env="THE_KEY" if key else None,
            ),
            patience=Patience(first=0.001, longest=0.01, answer=answer, attempts=attempts),
        )
    try:
        yield backend
    finally:
        backend.close()


def first(fault: str, n: int = 1) -> Callable[[Asked], str | None]:
    """Only the first n requests go wrong."""
    return lambda asked: fault if asked.number < n else None


def stop(server: FaultServer, call: Call = LETTER, **how: Any) -> str:
    """The sentence that stops a run."""
    with backend_of(server, **how) as backend, pytest.raises(UsageError) as caught:
        backend.answer([call])
    return str(caught.value)


def failure(server: FaultServer, call: Call = LETTER, **how: Any) -> str:
    """The sentence that one item fails with."""
    with backend_of(server, **how) as backend:
        (reply,) = backend.answer([call])
    assert isinstance(reply, Failure)
    return reply.error


# -- what is sent ----------------------------------------------------------------------------
def test_a_text_goes_to_completions_and_a_conversation_to_chat():
    calls = [LETTER, CHAT, TEXT, Generate("Q", Decoding(max_new_tokens=7, temperature=0.5))]
    with FaultServer() as server, backend_of(server) as backend:
        backend.answer(calls)
        letter, chat, text, generated = (asked.body for asked in server.log)
    paths = [asked.path.removeprefix("/v1/") for asked in server.log]
    assert paths == ["completions", "chat/completions", "completions", "completions"]
    same = {"model": "fault-model", "temperature": 0.0}
    assert letter == {**same, "prompt": LETTER.prompt, "max_tokens": 1, "logprobs": 20}
    asked = {"max_tokens": 1, "logprobs": True, "top_logprobs": 20}
    assert chat == {**same, **asked, "messages": [{"role": "user", "content": "Which?"}]}
    sent = ["Which?\nAnswer:", "Which?\nAnswer: aspirin", "Which?\nAnswer: warfarin sodium"]
    assert text == {**same, "prompt": sent, "max_tokens": 0, "echo": True, "logprobs": 1}
    assert generated["max_tokens"] == 7
    assert generated["temperature"] == 0.5


def test_the_seed_is_the_call_s_own_and_each_sample_has_another():
    warm = Decoding(temperature=1.0)
    with FaultServer() as server, backend_of(server) as backend:
        backend.answer([Generate("Q", warm), Generate("Q", warm, 1), Generate("Q", warm)])
        seeds = [asked.body["seed"] for asked in server.log]
    assert seeds[0] == seeds[2] != seeds[1]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_nothing_but_the_request_leaves_the_machine(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "a-secret-of-another-server")
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        options = BackendOptions(base_url=url, model="m")
        backend = OpenAiBackend(options, patience=Patience(attempts=1))
        listening.settimeout(20)

        def serve() -> None:
            sock, _ = listening.accept()
            seen.append(sock.recv(65536))
            sock.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            sock.close()

        thread = threading.Thread(target=serve)
        thread.start()
        backend.answer([LETTER])
        thread.join()
        backend.close()
    names = {
        line.partition(b":")[0].lower() for line in seen[0].partition(b"\r\n\r\n")[0].split(b"\r\n")
    }
    assert names >= {b"host", b"content-type", b"content-length"}
    assert not {name for name in names if b"stainless" in name or b"openai" in name}
    assert b"authorization" not in names
    assert b"a-secret-of-another-server" not in seen[0]


# -- what is read ----------------------------------------------------------------------------
def test_letters_texts_and_generated_answers_are_read():
    with FaultServer(answer=lambda prompt: "C") as server, backend_of(server) as backend:
        letter, chat, text, generated = backend.answer([LETTER, CHAT, TEXT, Generate("Q")])
    assert isinstance(letter, Scored)
    assert isinstance(chat, Scored)
    assert isinstance(text, Scored)
    assert max(letter.log_probs) == letter.log_probs[2] == pytest.approx(-0.5108, abs=1e-4)
    assert chat.log_probs == letter.log_probs
    assert text.n_tokens == (1, 2)
    assert generated == Generated(text="C", tokens_in=1, tokens_out=1)


def test_fewer_alternatives_are_asked_for_where_the_server_gives_fewer():
    with FaultServer(top=5) as server, backend_of(server) as backend:
        replies = backend.answer([LETTER, CHAT])
    assert all(isinstance(reply, Scored) for reply in replies)
    asked = [asked.body.get("top_logprobs", asked.body["logprobs"]) for asked in server.log]
    assert asked == [20, 5, 5]


def test_a_resumed_run_refuses_answers_of_another_name(said):
    with FaultServer() as server, backend_of(server) as backend:
        backend.answer([LETTER])
        assert backend.endpoint["answered_as"] == "fault-model"
        backend.expect({"answered_as": "fault-model-2024-08-06"})
        with pytest.raises(UsageError) as caught:
            backend.answer([LETTER])
        said(str(caught.value))


def test_the_model_is_known_by_name_and_version_and_not_by_address():
    def identity(version: str | None = None, **options: Any) -> Any:
        with FaultServer(**options) as server:
            opened = open_backend(
                BackendOptions(base_url=server.url, model=server.model, version=version)
            )
            opened.close()
            return opened.identity

    assert identity() == identity()
    assert len({identity().hash, identity("2").hash, identity(model="other").hash}) == 3


# -- what goes wrong and is tried again ------------------------------------------------------
@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in ("refusal", "wrong_model")])
def test_a_fault_that_passes_costs_a_repetition_and_no_answer(fault):
    with FaultServer(faults=first(fault, 2)) as server, backend_of(server) as backend:
        (reply,) = backend.answer([LETTER])
        counters = backend.counters
    assert isinstance(reply, Scored)
    n = 1 if fault == "late" else 3
    assert len(server.log) == n
    assert counters == {"requests": n, "requests_repeated": n - 1}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("429", "slow down"),
        ("503", "something broke"),
        ("drop", "dropped the connection"),
        ("half_json", "not a JSON object"),
        ("huge", "more than 8 MiB"),
    ],
)
def test_a_fault_that_stays_fails_one_item_with_a_sentence(fault, words):
    with FaultServer(faults=lambda asked: fault) as server:
        error = failure(server, attempts=2)
    assert words in error
    assert error.endswith(" (asked 2 times)")
    assert len(server.log) == 2


def test_a_server_that_fails_is_spoken_of_at_once_and_only_once(caplog):
    with FaultServer(faults=lambda _: "500") as server, backend_of(server, attempts=4) as backend:
        backend.answer([LETTER, TEXT])
    (warning,) = caplog.messages
    assert "answered 500 (it says: " in warning
    assert warning.endswith("; each request is tried up to 4 times")


def in_a_200(asked: Asked) -> Any:
    error = {"error": {"code": 429, "message": "slow down"}}
    return (200, error, {"Retry-After": "0.4"}) if asked.number == 0 else None


@pytest.mark.parametrize("plant", [lambda asked: None, in_a_200])
def test_retry_after_is_honoured_by_every_request(plant):
    with (
        FaultServer(faults=first("429_retry_after"), retry_after=0.4, plant=plant) as server,
        backend_of(server) as backend,
    ):
        backend.answer([LETTER, LETTER])
    waited = server.log[1].at - server.log[0].at
    assert 0.4 <= waited < 5
    assert len(server.log) == 3


# -- what cannot be mended by trying again ---------------------------------------------------
def test_a_refusal_is_an_unreadable_answer_with_its_reason():
    with FaultServer(faults=lambda asked: "refusal") as server, backend_of(server) as backend:
        (told,) = backend.answer([Generate((Message("user", "Q"),))])
        letter, filtered = backend.answer([CHAT, LETTER])
    assert isinstance(told, Generated)
    assert told.text == "I cannot help with that."
    for reply, reason in (
        (letter, "'fault-model' refused to answer: I cannot"),
        (filtered, "the content filter of"),
    ):
        assert isinstance(reply, Scored)
        assert set(reply.log_probs) == {-math.inf}
        assert reason in (reply.note or "")
    assert len(server.log) == 3


def test_a_server_that_ignores_logprobs_is_named_at_its_first_answer():
    with FaultServer(top=0, echo=False) as server:
        for call in (LETTER, CHAT):
            assert 'use answer_by = "generate"' in stop(server, call)
        assert "log probabilities of the prompt (echo with logprobs)" in stop(server, TEXT)
    assert len(server.log) == 3


def test_texts_of_conversations_cannot_be_scored():
    with FaultServer() as server:
        assert 'use answer_by = "letter"' in stop(server, Score(CHAT.prompt, ("x",)))
    assert not server.log


def test_a_model_that_the_server_lists_is_not_said_to_be_unknown(said):
    server = Server(url="http://h/v1", model="tuned")
    sentence = str(trouble_of_status(server, 404, "{}", {}, ["tuned"]))
    said(sentence, 'prompt = "chat"')
    assert "knows no model" not in sentence
    said(str(trouble_of_status(server, 404, "{}", {}, ["tune"])), "'tuned'; did you mean 'tune'")


# -- keys ------------------------------------------------------------------------------------
def test_a_wrong_or_missing_key_is_told_without_the_key(monkeypatch, said):
    monkeypatch.setenv("THE_KEY", KEY)
    with FaultServer(key="another") as server:
        options = {"base_url": server.url, "model": server.model}
        with pytest.raises(UsageError) as caught:
            open_backend(BackendOptions(**options, api_key_env="THE_KEY"))
        said(str(caught.value))
        with pytest.raises(UsageError) as caught:
            open_backend(BackendOptions(**options))
        said(str(caught.value), "holds it")
        assert KEY not in stop(server, key=KEY)


def test_the_key_opens_the_server_and_no_representation_shows_it():
    with FaultServer(key=KEY) as server, backend_of(server, key=KEY) as backend:
        (reply,) = backend.answer([LETTER])
        assert isinstance(reply, Scored)
        held = [backend, backend._connection, backend._server, backend._connection._client]
        shown = "".join(f"{each!r} {each}" for each in held) + repr(backend.endpoint)
    assert KEY not in shown


def test_words_of_a_server_are_shown_without_the_key():
    server = Server(url="http://h/v1", model="m", key=KEY)
    assert server.redacted(f"wrong key {KEY}\n given") == "wrong key [key] given"
    assert server.redacted("wrong key sk-tes**********cdef.") == "wrong key [key]"


@pytest.mark.parametrize("value", ["", " ", "two words", "sch\u00fcssel", "line\nbreak"])
def test_a_key_that_is_none_is_refused_without_showing_it(monkeypatch, value):
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(UsageError) as caught:
        key_of("THE_KEY")
    assert "THE_KEY" in str(caught.value)
    assert not value.strip() or value not in str(caught.value)


# -- addresses -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "url",
    [
        *(None, "", "localhost:8000", "ftp://host/v1", "http://", "http://a b/v1", "http://[::1"),
        *("http://a\\b/v1", "http://ho\u202est/v1", "http://host\n/v1", "http://host:99999/v1"),
        *(f"http://{'a' * 64}.org/v1", "http://a..b/v1", "http://host:secret/v1"),
        *("http://me:secret@host/v1", "https://host/v1?api-key=secret"),
    ],
)
def test_an_address_that_is_none_or_may_hold_a_secret_is_refused_with_an_example(url, said):
    with pytest.raises(UsageError) as caught:
        address_of(url)
    said(str(caught.value))
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_told_before_the_run(said):
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(base_url=_nobody(), model="m"))
    said(str(caught.value))


def test_a_server_that_goes_away_stops_the_run_after_three_calls(said):
    options = BackendOptions(base_url=_nobody(), model="m")
    backend = OpenAiBackend(options, patience=Patience(attempts=2, first=0.001))
    first_two = backend.answer([LETTER, LETTER])
    assert all(isinstance(reply, Failure) for reply in first_two)
    with pytest.raises(UsageError) as caught:
        backend.answer([LETTER])
    said(str(caught.value))
    backend.close()


def test_only_a_certificate_that_is_trusted_is_accepted(tmp_path, monkeypatch):
    tls = _self_signed(tmp_path)
    with FaultServer(tls=tls) as server:
        with pytest.raises(UsageError, match="SSL_CERT_FILE"):
            open_backend(BackendOptions(base_url=server.url, model=server.model))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        with backend_of(server) as backend:
            (reply,) = backend.answer([LETTER])
    assert isinstance(reply, Scored)


def test_plain_http_is_told_where_tls_is_asked_for():
    with FaultServer() as server:
        options = BackendOptions(base_url=server.url.replace("http:", "https:"), model="m")
        with pytest.raises(UsageError, match="write http://"):
            open_backend(options)


def _nobody() -> str:
    """An address on this machine where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def _self_signed(folder: Path) -> ssl.SSLContext:
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl to make a certificate")
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", *made, *names], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


# -- scores ----------------------------------------------------------------------------------
LETTERS = (" A", " B", " C")


def letters(listed: object) -> tuple[float, ...]:
    scored = first_token_scores(listed, LETTERS)
    assert scored is not None
    return scored.log_probs


@pytest.mark.parametrize("space", ["\u2581", "\u0120"])
def test_servers_that_show_the_space_otherwise_are_understood(space):
    listed = {"top_logprobs": [{f"{space}A": -1.0, f"{space}B": -2.0, f"{space}C": -3.0}]}
    assert letters(listed) == (-1.0, -2.0, -3.0)


def test_a_letter_that_is_not_listed_gets_a_bound_and_never_wins():
    listed = {"top_logprobs": [{" B": math.log(0.3), " the": math.log(0.6)}]}
    scores = letters(listed)
    assert scores[1] == math.log(0.3)
    assert scores[0] == scores[2] == pytest.approx(math.log(0.1)), "what the list leaves over"
    flat = {"top_logprobs": [{f" w{i}": math.log(0.05) for i in range(9)} | {" C": math.log(0.05)}]}
    scores = letters(flat)
    assert scores[2] == max(scores) > scores[0] == pytest.approx(scores[2])


def test_where_no_letter_is_listed_nothing_is_known():
    listed = {"top_logprobs": [{" The": -0.1, " I": -2.0}]}
    assert letters(listed) == (-math.inf,) * 3


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": None}, {"content": []}, {"top_logprobs": []}, {"top_logprobs": [None]}],
)
def test_no_log_probabilities_are_none(logprobs):
    assert first_token_scores(logprobs, LETTERS) is None


def echo(tokens: list[str], values: list[float | None]) -> dict[str, object]:
    return {"text": "".join(tokens), "logprobs": {"tokens": tokens, "token_logprobs": values}}


def test_a_text_is_scored_by_the_tokens_it_adds():
    alone = echo(["Q", ":"], [None, -1.0])
    one = echo(["Q", ":", " as", "pirin"], [None, -1.0, -2.0, -0.25])
    two = echo(["Q", ": x"], [None, -7.0])
    scored = text_scores([alone, one, two], ["Q:", "Q: aspirin", "Q: x"])
    assert scored == Scored(log_probs=(-2.25, -7.0), n_tokens=(2, 1))


def test_a_server_that_ignores_echo_is_found_out():
    made_up = {"text": " It is", "logprobs": {"tokens": [" It", " is"], "token_logprobs": [-1, -2]}}
    sent = ["Q:", "Q: aspirin"]
    assert text_scores([made_up] * 2, sent) is None
    assert text_scores([made_up], sent) is None
    silent = {"text": "Q: aspirin", "logprobs": None}
    assert text_scores([silent] * 2, sent) is None


# -- schemas ---------------------------------------------------------------------------------
ASKED = Generate((Message("user", "Which?"),), schema='{"properties":{"answer":{}}}')


def test_only_back_ends_that_declare_it_are_given_a_schema_and_it_is_part_of_the_key():
    request = Request(ASKED, sample=2)
    plain = Request(Generate(ASKED.prompt), sample=2)
    assert request.fitted(MockBackend()) == plain
    assert request.fitted(ScriptedBackend(structured=True)) is request
    with FaultServer() as server:
        options = BackendOptions(base_url=server.url, model=server.model, structured=False)
        backend = open_backend(options)
        assert request.fitted(backend) == plain
        backend.close()
    someone = ModelIdentity(name="someone", hash="1")
    assert request.key(someone) != plain.key(someone)
    assert Generate("Q").canonical() == ["generate", "Q", [128, 0.0]]


def test_a_schema_is_sent_whole():
    with FaultServer() as server, backend_of(server) as backend:
        backend.answer([ASKED])
    form = server.log[0].body["response_format"]["json_schema"]
    assert form == {"name": "answer", "strict": True, "schema": {"properties": {"answer": {}}}}
