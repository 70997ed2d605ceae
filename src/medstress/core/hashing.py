"""Content hashes: canonical JSON, tagged with the algorithm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import orjson

_TAG = "blake2b-128:"


def canonical_json(value: Any) -> str:
    """Serialise `value` so that equal values give equal text.

    >>> canonical_json({"b": 1, "a": [1.0, None]})
    '{"a":[1.0,null],"b":1}'
    """
    return canonical_bytes(value).decode()


def canonical_bytes(value: Any) -> bytes:
    """Return `canonical_json` as UTF-8 bytes.

    Raises:
        ValueError: a number is not finite.
    """
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if b"null" in encoded:
        # orjson writes nan and infinities as null; the standard encoder refuses them.
        json.dumps(value, allow_nan=False)
    return encoded


def digest(value: Any) -> bytes:
    """Return the 16-byte BLAKE2b digest of the canonical JSON of `value`."""
    return hashlib.blake2b(canonical_bytes(value), digest_size=16).digest()


def content_hash(value: Any) -> str:
    """Return the digest of `value` as text, tagged with the algorithm.

    >>> content_hash({"a": 1}) == content_hash({"a": 1})
    True
    """
    return _TAG + digest(value).hex()


def file_hash(path: Path) -> str:
    """Return the tagged hash of a file's bytes."""
    state = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return _TAG + state.hexdigest()
