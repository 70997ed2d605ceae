"""Change one thing of a structure, a text or its bytes."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that is written without quotes."""

    text: str


# fmt: off
TEXTS = (
    "", " ", "a\0b", "\ud800", "\u2028", "\u202eabc", "\x1b]0;title\x07", "=1+1", "/dev/zero",
    "../../etc/passwd", "a" * 100_000, "é" * 300, "{{ 7 * 7 }}", "%s %d {0} {x}", "1e999", "NaN",
    "'; DROP TABLE trials; --", "<script>alert(1)</script>", "line\nbreak", "tab\there", "true",
)
NUMBERS = (0, 1, -1, 5, 10**6, 2**31, 2**63, -(2**63) - 1, -0.0, 0.5, 1e308, 5e-324)
KINDS: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], {"": 1}, {"a": {"b": []}}, [1, "a"]
)
JSON_RAW = (
    "NaN", "-Infinity", "1e999", "1" + "0" * 400, "1" * 5_000, "[" * 1_000 + "]" * 1_000,
    "[" * 100_000, '"\\ud800"', "tru", "01", "'single'", "",
)
TOML_RAW = (
    "nan", "-inf", "1" + "0" * 400, "1" * 5_000, "1e400", "0x" + "f" * 300, "1979-05-27T07:32:00Z",
    "07:32:00", "[" * 1_000 + "]" * 1_000, "{a=" * 1_000 + "1" + "}" * 1_000, '"\\ud800"', "",
    "'''unclosed",
)
NOT_NUMBERS = ("-1", "0", "999", "9" * 5_000, "1.5", "٣", "²", "nan", "1e999", "B-", "I-X", "E-X")
OPERATORS = (
    "dropped", "twice", "wrong type", "other number", "special text", "raw", "wrapped",
    "other order", "longer", "renamed",
)
# fmt: on
WEIGHTS = (2, 1, 4, 4, 4, 4, 1, 1, 1, 1)


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
    name = rng.choices(OPERATORS, WEIGHTS)[0]
    _change(rng, name, holder, path[-1], raw)
    return f"{name} at {'.'.join(map(str, path))}", changed


def _change(rng: Random, name: str, holder: Any, key: Any, raw: tuple[str, ...]) -> None:
    is_list = isinstance(holder, list)
    match name:
        case "dropped":
            del holder[key]
        case "twice" if is_list:
            holder.insert(key, holder[key])
        case "twice":
            holder[f"{key}_2"] = holder[key]
        case "wrong type":
            holder[key] = copy.deepcopy(rng.choice(KINDS))
        case "other number":
            holder[key] = rng.choice(NUMBERS)
        case "special text":
            holder[key] = rng.choice(TEXTS)
        case "raw":
            holder[key] = Raw(rng.choice(raw))
        case "wrapped":
            holder[key] = [holder[key]]
        case "other order" if is_list:
            holder.reverse()
        case "other order":
            turned = dict(reversed(holder.items()))
            holder.clear()
            holder.update(turned)
        case "longer":
            value = holder[key]
            holder[key] = value * 1_000 if isinstance(value, str | list) else [value] * 1_000
        case "renamed" if not is_list:
            holder[rng.choice([*TEXTS[:10], f"{key}s", str(key).upper()])] = holder.pop(key)


def json_text(value: Any) -> str:
    """JSON, with the raw parts in it."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    is_whole = not isinstance(value, str) or not any(
        "\ud800" <= letter < "\ue000" for letter in value
    )
    return json.dumps(value, ensure_ascii=not is_whole)


def json_bytes(*values: Any) -> bytes:
    """JSON, one value a line."""
    return "\n".join(map(json_text, values)).encode("utf-8", "surrogatepass")


def toml_text(tables: dict[str, Any]) -> str:
    """TOML: a table or an array of tables for each key."""
    parts = []
    for name, value in tables.items():
        if isinstance(value, dict):
            parts.append(f"[{_key(name)}]\n{_entries(value)}")
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            parts += [f"[[{_key(name)}]]\n{_entries(row)}" for row in value]
        else:
            parts.insert(0, f"{_key(name)} = {_toml(value)}\n")
    return "\n".join(parts)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _entries(table: dict[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_toml(value)}\n" for name, value in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "null" if value is None else json_text(value)


def mutated_lines(rng: Random, text: str) -> tuple[str, bytes]:
    """Change one line of a text, or the bytes of the whole."""
    if rng.random() < 0.3:
        return encoded(rng, text)
    lines = text.split("\n")
    n = rng.randrange(len(lines))
    mark = next((m for m in "\t|,: " if m in lines[n]), "\t")
    fields = lines[n].split(mark)
    at = rng.randrange(len(fields))
    name = rng.choice(
        ("dropped", "twice", "blank", "text", "more", "less", "quote", *["field"] * 3)
    )
    match name:
        case "dropped":
            del lines[n]
        case "twice":
            lines.insert(n, lines[n])
        case "blank":
            lines.insert(n, rng.choice(("", " \t ", "-DOCSTART-\tO", "1|t|Aspirin", "sep=;")))
        case "text":
            lines[n] = rng.choice(TEXTS)
        case "quote":
            lines[n] = '"' + lines[n]
        case "more":
            lines[n] = mark.join([*fields, "x"])
        case "less":
            lines[n] = mark.join(fields[:at] + fields[at + 1 :])
        case "field":
            lines[n] = mark.join(
                [*fields[:at], rng.choice((*TEXTS, *NOT_NUMBERS)), *fields[at + 1 :]]
            )
    return f"{name} in line {n + 1}", "\n".join(lines).encode("utf-8", "surrogatepass")


def encoded(rng: Random, text: str) -> tuple[str, bytes]:
    """Return what was done to the bytes of a text, and the bytes."""
    name, change = rng.choice(ENCODINGS)
    data = text.encode("utf-8", "surrogatepass")
    return name, change(data, rng.randrange(len(data) + 1))


def _with(what: bytes) -> Callable[[bytes, int], bytes]:
    return lambda data, at: data[:at] + what + data[at:]


ENCODINGS: tuple[tuple[str, Callable[[bytes, int], bytes]], ...] = (
    ("byte order mark", lambda data, _: b"\xef\xbb\xbf" + data),
    ("two byte order marks", lambda data, _: b"\xef\xbb\xbf" * 2 + data),
    ("UTF-16", lambda data, _: data.decode("utf-8", "replace").encode("utf-16")),
    ("cut", lambda data, at: data[:at]),
    ("empty", lambda _, __: b""),
    ("blank lines only", lambda _, __: b"\n \n\t\n"),
    ("CR LF", lambda data, _: data.replace(b"\n", b"\r\n")),
    ("CR", lambda data, _: data.replace(b"\n", b"\r")),
    ("no end of line", lambda data, _: data.rstrip(b"\n")),
    ("a NUL", _with(b"\0")),
    ("an invalid byte", _with(b"\xff")),
    ("half a character", _with("é".encode()[:1])),
    ("half a surrogate pair", _with(b"\xed\xa0\x80")),
    ("an escape", _with(b"\x1b[2J")),
    ("a long line", _with(b"x" * 1_000_000)),
    ("gzip's first bytes", lambda data, _: b"\x1f\x8b\x08" + data),
)
