"""Change one thing of a structure: mappings, lists and leaves, as JSON and TOML have them."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that is written as it stands, quotes and all."""

    text: str


TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "\u2028",
    "\u202eabc",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "=1+1",
    "../../etc/passwd",
    "/dev/null",
    "/dev/zero",
    "a" * 100_000,
    "é" * 300,
    "{{ 7 * 7 }}",
    "{% for i in range(9) %}x{% endfor %}",
    "%s %d {0} {x}",
    "'; DROP TABLE trials; --",
    "<script>alert(1)</script>",
    "line\nbreak",
    "tab\there",
    "nan",
    "NaN",
    "true",
    "1e999",
    "🧬" * 50,
    "ﬁ\u0301\u0301\u0301",
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    5,
    10**6,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    0.0,
    -0.0,
    0.5,
    1e308,
    -1e308,
    5e-324,
)
JSON_RAW = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "1" + "0" * 400,
    "-1" + "0" * 400,
    "1" * 5_000,
    "[" * 1_000 + "]" * 1_000,
    "[" * 100_000,
    '{"a":' * 1_000 + "1" + "}" * 1_000,
    '"\\ud800"',
    "tru",
    "01",
    "'single'",
    "",
)
TOML_RAW = (
    "nan",
    "inf",
    "-inf",
    "1" + "0" * 400,
    "-1" + "0" * 400,
    "1" * 5_000,
    "1e400",
    "0x" + "f" * 300,
    "1979-05-27T07:32:00Z",
    "1979-05-27",
    "07:32:00",
    "[" * 1_000 + "]" * 1_000,
    "{a=" * 1_000 + "1" + "}" * 1_000,
    "[" * 50 + "]" * 50,
    '"\\ud800"',
    "",
    "'''unclosed",
)
KINDS: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": 1},
    {"a": {"b": []}},
    [1, "a"],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a structure but its root."""
    listed = list(enumerate(value)) if isinstance(value, list) else []
    for key, part in value.items() if isinstance(value, dict) else listed:
        yield (*path, key)
        yield from places(part, (*path, key))


def mutated(rng: Random, value: Any, raw: tuple[str, ...] = JSON_RAW) -> tuple[str, Any]:
    """Return what was done, and a copy of the structure with that one thing done to it."""
    changed = copy.deepcopy(value)
    path = rng.choice(list(places(changed)))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    name, change = rng.choices(OPERATORS, WEIGHTS)[0]
    said = change(rng, holder, path[-1], raw)
    where = ".".join(map(str, path))
    return f"{name} at {where}{f': {said}' if said else ''}", changed


def json_text(value: Any) -> str:
    """JSON, with the raw parts as they stand."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=isinstance(value, str) and not _whole(value))


def toml_text(tables: dict[str, Any]) -> str:
    """TOML: a table or an array of tables for each key."""
    said = []
    for name, value in tables.items():
        if isinstance(value, dict):
            said.append(f"[{_key(name)}]\n{_entries(value)}")
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            said += [f"[[{_key(name)}]]\n{_entries(row)}" for row in value]
        else:
            said.insert(0, f"{_key(name)} = {_toml(value)}\n")
    return "\n".join(said)


def encoded(rng: Random, text: str) -> tuple[str, bytes]:
    """Return what was done to the bytes of a text, and the bytes."""
    name, change = rng.choice(ENCODINGS)
    return name, change(rng, text.encode("utf-8", "surrogatepass"))


def short(value: object) -> str:
    """A value as a case's name tells it."""
    text = value.text if isinstance(value, Raw) else repr(value)
    return text if len(text) < 60 else f"{text[:40]}... ({len(text)} characters)"


def _drop(_: Random, holder: Any, key: Any, __: tuple[str, ...]) -> str:
    del holder[key]
    return ""


def _twice(_: Random, holder: Any, key: Any, __: tuple[str, ...]) -> str:
    if isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[f"{key}_2"] = holder[key]
    return ""


def _put(values: Callable[[Random, tuple[str, ...]], Any]) -> Callable[..., str]:
    def change(rng: Random, holder: Any, key: Any, raw: tuple[str, ...]) -> str:
        holder[key] = copy.deepcopy(values(rng, raw))
        return short(holder[key])

    return change


def _wrapped(_: Random, holder: Any, key: Any, __: tuple[str, ...]) -> str:
    holder[key] = [holder[key]]
    return ""


def _other_order(_: Random, holder: Any, __: Any, ___: tuple[str, ...]) -> str:
    if isinstance(holder, list):
        holder.reverse()
    else:
        turned = dict(reversed(holder.items()))
        holder.clear()
        holder.update(turned)
    return ""


def _longer(_: Random, holder: Any, key: Any, __: tuple[str, ...]) -> str:
    found = holder[key]
    holder[key] = found * 1_000 if isinstance(found, str | list) else [found] * 1_000
    return ""


def _renamed(rng: Random, holder: Any, key: Any, __: tuple[str, ...]) -> str:
    if isinstance(holder, dict):
        name = rng.choice([*TEXTS[:13], f"{key}s", str(key).upper()])
        holder[name] = holder.pop(key)
        return short(name)
    return ""


OPERATORS: tuple[tuple[str, Callable[..., str]], ...] = (
    ("dropped", _drop),
    ("twice", _twice),
    ("wrong type", _put(lambda rng, _: rng.choice(KINDS))),
    ("other number", _put(lambda rng, _: rng.choice(NUMBERS))),
    ("special text", _put(lambda rng, _: rng.choice(TEXTS))),
    ("raw", _put(lambda rng, raw: Raw(rng.choice(raw)))),
    ("wrapped", _wrapped),
    ("other order", _other_order),
    ("longer", _longer),
    ("renamed", _renamed),
)
WEIGHTS = (2, 1, 4, 4, 4, 4, 1, 1, 1, 1)


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _inserted(what: bytes) -> Callable[[Random, bytes], bytes]:
    def change(rng: Random, data: bytes) -> bytes:
        at = rng.randrange(len(data) + 1)
        return data[:at] + what + data[at:]

    return change


ENCODINGS: tuple[tuple[str, Callable[[Random, bytes], bytes]], ...] = (
    ("byte order mark", lambda _, data: b"\xef\xbb\xbf" + data),
    ("two byte order marks", lambda _, data: b"\xef\xbb\xbf" * 2 + data),
    ("UTF-16", lambda _, data: data.decode("utf-8", "replace").encode("utf-16")),
    ("cut", _cut),
    ("empty", lambda _, __: b""),
    ("blank lines only", lambda _, __: b"\n \n\t\n"),
    ("CR LF", lambda _, data: data.replace(b"\n", b"\r\n")),
    ("CR", lambda _, data: data.replace(b"\n", b"\r")),
    ("no end of line", lambda _, data: data.rstrip(b"\n")),
    ("a NUL", _inserted(b"\0")),
    ("an invalid byte", _inserted(b"\xff")),
    ("half a character", _inserted("é".encode()[:1])),
    ("half a surrogate pair", _inserted(b"\xed\xa0\x80")),
    ("an escape", _inserted(b"\x1b[2J")),
    ("a long line", _inserted(b"x" * 1_000_000)),
    ("the lines turned round", lambda _, data: b"\n".join(data.split(b"\n")[::-1])),
    ("gzip's first bytes", lambda _, data: b"\x1f\x8b\x08" + data),
)


def _whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _entries(table: dict[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_toml(value)}\n" for name, value in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else json_text(value)
