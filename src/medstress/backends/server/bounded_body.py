"""Decodes the body of a server's reply piece by piece, up to a size limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

LARGEST_ANSWER = 8 << 20
"""Decoded bytes. Log probabilities of a few long prompts take less than a tenth of this."""
_PIECE = 1 << 18
_EITHER = 32 + zlib.MAX_WBITS
"""Lets zlib detect gzip or deflate."""


class AnswerTooLarge(Exception):
    """The reply is larger than any real answer."""


class AnswerEncoded(Exception):
    """The reply has an encoding that was not requested and cannot be bounded."""


def bounded(stream: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Decode a body.

    Requests ask for no encoding, but some servers and proxies encode anyway.

    Args:
        stream: the raw body.
        coding: the header Content-Encoding; empty if there is none.

    Yields:
        The decoded body in small pieces.

    Raises:
        AnswerTooLarge: more than `LARGEST_ANSWER` bytes.
        AnswerEncoded: not gzip or deflate, or damaged.
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
