"""Prompt similarity of successes: computed once a trial, kept in the run folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medstress.entities.prompts import PromptEncoder
from medstress.experiment.config import AnalysisTable
from medstress.experiment.rows import trial_rows
from medstress.store.reader import RunReader
from medstress.store.run_store import RunStore

CHUNK = 64
"""Successes embedded between two commits."""


def prompt_encoder(table: AnalysisTable, base: Path) -> PromptEncoder | None:
    """The encoder that `[analysis]` asks for, checked before anything is asked; None without.

    Raises:
        UsageError: the model is not installed or not found.
    """
    if not table.prompt_similarity:
        return None
    encoder = PromptEncoder(table.embedder, table.pooling, base)
    assert encoder.identity
    return encoder


def store_similarities(store: RunStore, encoder: PromptEncoder, table: AnalysisTable) -> int:
    """Embed the prompts of all successes that this encoder has not seen yet.

    Every chunk is committed, so that an interruption loses one chunk at most.

    Returns:
        How many successes were embedded.
    """
    store.write_manifest({"similarity": {"embedder": table.embedder, "hash": encoder.identity}})
    store.commit()
    reader = RunReader(store.folder)
    try:
        open_ = [
            (stored.trial, row.listing_before, row.first_success_prompt)
            for stored, row in zip(reader.trials(), trial_rows(reader), strict=True)
            if row.prompt_similarity is None
            and row.listing_before is not None
            and row.first_success_prompt is not None
        ]
    finally:
        reader.close()
    for start in range(0, len(open_), CHUNK):
        chunk = open_[start : start + CHUNK]
        texts = list(dict.fromkeys(text for _, *both in chunk for text in both))
        vectors = dict(zip(texts, encoder.encode(texts), strict=True))
        values = [
            (trial, float(np.clip(vectors[before] @ vectors[after], -1, 1)))
            for trial, before, after in chunk
        ]
        store.write_similarities(encoder.identity, values)
        store.commit()
    return len(open_)
