"""Prompt similarity of successes: computed once for each trial and stored in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from medstress.entities.prompts import PromptEncoder
from medstress.experiment.file.config import AnalysisTable
from medstress.results.load import StoredRun
from medstress.results.rows import prompt_similarity, trial_rows
from medstress.store.run_store import RunStore

CHUNK = 64
"""Successes embedded between two commits."""

Prompts: TypeAlias = tuple[int, str, str]
"""(trial, prompt before, prompt of the first success)."""


def prompt_encoder(table: AnalysisTable, base: Path) -> PromptEncoder | None:
    """Return the encoder that `[analysis]` asks for, after checking it; None if it asks for none.

    Raises:
        UsageError: the model is not installed or not found.
    """
    if not table.prompt_similarity:
        return None
    encoder = PromptEncoder(table.embedder, table.pooling, base)
    assert encoder.identity
    return encoder


def prompts_to_embed(run: StoredRun, encoder: PromptEncoder) -> list[Prompts]:
    """Return the prompts of all successes that have no similarity by an encoder yet."""
    return [
        (stored.trial, row.listing_before, row.first_success_prompt)
        for stored, row in zip(run.trials(), trial_rows(run), strict=True)
        if prompt_similarity(stored, encoder.identity) is None
        and row.listing_before is not None
        and row.first_success_prompt is not None
    ]


def store_similarities(
    store: RunStore, encoder: PromptEncoder, table: AnalysisTable, prompts: Sequence[Prompts]
) -> None:
    """Embed prompts and store their similarities.

    Every chunk is committed, so an interruption loses at most one chunk.
    """
    store.write_manifest({"similarity": {"embedder": table.embedder, "hash": encoder.identity}})
    store.commit()
    for start in range(0, len(prompts), CHUNK):
        chunk = prompts[start : start + CHUNK]
        texts = list(dict.fromkeys(text for _, *both in chunk for text in both))
        vectors = dict(zip(texts, encoder.encode(texts), strict=True))
        values = [
            (trial, float(np.clip(vectors[before] @ vectors[after], -1, 1)))
            for trial, before, after in chunk
        ]
        store.write_similarities(encoder.identity, values)
        store.commit()
