"""Servers that hold, flood or trick whoever asks them: requests end, small and keyless."""

import asyncio
import gzip
import re
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate

import orjson
import pytest

from late import needs
from medstress.backends.openai import OpenAiBackend, open_backend
from medstress.backends.options import BackendOptions
from medstress.backends.server import Patience, bounded, remember_key, retry_after, without_keys
from medstress.core.calls import Failure, Generate, Generated
from medstress.core.errors import UsageError

pytestmark = needs("openai")

KEY = "sk-hostile-0123456789"
OTHER = "sk-of-another-server-42"
Say = Callable[[socket.socket], None]


@contextmanager
def saying(*says: Say) -> Iterator[str]:
    """A server whose n-th connection is answered by the n-th of these; the last one stays."""
    done = threading.Event()

    def serve() -> None:
        n = 0
        while not done.is_set():
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            say = says[min(n, len(says) - 1)]
            n += 1
            threading.Thread(target=talk, args=(sock, say), daemon=True).start()

    def talk(sock: socket.socket, say: Say) -> None:
        with sock:
            try:
                sock.recv(1 << 16)
                say(sock)
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # whoever asked has gone

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            done.set()
            listening.shutdown(socket.SHUT_RDWR)


def body(said: object, *headers: str, status: str = "200 OK") -> Say:
    """A whole answer."""
    content = said if isinstance(said, bytes) else orjson.dumps(said)
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Connection: close", *headers]
    whole = "\r\n".join([*lines, "", ""]).encode() + content
    return lambda sock: sock.sendall(whole)


def answer(text: str, model: str = "m") -> dict[str, object]:
    return {"model": model, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}


def drip(start: bytes, again: bytes, every: float = 0.05) -> Say:
    def say(sock: socket.socket) -> None:
        sock.sendall(start)
        while True:
            time.sleep(every)
            sock.sendall(again)

    return say


def flood(start: bytes, again: bytes) -> Say:
    def say(sock: socket.socket) -> None:
        sock.sendall(start)
        while True:
            sock.sendall(again * 1000)

    return say


def backend_at(url: str, *, seconds: float = 0.5, attempts: int = 1) -> OpenAiBackend:
    options = BackendOptions(base_url=url, model="m", max_in_flight=1, api_key_env="THE_KEY")
    patience = Patience(first=0.001, longest=0.01, answer=seconds, attempts=attempts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("THE_KEY", KEY)
        return OpenAiBackend(options, patience=patience)


def asked(url: str, **how: float) -> str:
    """What an item fails with, and within two seconds."""
    backend = backend_at(url, **how)  # type: ignore[arg-type]
    started = time.monotonic()
    (reply,) = backend.answer([Generate("Q")])
    assert time.monotonic() - started < 2.0
    backend.close()
    assert isinstance(reply, Failure)
    return reply.error.removeprefix(f"the server at {url} ")


# -- deadlines -------------------------------------------------------------------------------
LATE = "did not send its whole answer within 0.5 seconds (timeout_seconds) (asked 1 times)"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HOLDS = {
    "silence": lambda sock: time.sleep(30),
    "headers, a byte at a time": drip(HEAD + b"X-A: ", b"a"),
    "headers, a line at a time": drip(HEAD, b"X-A: a\r\n"),
    "a body, a byte at a time": drip(HEAD + b"Content-Length: 9999\r\n\r\n{", b" "),
    "pieces of a body": drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "trailers": drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X-A: a\r\n"),
    "answers before the answer": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "an answer without an end": drip(HEAD + b"\r\n{", b" "),
}


@pytest.mark.parametrize("how", HOLDS)
def test_a_request_ends_in_time_however_the_server_holds_it(how):
    with saying(HOLDS[how]) as url:
        assert asked(url) == LATE


def test_a_server_that_is_slow_to_speak_tls_holds_nobody():
    with saying(lambda sock: time.sleep(30)) as url:
        told = asked(url.replace("http://", "https://")).split(": is it")[0]
    assert told.startswith("https://") or "cannot be reached in time" in told


def test_a_request_that_runs_out_is_asked_again_and_the_run_goes_on():
    with saying(HOLDS["a body, a byte at a time"], body(answer("A"))) as url:
        backend = backend_at(url, attempts=2)
        (reply,) = backend.answer([Generate("Q")])
        assert backend.counters == {"requests": 2, "requests_repeated": 1, "requests_late": 1}
        backend.close()
    assert isinstance(reply, Generated)


def test_the_greeting_ends_in_time_too(said):
    with saying(HOLDS["headers, a byte at a time"]) as url:
        started = time.monotonic()
        with pytest.raises(UsageError) as caught:
            open_backend(BackendOptions(base_url=url, model="m", timeout_seconds=0.5))
        said(str(caught.value))
        assert time.monotonic() - started < 2.0


@pytest.mark.parametrize("value", ["999999999", "inf", "1e300"])
def test_a_wait_beyond_all_measure_stops_the_run(value, said):
    limited = body({"error": {}}, f"Retry-After: {value}", status="429 Slow")
    with saying(limited) as url, pytest.raises(UsageError) as caught:
        backend_at(url).answer([Generate("Q")])
    said(str(caught.value))


@pytest.mark.parametrize("value", ["nan", "-1", "soon", "", "Mon, 99 Foo 99999999999 +" + "9" * 30])
def test_a_wait_that_is_none_is_no_wait(value):
    assert not retry_after({"retry-after": value})


def test_a_wait_may_be_said_as_a_date():
    after = formatdate(time.time() + 90, usegmt=True)
    assert 80 < retry_after({"retry-after": after}) <= 90
    assert retry_after({"retry-after": "Mon, 30 Nov 2020 08:00:00 GMT"}) == 0


# -- bounds ----------------------------------------------------------------------------------
@pytest.mark.parametrize("start", [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"X-A: "])
def test_headers_without_end_are_not_kept(start):
    with saying(flood(start, start[:24] or b"a")) as url:
        told = asked(url, seconds=1.5)
    assert told.startswith(("dropped", "sent an answer of more", "did not send its whole"))


@pytest.mark.parametrize(
    ("depth", "place"), [(300, b""), (1_000, b'{"error": {"message": '), (10_000, b'{"error": ')]
)
def test_a_reply_nested_without_measure_fails_one_call(depth, place):
    deep = place + b'{"a":' * depth + b"1" + b"}" * (depth + place.count(b"{"))
    with saying(body(deep, status="400 Bad Request")) as url:
        assert asked(url, attempts=4).startswith("answered 400")
    with saying(body(deep), body(answer("A"))) as url:
        backend = backend_at(url, attempts=2)
        (reply,) = backend.answer([Generate("Q")])
        backend.close()
    assert isinstance(reply, Generated)


def test_an_error_in_an_alphabet_that_it_is_not_written_in_is_shown():
    said = body(
        {"error": {"message": "no"}}, "Content-Type: text/plain; charset=utf-16", status="400 Bad"
    )
    with saying(said) as url:
        assert asked(url) == "answered 400 (it says: no)"


def test_a_body_is_decoded_up_to_a_bound_and_in_known_ways_only():
    small = b'{"a": 1}' * 50
    for coding, packed in (
        ("gzip", gzip.compress(small)),
        ("X-GZIP ", gzip.compress(small)),
        ("deflate", zlib.compress(small)),
        ("", small),
        ("identity", small),
    ):
        assert decoded([packed[:9], packed[9:]], coding) == small
    with pytest.raises(ValueError, match="more than 8 MiB"):
        decoded([gzip.compress(bytes(9 << 20))], "gzip")
    for coding in ("br", "zstd", "gzip, gzip", "\x1b[31m"):
        with pytest.raises(ValueError, match="not requested"):
            decoded([b"x"], coding)
    with pytest.raises(ValueError, match="not requested"):
        decoded([b"no gzip at all"], "gzip")


def decoded(chunks: list[bytes], coding: str) -> bytes:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return asyncio.run(bounded(stream(), coding))


def test_a_body_of_2_gb_packed_into_2_mb_fails_one_call_and_the_next_is_answered():
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    start = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = start + (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)) * 2048
    flooded = body(packed, "Content-Encoding: gzip")
    with saying(flooded, body(answer("B"))) as url:
        backend = backend_at(url, seconds=5.0)
        tracemalloc.start()
        lost, good = backend.answer([Generate("Q"), Generate("Q")])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        backend.close()
    assert isinstance(lost, Failure)
    assert "sent an answer of more than 8 MiB" in lost.error
    assert isinstance(good, Generated)
    assert most < 48 << 20


