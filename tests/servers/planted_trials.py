"""Runs whose truth is planted: trials made by hand, read as any run is.

For tests of what is concluded: counts, intervals, verdicts. Nothing is asked and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import orjson

from medstress.analyses.run import Run
from medstress.core.arms import Arm, AttackRecord, Place
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.sentences import SentencePair, TaggedText, entities_of
from medstress.core.text import Edit, apply_edits, edit_rows
from medstress.core.trials import UNKNOWN, Answer, Queries, Success, Trial, Validity
from medstress.store.reader import StoredInquiry
from medstress.store.reviews import Review
from medstress.store.trials import Substitutions

PLACE = Place("cases", "drugs", "model")
NEAR = AttackRecord(
    label="near names",
    name="entity_substitution",
    budget=8,
    params={"name": "entity_substitution", "sampler": "pdws", "n": -20, "budget": 8},
    draws_names=True,
)


SWAP = AttackRecord(label="swap", name="swap_noise", params={"name": "swap_noise"}, whole_copy=True)
"""A noise that perturbs a whole data set."""


def arm(
    attack: AttackRecord = NEAR, seed: int | None = 0, control_of: str | None = None, **place: str
) -> Arm:
    """Return an arm; `dataset`, `group` and `victim` say where."""
    return Arm(place=PLACE._replace(**place), attack=attack, seed=seed, control_of=control_of)


def control(name: str = "no_op", of: Arm | None = None) -> Arm:
    """Return the control arm of an attack."""
    attacked = of or arm()
    label = f"{attacked.attack.label} / {name}"
    record = AttackRecord(
        label=label,
        name=name,
        budget=attacked.attack.budget,
        params={"name": name, "control_of": dict(attacked.attack.params)},
    )
    return Arm(
        place=attacked.place, attack=record, seed=attacked.seed, control_of=attacked.attack.label
    )


def question(number: int, key: str = "A", n_options: int = 4, document: str = "") -> Question:
    """Return a made-up question; its options are drug names of its own."""
    return Question(
        id=f"q{number}",
        stem=f"Which drug is right in case {number}?",
        options=tuple(f"drug {number} {letter}" for letter in "ABCDEFGHIJ"[:n_options]),
        key=key,
        metadata={"document": document} if document else {},
    )


def edit(name: str = "other drug", option: str = "B") -> Edit:
    """Return an edit that replaces the beginning of an option."""
    return Edit(field=option, start=0, end=4, replacement=name)


def trial(
    number: int,
    at: Arm | None = None,
    *,
    verdict: Verdict = Verdict.HELD,
    flipped_at: int | None = None,
    asked: int | None = None,
    unreadable: int = 0,
    failed: int = 0,
    unchanged: int = 0,
    rejected: int = 0,
    name: str = "other drug",
    valid: bool | None = None,
    reason: str | None = None,
    p_before: float = 0.7,
    p_after: float = 0.2,
    item: Any = None,
    cluster: str | None = None,
    repeat: int = 0,
    **rest: Any,
) -> Trial:
    """Return one trial on a question.

    Args:
        number: of the question.
        at: the arm; default: near names, seed 0.
        verdict: how it ended; `flipped_at` makes it flipped.
        flipped_at: query of the first success.
        asked: perturbed queries; default: up to the success, or the budget.
        unreadable: of these, answers that could not be read.
        failed: of these, calls that failed.
        unchanged: of these, queries that put the same text in.
        rejected: attempts that gates took away.
        name: what the success put in.
        valid: whether the right answer stays right after it.
        reason: who says so.
        p_before: P(right answer) on the clean item.
        p_after: P(right answer) in the last or the successful answer.
        item: another item.
        cluster: its document; default: the item.
        repeat: number of the repeat.
        rest: further fields of the trial.
    """
    where, asks = at or arm(), item or question(number, key="ACD"[number % 3])
    if flipped_at is not None:
        verdict = Verdict.FLIPPED
    attacked = verdict in (Verdict.FLIPPED, Verdict.HELD, Verdict.CUT_SHORT, Verdict.FAILED)
    n = asked if asked is not None else (flipped_at or where.attack.budget) * attacked
    success = None
    if flipped_at is not None:
        success = Success(
            query=flipped_at,
            edits=(edit(name),),
            answer=_answer(asks, "B", p_after),
            validity=UNKNOWN if valid is None and reason is None else Validity(valid, reason),
        )
    was_right = verdict is not Verdict.ALREADY_WRONG
    key = asks.key if asks.choices else ""
    before = _answer(asks, key if was_right else "B", p_before)
    known = verdict not in (Verdict.NOT_ATTACKABLE, Verdict.UNREADABLE)
    fields: dict[str, Any] = {
        "id": f"{where.place}{where.attack.label}{where.seed}{asks.id}{repeat}",
        "number": number,
        "arm": where,
        "item": asks,
        "cluster": cluster or asks.id,
        "repeat": repeat,
        "verdict": verdict,
        "before": before if known else None,
        "first": success,
        "pick": success,
        "last": success.answer if success else (_answer(asks, key, p_after) if n else None),
        "edits": success.edits if success else (),
        "queries": Queries(
            asked=n,
            paid=n - failed,
            failed=failed,
            unreadable=unreadable,
            unchanged=unchanged,
            rejected=rejected,
        ),
        "at": "attack" if verdict in (Verdict.CUT_SHORT, Verdict.FAILED) else None,
    }
    return Trial(**{**fields, **rest})


Outcome: TypeAlias = Callable[[int, Mapping[str, Any]], int | None]
"""(number of a question, parameters of an attack) -> query of the first success, or None."""


def outcomes(
    attacks: Mapping[str, Mapping[str, Any]],
    outcome: Outcome,
    n_items: int = 40,
    wrong: int = 0,
    *,
    seeds: Sequence[int | None] = (0,),
    change: Callable[[Trial], Trial] = lambda one: one,
    **place: str,
) -> list[Trial]:
    """Return the trials of attacks whose outcomes are given.

    Args:
        attacks: label -> parameters, `name` and `budget` among them.
        outcome: when each attack succeeds on each question.
        n_items: questions.
        wrong: of these, the first ones, which the model has wrong before any edit.
        seeds: of every attack.
        change: what becomes of every trial in the end.
        place: as `arm` takes it.
    """
    trials = []
    for label, params in attacks.items():
        record = AttackRecord(
            label=label,
            name=str(params["name"]),
            budget=int(params["budget"]),
            params=params,
            draws_names=True,
        )
        for seed in seeds:
            at = arm(record, seed, **place)
            for i in range(n_items):
                asks = question(i, key="ABCD"[i % 4])
                if i < wrong:
                    one = trial(i, at, item=asks, verdict=Verdict.ALREADY_WRONG)
                else:
                    one = trial(i, at, item=asks, flipped_at=outcome(i, params))
                trials.append(change(one))
    return trials


def tagged(
    number: int,
    at: Arm,
    gold: str,
    before: str | None,
    after: str | None = None,
    *,
    document: str = "",
) -> list[Trial]:
    """Return the trials on one tagged text: one for each gold entity, or one if it has none.

    Args:
        number: of the sentence.
        at: the arm.
        gold: IOB2 labels, separated by spaces.
        before: the model's on the clean sentence; None where it was not asked.
        after: the model's on the perturbed copy; None where there is none.
        document: its document.
    """
    labels = tuple(gold.split())
    text = TaggedText(
        id=f"s{number}", tokens=tuple(f"t{i}" for i, _ in enumerate(labels)), labels=labels
    )
    trials = []
    for entity in text.entities or (None,):
        verdict = Verdict.MEASURED
        if before is None:
            verdict = Verdict.NOT_ATTACKABLE
        elif entity is not None:
            kept = [entity in entities_of(marks.split()) for marks in (before, after or before)]
            verdict = Verdict.HELD if kept[1] else Verdict.FLIPPED
            verdict = verdict if kept[0] else Verdict.ALREADY_WRONG
        last = None if after is None else Answer(None, text=after)
        success = None
        if verdict is Verdict.FLIPPED and last is not None:
            success = Success(query=1, edits=(), answer=last)
        unit = replace(text, entity=entity)
        trials.append(
            Trial(
                id=f"{at.place}{at.attack.label}{at.seed}{text.id}{unit.unit}",
                number=number,
                arm=at,
                item=unit,
                cluster=document or text.id,
                repeat=0,
                verdict=verdict,
                before=None if before is None else Answer(None, text=before),
                first=success,
                pick=success,
                last=last,
                queries=Queries(asked=1, paid=1) if last else Queries(),
            )
        )
    return trials


def inquiry(
    purpose: str, at: Arm, item: str, spec: Mapping[str, Any], **more: Any
) -> StoredInquiry:
    """Return a question that was asked after the trials: of an arm, about an item."""
    none: dict[str, Any] = {"outcomes": [], "reached": None, "note": None, "findings": None}
    return StoredInquiry(
        **at.place._asdict(),
        attack=at.attack.label,
        seed=at.seed,
        item_id=item,
        purpose=purpose,
        spec=dict(spec),
        **{**none, **more},
    )


def paired(
    number: int,
    at: Arm,
    gold: float,
    before: float,
    after: float | None = None,
    *,
    cluster: str = "",
) -> Trial:
    """Return the trial on one sentence pair, which is only measured.

    Args:
        number: of the pair.
        at: the arm; its attack is not judged.
        gold: people's score, from 0 to 4.
        before: the model's score of the clean pair.
        after: that of the perturbed pair.
        cluster: of the pairs that share a sentence with it.
    """
    pair = SentencePair(id=f"p{number}", text_a=f"a {number}", text_b=f"b {number}", score=gold)
    return Trial(
        id=f"{at.place}{at.attack.label}{at.seed}{pair.id}",
        number=number,
        arm=at,
        item=pair,
        cluster=cluster or pair.id,
        repeat=0,
        verdict=Verdict.MEASURED,
        before=Answer(None, scores=(before,)),
        last=None if after is None else Answer(None, scores=(after,)),
        queries=Queries(asked=1, paid=1) if after is not None else Queries(),
    )


def _answer(item: Any, letter: str, p: float) -> Answer:
    letters = item.choices
    if not letters:
        return Answer(letter)
    other = (1 - p) / (len(letters) - 1)
    return Answer(letter, tuple(log(p if x == item.key else other) for x in letters), 0.9)


@dataclass(kw_only=True)
class Planted:
    """What a run folder would hold (`medstress.store.trials.Folder`)."""

    trials: Sequence[Trial]
    manifest: Mapping[str, Any]
    path: Path = Path("runs/planted")
    items: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    inquiries: Sequence[StoredInquiry] = ()
    reviews: Sequence[Review] = ()
    rooms: Sequence[Mapping[str, Any]] = ()
    other_counts: Mapping[Any, Mapping[str, int]] = field(default_factory=dict)
    spending: Sequence[Any] = ()
    n_from_cache: int = 0
    root: str | None = "0" * 32
    edits: Mapping[int, Sequence[tuple[int, tuple[Edit, ...]]]] = field(default_factory=dict)
    names: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def clean_replies(self, victim: str, n: int) -> list[str]:
        """Return what was read of the first n clean replies: nothing more is planted."""
        own = (t.before for t in self.trials if t.arm.place.victim == victim)
        return [answer.text or "" for answer in own if answer is not None][:n]

    @cached_property
    def repeats(self) -> Mapping[int, Sequence[int]]:
        """The queries of `edits` that ask again what their trial has asked."""
        repeats = {}
        for number, calls in self.edits.items():
            queries = list(dict(calls).items())  # several calls may make one query
            again = [
                query
                for i, (query, edits) in enumerate(queries)
                if any(edits == before for _, before in queries[:i])
            ]
            if again:
                repeats[number] = again
        return repeats

    @cached_property
    def substitutions(self) -> Substitutions:
        """What `edits` put in; without them, the first success of each trial."""
        firsts = {t.number: [(t.first.query, t.first.edits)] for t in self.trials if t.first}
        queries = self.edits or firsts
        return Substitutions.of(
            self.trials,
            (
                (number, query, orjson.dumps(edit_rows(edits)))
                for number in sorted(queries)
                for query, edits in queries[number]
            ),
        )

    def read(self, question: Callable[[Any], Any]) -> Any:
        """Return the answer to a question that needs no file."""
        return question(None)


def planted_run(trials: Iterable[Trial], /, **parts: Any) -> Run:
    """Return a run of made-up trials; their numbers are their places.

    Args:
        trials: in the plan's order.
        parts: entries of the manifest, or other fields of `Planted`.
    """
    numbered = [replace(one, number=i + 1) for i, one in enumerate(trials)]
    own = {name: parts.pop(name) for name in list(parts) if name in Planted.__dataclass_fields__}
    attacks = {one.arm.attack.label: dict(one.arm.attack.params) for one in numbered}
    manifest = {
        "config": {"experiment": {"name": "planted", "controls": False}},
        "fingerprint": "planted",
        "complete": True,
        "seeds": sorted({t.arm.seed for t in numbered if t.arm.seed is not None}),
        "versions": {},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:01:00+00:00",
        "n_planned": len(numbered),
        "attacks": attacks,
        "datasets": {},
        "groups": {},
        "victims": {t.arm.place.victim: {} for t in numbered},
        "performance": {},
        **parts,
    }
    items = {(t.arm.place.dataset, t.item.id): t.item for t in numbered}
    return Run(Planted(**{"trials": numbered, "manifest": manifest, "items": items, **own}))


Victim: TypeAlias = Callable[[Question, tuple[Edit, ...]], str | None]
"""A model as a function of a question and its edits; None where its answer is unreadable."""
Draw: TypeAlias = Callable[[Question, int | None, int], Edit | None]
"""An attack as a function of question, seed and query; None where it gives up."""
LISTED = ("listed drug 1", "listed drug 2")
"""Names that fool `fooled`."""


def right(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer right, whatever the edits."""
    return item.key


