"""What is asked and computed after the trials of a run: stages, similarities.

A stage is a pure function of an experiment and its run, the same in every process: it asks and
writes nothing. Another gives what is said before it costs money, a third what the manifest keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from medstress.analyses.run import Run
from medstress.core.hashing import canonical_json, content_hash
from medstress.engine.work import Purpose, Work
from medstress.entities.embeddings import PromptEncoder
from medstress.experiment import config
from medstress.experiment.plan import Prepared
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader, StoredInquiry
from medstress.store.reviews import reviews_digests
from medstress.store.run_store import RunStore

# -- stages ----------------------------------------------------------------------------------------


CHOICES = "choices"
"""Manifest entry: name of a stage -> what was chosen for it, in the order of the commands."""
_DERIVED = ("edits", "top", "asked", "trials", "verdict", "prompts")
"""Keys of a spec that follow from the trials, so that an extension may change them."""


class FollowUp(Work, Protocol):
    """An inquiry, a study or an explanation."""

    @property
    def purpose(self) -> Purpose:
        """What it is asked for."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the analysis needs to interpret the answers; part of the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Works that need the trials of a run."""

    name: str
    works: Callable[[Prepared, Run], Iterable[FollowUp]]
    """What is asked; what has ended is among it."""
    purposes: frozenset[Purpose]
    """Of its works; `--retry-failed` begins works of an experiment's own stages again."""
    most: Callable[[Prepared, Any], int] = lambda *_: 0
    """The most queries of one work to its victim."""
    words: Callable[[Prepared, Run], Iterable[str]] = lambda *_: ()
    """What the user should read before it costs money."""
    entries: Callable[[Prepared, Run], Mapping[str, Any]] = lambda *_: {}
    """What the manifest keeps of it from before its first call."""
    choice: Callable[[Prepared, Run], Mapping[str, Any]] = lambda *_: {}
    """Settings, and the ids of the trials that were chosen by them, by hand or by what people say;
    the manifest keeps every choice (`CHOICES`)."""
    is_whole: bool = False
    """Whether works of these purposes that it does not name are superseded."""


def superseded(stage: Stage, works: Sequence[FollowUp], ended: Iterable[StoredInquiry]) -> set[str]:
    """Return the follow-ups of a folder that a stage replaces.

    An extension changes what is asked: other names lead, other controls are shared. The root and
    `--retry-failed` leave out what was asked in their place before.

    Args:
        stage: what asks.
        works: what it asks now.
        ended: what the folder holds.
    """
    now = {work.id for work in works}
    places = {_place(work.purpose, names_of(work), work.spec) for work in works}
    return {
        one.id
        for one in ended
        if one.id not in now
        and (
            (stage.is_whole and one.purpose in stage.purposes)
            or _place(one.purpose, place_of(one), one.spec) in places
        )
    }


def place_of(one: StoredInquiry) -> tuple[str, ...]:
    """Return data set, group, victim, attack and item of a follow-up that has ended."""
    return (one.dataset, one.group, one.victim, one.attack, one.item_id)


def names_of(work: FollowUp) -> tuple[str, ...]:
    """Return data set, group, victim, attack and item of a work."""
    return (work.dataset, work.group, work.victim.label, work.attack_label, work.item.id)


def _place(purpose: str, names: tuple[str, ...], spec: Mapping[str, Any]) -> str:
    """Return what two follow-ups share if one replaces the other."""
    own = {key: value for key, value in spec.items() if key not in _DERIVED}
    return canonical_json([purpose, names, own])


# -- those of an experiment ------------------------------------------------------------------------


_CHUNK = 64
"""Successes embedded between two commits."""
ToEmbed: TypeAlias = tuple[int, str, str]
"""(trial, prompt before, prompt of the first success)."""


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


def prompt_encoder(table: config.Analysis, base: Path) -> PromptEncoder | None:
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
            if stored := reader.result(trial.number).get("listings"):
                before, after = stored[0], stored[-1]  # that of the first success comes last
            else:
                before, after = (
                    prompts.shown(place.victim, place.dataset, trial.item.candidate(edits))[1]
                    for edits in ((), first.edits)
                )
            if before is not None and after is not None:
                missing.append((trial.number, before, after))
        return missing

    return run.folder.read(collect)