# -- redirects -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://elsewhere.example:8443/v1/x?token=secret#a", "elsewhere.example:8443;"),
        ("//user:secret@elsewhere.example/v1", "elsewhere.example;"),
        (f"https://{KEY}.example/", r"\[key\]\.example;"),
        ("http://[secret", "no readable address;"),
        ("https://a\x1b]0;secret\x07.example/", "no readable address;"),
    ],
)
def test_a_redirect_stops_the_run_and_is_not_followed(location, told):
    with saying(body(b"", f"Location: {location}", status="307 Temporary Redirect")) as url:
        with pytest.raises(UsageError) as caught:
            backend_at(url).answer([Generate("Q"), Generate("Q")])
        with pytest.raises(UsageError) as greeted:
            open_backend(BackendOptions(base_url=url, model="m"))
    for error in (caught, greeted):
        said = str(error.value)
        assert re.search(f"answered 307, which points to {told}", said)
        assert not any(word in said for word in ("secret", "\x1b", KEY))


# -- keys ------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def keys():
    remember_key(KEY)
    remember_key(OTHER)


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_a_key_that_a_server_echoes_in_an_answer_is_removed(key):
    said = f"The key {key} is B"
    escaped = orjson.dumps(answer(said)).replace(b"sk-", b"\\u0073k\\u002d")
    for content in (orjson.dumps(answer(said)), escaped):
        with saying(body(content)) as url:
            backend = backend_at(url, seconds=20)
            (reply,) = backend.answer([Generate("Q")])
            backend.close()
        assert isinstance(reply, Generated)
        assert reply.text == "The key [key] is B"


@pytest.mark.parametrize(
    "says",
    [
        lambda key: body({"error": {"message": f"no: {key}"}}, status="500 No"),
        lambda key: body(f"no: {key}".encode(), status="400 No"),
        lambda key: body({key: {key: key}}, status="503 No"),
        lambda key: lambda sock: sock.sendall(f"HTTP/1.1 200 OK\r\n{key}\r\n\r\n".encode()),
        lambda key: body(b"{}", f"Location: https://{key}/", status="308 No"),
        lambda key: body(answer("A", model=key)),
    ],
)
def test_no_sentence_about_a_server_shows_a_key(says):
    for key in (KEY, OTHER):
        with saying(says(key)) as url:
            try:
                said = asked(url)
            except UsageError as error:
                said = str(error)
        assert key not in said


def test_a_key_of_fewer_than_8_characters_is_not_looked_for():
    remember_key("answers")
    assert without_keys("answers of two") == "answers of two"
