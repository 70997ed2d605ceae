"""Prompt similarity of successes: computed once for each trial and stored in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from medstress.analyses.run import Run
from medstress.entities.prompts import PromptEncoder
from medstress.experiment.file.config import AnalysisTable
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader, read
from medstress.store.run_store import RunStore

CHUNK = 64
"""Successes embedded between two commits."""

ToEmbed: TypeAlias = tuple[int, str, str]
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


def prompts_to_embed(run: Run, encoder: PromptEncoder) -> list[ToEmbed]:
    """Return the prompts of all successes that have no similarity by an encoder yet."""
    is_same = run.manifest.get("similarity", {}).get("hash") == encoder.identity

    def collect(reader: RunReader) -> list[ToEmbed]:
        prompts, missing = Prompts(run.manifest), []
        for trial in run.trials:
            first, place = trial.first, trial.arm.place
            if first is None or (is_same and first.similarity is not None):
                continue
            is_pick = first is trial.pick
            if stored := reader.result(trial.number).get("listings"):
                # Folders with two prompts lack that of a first success that is not the pick.
                before, after = stored[0], stored[2] if len(stored) > 2 else None
                after = stored[1] if after is None and is_pick else after
            else:
                before, after = (
                    prompts.shown(place.victim, place.dataset, trial.item.candidate(edits))[1]
                    for edits in ((), first.edits)
                )
            if before is not None and after is not None:
                missing.append((trial.number, before, after))
        return missing

    return read(run.folder.path, collect)


def store_similarities(
    store: RunStore, encoder: PromptEncoder, table: AnalysisTable, prompts: Sequence[ToEmbed]
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
