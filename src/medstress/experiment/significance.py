"""The studies that test the successes of a run (METHODS 2.6), and ask what its reasonings say.

One flow of questions tests all successes of a family. It is deterministic: the same answers lead to
the same questions in every process. Calls are bought as they are used: loops go round the successes
in turn until the calls of the family are spent, and none begins that could not be paid to its end,
so that no loop is lost for what it costs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp, floor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from medstress.analyses.attempts import Reasoning, findings_of, pick_attempt, reasonings
from medstress.analyses.run import Analysis, Run
from medstress.analyses.significance import (
    ADJUSTED,
    LEAST_ASKED,
    SETTINGS,
    STOP_AT,
    TEXTS,
    TURNS,
    Adjust,
    ArmTests,
    ControlPrice,
    Null,
    Reach,
    Statistic,
    family_of,
    settings_key,
    significance_of,
)
from medstress.attacks.controls.neutral import (
    Gate,
    Slot,
    is_distinct,
    is_similar_length,
    neutral_control,
    slots_of,
)
from medstress.attacks.medfuzz.attack import NAME, MedFuzz
from medstress.attacks.medfuzz.gates import Draft, objections
from medstress.attacks.medfuzz.roles import REFUSAL, yes_votes
from medstress.core.arms import Arm, Place
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.errors import TrialError
from medstress.core.hashing import content_hash, rng_for
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Outcome, Prediction
from medstress.core.queries import ATTACKER, JUDGE, Consult
from medstress.core.text import Edit, edit_rows
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.inquiry import (
    ConversationRequest,
    HoldConversations,
    Replies,
    Study,
    StudyFlow,
)
from medstress.engine.work import Held, Purpose
from medstress.experiment import config
from medstress.experiment.follow_ups import Again, Asking, Stage
from medstress.experiment.plan import Prepared
from medstress.store.reader import RunReader
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.prompt_sets import lettered, say, texts_hash
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of
from medstress.tasks.victim import Victim

# -- families --------------------------------------------------------------------------------------


TIE = 1e-9
"""Statistics that differ by no more than this are ties, which count against significance."""
TEMPERATURE = 1.0
"""Temperature at which reasonings are sampled for T (METHODS 2.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All attacked items of one attack on one model, or those that were named beforehand."""

    trials: Sequence[Trial]
    again: Again
    table: config.Significance
    n_asked: int = 0
    """How often it could not finish, with a role that writes the controls."""
    flips: float = 0.0
    """Share of the run's own loops with neutral insertions that flipped the model."""

    @property
    def successes(self) -> Sequence[Trial]:
        """Those that are tested: all that people do not refuse."""
        return [one for one in self.trials if one.first is not None and not one.is_refused]

    @property
    def attack(self) -> MedFuzz:
        """The attack."""
        attack = self.again.attack(self.trials[0])
        assert isinstance(attack, MedFuzz)
        return attack

    @property
    def price(self) -> ControlPrice:
        """The price of a control, with the likely statistic."""
        place = self.trials[0].arm.place
        victim = self.again.victims[place.victim].on(place.dataset)
        return price_of(self.table, self.attack.attempts, likely_statistic(victim))

    @property
    def name(self) -> str:
        """What users read of it."""
        arm = self.trials[0].arm
        return f"tests of {arm.attack.label} on {arm.place.victim} ({arm.place.dataset})"

    @property
    def buys_control(self) -> bool:
        """Whether its calls are sure to buy a control."""
        return self.table.max_calls >= self.price.least

    def is_among(self, ended: Collection[str]) -> bool:
        """Whether it was tested, by ids of what ended."""
        return self.buys_control and self.study().id in ended

    def is_like(self, tests: ArmTests) -> bool:
        """Whether tests are of this family, with the same kind of controls."""
        arm, table = self.trials[0].arm, self.table
        kind = (tests.null, tests.price.is_written) == (table.null, table.generator == ATTACKER)
        return kind and (tests.place, tests.attack) == (arm.place, arm.attack.label)

    def study(self) -> Study:
        """Return the study that tests the successes; the same one in every process."""
        own, table = self.successes, self.table
        price, most = self.price, table.controls if Null(table.null) is Null.NEUTRAL else None
        return Study(
            **self.again.about(self.trials[0]),
            purpose=Purpose.TEST,
            spec={
                **{name: getattr(table, name) for name in SETTINGS},
                "trials": [one.id for one in own],
                "edits": content_hash([edit_rows(one.edits) for one in own]),
                **({"asked": self.n_asked} if self.n_asked else {}),
            },
            steps=lambda: family_flow(
                [self._success(one) for one in own], price, table.max_calls, most
            ),
        )

    def words(self, texts: Mapping[str, int], before: ArmTests | None = None) -> Iterator[str]:
        """Yield what its tests ask and what they can show.

        Args:
            texts: see `texts`.
            before: tests of the same null and writer, which measured what a control costs.
        """
        table, n = self.table, len(self.successes)
        price = self.price.with_flips(self.flips) if before is None else before.price
        yield (
            f"{self.name}: {plural(n, 'success', 'successes')} among {len(self.trials)} attacked, "
            f"null {table.null}, at most {n * table.max_calls:,} calls"
        )
        nothing = ""
        if not self.buys_control:
            nothing = f"nothing is asked: {price.too_small(table.max_calls)}; "
            table = table.model_copy(update={"max_calls": 0})
        counted = {one.trial_id: one.count for one in before.items} if before else {}
        counts = [counted.get(one.id, 0) for one in self.successes]
        can = outlook(price, table, n, len(self.trials), self._limits(texts, before), counts)
        yield f"{self.name}: {nothing}{can}"

    def _limits(self, texts: Mapping[str, int], before: ArmTests | None) -> list[int | None]:
        """Return the most controls that the texts of each success make up; None if they suffice.

        Those of a writer are known once it was asked.
        """
        known: dict[str, int | None] = {one: n // self.price.texts for one, n in texts.items()}
        if before is not None and self.table.generator == ATTACKER:
            known = {one.trial_id: one.n_distinct for one in before.items}
        return [known.get(one.id) for one in self.successes]

    def texts(self) -> dict[str, int]:
        """Return trial -> texts of the lexicon, where they do not suffice for a discovery.

        They are drawn as the test will draw them, which takes seconds.
        """
        own, table, found = self.successes, self.table, dict[str, int]()
        if table.generator == ATTACKER:
            return found
        adjust, left = Adjust(table.adjust), MOST_DRAWN
        needed = Reach(controls=[0] * len(own), n_family=len(self.trials), adjust=adjust)
        for trial in own:
            wanted = min((needed.controls_needed or 0) * self.price.texts, left)
            n_texts = self._success(trial).stock.drawn(wanted)
            left -= n_texts
            if n_texts < wanted:
                found[trial.id] = n_texts
        return found

    def _success(self, trial: Trial) -> Success:
        about, attack = self.again.about(trial), self.attack
        item, victim = about["item"], about["victim"]
        fuzz = Candidate(item=item, edits=trial.edits)
        picked = pick_attempt(trial)
        records = (one for one in trial.records if one.get("attempt") == picked)
        added = [(e["category"], e["text"]) for one in records for e in one.get("added", ())]
        slots = slots_of(fuzz, added)
        writer = None
        if self.table.generator == ATTACKER:
            forbidden = [one.description for one in attack.prompts.rules.forbidden]
            writer = asks_writer(item, slots, forbidden, self.again.roles[ATTACKER])
        stream = f"test/{trial.arm.attack.label}/{trial.repeat}"
        assert isinstance(victim.task, Conversation)  # MedFuzz asks in turns
        decoding = replace(victim.task.decoding, temperature=TEMPERATURE)
        return Success(
            trial=trial.id,
            fuzz=fuzz,
            goal=attack.goal_for(item),
            victim=victim,
            sampled=replace(victim, task=replace(victim.task, decoding=decoding)),
            stock=Stock(
                item=item,
                slots=slots,
                gate=_gate(attack),
                rng=rng_for(trial.arm.seed or 0, stream, about["dataset"], item.id),
                writer=writer,
                patience=1 + self.n_asked,
            ),
        )


def price_of(table: config.Significance, attempts: int, statistic: Statistic) -> ControlPrice:
    """Return the price of a control.

    Args:
        table: `[test]`.
        attempts: K of the attack.
        statistic: estimates T.
    """
    return ControlPrice(
        null=Null(table.null),
        statistic=statistic,
        attempts=attempts,
        is_written=table.generator == ATTACKER,
    )


def outlook(
    price: ControlPrice,
    table: config.Significance,
    n_tested: int,
    n_family: int,
    limits: Sequence[int | None] = (),
    counts: Sequence[int] = (),
) -> str:
    """Say what tests of so many successes among so many attacked items can show at best.

    Args:
        price: of a control.
        table: `[test]`.
        n_tested: successes.
        n_family: attacked items.
        limits: the most controls that the texts of each success make up; see `Reach`.
        counts: controls as hard that earlier calls found for each success.
    """
    few, many = price.span(table.max_calls, table.controls, n_tested)
    adjust, limits = Adjust(table.adjust), limits or [None] * n_tested
    controls = [many if limit is None else min(many, limit) for limit in limits]
    reach = Reach(controls=controls, limits=limits, n_family=n_family, adjust=adjust, counts=counts)
    if not reach.can_show:
        return reach.shortfall(price)
    few, many = min(few, reach.n_controls), reach.n_controls
    return (
        f"{price.words(few, many, ' a success')}, so that p is at least {reach.p_min:.2g}; a "
        f"discovery at {adjust.limit} takes {reach.n_needed} of the "
        f"{n_family} attacked items at that p"
    )


def most_conversations(study: Study) -> int:
    """Return the most conversations with the victim."""
    spec = study.spec
    return len(spec["trials"]) * most_of_success(*(spec[name] for name in SETTINGS[:3]))


def most_of_success(null: str, controls: int, max_calls: int) -> int:
    """Return the most conversations for one success."""
    most = max_calls // TURNS
    if null == Null.NEUTRAL:
        most = min(most, Statistic.SHARE_CORRECT.n_samples * (2 + controls))
    return most


def likely_statistic(victim: Victim) -> Statistic:
    """Return what estimates T, as far as it is known before a call."""
    task = victim.task
    has_letters = isinstance(task, MultipleChoice) and task.answer_by is AnswerBy.LETTER
    return Statistic.KEY_PROBABILITY if has_letters else Statistic.SHARE_CORRECT


def families(trials: Iterable[Trial], again: Again, table: config.Significance) -> list[Family]:
    """Return the families of MedFuzz that have a success: one for each attack on each model.

    Args:
        trials: of the run.
        again: parts of the experiment.
        table: `[test]`.
    """
    by_arm: dict[tuple[Place, str], list[Trial]] = {}
    for trial in family_of(trials, table.items):
        if _is_medfuzz(trial, again):
            by_arm.setdefault((trial.arm.place, trial.arm.attack.label), []).append(trial)
    made = [Family(trials=own, again=again, table=table) for own in by_arm.values()]
    return [one for one in made if one.successes]


def _is_medfuzz(trial: Trial, again: Again) -> bool:
    return isinstance(again.attacks.get(trial.arm.attack.label), MedFuzz)


def _gate(attack: MedFuzz) -> Gate:
    """Return the attack's rules; no judge is asked about controls."""

    def objection(candidate: Candidate) -> str | None:
        item = candidate.item
        draft = Draft(
            candidate=candidate,
            options=dict(zip(item.letters, candidate.options, strict=True)),
            rules=attack.prompts.rules,
            max_words=attack.max_words,
            allow_history=attack.allow_history,
        )
        return next((f"{one.gate}: {one.reason}" for one in objections(draft, by_list=True)), None)

    return objection


# -- what reasonings say ---------------------------------------------------------------------------


N_VOTES = 3
"""Votes on one clause; more than half decide."""
FIRST_SAMPLE = 3_000_000
"""First sample index of these votes, so that they differ from a judge's others."""


def mention_studies(trials: Iterable[Trial], again: Again) -> list[Study]:
    """Return one study for every trial with a reasoning about an edit; none without a judge."""
    return [
        Study(
            **again.about(trial),
            purpose=Purpose.JUDGE,
            spec={"trial": trial.id, "prompts": texts_hash("judge_mention")},
            steps=partial(_judged, trial, seen, again),
        )
        for trial in (trials if JUDGE in again.roles else ())
        if _is_medfuzz(trial, again) and (seen := reasonings(trial))
    ]


def _judged(trial: Trial, seen: Sequence[Reasoning], again: Again) -> StudyFlow:
    """Vote on every insertion of every attempt, and on the question in the last one."""
    item, unread = again.item(trial), "nothing that could be read"
    before = trial.before.answer if trial.before is not None else None

    def voted(one: Reasoning, clause: str) -> Generator[Any, Any, bool | None]:
        """Return what most votes say; None if neither side has more than half."""
        text = say(
            "judge_mention",
            question=Candidate(item=item, edits=one.edits).question,
            options=lettered(zip(item.letters, item.options, strict=True)),
            before=before or unread,
            after=one.answer or unread,
            rationale=one.rationale,
            clause=clause,
        )
        decoding, texts = again.roles[JUDGE], [text] * N_VOTES
        votes = yield from yes_votes(JUDGE, decoding, FIRST_SAMPLE, texts, item.letters)
        yes, no = votes.count(True), votes.count(False)
        return None if max(yes, no) * 2 <= N_VOTES else yes > no

    clauses: list[list[bool | None]] = []
    for one in seen:
        clauses.append([])
        for clause in one.clauses:
            clauses[-1].append((yield from voted(one, clause)))
    findings = []
    for sentence in findings_of(item):
        findings.append((yield from voted(seen[-1], sentence)))
    return {"clauses": clauses, "findings": findings}


# -- stages ----------------------------------------------------------------------------------------


def _reasonings(bench: Prepared, run: Run) -> list[Study]:
    table = bench.experiment.test
    attacked = [trial for trial in run.trials if not trial.arm.is_control]
    is_wanted = table is None or table.faithfulness
    return mention_studies(attacked, Again.of(bench)) if is_wanted else []


def _words_of_judge(
    bench: Prepared, run: Run, works: Sequence[Study], ended: Collection[str]
) -> Iterator[str]:
    if works:
        n = plural(len(works), "trial")
        yield f"faithfulness: the judge is asked about the reasonings of {n}"


FAITHFULNESS = Stage(
    name="faithfulness",
    works=_reasonings,
    words=_words_of_judge,
    purposes=frozenset({Purpose.JUDGE}),
    is_whole=True,
)
"""Judges are asked whether a reasoning names the insertion."""


def _tests(bench: Prepared, run: Run) -> list[Study]:
    return [one.study() for one in families_of(bench, run) if one.buys_control]


def _outlook(
    bench: Prepared, run: Run, works: Sequence[Study], ended: Collection[str]
) -> Iterator[str]:
    refused = [one.item.id for one in run.trials if not one.arm.is_control and one.is_refused]
    if refused:
        yield f"tests: left out because experts find them not valid: {', '.join(refused)}"
    own, found = families_of(bench, run), significance_of(run)
    if not own:
        yield f"tests: {nothing_tested(bench, run)}"
    for family in own:
        if family.is_among(ended):
            yield f"{family.name}: tested before"
        else:
            before = (one for one in (found.rows if found else ()) if family.is_like(one))
            yield from family.words(_texts(family, run), next(before, None))


def _texts(family: Family, run: Run) -> Mapping[str, int]:
    """Return the texts of the lexicon, drawn once for a run that was read; see `Family.texts`."""
    return run.of(Analysis(f"texts of {family.name}", lambda _: family.texts())) or {}


def _adjusted(bench: Prepared, run: Run) -> Mapping[str, Any]:
    table = _table(bench)
    key, texts = settings_key(table.model_dump()), dict(run.manifest.get(TEXTS, {}))
    ended = run.folder.read(RunReader.answered_follow_ups)
    for family in families_of(bench, run):
        texts |= {} if family.is_among(ended) else _texts(family, run)
    adjusted = {ADJUSTED: {**run.manifest.get(ADJUSTED, {}), key: table.adjust}}
    return {**adjusted, TEXTS: texts} if texts else adjusted


SIGNIFICANCE = Stage(
    name="significance",
    works=_tests,
    words=_outlook,
    entries=_adjusted,
    most=most_conversations,
    purposes=frozenset({Purpose.TEST}),
)
"""Successes are tested, family by family."""


def asking(folder: Path) -> Asking:
    """Return what tests the successes of a run; what was tested before is not asked again."""

    def most(checked: config.Experiment) -> str:
        assert checked.test is not None
        attacks = [one for one in Run.open(folder).trials if one.arm.attack.name == NAME]
        n = sum(one.first is not None for one in family_of(attacks, checked.test.items))
        return f"{n:,} successes, together at most {n * checked.test.max_calls:,} calls"

    nothing = list[str]()

    def works(bench: Prepared, run: Run) -> list[Study]:
        planned = _tests(bench, run)
        nothing.extend([] if planned else [f"nothing was tested: {nothing_tested(bench, run)}"])
        return planned

    return Asking(
        name="test",
        folder=folder,
        stages=[FAITHFULNESS, replace(SIGNIFICANCE, works=works)],
        most=most,
        complete=lambda raw: raw.setdefault("test", {}),
        end=lambda: next(iter(nothing), None),
    )


def families_of(bench: Prepared, run: Run) -> list[Family]:
    """Return the families of a run that have a success."""
    table, found = _table(bench), list[Family]()
    key, tests = settings_key(table.model_dump()), run.inquiries(Purpose.TEST)
    for family in families(run.trials, Again.of(bench), table):
        ids = [one.id for one in family.successes]
        same = [s for s in tests if settings_key(s.spec) == key and s.spec["trials"] == ids]
        n_asked = 0
        if same and table.generator == ATTACKER:
            n_asked = same[-1].spec.get("asked", 0) + (same[-1].note is not None)
        found.append(
            replace(family, n_asked=n_asked, flips=neutral_flips(run, family.trials[0].arm))
        )
    return found


def neutral_flips(run: Run, arm: Arm) -> float:
    """Return the share of right answers that the neutral insertions beside an attack took."""
    loops = [
        one
        for one in run.trials
        if (one.arm.place, one.arm.control_of) == (arm.place, arm.attack.label)
        and one.arm.attack.name == "neutral_insertion"
        and one.is_eligible
    ]
    return sum(one.first is not None for one in loops) / max(len(loops), 1)


def nothing_tested(bench: Prepared, run: Run) -> str:
    """Say why there is nothing to test."""
    if families_of(bench, run):
        return "max_calls is too small"
    if run.is_complete or len(run.trials) >= run.manifest["n_planned"]:  # kept once tests ended
        items = _table(bench).items
        if not items or any(one.first is not None for one in family_of(run.trials, items)):
            return "there is no success to test"
        return "none of the items named in [test] was lost"
    return (
        "there is no success to test yet, and the run is not complete: repeat the command that "
        "began it, with a higher limit if a limit stopped it"
    )


def _table(bench: Prepared) -> config.Significance:
    assert bench.experiment.test is not None
    return bench.experiment.test


# -- the flow of a family, and its controls -------------------------------------------------------


FIRST_STOCK, LEAST_STOCK = 30, 20
"""Texts that a writer is asked for first; fewer are too few."""
MOST_USELESS = 30
"""So many replies in a row that bring nothing new mean that the writer has no more."""
MAX_TRIES = 200
"""So many draws that bring nothing new mean that the lexicon has no more."""
MOST_DRAWN = 2_000
"""Texts of the lexicon that are drawn before the first call, to see whether they repeat."""


WIDTH, MOST_ROUNDS = 32, 10
"""Controls side by side, as far as full rounds over the open tests allow; the most rounds."""

_AROUND = re.compile(r"^(?:\W*\[\d+\])?[\s,;:]*|[\s,;]*$")
_QUOTED = re.compile(r'^["“]([^"“”]*)["”]$')
"""What a writer puts around the words of a place: its number, commas; quotes."""
Asked = Generator[HoldConversations | Consult, Replies, list[Held]]
Step = Generator[HoldConversations | Consult, Replies, None]


class Insertions(Reply):
    """Neutral insertions, one for each numbered place."""

    insertions: tuple[Annotated[str, Field(min_length=1)], ...]
    """In the order of the places."""


@dataclass(slots=True, kw_only=True)
class Stock:
    """Texts for the controls of one success; none comes again before all have come."""

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """The insertions of the attack without their words."""
    gate: Gate
    """Says why a text must not be asked; the attack's own rules."""
    rng: np.random.Generator
    """Draws from the lexicon."""
    writer: Generate | None = None
    """Asks a role for texts; None if the lexicon makes them."""
    patience: int = 1
    """How often a writer of too few texts may bring `MOST_USELESS` replies that cannot be used."""
    n_asked: int = 0
    """Calls to the writer."""
    n_taken: int = 0
    """Texts given out, repeats included."""
    _texts: list[Candidate] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _objections: dict[tuple[Edit, ...], str | None] = field(default_factory=dict)
    _n_useless: int = 0
    _reason: str = "the lexicon has no text of this form and length"

    @property
    def n_distinct(self) -> int:
        """Different texts given out."""
        return min(self.n_taken, len(self._texts))

    def take(self) -> Candidate:
        """Return the next text; from the first again once there are no others.

        Raises:
            TrialError: there is no text at all.
        """
        for _ in range(MAX_TRIES if self.writer is None and self._n_useless < MAX_TRIES else 0):
            if self.n_taken < len(self._texts):
                break
            self._keep(neutral_control(self.item, self.slots, self.rng))
        if not self._texts:
            raise TrialError(f"no control can be made: {self._reason}")
        self.n_taken += 1
        return self._texts[(self.n_taken - 1) % len(self._texts)]

    def drawn(self, n: int) -> int:
        """Return how many distinct texts of the lexicon there are, up to n; draws them."""
        with suppress(TrialError):
            while self.n_taken < n and self.n_distinct == self.n_taken:
                self.take()
        return self.n_distinct

    def missing(self, n: int) -> int:
        """Return how many replies the writer should give so that n more texts are there."""
        first = 0 if self.n_asked else FIRST_STOCK
        short = max(self.n_taken + n, LEAST_STOCK, first) - len(self._texts)
        if short <= 0 or self._is_spent:
            return 0
        return max(short, LEAST_ASKED)

    def read(self, answer: Generated, decoding: Decoding) -> None:
        """Keep what the writer wrote if it can be used."""
        self.n_asked += 1
        made = self._made(answer.text)
        if isinstance(made, str) and answer.is_cut:
            n = decoding.max_new_tokens
            made = f"it was cut off at {n:,} tokens ([role.{ATTACKER}] max_new_tokens)"
        self._keep(made)

    @property
    def shortage(self) -> str | None:
        """Why there are too few texts; None if there are enough."""
        if not self._is_spent or len(self._texts) >= LEAST_STOCK:
            return None
        return (
            f"the role 'attacker' wrote only {len(self._texts)} controls that can be used, and a "
            f"test needs {LEAST_STOCK}; the last reason: {self._reason}"
        )

    @property
    def _is_spent(self) -> bool:
        """Whether the writer has no more."""
        patience = self.patience if len(self._texts) < LEAST_STOCK else 1
        return self._n_useless >= MOST_USELESS * patience

    def _keep(self, made: Candidate | str | None) -> None:
        if isinstance(made, Candidate):
            if made.edits not in self._objections:
                self._objections[made.edits] = self.gate(made)
            made = self._objections[made.edits] or made
        if isinstance(made, Candidate):
            if is_distinct(made, self._seen, self.item):
                self._texts.append(made)
                self._n_useless = 0
                return
            made = "it repeats an earlier one"
        self._reason = made or self._reason
        self._n_useless += 1

    def _made(self, text: str) -> Candidate | str:
        """Return a control, or why the reply cannot be used."""
        reply = read_reply(text, Insertions)
        if isinstance(reply, Unreadable):
            return reply.reason
        n_places = sum(len(slot.parts) for slot in self.slots)
        if len(reply.insertions) != n_places:
            return f"{len(reply.insertions)} insertions for {n_places} places"
        rest, edits = iter(reply.insertions), []
        for slot in self.slots:
            words = [_QUOTED.sub(r"\1", _AROUND.sub("", next(rest))) for _ in slot.parts]
            for own, part in zip(words, slot.parts, strict=True):
                if REFUSAL.match(own):
                    return "it is a refusal"
                if not is_similar_length(len(own.split()), part.n_words):
                    return f"{own!r} does not have about {part.n_words} words"
            *before, last = words
            last = last.rstrip(".") if slot.trail.startswith(".") else last
            edits.append(slot.filled(*(own.rstrip(".") for own in before), last))
        return Candidate(item=self.item, edits=tuple(edits))


def asks_writer(
    item: Question, slots: Sequence[Slot], forbidden: Sequence[str], decoding: Decoding
) -> Generate:
    """Return what a role is asked; it sees neither key nor plan nor the target's answers.

    Args:
        item: the clean item; its key is not read.
        slots: where to insert, and what.
        forbidden: what no insertion may name.
        decoding: how the role generates; at temperature 0 all controls would be equal.
    """
    edits, places = [], list[str]()
    for slot in slots:
        marks = ""
        for part in slot.parts:
            about = f" about the patient's {part.category}" if part.category else ""
            places.append(f"[{len(places) + 1}] {part.form.words} of {part.n_words} words{about}")
            marks += f" [{len(places)}] "
        edits.append(Edit(field=slot.field, start=slot.at, end=slot.at, replacement=marks))
    marked = Candidate(item=item, edits=tuple(edits))
    text = say(
        "control_neutral",
        marked=" ".join(f"{marked.context} {marked.stem}".split()),
        places="\n".join(places),
        forbidden="\n".join(f"- {one}" for one in forbidden),
    )
    schema = schema_of(Insertions, item.letters)
    return Generate((Message("user", text),), decoding, schema=schema)


def _written(needs: Sequence[tuple[Stock, int]], n_asked: int, n_left: int) -> Step:
    """Have texts written until each stock has as many new ones as it needs, or gets no others.

    Args:
        needs: stocks with a writer, and how many texts their next controls may take.
        n_asked: replies of the writer so far. Samples are counted over all stocks, because two
            may ask the same.
        n_left: how many calls may still be made.
    """
    while n_left > 0:
        asked = [stock for stock, n in needs for _ in range(stock.missing(n))][:n_left]
        calls = tuple(stock.writer for stock in asked if stock.writer is not None)
        if not calls:
            break
        for stock, answer in zip(asked, (yield Consult(ATTACKER, calls, n_asked)), strict=True):
            assert isinstance(answer, Generated)
            stock.read(answer, calls[0].decoding)
        n_asked, n_left = n_asked + len(calls), n_left - len(calls)


@dataclass(slots=True)
class Running:
    """T of one text, sample by sample.

    A control need not be sampled to the end: it is decided once the lowest T that it can still
    reach is above the attack's.
    """

    n_left: int
    total: float = 0.0
    n_read: int = 0

    def add(self, value: float | None) -> None:
        """Count a sample; one that could not be read has no value."""
        self.n_left -= 1
        if value is not None:
            self.total += value
            self.n_read += 1

    def missing(self, observed: float) -> int:
        """Return the fewest further samples that may decide; 0 if it is decided.

        >>> Running(20).missing(0.1), Running(17, total=3.0, n_read=3).missing(0.1)
        (3, 0)
        """
        short = (observed + TIE) * (self.n_read + self.n_left) - self.total
        return 0 if short < 0 else min(self.n_left, floor(short) + 1)

    def is_as_hard(self, observed: float) -> bool:
        """Whether T is no larger; ties, and texts without T, count against significance.

        >>> Running(0, total=2.0, n_read=20).is_as_hard(0.1), Running(0).is_as_hard(0.1)
        (True, True)
        """
        return not self.n_left and self.total <= (observed + TIE) * self.n_read


@dataclass(slots=True, kw_only=True)
class Success:
    """A success that is tested, and what is known of it so far."""

    trial: str
    """Its identifier."""
    fuzz: Candidate
    """The edited item that brought the error."""
    goal: Goal
    """What ends the attack's loop."""
    victim: Victim
    """Who is asked, as in the trial."""
    sampled: Victim
    """The same at the temperature of the statistic."""
    stock: Stock
    """The texts of its controls."""
    of_clean: list[float] = field(default_factory=list)
    """Samples of the clean item that could be read."""
    of_fuzz: list[float] = field(default_factory=list)
    """Samples of the edited item that could be read."""
    n: int = 0
    """Controls."""
    n_hard: int = 0
    """Controls at least as hard as the attack."""
    n_calls: int = 0
    """Calls to the victim."""
    note: str | None = None
    """Why it cannot be tested."""
    has_failed: bool = False
    """Whether a call failed, or a writer had too few texts, so that it may be asked again."""

    @property
    def calls(self) -> int:
        """Calls so far, to the victim and to the role that writes."""
        return self.n_calls + self.stock.n_asked

    @property
    def observed(self) -> float:
        """T of the attack's edit."""
        return sum(self.of_fuzz) / len(self.of_fuzz)

    def has_ended(self, most: int | None) -> bool:
        """Whether more controls would change nothing; null `neutral` has `most`."""
        if self.note is None and most is not None:
            return self.n >= most
        return self.note is not None or self.n_hard >= STOP_AT

    def as_json(self) -> dict[str, Any]:
        """Return what was found.

        A loop consists of several texts: thirty distinct texts make six loops of five.
        """
        n_texts, n_tried = self.stock.n_distinct, self.stock.n_taken
        return {
            "trial": self.trial,
            "original": self.of_clean,
            "fuzz": self.of_fuzz,
            "n": self.n,
            "hard": self.n_hard,
            "distinct": n_texts * self.n // n_tried if n_texts < n_tried else None,
            "calls": self.calls,
            "note": self.note
            if self.n or self.note
            else "its calls were spent before its first control",
        }


@dataclass(slots=True)
class _Control:
    """A control that is being made: a loop, or one insertion."""

    test: Success
    number: int
    """Controls of the test before it."""
    text: Candidate | None = None
    """The last text tried."""
    is_hit: bool = False
    """Whether that ended the loop; a loop that holds has none."""
    t: Running = field(default_factory=lambda: Running(0))

    @property
    def is_open(self) -> bool:
        """Whether its test can go on."""
        return self.test.note is None

    def draw(self) -> None:
        """Take the next text."""
        try:
            self.text = self.test.stock.take()
        except TrialError as error:
            self.test.note = str(error)


def family_flow(
    tests: Sequence[Success], price: ControlPrice, max_calls: int, most: int | None = None
) -> StudyFlow:
    """Test the successes of a family, which must be new ones.

    The answers that made an attack succeed are not used: T of its edit comes from fresh samples,
    and so does T of every control once its loop has ended.

    Args:
        tests: in the order in which they are served.
        price: of one control; its statistic is the likely one.
        max_calls: calls for each success, on average.
        most: controls of each success, of null `neutral`.

    Yields:
        Steps of a study.

    Returns:
        The statistic, and the tests; a `note` if a call failed.

    Raises:
        TrialError: the calls buy no control.
    """
    _check(max_calls, price)
    statistic = yield from _observed(tests)
    price = replace(price, statistic=statistic)
    _check(max_calls, price)

    def left() -> int:
        return max_calls * len(tests) - sum(test.calls for test in tests)

    while controls := _next(tests, most, left() // price.most):
        if price.is_written:
            looks = price.attempts if price.null is Null.MATCHED else 1
            needs = [
                (test.stock, looks * sum(control.test is test for control in controls))
                for test in tests
                if not test.has_ended(most)
            ]
            yield from _written(needs, sum(test.stock.n_asked for test in tests), left())
            for test in tests:
                if test.note is None and test.stock.shortage is not None:
                    test.note, test.has_failed = test.stock.shortage, True
            controls = controls[: left() // price.most]
        yield from _made(controls, price)
        yield from _measured(controls, statistic)
        for control in controls:
            test = control.test
            if not test.has_ended(most):  # later ones of the round change nothing
                test.n += 1
                test.n_hard += control.is_hit and control.t.is_as_hard(test.observed)
    record: dict[str, Any] = {
        "statistic": statistic.value,
        "tests": [test.as_json() for test in tests],
    }
    failed = next((test.note for test in tests if test.has_failed), None)
    return record if failed is None else {**record, "note": failed}


def _check(max_calls: int, price: ControlPrice) -> None:
    if max_calls < price.least:
        raise TrialError(price.too_small(max_calls))


def _held(requests: Sequence[tuple[Success, ConversationRequest]]) -> Asked:
    """Hold conversations, each on the bill of a test; a test ends where a call fails."""
    if not requests:
        return []
    held = yield HoldConversations(tuple(request for _, request in requests))
    answers = [one for one in held if isinstance(one, Held)]
    for (test, _), one in zip(requests, answers, strict=True):
        test.n_calls += one.n_calls
        if one.prediction is None:
            test.note, test.has_failed = one.error, True
    return answers


def _observed(
    tests: Sequence[Success],
) -> Generator[HoldConversations | Consult, Replies, Statistic]:
    """Sample the clean items and the attacks' edits; return the statistic that the model allows."""
    first = Statistic.KEY_PROBABILITY.n_samples
    clean = [(test, _sample(test, _clean(test), j)) for test in tests for j in range(first)]
    held = yield from _held(clean)
    has_scores = any(one.prediction and one.prediction.scores is not None for one in held)
    statistic = Statistic.KEY_PROBABILITY if has_scores else Statistic.SHARE_CORRECT
    more = [
        (test, _sample(test, candidate, j))
        for test in tests
        if test.note is None
        for candidate, start in ((_clean(test), first), (test.fuzz, 0))
        for j in range(start, statistic.n_samples)
    ]
    held += yield from _held(more)
    for (test, request), one in zip(clean + more, held, strict=True):
        value = _value(one.prediction, request.candidate, statistic)
        if value is not None:
            (test.of_fuzz if request.candidate is test.fuzz else test.of_clean).append(value)
    for test in tests:
        if test.note is None and not (test.of_clean and test.of_fuzz):
            which = "edited" if test.of_clean else "clean"
            test.note = f"no sampled answer about the {which} question could be read"
    return statistic


def _clean(test: Success) -> Candidate:
    return Candidate(item=test.fuzz.item)


def _sample(test: Success, candidate: Candidate, number: int) -> ConversationRequest:
    return ConversationRequest(test.sampled, candidate, number)


def _value(
    prediction: Prediction | None, candidate: Candidate, statistic: Statistic
) -> float | None:
    """Return what one conversation adds to T; None if it could not be read."""
    if prediction is None:
        return None
    if statistic is Statistic.SHARE_CORRECT:
        is_read = prediction.outcome is not Outcome.UNREADABLE
        return float(prediction.outcome is Outcome.RIGHT) if is_read else None
    item, scores = candidate.item, prediction.scores
    return None if scores is None else exp(scores[item.letters.index(item.key)])


def _next(tests: Sequence[Success], most: int | None, n_paid: int) -> list[_Control]:
    """Return the next controls, up to a number: of every open test in turn, round by round."""
    open_ = [(i, test) for i, test in enumerate(tests) if not test.has_ended(most)]
    n_rounds = min(MOST_ROUNDS, max(1, WIDTH // max(len(open_), 1)))
    queue = sorted((test.n + j, i) for i, test in open_ for j in range(n_rounds))
    if most is not None:
        queue = [one for one in queue if one[0] < most]
    return [_Control(tests[i], number) for number, i in queue[: max(n_paid, 0)]]


def _made(controls: Sequence[_Control], price: ControlPrice) -> Step:
    """Run the attack's loop with neutral insertions, all controls side by side.

    A loop ends at its first success, as the attack's does, or holds. Of null `neutral` a control
    is one insertion.
    """
    if price.null is Null.NEUTRAL:
        for control in controls:
            control.draw()
            control.is_hit = True
        return
    for _ in range(price.attempts):
        going = [one for one in controls if not one.is_hit and one.is_open]
        for control in going:
            control.draw()
        asked = [
            (one, ConversationRequest(one.test.victim, one.text))
            for one in going
            if one.is_open and one.text is not None
        ]
        held = yield from _held([(one.test, request) for one, request in asked])
        for (control, request), one in zip(asked, held, strict=True):
            goal, edits = control.test.goal, request.candidate.edits
            if one.prediction is not None and goal.reached(one.prediction, edits):
                control.is_hit = True


def _measured(controls: Sequence[_Control], statistic: Statistic) -> Step:
    """Estimate T of what ended the loops, all side by side, as far as it takes to decide."""
    for control in controls:
        control.t = Running(statistic.n_samples)
    while True:
        asked = []
        for control in controls:
            test, t = control.test, control.t
            if control.is_hit and control.is_open and control.text is not None:
                first = (control.number + 1) * statistic.n_samples - t.n_left
                asked += [
                    (control, _sample(test, control.text, first + j))
                    for j in range(t.missing(test.observed))
                ]
        if not asked:
            return
        held = yield from _held([(control.test, request) for control, request in asked])
        for (control, request), one in zip(asked, held, strict=True):
            control.t.add(_value(one.prediction, request.candidate, statistic))
