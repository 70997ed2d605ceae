"""What travels between driver, keeper and workers: one JSON object, and perhaps a ledger."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import IO, Any

import orjson

_LENGTH = struct.Struct(">Q")


def pack(message: Mapping[str, Any], ledger: bytes = b"") -> bytes:
    r"""Return a message as bytes: its JSON on the first line, then the ledger.

    >>> pack({"ask": "lease"}, b"SQLite")
    b'{"ask":"lease"}\nSQLite'
    """
    return orjson.dumps(message) + b"\n" + ledger


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    r"""Return the JSON object of a message and the ledger behind it.

    >>> unpack(b'{"ask":"lease"}\nSQLite')
    ({'ask': 'lease'}, b'SQLite')
    """
    head, _, ledger = data.partition(b"\n")
    message: dict[str, Any] = orjson.loads(head)
    return message, ledger


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write a message to a pipe, after its length."""
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read a message from a pipe; None once the writer is gone, also in the middle of one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None
