"""What is asked and computed after the trials of a run: stages, transfer, reuse, similarities.

A stage is a pure function of an experiment and its run, the same in every process: it asks and
writes nothing. Another gives what is said before it costs money, a third what the manifest keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.run import Run
from medstress.analyses.transfer import cross_fitted, right_on
from medstress.attacks.discrete_zoo import DiscreteZoo
from medstress.attacks.names import Substitution, span_text
from medstress.attacks.protocol import Attack
from medstress.core.calls import Decoding
from medstress.core.hashing import canonical_json, content_hash
from medstress.core.items import Candidate, Mention, Question
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.engine.inquiry import Asked, Inquiry
from medstress.engine.work import Purpose
from medstress.entities.embeddings import PromptEncoder
from medstress.experiment import config
from medstress.experiment.models import victim_of
from medstress.experiment.plan import Prepared
from medstress.store.codec import edits_text
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader, StoredInquiry
from medstress.store.reviews import reviews_digests
from medstress.store.run_store import RunStore
from medstress.store.trials import Span, Substitutions
from medstress.tasks.victim import Victim

# -- stages ----------------------------------------------------------------------------------------


_DERIVED = ("edits", "top", "asked", "trials", "verdict", "prompts")
"""Keys of a spec that follow from the trials, so that an extension may change them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Works that need the trials of a run."""

    name: str
    works: Callable[[Prepared, Run], Iterable[Asked]]
    """What is asked; what has ended is among it."""
    purposes: frozenset[Purpose]
    """Of its works; `--retry-failed` begins works of an experiment's own stages again."""
    most: Callable[[Any], int] = lambda _: 0
    """The most queries of one work to its victim."""
    words: Callable[[Prepared, Run, Sequence[Any], Collection[str]], Iterable[str]] = lambda *_: ()
    """What the user should read before it costs money, by what is asked, and ids of what ended."""
    entries: Callable[[Prepared, Run], Mapping[str, Any]] = lambda *_: {}
    """What the manifest keeps of it from before its first call."""
    is_whole: bool = False
    """Whether works of these purposes that it does not name are superseded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a command asks of the trials of a run."""

    name: str
    """`test` or `explain`."""
    folder: Path
    """Of the run."""
    stages: Sequence[Stage]
    most: Callable[[config.Experiment], str]
    """Says how much is asked at most."""
    complete: Callable[[dict[str, Any]], None] = lambda _: None
    """Fills in what the command decides, before the tables are checked."""
    end: Callable[[], str | None] = lambda: None
    """Says why nothing was asked, if so."""


