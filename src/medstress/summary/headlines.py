"""The first sentences of a summary: what attacks change beside what a harmless change does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.core.controls import CONTROLS, MEANINGS
from medstress.results.formats import listed, plural

Row = Mapping[str, Any]

NO_CONTROL = "not net of any control"
_MOST = 6
"""Attacks named in one sentence; further ones are counted."""


def headlines(pooled: Sequence[Row], manifest: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each victim, place and control, and the attacks that share it.

    Args:
        pooled: pooled rows of the summary, control arms among them.
        manifest: the run's manifest; `controls` says whether controls were left out.
    """
    attacks = [row for row in pooled if "control_of" not in row and _is_attacked(row)]
    beside: dict[tuple[Any, ...], list[tuple[Row, Sequence[int]]]] = {}
    without: list[Row] = []
    for row in attacks:
        tables = {k: v for k, v in (row.get("control_table") or {}).items() if v and sum(v)}
        if not tables:
            without.append(row)
        for name, table in tables.items():
            both, only_attack, only_control, _ = table
            budget = row["asr_at"][-1]["budget"] if row["asr_at"] else None
            key = (*_place(row), name, budget, len(row["seeds"]), sum(table), both + only_control)
            beside.setdefault(key, []).append((row, (both + only_attack, both + only_control)))
    found = [_sentence(key, members) for key, members in beside.items()]
    return [*found, *_uncontrolled(without, bool(beside), manifest), *_primary(manifest)]


def _primary(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Say which endpoint is primary, if the file names one."""
    named = manifest["config"]["experiment"].get("primary")
    if named is None:
        return
    net = f" net of {named['control']}" if named.get("control") else ""
    if manifest.get("primary") == named:
        yield (
            f"Primary endpoint, fixed before the first query: {named['metric']}{net}. Every other "
            "number is exploratory."
        )
    else:
        yield (
            f"{named['metric']}{net} was named as primary endpoint after the run had begun: it is "
            "post hoc, and every number is exploratory."
        )


def _is_attacked(row: Row) -> bool:
    """Return whether right answers were attacked: not by a control, nor with new evidence."""
    is_asked = bool(row["n_eligible"]) and row["chance"] is not None and not row.get("evidence")
    return is_asked and json.loads(row["attack_spec"])["name"] not in CONTROLS


def _place(row: Row) -> tuple[str, str, str]:
    return row["victim"], row["dataset"], row["group"]


def _sentence(key: tuple[Any, ...], members: Sequence[tuple[Row, Sequence[int]]]) -> str:
    victim, dataset, group, name, budget, n_seeds, n, changed = key
    ranked = sorted(members, key=lambda each: (-each[1][0], each[0]["attack"]))
    seeds = f" ({n_seeds} seeds)" if n_seeds > 1 else ""
    queries = f", up to {plural(budget, 'query', 'queries')} each" if budget else ""
    lost = [_lost(row["attack"], *counts) for row, counts in ranked[:_MOST] if counts[0]]
    held = [row["attack"] for row, counts in ranked[:_MOST] if not counts[0]]
    if held:
        lost.append(f"Under {listed(held)} none changes.")
    more = f" And {len(ranked) - _MOST} more attacks." if len(ranked) > _MOST else ""
    change = "changes" if changed == 1 else "change"
    return (
        f"{victim} on {dataset}/{group}{queries}: {MEANINGS[name]} ({name}), {changed:,} of "
        f"{n:,} right answers{seeds} {change}. {' '.join(lost)}{more}"
    )


def _lost(attack: str, a: int, c: int) -> str:
    """Return what an attack with a > 0 flips takes beside a control with c flips."""
    least = max(0, a - c)
    lost = f"{least:,} to {a:,}" if least < a else f"all {a:,}" if a > 1 else "it"
    return f"Under {attack} {a:,}: {lost} lost to it."


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
