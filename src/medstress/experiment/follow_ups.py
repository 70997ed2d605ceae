"""What an experiment asks and computes after its trials: stages, similarities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from medstress.analyses.run import Run
from medstress.core.hashing import content_hash
from medstress.core.queries import JUDGE
from medstress.engine.work import Purpose
from medstress.entities.embeddings import PromptEncoder
from medstress.experiment.file.config import AnalysisTable
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.stages import Stage
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader
from medstress.store.reviews import reviews_digests
from medstress.store.run_store import RunStore

_CHUNK = 64
"""Successes embedded between two commits."""
ToEmbed: TypeAlias = tuple[int, str, str]
"""(trial, prompt before, prompt of the first success)."""


def stages_of(bench: Prepared) -> list[Stage]:
    """Return what an experiment asks after its trials."""
    table, analysis, stages = bench.experiment.test, bench.experiment.analysis, list[Stage]()
    if table is not None or JUDGE in {part.name for part in bench.roles}:
        from medstress.experiment.medfuzz_tests import FAITHFULNESS, SIGNIFICANCE

        stages += [FAITHFULNESS] if table is None else [FAITHFULNESS, SIGNIFICANCE]
    if analysis.transfer or analysis.reuse:
        from medstress.experiment.transfer import plan

        purposes = frozenset({Purpose.TRANSFER, Purpose.REUSE})
        name = "transfer and reuse"
        stages.append(Stage(name=name, works=plan, purposes=purposes, is_whole=True))
    return stages


def follow_up_hashes(bench: Prepared, folder: Path) -> dict[str, str]:
    """Return what is asked and computed after the trials -> hash of what decides it.

    Where n was chosen, and which models were trained, decides which trials there are.
    """
    analysis, test = bench.experiment.analysis, bench.experiment.test
    encoder = prompt_encoder(analysis, bench.base)
    wanted = {
        "transfer": analysis.transfer,
        "reuse": list(analysis.reuse),
        "similarity of prompts": encoder and encoder.identity,
        # People say which successes are valid, and valid ones alone are tested.
        "tests": test and [test.model_dump(mode="json"), reviews_digests(folder)[-1:]],
        "part": dict(bench.portion.notes),
    }
    return {name: content_hash(value) for name, value in wanted.items() if value}


# -- what is computed ------------------------------------------------------------------------


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


def keep_similarities(
    store: RunStore, bench: Prepared, run: Run, note: Callable[[str], None]
) -> None:
    """Embed the prompts of successes and store their similarities, if the experiment asks for it.

    Every chunk is committed, so an interruption loses at most one chunk.
    """
    table = bench.experiment.analysis
    encoder = prompt_encoder(table, bench.base)
    if encoder is None:
        return
    note(f"prompt similarity ({table.embedder})")
    prompts = prompts_to_embed(run, encoder)
    store.write_manifest({"similarity": {"embedder": table.embedder, "hash": encoder.identity}})
    store.commit()
    for start in range(0, len(prompts), _CHUNK):
        chunk = prompts[start : start + _CHUNK]
        texts = list(dict.fromkeys(text for _, *both in chunk for text in both))
        vectors = dict(zip(texts, encoder.encode(texts), strict=True))
        values = [
            (trial, float(np.clip(vectors[before] @ vectors[after], -1, 1)))
            for trial, before, after in chunk
        ]
        store.write_similarities(encoder.identity, values)
        store.commit()


def prompts_to_embed(run: Run, encoder: PromptEncoder) -> Sequence[ToEmbed]:
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

    return run.folder.read(collect)
