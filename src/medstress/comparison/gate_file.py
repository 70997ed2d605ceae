"""The file of a nightly series: locked while a night is fed, replaced whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.files.writing import Access, refuse_link, write_text
from medstress.stats.nights import State, as_json, read_state, replay

_MARK = "nightly gate"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The nights so far, with what people need to know about them."""

    state: State
    """What the gate remembers."""
    about: str
    """The baseline, for people."""
    baseline_runs: tuple[str, ...]
    """Digests of the baseline's runs."""
    log: tuple[Mapping[str, Any], ...]
    """One entry a night: its number, both run folders, the bet, E, the number of pairs, and what
    tells all items spent so far."""

    def after(self, state: State, baseline_run: str, entry: Mapping[str, Any]) -> Series:
        """Return the series with one more night."""
        runs = dict.fromkeys((*self.baseline_runs, baseline_run))
        return replace(self, state=state, baseline_runs=tuple(runs), log=(*self.log, entry))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other process from feeding the series.

    Raises:
        UsageError: another process feeds it, or its folder does not exist or cannot be written.
    """
    beside = path.with_name(f"{path.name}.lock")
    if not path.parent.is_dir():
        raise UsageError(f"--sequential {path}: there is no folder {path.parent}; make it first")
    try:
        refuse_link(beside)
        lock = FileLock(beside)
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f"--sequential {path}: another medstress process is feeding this series; wait for it"
        ) from None
    except OSError as error:
        raise UsageError(f"--sequential {path}: cannot lock it: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def read_series(path: Path) -> Series | None:
    """Read a series; None if the file does not exist, which begins one.

    Raises:
        UsageError: the file is no series, of another version, or damaged.
    """
    if not path.exists() and not path.is_symlink():
        return None
    try:
        refuse_link(path)
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--sequential {path}: cannot read it: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--sequential {path}: expected the state of a nightly gate, got something that is no "
            "JSON; give its file, or another name to begin a series"
        ) from error
    if not isinstance(found, dict) or found.get("medstress") != _MARK:
        raise UsageError(
            f"--sequential {path}: expected the state of a nightly gate, got another JSON file; "
            "give its file, or another name to begin a series"
        )
    if found.get("format") != FORMAT:
        raise UsageError(
            f"--sequential {path}: expected format {FORMAT} of the nightly gate, got "
            f"{found.get('format')!r}; use the version of medstress that wrote it, or begin a new "
            "series with another name"
        )
    try:
        return _series(found)
    except (ValueError, KeyError, TypeError) as error:
        told = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"--sequential {path}: the file is damaged: {told}; restore it from a copy, or begin a "
            "new series with another name"
        ) from error


def _series(found: Mapping[str, Any]) -> Series:
    state, runs, log = read_state(found["state"]), found["baseline_runs"], found["log"]
    if not isinstance(runs, list) or not all(isinstance(each, str) for each in runs):
        raise ValueError("expected baseline_runs to be texts")
    if not isinstance(log, list) or [type(each) for each in log] != [dict] * state.t:
        raise ValueError(f"expected a log of {state.t} nights")
    if not isinstance(found["about"], str):
        raise ValueError("expected about to be a text")
    _check_log(state, log)
    return Series(state=state, about=found["about"], baseline_runs=tuple(runs), log=tuple(log))


def _check_log(state: State, log: Sequence[Mapping[str, Any]]) -> None:
    """Play the nights of the log again.

    Raises:
        ValueError: the fortunes, an E, the first alarm or the spent items are not those they lead
            to.
    """
    bets = [entry["x"] for entry in log]
    if any(type(x) is not int or x not in (-1, 0, 1) for x in bets):
        raise ValueError("expected each night of its log to bet -1, 0 or 1")
    if [entry["night"] for entry in log] != [*range(1, len(log) + 1)]:
        raise ValueError(f"expected its log to count the nights from 1 to {len(log)}")
    fortunes, values, alarm = replay(bets)
    told = None
    if not np.allclose(state.fortunes, fortunes, rtol=1e-9, atol=0):
        told = "fortunes do"
    elif not np.allclose([entry["e"] for entry in log], values, rtol=1e-9, atol=0):
        told = "E does"
    elif state.first_alarm != alarm:
        told = "first alarm does"
    elif (log[-1]["spent"] if log else spent_digest(())) != spent_digest(state.spent):
        told = "spent items do"
    if told is not None:
        raise ValueError(f"its {told} not follow from the nights of its log")


def spent_digest(spent: Collection[str]) -> str:
    """Return what tells items that were bet on from all others."""
    return content_hash(sorted(spent))


def write_series(path: Path, series: Series) -> None:
    """Replace the file of a series; after a kill it is as it was, or complete.

    Raises:
        UsageError: it cannot be written.
    """
    content = {
        "medstress": _MARK,
        "format": FORMAT,
        "about": series.about,
        "state": as_json(series.state),
        "baseline_runs": list(series.baseline_runs),
        "log": [dict(entry) for entry in series.log],
    }
    try:
        write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n", Access.ORDINARY)
    except OSError as error:
        raise UsageError(f"--sequential {path}: cannot write it: {error.strerror}") from error
