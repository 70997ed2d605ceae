"""Trials and exchanges of a run, as stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """One finished trial, as stored."""

    trial: int
    trial_id: str
    dataset: str
    group: str
    victim: str
    attack: str
    spec: str
    seed: int | None
    repeat: int
    item: int
    verdict: str
    result: dict[str, Any]
    n_paid: int
    n_cached: int
    n_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExchange:
    """One call that a trial consumed, or one computed ahead and never consumed."""

    trial: int
    trial_id: str
    victim: str
    item: int
    role: str
    purpose: str
    query: int | None
    call: int | None
    key: bytes
    edits: str | None
    request: str | None
    answer: str | None
    cached: bool
    seconds: float | None
    tokens_in: int | None
    tokens_out: int | None
    error: str | None
