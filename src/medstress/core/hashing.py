"""Content hashes over canonical JSON, tagged with the algorithm, and random streams from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from numpy.random import Generator

_TAG = "blake2b-128:"
DIGEST_BYTES = 16


def hasher(data: bytes = b"") -> hashlib.blake2b:
    """Return the state of a BLAKE2b digest that holds some bytes already."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES)


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

    >>> canonical_bytes({"b": 10**20, "a": [None]})
    b'{"a":[null],"b":100000000000000000000}'
    """
    try:
        encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a number of more than 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if b"null" in encoded:
        # orjson writes nan and infinities as null; the standard encoder refuses them.
        json.dumps(value, allow_nan=False)
    return encoded


def digest(value: Any) -> bytes:
    """Return the 16-byte BLAKE2b digest of the canonical JSON of `value`."""
    return hasher(canonical_bytes(value)).digest()


def content_hash(value: Any) -> str:
    """Return the digest of `value` as text, tagged with the algorithm.

    >>> content_hash({"a": 1}) == content_hash({"a": 1})
    True
    """
    return _TAG + digest(value).hex()


def file_hash(path: Path) -> str:
    """Return the tagged hash of a file's bytes."""
    state = hasher()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return _TAG + state.hexdigest()


def rng_for(seed: int, stream: str, dataset: str, item_id: str, repeat: int = 0) -> Generator:
    """Return the random generator of one trial.

    `stream` names the attack and its entity group but not the sampler, exponent, budget or
    victim, so that arms which differ only in those share random numbers.

    >>> first, again = (rng_for(0, "swap/drugs", "sample", "q1") for _ in range(2))
    >>> first.random() == again.random()
    True
    """
    from numpy.random import Generator, Philox

    key = int.from_bytes(digest([seed, stream, dataset, item_id, repeat]), "little")
    return Generator(Philox(key=key))
