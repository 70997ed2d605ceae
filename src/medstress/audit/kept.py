"""Compare the summary kept in a folder with one that is computed again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

from medstress.audit.verification import Verification
from medstress.results.load import StoredRun
from medstress.store.chain import Break
from medstress.store.run_store import SUMMARY
from medstress.version import __version__

_RELATIVE = 1e-9
"""By so much may numbers differ that another machine's libraries computed."""


def kept_break(run: StoredRun, summary: Mapping[str, Any], found: Verification) -> Iterator[Break]:
    """Yield the first place at which the kept summary is not what the run says.

    A summary of an earlier root is only checked for its root: what came later changed its numbers.
    """
    path = run.folder / SUMMARY
    if found.root is None:
        return
    if not path.is_file():
        # The run was stopped before it was written; the same command writes it.
        found.notes.append(f"there is no {SUMMARY}, so no numbers are compared")
        return
    try:
        kept = json.loads(path.read_text("utf-8"))
        root, version = kept["root"], kept["experiment"]["versions"]["medstress"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        yield Break(table=SUMMARY, row=0, expected="a summary", found=type(error).__name__)
        return
    if root != found.root:
        if root not in found.roots:
            yield Break(table=SUMMARY, row=0, expected=f"root {found.root}", found=f"root {root}")
        found.notes.append(f"{SUMMARY} is of the earlier root {root}; its numbers are not compared")
        return
    is_ours = version == __version__
    now = json.loads(json.dumps(summary))
    for place, expected, given in _differences(now, kept, is_ours):
        yield Break(
            table=SUMMARY, row=0, expected=f"{place} {_short(expected)}", found=_short(given)
        )


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
