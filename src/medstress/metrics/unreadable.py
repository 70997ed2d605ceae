"""Find victims whose answers could never be read, so that nothing was measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

RAW_SHOWN = 3
"""How many raw replies of such a victim are shown."""
_LONGEST = 400


def victims_unread(summary: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Return the victims whose every answer, clean and under attack, is unreadable.

    Args:
        summary: as `summarise` returns it.

    Returns:
        For each victim `clean` and `edited`, how many trials and perturbed queries were answered,
        and `cut`, how many of both were cut off.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in summary["results"]:
        unread = row["n_unreadable_at_baseline"]
        answered = row["queries"]["asked"] - row["queries"]["failed"]
        counts[row["victim"]] += Counter(
            clean=unread,
            edited=answered,
            cut=row["n_length_at_baseline"] + row["n_length_answers"],
            read=row["n_eligible"]
            + row["n_already_wrong"]
            + answered
            - row["n_unreadable_answers"],
        )
    return {
        victim: found
        for victim, found in sorted(counts.items())
        if found["clean"] and not found["read"]
    }


def victims_failed(summary: Mapping[str, Any]) -> list[str]:
    """Return the victims of which every call about a clean item failed.

    Args:
        summary: as `summarise` returns it.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in summary["results"]:
        counts[row["victim"]] += Counter(
            failed=row.get("n_failed_at_baseline") or 0,
            answered=row["n_eligible"] + row["n_already_wrong"] + row["n_unreadable_at_baseline"],
        )
    return [v for v, found in sorted(counts.items()) if found["failed"] and not found["answered"]]


def unread_sentence(victim: str, counts: Mapping[str, int], replies: Sequence[str]) -> str:
    """Return a warning that nothing was measured, with some of the victim's raw replies."""
    edited = f" and {counts['edited']} under attack" if counts["edited"] else ""
    cut = counts["cut"]
    advice = (
        f"{cut} were cut off: raise max_new_tokens of the victim, and reasoning_tokens where an "
        "attack asks in turns"
        if cut
        else "another prompt, parser or answer_by may bring answers that can be read"
    )
    shown = " | ".join(f'"{_shortened(reply)}"' for reply in replies[:RAW_SHOWN])
    return (
        f"Every answer of {victim} is unreadable ({counts['clean']} about clean items{edited}), so "
        f"nothing is measured of it; {advice}. Raw replies: {shown}"
    )


def _shortened(reply: str) -> str:
    """Return a reply on one line; of a long one only the beginning and the end."""
    line = " ".join(reply.split())
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST // 2]} [...] {line[-_LONGEST // 2 :]}"
