"""Compare the summary kept in a folder with one that is computed again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any

from medstress.analyses.requirements import NO_BASELINE
from medstress.core.errors import MedstressError
from medstress.experiment.audit.verification import Verification
from medstress.experiment.criteria import KEY, describe_baseline
from medstress.files.inside import check_regular, read_inside
from medstress.store.chain import Break
from medstress.store.database import SUMMARY
from medstress.store.reader import RunReader
from medstress.version import __version__

_RELATIVE = 1e-9
"""By so much may numbers differ that another machine's libraries computed."""


_OF_THE_RUN = ("experiment.", "root")
"""Entries of a summary that every version takes from the manifest as they are."""


def kept_break(run: RunReader, summary: Mapping[str, Any], found: Verification) -> Iterator[Break]:
    """Yield the first place at which the kept summary is not that of the current root."""
    path = run.folder / SUMMARY
    if found.root is None:
        return
    if check_regular(path) is None:
        # The run was stopped before it was written.
        found.not_compared.append(f"{SUMMARY} is missing; the same command writes it again")
        return
    try:
        kept = json.loads(read_inside(path))
        root, version = kept["root"], run.manifest["versions"]["medstress"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        yield _of_file("a summary", type(error).__name__)
        return
    if root != found.root:
        yield _of_file(f"root {found.root}", f"root {root}")
        return
    is_ours = version == __version__
    now = json.loads(json.dumps(summary))
    elsewhere = dict(_elsewhere(run, now, kept))
    found.notes += [
        f"not compared: criterion {n + 1} of {SUMMARY}, against the run {baseline}, {why}"
        for n, (baseline, why) in elsewhere.items()
    ]
    inside = tuple(f"requirements[{n}]." for n in elsewhere)
    if elsewhere:
        now, kept = _without_criteria(now), _without_criteria(kept)
    for place, expected, given in _differences(now, kept, is_ours):
        if place.startswith(inside):
            continue
        if not is_ours and not place.startswith(_OF_THE_RUN):
            found.not_compared.append(
                f"{SUMMARY} is of medstress {version}, and another one here from {place} on; "
                "compare it with what medstress summary says"
            )
            return
        yield _of_file(f"{place} {_short(expected)}", _short(given))


def _absent_baselines(run: RunReader) -> dict[str, str]:
    """Return the runs that criteria compare with and that are not here as they were -> why."""
    found: dict[str, str] = {}
    for name, known in (run.manifest.get(KEY) or {}).get("baselines", {}).items():
        try:
            now = describe_baseline(Path(run.manifest["base"]), name)
        except MedstressError:
            found[name] = "which is not here"
            continue
        if now["outcomes"] != known["outcomes"]:
            found[name] = "which has changed"
    return found


def _elsewhere(run: RunReader, now: Any, kept: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield (criterion, (its baseline, why)) of what cannot be judged again from this folder."""
    absent = _absent_baselines(run)
    pairs = zip(now["requirements"], _list(kept.get("requirements")), strict=False)
    for n, (one, other) in enumerate(pairs):
        name = (one["against"] or {}).get("run")
        if name in absent:
            yield n, (name, absent[name])
            continue
        # It was not there as the run ended, and is there again.
        is_open = other.get("met") is None and other != one
        if name is not None and is_open and str(other.get("reason")).startswith(NO_BASELINE):
            yield n, (name, "which was not there as the run ended")


def _without_criteria(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary without what its warnings say of criteria."""
    warnings = [
        one
        for one in _list(summary.get("warnings"))
        if not str(one.get("rule")).startswith("criterion_")
    ]
    return {**summary, "warnings": warnings}


def _list(value: Any) -> list[dict[str, Any]]:
    rows = value if isinstance(value, list) else []
    return [row if isinstance(row, dict) else {} for row in rows]


def _of_file(expected: str, found: str) -> Break:
    return Break(table=SUMMARY, row=0, expected=expected, found=found)


def _differences(
    now: Any, kept: Any, is_ours: bool, place: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (place, value now, value kept); keys of another version's summary may be missing."""
    if isinstance(now, dict) and isinstance(kept, dict):
        for key in {**now, **kept}:
            inside = f"{place}.{key}".lstrip(".")
            if key in now and key in kept:
                yield from _differences(now[key], kept[key], is_ours, inside)
            elif is_ours:
                yield inside, now.get(key, "nothing"), kept.get(key, "nothing")
    elif isinstance(now, list) and isinstance(kept, list):
        if len(now) != len(kept):
            yield place, f"{len(now)} entries", f"{len(kept)} entries"
        for n, (one, other) in enumerate(zip(now, kept, strict=False)):
            yield from _differences(one, other, is_ours, f"{place}[{n}]")
    elif not _same(now, kept):
        yield place, now, kept


def _same(now: Any, kept: Any) -> bool:
    if isinstance(now, bool) or isinstance(kept, bool):
        return now is kept
    if isinstance(now, int | float) and isinstance(kept, int | float):
        return isclose(now, kept, rel_tol=_RELATIVE, abs_tol=1e-12)
    return bool(now == kept)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