def superseded(stage: Stage, works: Sequence[Asked], ended: Iterable[StoredInquiry]) -> set[str]:
    """Return the follow-ups of a folder that a stage replaces.

    An extension changes what is asked: other names lead, other controls are shared. The root and
    `--retry-failed` leave out what was asked in their place before.

    Args:
        stage: what asks.
        works: what it asks now.
        ended: what the folder holds.
    """
    now = {work.id for work in works}

    def place(spec: Mapping[str, Any], *names: str) -> str:
        """Return what two follow-ups share if one replaces the other."""
        own = {key: value for key, value in spec.items() if key not in _DERIVED}
        return canonical_json([names, own])

    places = {
        place(
            one.spec,
            *(one.purpose, one.dataset, one.group, one.victim.label, one.attack_label, one.item.id),
        )
        for one in works
    }
    return {
        one.id
        for one in ended
        if one.id not in now
        and (
            (stage.is_whole and one.purpose in stage.purposes)
            or place(
                one.spec,
                *(one.purpose, one.dataset, one.group, one.victim, one.attack, one.item_id),
            )
            in places
        )
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What asks again about the trials of a run: the parts of its experiment, by their names."""

    victims: Mapping[str, Victim]
    """Opened."""
    attacks: Mapping[str, Attack]
    roles: Mapping[str, Decoding]
    """Opened roles, and how they generate."""
    items: Mapping[tuple[str, str], Question]
    """By data set and identifier."""

    @classmethod
    def of(cls, bench: Prepared, without: Collection[str] = ()) -> Again:
        """Return the parts of an experiment, without some of its attacks."""
        return cls(
            victims={victim.label: victim for victim in bench.victims},
            attacks={p.label: p.attack for p in bench.attacks if p.label not in without},
            roles={part.name: part.decoding for part in bench.roles},
            items={
                (part.label, item.id): item for part in bench.datasets for item in part.questions
            },
        )

    def item(self, trial: Trial) -> Question:
        """Return the item of a trial, as the experiment has it."""
        return self.items[trial.arm.place.dataset, trial.item.id]

    def attack(self, trial: Trial) -> Attack:
        """Return the attack of a trial."""
        return self.attacks[trial.arm.attack.label]

    def about(self, trial: Trial, victim: str | None = None) -> dict[str, Any]:
        """Return the fields of a work about a trial: its arm and item, and who is asked.

        A model is asked as in the trial: in a conversation with the same worked questions.

        Args:
            trial: the trial.
            victim: the label of a model; default: that of the trial.
        """
        arm, place, item = trial.arm, trial.arm.place, self.item(trial)
        asked = self.victims[victim or place.victim].on(place.dataset)
        attack = self.attack(trial)
        return {
            "dataset": place.dataset,
            "group": place.group,
            "victim": victim_of(asked, attack, place.dataset, item, arm.seed, trial.repeat),
            "attack_label": arm.attack.label,
            "attack_spec": dict(arm.attack.params),
            "seed": arm.seed,
            "item": item,
        }


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


# -- transfer and reuse ----------------------------------------------------------------------------


def transfers(bench: Prepared, run: Run) -> Iterator[Inquiry]:
    """Ask every success of every other victim that is right on the clean item (METHODS 3.9).

    The diagonal is left out, because it is the flip check. The query has the attack's own form
    and goal.
    """
    right, again = right_on(run), Again.of(bench)
    for trial in run.trials if bench.experiment.analysis.transfer else ():
        if trial.first is None or trial.arm.is_control:
            continue
        dataset, _, source = trial.arm.place
        attack, edits = again.attack(trial), trial.first.edits
        for label, victim in again.victims.items():
            has_right = right.get((dataset, label), frozenset())
            if label == source or (trial.item.id, trial.unit) not in has_right:
                continue
            if attack.is_unseen_by(victim.on(dataset)):
                continue  # its prompt would be the clean one
            about = again.about(trial, label)
            yield Inquiry(
                **about,
                purpose=Purpose.TRANSFER,
                goal=attack.goal_for(about["item"]),
                candidates=(Candidate(item=about["item"], edits=edits),),
                spec={"source": source, "trial": trial.id, "edits": edits_text(edits)},
            )


def reuses(bench: Prepared, run: Run) -> Iterator[Inquiry]:
    """Put the names that most often succeed on other folds into the span that the attack chose.

    Every item is asked once, in the span of its trial with the smallest seed. Names that the
    attack itself may not put in are left out, without replacement.
    """
    if not bench.experiment.analysis.reuse:
        return
    m, again = max(bench.experiment.analysis.reuse), Again.of(bench)
    spans = last_spans(run.folder.substitutions)
    resources = {group.label: group.resources for group in bench.groups}
    for cell in run.attacks:
        attack = again.attacks[cell.attack.label]
        if not isinstance(attack, Substitution):
            continue  # only names can be put into another item
        eligible = [trial for trial in cell.trials if trial.is_eligible]
        first: dict[str, Trial] = {}
        for trial in sorted((t for t in eligible if t.number in spans), key=_seed_first):
            first.setdefault(trial.item.id, trial)
        for item_id, top in sorted(cross_fitted(eligible, m).items()):
            if item_id not in first or not top:
                continue
            about, span = again.about(first[item_id]), spans[first[item_id].number]
            names = replacements(attack, about["item"], span, top, resources[cell.place.group])
            yield Inquiry(
                **about,
                purpose=Purpose.REUSE,
                goal=attack.goal_for(about["item"]),
                candidates=tuple(candidate for _, candidate in names),
                spec={
                    "top": list(top),
                    "asked": [name for name, _ in names],
                    "edits": [edits_text(candidate.edits) for _, candidate in names],
                },
            )


def _seed_first(trial: Trial) -> tuple[bool, int, int]:
    """Return a sort key by seed, that of attacks without random numbers first, then by repeat."""
    seed = trial.arm.seed
    return seed is not None, seed or 0, trial.repeat


def last_spans(lines: Substitutions) -> dict[int, Span]:
    """Return number of a trial -> the first span that its last substitution replaced."""
    spans: dict[int, Span] = {}
    query_of: dict[int, int] = {}
    for trial, query, span in zip(
        lines.trial.tolist(), lines.query.tolist(), lines.span.tolist(), strict=True
    ):
        if query_of.get(trial) != query:
            query_of[trial], spans[trial] = query, lines.spans[span]
    return spans


def replacements(
    attack: Substitution, item: Question, span: Span, top: Sequence[str], resources: Resources
) -> list[tuple[str, Candidate]]:
    """Put each name that the attack may put there into a span that it chose.

    Args:
        attack: its exclusions, its limits on distance and its rule for case apply.
        item: the item.
        span: field, start and end of the text that the names replace.
        top: names, case-folded.
        resources: the group's resources; their vocabulary gives the spelling.

    Returns:
        (case-folded name, candidate) in the order of `top`.
    """
    field, start, end = span
    mention = Mention(field=field, start=start, end=end, type="")
    original, names = span_text(item, mention), resources.perturbations.names
    allowed = attack.names(item, mention, resources)
    if isinstance(attack, DiscreteZoo):
        allowed = np.flatnonzero(attack.entity(item, mention, resources).open)
    spelled = {names[i].casefold(): names[i] for i in allowed.tolist()}
    fitting = []
    for name in top:
        if name in spelled and name != original.casefold():
            cased = attack.cased(spelled[name], original)
            edit = Edit(field=field, start=start, end=end, replacement=cased)
            fitting.append((name, Candidate(item=item, edits=(edit,))))
    return fitting


def transfer_and_reuse(bench: Prepared, run: Run) -> list[Inquiry]:
    """List all inquiries that the settings ask for, the same in every process."""
    return [*transfers(bench, run), *reuses(bench, run)]


CARRIED = Stage(
    name="transfer and reuse",
    works=transfer_and_reuse,
    purposes=frozenset({Purpose.TRANSFER, Purpose.REUSE}),
    is_whole=True,
)
"""What `[analysis]` asks."""


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
    for values in similarities(encoder, prompts):
        store.write_similarities(encoder.identity, values)
        store.commit()


def similarities(
    encoder: PromptEncoder, prompts: Sequence[ToEmbed]
) -> Iterator[list[tuple[int, float]]]:
    """Yield (trial, cosine of its two prompts), a chunk at a time."""
    for start in range(0, len(prompts), _CHUNK):
        chunk = prompts[start : start + _CHUNK]
        texts = list(dict.fromkeys(text for _, *both in chunk for text in both))
        vectors = dict(zip(texts, encoder.encode(texts), strict=True))
        yield [
            (trial, float(np.clip(vectors[before] @ vectors[after], -1, 1)))
            for trial, before, after in chunk
        ]


def prompts_to_embed(run: Run, encoder: PromptEncoder | None) -> Sequence[ToEmbed]:
    """Return the prompts of all successes that have no similarity by an encoder yet; without an
    encoder those of all."""
    stored = run.manifest.get("similarity", {}).get("hash")
    is_same = encoder is not None and stored == encoder.identity

    def collect(reader: RunReader) -> list[ToEmbed]:
        prompts, missing = Prompts(run.manifest), []
        for trial in run.trials:
            first, place = trial.first, trial.arm.place
            if first is None or (is_same and first.similarity is not None):
                continue
            if listings := reader.result(trial.number).get("listings"):
                before, after = listings[0], listings[-1]  # that of the first success comes last
            else:
                before, after = (
                    prompts.shown(place.victim, place.dataset, trial.item.candidate(edits))[1]
                    for edits in ((), first.edits)
                )
            if before is not None and after is not None:
                missing.append((trial.number, before, after))
        return missing

    return run.folder.read(collect)
