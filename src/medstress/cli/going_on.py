"""The command that goes on with a run: the one that began it, with a higher limit or a flag."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.words import command

if TYPE_CHECKING:  # --help is instant
    from medstress.analyses.summary import Performance

_ROOM = 2
"""A limit that stopped a run is proposed so many times as high."""


def reached(settings: Mapping[str, Any], cost: Performance) -> list[str]:
    """Return the limits that a run has reached.

    Args:
        settings: the experiment's `[experiment]` table.
        cost: what the run has used up.
    """
    used = {
        "max_usd": cost.usd or 0.0,
        "max_queries": cost.calls,
        "max_tokens": sum(paid.tokens_in + paid.tokens_out for paid in cost.spending),
        "max_seconds": cost.wall_seconds,
    }
    limits = {key: settings.get(key) for key in used}
    return [
        key
        for key, limit in limits.items()
        if isinstance(limit, int | float) and used[key] >= limit
    ]


def raised(settings: Mapping[str, Any], limits: Sequence[str]) -> list[str]:
    """Return the flags that raise limits."""
    return [
        word for key in limits for word in ("--set", f"experiment.{key}={settings[key] * _ROOM:g}")
    ]


def run_again(folder: Path, *flags: str) -> str:
    """Return the command that goes on with a run: this process's own, if it is a run.

    A folder's own text is never part of it, because anyone may have written it.

    >>> run_again(Path("runs/a"), "--retry-failed")
    'medstress run EXPERIMENT.toml --out runs/a --retry-failed'
    """
    own = command_again(shlex.join(sys.argv), *flags) if len(sys.argv) > 1 else None
    return own or command("run", "EXPERIMENT.toml", "--out", folder, *flags)


def command_again(began: str, *flags: str) -> str | None:
    """Return the command that began a run with further flags; None if it was no `medstress run`.

    >>> command_again("medstress run a.toml --set experiment.max_usd=1", "--set",
    ...               "experiment.max_usd=2")
    'medstress run a.toml --set experiment.max_usd=2'
    >>> command_again("medstress run a.toml --fresh", "--retry-failed")
    'medstress run a.toml --retry-failed'
    """
    words = shlex.split(began)[1:]
    if words[:1] != ["run"]:
        return None
    keys = {flag.partition("=")[0] for flag in flags if "=" in flag}
    kept: list[str] = []
    given = iter(word for word in words if word not in ("--fresh", "--retry-failed"))
    for word in given:
        if word == "--set":
            value = next(given, "")
            kept += [] if value.partition("=")[0] in keys else [word, value]
        elif word.removeprefix("--set=").partition("=")[0] not in keys:
            kept.append(word)
    return shlex.join(["medstress", *kept, *flags])