def always_a(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer A."""
    return "A"


def hashed(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer by a hash of the prompt, so that any edit gives another answer."""
    return item.letters[digest([item.id, edit_rows(edits)])[0] % len(item.letters)]


def fooled(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer right unless an edit puts in a listed name: then take its option."""
    return next((e.field for e in edits if e.replacement in LISTED), item.key)


def reads_options(item: Question, edits: tuple[Edit, ...]) -> str:
    """Take the longest option; the right one of `questions` is the longest."""
    texts = {
        letter: apply_edits(item.option(letter), [e for e in edits if e.field == letter])
        for letter in item.letters
    }
    return max(texts, key=lambda letter: len(texts[letter].strip()))


def breaks_at_spaces(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer right unless an edit puts in a double space."""
    return _wrong(item) if any("  " in e.replacement for e in edits) else item.key


def mute(item: Question, edits: tuple[Edit, ...]) -> str | None:
    """Answer clean questions right, and nothing readable under attack."""
    return None if edits else item.key


def coin(seed: int = 0) -> Victim:
    """Return a model that draws every answer, even of the same prompt, at random."""
    rng = Random(seed)
    return lambda item, edits: rng.choice(item.letters)


def guesser(item: Question, edits: tuple[Edit, ...]) -> str:
    """Answer by a hash of the question alone, and by another after one edit in four."""
    changed = [e.replacement for e in edits if digest([e.replacement, item.id])[0] % 4 == 0]
    return item.letters[digest([item.id, changed])[0] % len(item.letters)]


def mixture(first: Victim, second: Victim) -> Victim:
    """Return a model that answers every other question as another model does."""
    return lambda item, edits: (first if int(item.id[1:]) % 2 else second)(item, edits)


def unless_wrong(victim: Victim, *numbers: int) -> Victim:
    """Return a model that has some questions wrong and answers the others as before."""
    wrong = {f"q{number}" for number in numbers}
    return lambda item, edits: _wrong(item) if item.id in wrong else victim(item, edits)


def _wrong(item: Question) -> str:
    return next(letter for letter in item.letters if letter != item.key)


def questions(n: int) -> list[Question]:
    """Return questions whose keys take turns and whose right options are the longest."""
    made = [question(i, key="ABCD"[i % 4]) for i in range(n)]
    return [
        replace(q, options=tuple(f"{o} here" if o == q.key_text else o for o in q.options))
        for q in made
    ]


def renamed(*names: str) -> Draw:
    """Return an attack that puts one of some names, drawn by seed and query, into a wrong option.

    Args:
        names: default: the listed names among ten others.
    """
    pool = names or (*LISTED, *(f"unlisted drug {i}" for i in range(10)))

    def draw(item: Question, seed: int | None, query: int) -> Edit:
        rng = Random(f"{seed} {item.id} {query}")
        option = _wrong(item)
        return Edit(
            field=option, start=0, end=len(item.option(option)), replacement=rng.choice(pool)
        )

    return draw


def respaced(item: Question, seed: int | None, query: int) -> Edit:
    """Put a double space into the stem, at another place with every query."""
    at = [i for i, char in enumerate(item.stem) if char == " "]
    place = at[query % len(at)]
    return Edit(field="stem", start=place, end=place + 1, replacement="  ")


def refuses(item: Question, seed: int | None, query: int) -> None:
    """Never attack."""


def attacked(
    victim: Victim, items: Iterable[Question], at: Arm | None = None, draw: Draw | None = None
) -> Iterator[Trial]:
    """Yield the trials of an attack on a model: it asks up to its budget, and ends at a success.

    Args:
        victim: the model.
        items: the questions.
        at: the arm; default: near names, seed 0.
        draw: the attack; default: `renamed()`.
    """
    where, drawn = at or arm(), draw or renamed()
    for number, item in enumerate(items):
        clean = victim(item, ())
        if clean != item.key:
            ended = Verdict.UNREADABLE if clean is None else Verdict.ALREADY_WRONG
            before = None if clean is None else _answer(item, clean, 0.7)
            yield trial(number, where, item=item, verdict=ended, before=before)
            continue
        asked = unreadable = 0
        flipped_at = None
        for query in range(1, where.attack.budget + 1):
            if flipped_at is not None or (put := drawn(item, where.seed, query)) is None:
                break
            asked, answer = query, victim(item, (put,))
            unreadable += answer is None
            if answer not in (None, item.key):
                flipped_at = query
        yield trial(
            number, where, item=item, flipped_at=flipped_at, asked=asked, unreadable=unreadable
        )


def attacks(n: int) -> list[AttackRecord]:
    """Return near names, and other attacks with labels of their own."""
    return [NEAR, *(replace(NEAR, label=f"attack {i}") for i in range(2, n + 1))]


def attacked_run(
    models: Mapping[str, Victim],
    n: int = 40,
    /,
    *,
    arms: int = 1,
    seeds: Sequence[int] = (0,),
    draw: Draw | None = None,
    harmless: Draw | None = respaced,
    not_attackable: int = 0,
    **parts: Any,
) -> Run:
    """Return a run of models whose truth is planted, each attacked and beside its control.

    Args:
        models: by name.
        n: questions.
        arms: attacks; those after the first put in names that fool nobody.
        seeds: of every attack.
        draw: the first attack; default: `renamed()`.
        harmless: its control; None without.
        not_attackable: further questions that no attack fits.
        parts: as `planted_run` takes them.
    """
    trials: list[Trial] = []
    none = [question(n + i) for i in range(not_attackable)]
    for name, victim in models.items():
        for i, record in enumerate(attacks(arms)):
            for seed in seeds:
                at = arm(record, seed, victim=name)
                now = (draw or renamed()) if i == 0 else renamed("unlisted drug 1")
                pairs = [(at, now)]
                if harmless is not None:
                    pairs.append((control("no_op", at), harmless))
                for where, drawn in pairs:
                    trials += attacked(victim, questions(n), where, drawn)
                    trials += [
                        trial(0, where, item=q, verdict=Verdict.NOT_ATTACKABLE) for q in none
                    ]
    return planted_run(trials, **parts)
