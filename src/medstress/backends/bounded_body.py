"""The body of a server's answer, decoded piece by piece and never beyond a bound."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

LARGEST_ANSWER = 8 << 20
"""Bytes, decoded. Log probabilities of a few long prompts are below a tenth of it."""
_PIECE = 1 << 18
_EITHER = 32 + zlib.MAX_WBITS
"""Tells zlib to look itself whether gzip or deflate comes."""


class AnswerTooLarge(Exception):
    """More bytes came than any answer has."""


class AnswerEncoded(Exception):
    """The answer is encoded in a way that was not asked for and cannot be bounded."""


def bounded(stream: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Decode a body.

    None is asked for encoded, and some servers or proxies do it all the same.

    Args:
        stream: what comes.
        coding: the header Content-Encoding; empty where there is none.

    Yields:
        What it stands for, in small pieces.

    Raises:
        AnswerTooLarge: after `LARGEST_ANSWER` bytes.
        AnswerEncoded: in another way than gzip or deflate, or damaged.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        pieces = iter(stream)
    elif coding in ("gzip", "x-gzip", "deflate"):
        pieces = _inflated(stream)
    else:
        raise AnswerEncoded
    n = 0
    for piece in pieces:
        n += len(piece)
        if n > LARGEST_ANSWER:
            raise AnswerTooLarge
        yield piece


def _inflated(stream: Iterable[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=_EITHER)
    try:
        for chunk in stream:
            rest = chunk
            while rest and not decoder.eof:
                yield decoder.decompress(rest, _PIECE)
                rest = decoder.unconsumed_tail
        while not decoder.eof and (piece := decoder.decompress(b"", _PIECE)):
            yield piece
    except zlib.error:
        raise AnswerEncoded from None
