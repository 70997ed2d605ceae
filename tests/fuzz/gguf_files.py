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
HUGE = (0, 1, 2, 2**16, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


class _Writer:
    """Writes the file; every number it writes is a place that can be changed."""

    def __init__(self, target: int | None, value: int) -> None:
        self.parts: list[bytes] = []
        self.n_numbers = 0
        self._target, self._value = target, value

    def number(self, kind: str, value: int) -> None:
        if self.n_numbers == self._target:
            value = self._value % 2 ** (8 * struct.calcsize(kind))
        self.n_numbers += 1
        self.parts.append(struct.pack(f"<{kind}", value))

    def text(self, text: str | bytes) -> None:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.number("Q", len(data))
        self.parts.append(data)

    def value(self, kind: int, value: Any) -> None:
        if kind == STRING:
            self.text(value)
        elif kind == ARRAY:
            inner, values = value
            self.number("I", inner)
            self.number("Q", len(values))
            for each in values:
                self.value(inner, each)
        elif kind == FLOAT32:
            self.parts.append(struct.pack("<f", value))
        else:
            self.number("Q" if kind == UINT64 else "I", value)


def gguf(
    keys: Sequence[tuple[Any, int, Any]] = KEYS,
    tensors: Sequence[tuple[str, tuple[int, ...], int, int]] = TENSORS,
    target: int | None = None,
    value: int = 0,
) -> tuple[bytes, int]:
    """A file, and how many numbers its header has; the `target`-th of them becomes `value`."""
    writer = _Writer(target, value)
    writer.number("I", 0x46554747)
    writer.number("I", 3)
    writer.number("Q", len(tensors))
    writer.number("Q", len(keys))
    for name, kind, content in keys:
        writer.text(name)
        writer.number("I", kind)
        writer.value(kind, content)
    for name, shape, kind, offset in tensors:
        writer.text(name)
        writer.number("I", len(shape))
        for length in shape:
            writer.number("Q", length)
        writer.number("I", kind)
        writer.number("Q", offset)
    header = b"".join(writer.parts)
    padded = header + bytes(-len(header) % 32)
    return padded + bytes(128), writer.n_numbers


def nested(depth: int) -> bytes:
    """A file whose one value is an array of arrays of arrays."""
    value: Any = (UINT32, (1,))
    for _ in range(depth):
        value = (ARRAY, (value,))
    return gguf(keys=[("deep", ARRAY, value)])[0]


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


def case(rng: Random) -> Case:
    """A header with one thing wrong."""
    keys, at = list(KEYS), rng.randrange(len(KEYS))
    match rng.choice(("number", "number", "cut", "without", "renamed", "value", "tensor", "deep")):
        case "number":
            target = rng.randrange(gguf()[1])
            value = rng.choice((*HUGE, *range(3, 15)))
            name, data = f"number {target} is {value}", gguf(target=target, value=value)[0]
        case "cut":
            whole = gguf()[0]
            name, data = "cut", whole[: rng.randrange(len(whole))]
        case "without":
            name, data = f"without {keys.pop(at)[0]!r}", gguf(keys)[0]
        case "renamed":
            other = rng.choice((keys[at - 1][0], "", "\0", b"\xff\xfe", "x" * 70_000))
            keys[at] = (other, *keys[at][1:])
            name, data = f"key {at} renamed", gguf(keys)[0]
        case "value":
            keys[at] = (keys[at][0], *rng.choice(VALUES))
            name, data = f"{keys[at][:2]}", gguf(keys)[0]
        case "tensor":
            tensor = (TENSORS[0][0], *rng.choice(SHAPES))
            name, data = f"tensor {tensor}", gguf(tensors=[tensor, TENSORS[1]])[0]
        case _:
            depth = rng.choice((1, 10, 300, 900))
            name, data = f"arrays in arrays, {depth} deep", nested(depth)
    victim = {"backend": "llama_cpp", "model": "m.gguf", "answer_by": "letter"}
    write = command({**questions(), "victim": [victim]}, {"m.gguf": data})
    return Case(name=name, write=write, codes=frozenset({DONE, REFUSED}))
