"""What attacks change beside what a harmless change does, control by control, in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.core.controls import CONTROLS, MEANINGS
from medstress.results.formats import listed, plural
from medstress.summary.arms import REPEAT, Row, counted, is_awaited

NO_CONTROL = "not net of any control"
_MOST = 6
"""Attacks named in one sentence; further ones are counted."""

Taken: TypeAlias = tuple[str, int, int]
"""(Attack, right answers that it changes, those of which that is not known)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What attacks share that stand in one sentence: place, control, and its counts."""

    place: tuple[str, str, str]
    """Victim, data set, group."""
    control: str
    """Name of the control."""
    budget: int | None
    """Most queries of a trial."""
    counted: str
    """Seeds and runs of the trials, in words."""
    n: int
    """Trials of both arms."""
    changed: int
    """Trials that the control flips."""
    open: int
    """Trials of the control without a readable answer that could tell."""


def headlines(pooled: Sequence[Row], manifest: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each victim, place and control, and the attacks that share it.

    Args:
        pooled: pooled rows of the summary, control arms among them.
        manifest: the run's manifest; `controls` says whether controls were left out.
    """
    attacks = [row for row in pooled if "control_of" not in row and _is_attacked(row)]
    beside: dict[Key, list[Taken]] = {}
    without: list[Row] = []
    for row in attacks:
        tables = {k: v for k, v in (row.get("control_table") or {}).items() if v and sum(v)}
        if not tables and not is_awaited(row, manifest):
            without.append(row)
        for name, table in tables.items():
            both, only_attack, only_control, _ = table
            open_attack, open_control = row["control_open"][name]
            budget = row["asr_at"][-1]["budget"] if row["asr_at"] else None
            key = Key(
                place=_place(row),
                control=name,
                budget=budget,
                counted=counted(row),
                n=sum(table),
                changed=both + only_control,
                open=open_control,
            )
            beside.setdefault(key, []).append((row["attack"], both + only_attack, open_attack))
    found = [_sentence(key, members) for key, members in beside.items()]
    return [*found, *_uncontrolled(without, bool(beside), manifest)]


def _is_attacked(row: Row) -> bool:
    """Return whether right answers were attacked: not by a control, nor with new evidence."""
    is_asked = bool(row["n_eligible"]) and row["chance"] is not None and not row.get("evidence")
    return is_asked and json.loads(row["attack_spec"])["name"] not in CONTROLS


def _place(row: Row) -> tuple[str, str, str]:
    return row["victim"], row["dataset"], row["group"]


def _sentence(key: Key, members: Sequence[Taken]) -> str:
    victim, dataset, group = key.place
    ranked = sorted(members, key=lambda each: (-each[1], each[0]))
    seeds = f" ({key.counted})" if key.counted else ""
    queries = f", up to {plural(key.budget, 'query', 'queries')} each" if key.budget else ""
    change = "changes" if key.changed == 1 else "change"
    unanswered = f" ({key.open:,} more are not known: no readable answer)" if key.open else ""
    first = (
        f"{victim} on {dataset}/{group}{queries}: {MEANINGS[key.control]} ({key.control}), "
        f"{key.changed:,} of {key.n:,} right answers{seeds} {change}{unanswered}."
    )
    if key.control == REPEAT:
        return f"{first} That is chance alone, and says nothing of what an edit takes."
    lost = [_lost(key, *each) for each in ranked[:_MOST] if each[1] + each[2]]
    held = [attack for attack, *counts in ranked[:_MOST] if not sum(counts)]
    if held:
        lost.append(f"Under {listed(held)} none changes.")
    if len(ranked) > _MOST:
        lost.append(f"And {len(ranked) - _MOST} more attacks.")
    return " ".join((first, *lost))


def _lost(key: Key, attack: str, flipped: int, unknown: int) -> str:
    """Return what an attack takes beside its control, unknown answers at their worst."""
    least, most = max(0, flipped - key.changed - key.open), flipped + unknown
    lost = f"{least:,} to {most:,}" if least < most else f"all {most:,}" if most > 1 else "it"
    return f"Under {attack} {flipped:,}: {lost} lost to it."


def _uncontrolled(rows: Sequence[Row], others: bool, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Say which attacks have no control, and why as far as the manifest tells."""
    if not rows:
        return
    names = list(dict.fromkeys(row["attack"] for row in rows))
    who = "ASR is" if not others else f"ASR of {', '.join(names[:_MOST])} is"
    left_out = (manifest.get("controls") or {}).get("left_out") or {}
    reasons = {r for name in names for r in left_out.get(name, {}).values()}
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    yield f"{who} {NO_CONTROL}{why}: some of what an attack changes any other edit may change too."
