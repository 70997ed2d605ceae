"""The studies that test the successes of a run, and ask what its reasonings say."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medstress.analyses.attempts import Reasoning, findings_of, pick_attempt, reasonings
from medstress.analyses.run import Run
from medstress.analyses.significance import (
    ADJUSTED,
    SETTINGS,
    TURNS,
    Adjust,
    ControlPrice,
    Null,
    Reach,
    Statistic,
    family_of,
    settings_key,
)
from medstress.attacks.controls.neutral import Gate, slots_of
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.medfuzz.gates import Draft, objections
from medstress.attacks.medfuzz.roles import replies
from medstress.core.arms import Place
from medstress.core.calls import Decoding
from medstress.core.hashing import content_hash, rng_for
from medstress.core.items import Candidate, Question
from medstress.core.queries import ATTACKER, JUDGE
from medstress.core.text import edit_rows
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.inquiry import Study, StudyFlow
from medstress.engine.work import Purpose
from medstress.experiment import config
from medstress.experiment.family_flow import Design, Stock, Success, asks_writer, family_flow
from medstress.experiment.follow_ups import Stage
from medstress.experiment.models import victim_of
from medstress.experiment.plan import Prepared
from medstress.store.reader import RunReader
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.prompt_sets import lettered, say, texts_hash
from medstress.tasks.replies import Unreadable, Vote
from medstress.tasks.victim import Victim

# -- families --------------------------------------------------------------------------------------


TEMPERATURE = 1.0
"""Temperature at which reasonings are sampled for T (METHODS 2.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts of an experiment that tests need."""

    victims: Mapping[str, Victim]
    """Opened victims by label."""
    attacks: Mapping[str, MedFuzz]
    """MedFuzz attacks by label; other attacks are not tested."""
    roles: Mapping[str, Decoding]
    """Opened roles, and how they generate."""
    items: Mapping[tuple[str, str], Question]
    """Items by data set and identifier."""

    def item(self, trial: Trial) -> Question:
        """Return the item of a trial, as the experiment has it."""
        return self.items[trial.arm.place.dataset, trial.item.id]

    def attack(self, trial: Trial) -> MedFuzz:
        """Return the attack of a trial."""
        return self.attacks[trial.arm.attack.label]

    def victim(self, trial: Trial) -> Victim:
        """Return the victim of a trial, as it is asked about the data set."""
        return self.victims[trial.arm.place.victim].on(trial.arm.place.dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All attacked items of one attack on one model, or those that were named beforehand."""

    trials: Sequence[Trial]
    tools: Tools
    table: config.Significance

    @property
    def successes(self) -> Sequence[Trial]:
        """Those that are tested: all that people do not refuse."""
        return [one for one in self.trials if one.first is not None and not one.is_refused]

    @property
    def attack(self) -> MedFuzz:
        """The attack."""
        return self.tools.attack(self.trials[0])

    @property
    def price(self) -> ControlPrice:
        """The price of a control, with the likely statistic."""
        return ControlPrice(
            null=Null(self.table.null),
            statistic=likely_statistic(self.tools.victim(self.trials[0])),
            attempts=self.attack.attempts,
            is_written=self.table.generator == "attacker",
        )

    @property
    def name(self) -> str:
        """What users read of it."""
        arm = self.trials[0].arm
        return f"tests of {arm.attack.label} on {arm.place.victim} ({arm.place.dataset})"

    @property
    def buys_control(self) -> bool:
        """Whether its calls are sure to buy a control."""
        return self.table.max_calls >= self.price.least

    def study(self) -> Study:
        """Return the study that tests the successes; the same one in every process."""
        first, own, table = self.trials[0], self.successes, self.table
        design = Design(
            null=Null(table.null),
            attempts=self.attack.attempts,
            n_controls=table.controls,
            max_calls=table.max_calls,
        )
        arm, item, price = first.arm, self.tools.item(first), self.price
        return Study(
            purpose=Purpose.TEST,
            dataset=arm.place.dataset,
            group=arm.place.group,
            victim=self._victim(first),
            attack_label=arm.attack.label,
            attack_spec=dict(arm.attack.params),
            seed=arm.seed,
            item=item,
            spec={
                **{name: getattr(table, name) for name in SETTINGS},
                "trials": [one.id for one in own],
                "edits": content_hash([edit_rows(one.edits) for one in own]),
            },
            steps=lambda: family_flow([self._success(one) for one in own], design, price),
        )

    def words(self) -> Iterator[str]:
        """Yield what its tests ask and what they can show."""
        table, price, n = self.table, self.price, len(self.successes)
        yield (
            f"{self.name}: {plural(n, 'success', 'successes')} among {len(self.trials)} attacked, "
            f"null {table.null}, at most {n * table.max_calls:,} calls"
        )
        if not self.buys_control:
            yield (
                f"{self.name}: nothing is asked: max_calls = {table.max_calls} is too small for "
                f"one control, give {price.least} or more"
            )
            return
        yield f"{self.name}: {outlook(price, table, n, len(self.trials))}"

    def _victim(self, trial: Trial) -> Victim:
        tools, place = self.tools, trial.arm.place
        return victim_of(
            tools.victim(trial),
            tools.attack(trial),
            place.dataset,
            tools.item(trial),
            trial.arm.seed,
            trial.repeat,
        )

    def _success(self, trial: Trial) -> Success:
        item, victim, tools = self.tools.item(trial), self._victim(trial), self.tools
        fuzz = Candidate(item=item, edits=trial.edits)
        picked = pick_attempt(trial)
        records = (one for one in trial.records if one.get("attempt") == picked)
        added = [(e["category"], e["text"]) for one in records for e in one.get("added", ())]
        slots = slots_of(fuzz, added)
        writer = None
        if self.table.generator == ATTACKER:
            forbidden = [one.description for one in self.attack.prompts.rules.forbidden]
            writer = asks_writer(item, slots, forbidden, tools.roles[ATTACKER])
        stream = f"test/{trial.arm.attack.label}/{trial.repeat}"
        return Success(
            trial=trial.id,
            fuzz=fuzz,
            goal=self.attack.goal_for(item),
            victim=victim,
            sampled=_sampled(victim),
            stock=Stock(
                item=item,
                slots=slots,
                gate=_gate(self.attack),
                rng=rng_for(trial.arm.seed or 0, stream, trial.arm.place.dataset, item.id),
                writer=writer,
            ),
        )


def outlook(price: ControlPrice, table: config.Significance, n_tested: int, n_family: int) -> str:
    """Say what tests of so many successes among so many attacked items can show at best."""
    few, many = price.span(table.max_calls, table.controls)
    adjust = Adjust(table.adjust)
    reach = Reach(n_tested=n_tested, n_family=n_family, n_controls=many, adjust=adjust)
    if not reach.can_show:
        return reach.shortfall(price)
    return (
        f"{price.words(few, many, ' a success')}, so that p is at least {reach.p_min:.2g}; a "
        f"discovery at {adjust.level:g} by {adjust.words} takes {reach.n_needed} of the "
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


def families(trials: Iterable[Trial], tools: Tools, table: config.Significance) -> list[Family]:
    """Return the families that have a success: one for each attack on each model.

    Args:
        trials: of the run.
        tools: parts of the experiment.
        table: `[test]`.
    """
    by_arm: dict[tuple[Place, str], list[Trial]] = {}
    for trial in family_of(trials, table.items):
        if trial.arm.attack.label in tools.attacks:
            by_arm.setdefault((trial.arm.place, trial.arm.attack.label), []).append(trial)
    made = [Family(trials=own, tools=tools, table=table) for own in by_arm.values()]
    return [one for one in made if one.successes]


def _sampled(victim: Victim) -> Victim:
    """Return the victim with sampled reasoning."""
    task = victim.task
    assert isinstance(task, Conversation)  # MedFuzz asks in turns
    decoding = replace(task.decoding, temperature=TEMPERATURE)
    return replace(victim, task=replace(task, decoding=decoding))


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
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def mention_studies(trials: Sequence[Trial], tools: Tools) -> list[Study]:
    """Return one study for every trial with a reasoning about an edit; none without a judge."""
    if JUDGE not in tools.roles:
        return []
    return [
        _study(trial, seen, tools)
        for trial in trials
        if trial.arm.attack.label in tools.attacks and (seen := reasonings(trial))
    ]


def _study(trial: Trial, seen: Sequence[Reasoning], tools: Tools) -> Study:
    arm, place, victim = trial.arm, trial.arm.place, tools.victim(trial)
    return Study(
        purpose=Purpose.JUDGE,
        dataset=place.dataset,
        group=place.group,
        victim=victim,
        attack_label=arm.attack.label,
        attack_spec=dict(arm.attack.params),
        seed=arm.seed,
        item=tools.item(trial),
        spec={"trial": trial.id, "prompts": texts_hash("judge_mention")},
        steps=lambda: _judged(trial, seen, tools),
    )


def _judged(trial: Trial, seen: Sequence[Reasoning], tools: Tools) -> StudyFlow:
    """Vote on every insertion of every attempt, and on the question in the last one."""
    item, unread = tools.item(trial), "nothing that could be read"
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
        decoding, texts = tools.roles[JUDGE], [text] * N_VOTES
        votes = yield from replies(JUDGE, decoding, FIRST_SAMPLE, texts, Vote, item.letters)
        words = [
            "" if isinstance(vote, Unreadable) else _AROUND.sub("", vote.answer).upper()
            for vote in votes
        ]
        yes, no = words.count("YES"), words.count("NO")
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
    return mention_studies(attacked, tools_of(bench)) if is_wanted else []


def _words_of_judge(bench: Prepared, run: Run) -> Iterator[str]:
    if n := len(_reasonings(bench, run)):
        yield f"faithfulness: the judge is asked about the reasonings of {plural(n, 'trial')}"


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


def _outlook(bench: Prepared, run: Run) -> Iterator[str]:
    refused = [one.item.id for one in run.trials if not one.arm.is_control and one.is_refused]
    if refused:
        yield f"tests: left out because experts find them not valid: {', '.join(refused)}"
    ended, own = run.folder.read(RunReader.answered_follow_ups), families_of(bench, run)
    if not own:
        yield f"tests: {nothing_tested(bench, run)}"
    for family in own:
        is_done = family.buys_control and family.study().id in ended
        yield from [f"{family.name}: tested before"] if is_done else family.words()


def _adjusted(bench: Prepared, run: Run) -> Mapping[str, Any]:
    table = _table(bench)
    key = settings_key(table.model_dump())
    return {ADJUSTED: {**run.manifest.get(ADJUSTED, {}), key: table.adjust}}


SIGNIFICANCE = Stage(
    name="significance",
    works=_tests,
    words=_outlook,
    entries=_adjusted,
    most=lambda _, study: most_conversations(study),
    purposes=frozenset({Purpose.TEST}),
)
"""Successes are tested, family by family."""


def families_of(bench: Prepared, run: Run) -> list[Family]:
    """Return the families of a run that have a success."""
    return families(run.trials, tools_of(bench), _table(bench))


def nothing_tested(bench: Prepared, run: Run) -> str:
    """Say why there is nothing to test."""
    if families_of(bench, run):
        return "max_calls buys no control"
    if run.is_complete:
        return "there is no success to test"
    return (
        "there is no success to test yet, and the run is not complete: repeat the command that "
        "began it, with a higher limit if a limit stopped it"
    )


def tools_of(bench: Prepared, muted: Collection[str] = ()) -> Tools:
    """Return the parts of an experiment that tests need, without the attacks `muted`."""
    attacks = {part.label: part.attack for part in bench.attacks if part.label not in muted}
    return Tools(
        victims={victim.label: victim for victim in bench.victims},
        attacks={label: one for label, one in attacks.items() if isinstance(one, MedFuzz)},
        roles={part.name: part.decoding for part in bench.roles},
        items={(part.label, item.id): item for part in bench.datasets for item in part.questions},
    )


def _table(bench: Prepared) -> config.Significance:
    assert bench.experiment.test is not None
    return bench.experiment.test
