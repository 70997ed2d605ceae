"""Shapley profiles of Figure 5 and Appendix E: original left, edited right, heat maps below."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST = 12
"""Cases of Appendix E at most."""
CSV_FIELDS = (
    "trial_id", "item_id", "victim", "attack", "side", "answer", "output", "position", "token",
    "place", "edited", "value", "base", "full",
)  # fmt: skip

MISSING = "No success is explained yet: medstress explain adds the Shapley profiles."
NOTES = (
    "Owen values of the prompt's tokens for the option that was answered, before (left) and after "
    "(right) the edit; blue speaks for it, orange against it, and the darkest shade is the largest "
    "value of both prompts.",
    "Above them the options: the replaced text in orange, the new one in blue, a check mark at the "
    "answer.",
    "The explained successes are chosen by a hash, not by how striking they are.",
)

Case = Mapping[str, Any]


def explained_successes(summary: Mapping[str, Any]) -> list[Case]:
    """Return the explained successes whose heat maps stand in the summary."""
    found = summary.get("explanations") or {}
    return [case for case in found.get("cases") or () if case["verdict"] == "flipped"][:MOST]


def one_profile_per_regime(successes: Sequence[Case]) -> list[Case]:
    """Return one success of each regime of PDWS; the first one without any regime."""
    regimes = {case["regime"]: case for case in reversed(successes)}
    return [regimes[name] for name in ("n<0", "n>0") if name in regimes] or list(successes[:1])


def csv_rows(successes: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Yield the values of all tokens."""
    for case in successes:
        for name in ("before", "after"):
            side = case[name]
            marks = [(place, edited) for place, edited, n in side["segments"] for _ in range(n)]
            for i, (token, value) in enumerate(zip(side["tokens"], side["values"], strict=True)):
                yield {
                    **{key: case[key] for key in ("trial_id", "item_id", "victim", "attack")},
                    "side": name,
                    "answer": side["answer"],
                    "output": side["output"],
                    "position": i,
                    "token": json.dumps(token, ensure_ascii=False),
                    "place": marks[i][0],
                    "edited": marks[i][1],
                    "value": value,
                    "base": side["base"],
                    "full": side["full"],
                }
