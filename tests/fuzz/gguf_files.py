"""GGUF files with one thing wrong in the header, read as a model of the back end `llama_cpp`."""

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from .case import DONE, REFUSED, Case, command, questions

UINT32, FLOAT32, STRING, ARRAY, UINT64 = 4, 6, 8, 9, 10
KEYS: tuple[tuple[str | bytes, int, Any], ...] = (
    ("general.architecture", STRING, "llama"),
    ("general.alignment", UINT32, 32),
    ("llama.context_length", UINT32, 64),
    ("llama.embedding_length", UINT32, 4),
    ("tokenizer.ggml.tokens", ARRAY, (STRING, ("<s>", "</s>", "a", "b"))),
    ("tokenizer.ggml.scores", ARRAY, (FLOAT32, (0.0, 0.0, 1.0, 2.0))),
    ("tokenizer.ggml.bos_token_id", UINT32, 0),
    ("tokenizer.ggml.eos_token_id", UINT32, 1),
    ("tokenizer.chat_template", STRING, "{{ messages[0].content }}"),
)
TENSORS: tuple[tuple[str, tuple[int, ...], int, int], ...] = (
    ("token_embd.weight", (4, 4), 0, 0),
    ("output.weight", (4, 4), 0, 64),
)
HUGE = (*range(15), 2**16, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
VALUES: tuple[tuple[int, Any], ...] = (
    *(
        (STRING, text)
        for text in ("", b"\xff\xfe", "{% for x in range(10**9) %}a{% endfor %}", "{{")
    ),
    *((UINT32, 2**31), (UINT64, 2**63), (FLOAT32, float("nan"))),
    *((ARRAY, (UINT32, ())), (ARRAY, (STRING, ())), (ARRAY, (UINT32, (1, 2, 3)))),
)
SHAPES: tuple[tuple[tuple[int, ...], int, int], ...] = (
    *(((2**32, 2**32), 0, 0), ((0,), 0, 0), ((), 0, 0), ((1,) * 50, 0, 0), ((4, 4), 99, 0)),
    *(((4, 4), 14, 0), ((4, 4), 0, 2**63), ((4, 4), 0, 1)),
)


def _text(text: str | bytes) -> bytes:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _text(value)
    if kind == ARRAY and not isinstance(value, bytes):
        inner, values = value
        head = struct.pack("<IQ", inner, len(values))
        return head + b"".join(_value(inner, each) for each in values)
    if isinstance(value, bytes):
        return value
    return struct.pack({FLOAT32: "<f", UINT64: "<Q"}.get(kind, "<I"), value)


def header(
    keys: Sequence[tuple[Any, int, Any]] = KEYS,
    tensors: Sequence[tuple[str, tuple[int, ...], int, int]] = TENSORS,
) -> bytes:
    """What a file says of itself."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, kind, content in keys:
        data += _text(name) + struct.pack("<I", kind) + _value(kind, content)
    for name, shape, kind, offset in tensors:
        data += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        data += struct.pack("<IQ", kind, offset)
    return data


def case(rng: Random) -> Case:
    """A header with one thing wrong."""
    keys, at = list(KEYS), rng.randrange(len(KEYS))
    match rng.choice(("number", "number", "cut", "without", "renamed", "value", "tensor", "deep")):
        case "number":
            data, kind, odd = header(), rng.choice("IQ"), rng.choice(HUGE)
            place = rng.randrange(len(data) - 8)
            number = struct.pack(f"<{kind}", odd % 2 ** (8 * struct.calcsize(kind)))
            name, data = f"{odd} at {place}", data[:place] + number + data[place + len(number) :]
        case "cut":
            name, data = "cut", header()[: rng.randrange(len(header()))]
        case "without":
            name, data = f"without {keys.pop(at)[0]!r}", header(keys)
        case "renamed":
            other = rng.choice((keys[at - 1][0], "", "\0", b"\xff\xfe", "x" * 70_000))
            keys[at] = (other, *keys[at][1:])
            name, data = f"key {at} renamed", header(keys)
        case "value":
            keys[at] = (keys[at][0], *rng.choice(VALUES))
            name, data = f"{keys[at][:2]}", header(keys)
        case "tensor":
            tensor = (TENSORS[0][0], *rng.choice(SHAPES))
            name, data = f"tensor {tensor}", header(tensors=[tensor, TENSORS[1]])
        case _:
            depth = rng.choice((1, 10, 300, 900))
            # As bytes: 900 calls in calls would be too many for Python.
            arrays = struct.pack("<IQ", ARRAY, 1) * depth + struct.pack("<IQI", UINT32, 1, 1)
            name, data = f"arrays in arrays, {depth} deep", header([("deep", ARRAY, arrays)])
    if name != "cut":
        data += bytes(-len(data) % 32) + bytes(128)
    victim = {"backend": "llama_cpp", "model": "m.gguf", "answer_by": "letter"}
    write = command({**questions(), "victim": [victim]}, {"m.gguf": data})
    return Case(name=name, write=write, codes=frozenset({DONE, REFUSED}))
