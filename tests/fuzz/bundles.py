"""Bundles with one thing wrong: bytes of the zip, entries, the head, what is packed."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from .case import Case
from .run_folders import good_folder

HEAD = "medstress.json"
_NAMES = ("../out", "/tmp/out", "run/../../out", "run/other", "a" * 300, "con", HEAD, "\udcff")
_VALUES: tuple[Any, ...] = (None, -1, 77, 2**70, "", "x" * 5_000, [], {}, [[[]]], True, 1.5)


def cases(rng: Random) -> Iterator[Case]:
    """Bundles with one thing wrong, without end."""
    ways = (_bytes, _entry, _head, _line)
    while True:
        is_redacted = rng.random() < 0.5
        name, change = rng.choice(ways)(rng)
        command = ("verify", "b.zip", *(("--json",) if rng.random() < 0.5 else ()))
        yield Case(name=f"bundle: {name}", write=_writer(change, command, is_redacted))


@lru_cache(maxsize=1)
def _good_bundles() -> dict[bool, Path]:
    """Bundles of a small run, whole and redacted, made once in each process."""
    from medstress.audit.bundle import write_bundle

    found = {}
    for is_redacted in (False, True):
        found[is_redacted] = good_folder().with_name(f"good-{is_redacted}.zip")
        # Without the report, which would take most of the time; it is compared by its bytes.
        write_bundle(good_folder(), found[is_redacted], lambda _: "", redact=is_redacted)
    return found


Entries = list[tuple[str, bytes]]


def _writer(
    change: Callable[[Path], None], command: Sequence[str], is_redacted: bool
) -> Callable[[Path], Sequence[str]]:
    def write(folder: Path) -> Sequence[str]:
        shutil.copy(_good_bundles()[is_redacted], folder / "b.zip")
        change(folder / "b.zip")
        return [command[0], str(folder / command[1]), *command[2:]]

    return write


def _rewritten(change: Callable[[Entries], Entries]) -> Callable[[Path], None]:
    """Pack changed entries anew."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in change(entries):
                archive.writestr(name.encode("utf-8", "replace").decode(), data)

    return write


def _bytes(rng: Random) -> tuple[str, Callable[[Path], None]]:
    """Bytes within the file, or its end."""
    place, data, is_cut = rng.random(), rng.randbytes(rng.choice((1, 4, 64))), rng.random() < 0.3

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        at = int(place * len(content))
        content[at:] = b"" if is_cut else data + content[at + len(data) :]
        path.write_bytes(content)

    return f"{'cut' if is_cut else f'{len(data)} bytes'} at {place:.2f}", change


def _entry(rng: Random) -> tuple[str, Callable[[Path], None]]:
    """One entry renamed, doubled, dropped, moved, emptied or blown up."""
    what, name = (
        rng.choice(("rename", "double", "drop", "move", "empty", "bomb")),
        rng.choice(_NAMES),
    )
    place = rng.random()

    def change(entries: Entries) -> Entries:
        at = int(place * len(entries))
        old, data = entries.pop(at)
        match what:
            case "rename":
                entries.insert(at, (name, data))
            case "double":
                entries += [(old, data), (old, data)]
            case "move":
                entries.append((old, data))
            case "empty":
                entries.insert(at, (old, b""))
            case "bomb":
                entries.insert(at, (old, b"\0" * 3_000_000))
        return entries

    return f"entry: {what} {name[:20]!r}", _rewritten(change)


def _head(rng: Random) -> tuple[str, Callable[[Path], None]]:
    """One value of the head."""
    odd, place, is_inner = rng.choice(_VALUES), rng.random(), rng.random() < 0.5

    def change(entries: Entries) -> Entries:
        head = json.loads(entries[0][1])
        inner = head["files"] if is_inner else head
        key = list(inner)[int(place * len(inner))]
        inner[key] = odd
        return [(HEAD, json.dumps(head).encode()), *entries[1:]]

    return f"head: {'files' if is_inner else 'top'} = {odd!r}"[:60], _rewritten(change)


def _line(rng: Random) -> tuple[str, Callable[[Path], None]]:
    """One value of a packed text, listed with its new hash."""
    odd, place, within = rng.choice(_VALUES), rng.random(), rng.random()

    def change(entries: Entries) -> Entries:
        head = json.loads(entries[0][1])
        kinds = (".json", ".jsonl")
        # An export without rows has no line.
        texts = [n for n, (name, data) in enumerate(entries) if name.endswith(kinds) and data][1:]
        at = texts[int(place * len(texts))]
        name, data = entries[at]
        lines = data.decode().splitlines()
        row = int(within * len(lines))
        try:
            value = json.loads(lines[row])
        except ValueError:
            value = lines[row]
        if isinstance(value, dict) and value:
            value[list(value)[int(within * 97) % len(value)]] = odd
        elif isinstance(value, list) and value:
            value[int(within * 97) % len(value)] = odd
        else:
            value = odd
        lines[row] = json.dumps(value)
        entries[at] = (name, "\n".join([*lines, ""]).encode())
        head["files"][name] = {
            "bytes": len(entries[at][1]),
            "sha256": sha256(entries[at][1]).hexdigest(),
        }
        return [(HEAD, json.dumps(head).encode()), *entries[1:]]

    return f"line: {odd!r} at {place:.2f} {within:.2f}"[:60], _rewritten(change)
