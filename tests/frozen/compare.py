"""Differences between what is frozen and what is there now, by key path."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .normal import opened

MOVED = Path(__file__).with_name("moved.toml")
SHOWN = 10
_ABSENT = "<absent>"
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not what it was."""

    path: str
    """Snapshot, file and keys, parted by slashes."""
    old: Any
    """In the snapshot."""
    new: Any
    """Now."""

    def __str__(self) -> str:
        return f"{self.path}\n    was {_shown(self.old)}\n    is  {_shown(self.new)}"


@dataclass(frozen=True, slots=True)
class Moved:
    """An exception that has a name and a reason (moved.toml)."""

    path: str
    """A pattern of key paths; `*` stands for any text."""
    reason: str
    """Why it may differ, and where the design page says so."""


def exceptions(file: Path = MOVED) -> list[Moved]:
    """The named exceptions."""
    rows = tomllib.loads(file.read_text("utf-8")).get("moved", [])
    return [Moved(**row) for row in rows]


def unexplained(found: Sequence[Difference], moved: Sequence[Moved]) -> list[Difference]:
    """Differences that no exception names."""
    return [d for d in found if not any(fnmatchcase(d.path, each.path) for each in moved)]


def told(found: Sequence[Difference]) -> str:
    """The first differences, to be read by a person."""
    more = f"\n... and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    lines = "\n".join(str(each) for each in found[:SHOWN])
    return f"{len(found)} differences from what is frozen:\n{lines}{more}"


def differences(old: Any, new: Any, path: str) -> Iterator[Difference]:
    """Walk both and yield what differs; numbers may differ in their last digits."""
    old, new = _opened(old), _opened(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield Difference(f"{path}/length", len(old), len(new))
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, f"{path}/{i}")
    elif not _same(old, new):
        yield Difference(path, old, new)


def _opened(value: Any) -> Any:
    return opened(value) if isinstance(value, dict) and "<rows>" in value else value


def _same(old: Any, new: Any) -> bool:
    if type(old) is not type(new):
        return False
    if isinstance(old, float):
        return math.isclose(old, new, rel_tol=1e-10, abs_tol=1e-12)
    if isinstance(old, str) and old != new and _NUMBER.fullmatch(old) and _NUMBER.fullmatch(new):
        return "." in old + new and math.isclose(float(old), float(new), rel_tol=1e-10)
    return bool(old == new)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
