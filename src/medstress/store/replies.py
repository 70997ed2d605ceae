"""The raw replies of victims about clean items."""

from __future__ import annotations

import sqlite3

from medstress.core.calls import Chosen, Generated
from medstress.store.codec import decode_answer

_CLEAN = """
SELECT e.trial, e.body FROM calls e JOIN trials t ON t.id = e.trial JOIN arms a ON a.id = t.arm
WHERE a.victim = ? AND e.role = 'victim' AND e.purpose = 'baseline' AND e.body IS NOT NULL
ORDER BY e.trial, e.seq
"""


def clean_replies(db: sqlite3.Connection, victim: str, n: int) -> list[str]:
    """Return raw replies about the clean items of the first trials; of a conversation, the last.

    Args:
        db: the run.
        victim: label of the victim.
        n: the largest number of trials.
    """
    last: dict[int, str] = {}
    for trial, body in db.execute(_CLEAN, (victim,)):
        if trial not in last and len(last) == n:
            break
        last[trial] = body
    return [_raw(body) for body in last.values()]


def _raw(body: str) -> str:
    answer = decode_answer(body, 0, 0)
    if isinstance(answer, Generated):
        thought = f"<think>{answer.reasoning}" if answer.reasoning else ""
        thought += "</think>" if thought and answer.text else ""
        return f"{thought}{answer.text}"
    return str(answer.text) if isinstance(answer, Chosen) and answer.text is not None else body
