"""What a verification found, and whether the summary kept in a folder is its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import isclose
from pathlib import Path
from typing import Any

from medstress.analyses.requirements import NO_BASELINE
from medstress.core.errors import MedstressError
from medstress.core.words import plural
from medstress.experiment.criteria import KEY, describe_baseline
from medstress.files.inside import check_regular, read_inside
from medstress.store.chain import Break
from medstress.store.database import SUMMARY
from medstress.store.reader import RunReader
from medstress.version import __version__


@dataclass(slots=True, kw_only=True)
class Verification:
    """What was checked, what agrees, and the first thing that does not."""

    what: str
    """The folder."""
    broken: Break | None = None
    """The first thing that does not agree."""
    root: str | None = None
    """The root, with all reviews; None if there is none or it does not hold."""
    roots: list[str] = field(default_factory=list)
    """Every root that it once had."""
    root_note: str | None = None
    """Why there is no root."""
    asked_root: str | None = None
    """The root that was kept elsewhere, if one was given and it is one of them."""
    added: dict[str, int] = field(default_factory=dict)
    """What was added since that root: table -> rows."""
    n_redrawn: int = 0
    """Trials whose attack ran again here, and asked what is stored."""
    n_judged: int = 0
    """Trials and follow-ups that were replayed on the stored edits."""
    why: Counter[str] = field(default_factory=Counter)
    """Why an attack did not run again, or counts not -> how many."""
    n_follow_ups: int = 0
    """Follow-ups that were planned again and replayed."""
    not_judged: Counter[str] = field(default_factory=Counter)
    """Why nothing can be said of trials -> how many."""
    not_compared: list[str] = field(default_factory=list)
    """What should have been compared and could not be, as sentences."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say."""

    @property
    def holds(self) -> bool:
        """Whether everything agrees and nothing that should have been judged was not."""
        return self.broken is None and not (self.not_judged or self.not_compared)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found["broken"] = None if self.broken is None else asdict(self.broken)
        return {"format": 2, "verified": self.holds, **found}

    def sentences(self) -> Iterator[str]:
        """Yield what people read."""
        if self.broken is not None:
            yield f"does not agree: {self.broken}"
            return
        if self.root is not None:
            yield f"root {self.root}"
        if self.root_note is not None:
            yield self.root_note
        if self.asked_root is not None:
            rows = [plural(n, f"row of {table}", f"rows of {table}") for table, n in self._new()]
            since = f"since then were added: {', '.join(rows)}" if rows else "nothing was added"
            yield f"it had the root {self.asked_root}; {since}"
        if self.n_redrawn:
            n = plural(self.n_redrawn, "trial")
            yield f"{n} redrawn: the attack ran again here and asked what is stored"
        if self.n_judged:
            yield f"{plural(self.n_judged, 'trial')} judged on the stored edits:"
            for reason, n_trials in self.why.most_common():
                yield f"  {n_trials:,}: {reason}"
        if self.n_follow_ups:
            n = plural(self.n_follow_ups, "follow-up")
            yield f"{n} planned and replayed"
        yield from self.notes
        yield from self.doubts()

    def doubts(self) -> Iterator[str]:
        """Yield what should have been judged or compared, and was not."""
        for sentence in self.not_compared:
            yield f"not judged: {sentence}"
        for reason, n_trials in self.not_judged.items():
            yield f"not judged: {plural(n_trials, 'trial')}: {reason}"

    def _new(self) -> list[tuple[str, int]]:
        return [(table, n) for table, n in self.added.items() if n]


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
