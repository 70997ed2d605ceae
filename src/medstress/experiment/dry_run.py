"""What an experiment would cost and could show, before a model is asked.

The bound of queries counts the planned trials at their most expensive: every item is right at
first, every budget is used up, every last query is a success that is checked again and tested. What
is asked once for several trials, such as equal controls of two attacks, counts once.

The estimate counts what runs usually ask, and says whether its numbers were measured. Where nothing
is known, half of the questions are right at first, an edit in ten flips a right answer, and a
harmless edit flips half as many. For MedFuzz, which learns from what held and is tried on models
that know much, three questions in five are right at first, and half of these flip.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from medstress.analyses.attempts import findings_of
from medstress.analyses.run import Run, compared
from medstress.analyses.shown import Remark, Shown, Table, column, table
from medstress.analyses.significance import TURNS, Statistic
from medstress.attacks.attacked import AttackedArm
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.controls.paraphrase import ROLE as PARAPHRASER
from medstress.attacks.controls.same_type import RandomNames
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.noise_control import NonEntityNoise
from medstress.attacks.protocol import Attack, Unasked, never_lost
from medstress.backends.turns import plain
from medstress.core.arms import left_out_sentences
from medstress.core.calls import Call, Choose, Classify, Compare, Generate, Rank, Score, Tag
from medstress.core.hashing import content_hash
from medstress.core.items import PAIRS, Question
from medstress.core.outcomes import Measured
from medstress.core.queries import ATTACKER, JUDGE
from medstress.core.words import plural
from medstress.engine.inquiry import Asked
from medstress.engine.trial import Trial
from medstress.experiment.config import labels_of
from medstress.experiment.manifest import SOURCES, surrogates_of
from medstress.experiment.models import all_prices, usd_of
from medstress.experiment.plan import Prepared
from medstress.experiment.significance import (
    N_VOTES,
    likely_statistic,
    most_of_success,
    outlook,
    price_of,
)
from medstress.stats.paired import ASSUMED, detectable
from medstress.store.database import FILE
from medstress.store.reader import earlier_answers, spent_in
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnyTask, Task
from medstress.tasks.victim import Victim

PARTS = ("clean", "attacks", "controls", "checks", "transfer", "reuse", "tests")
"""What queries are for."""
KNOWN, FALLEN = 0.6, 0.5
"""Share that is right at first where MedFuzz attacks, and that all its attempts flip of these: so
three items in ten fall, and the calls are within a factor of two of those of a model that knows all
and never falls."""
INSERTIONS = 1.5
"""Of one attempt, as usual; at most one a word."""
OWN_SECONDS = 0.01
"""Time of the product itself for each call of a conversation."""
SHORT, REASONED = 2, 600
"""Tokens of a written answer: a letter with a space or full stop, or after reasoning."""
TURN, CONFIDENCES = 200, 40
"""Tokens of a conversation: its reasoning, and its confidences as JSON."""
PLAN, INSERTED, VOTE = 150, 80, 60
"""Tokens of an attacker's plan, of its insertions, and of a judge's answer."""
REQUEST = 250
"""Tokens of a shipped text that asks a role for something."""
LONG = 256
"""A limit from which an answer is taken to hold reasoning."""
CHARACTERS_PER_TOKEN = 4
_MOST_FOLDERS = 50
_REASONS = re.compile(
    r"(?:^|[/_:.-])(?:o[134]|gpt-5|gpt-oss|r1|qwq|magistral)(?![a-z0-9])|reason|think", re.I
)
"""Names of models that reason unasked."""


# -- what is shown -------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Cost:
    """What one model, or all together, may be asked; None and infinity are unknown."""

    model: str
    """Its label; a role's begins with `role.`."""
    queries: Counter[str] = field(default_factory=Counter)
    """Part -> the most queries. A query of a role is a call."""
    calls: int = 0
    """The most calls."""
    about_queries: float = 0.0
    """Estimate, as all that follows."""
    about_calls: float = 0.0
    read: float = 0.0
    """Tokens."""
    written: float = 0.0
    """Tokens."""
    usd: float | None = None
    """US dollars of what has a price."""
    minutes: float | None = None
    """At a speed that was measured."""
    basis: str = ""
    """What the estimate rests on."""

    @property
    def bound(self) -> int:
        """The most queries."""
        return self.queries.total()

    @property
    def tokens(self) -> float | None:
        """Read and written; None if nothing is asked, or lengths are unknown."""
        tokens = self.read + self.written
        return tokens if self.calls and math.isfinite(tokens) else None

    def add(
        self, part: str, n: int, about: float, size: Size, most_calls: int | None = None
    ) -> None:
        """Add queries.

        Args:
            part: of `PARTS`.
            n: the most of them.
            about: how many are expected.
            size: of one query about the unchanged item.
            most_calls: the most calls of all of them; default: those of each.
        """
        self.queries[part] += n
        self.calls += n * size.calls if most_calls is None else min(n * size.calls, most_calls)
        self.about_queries += about
        self.about_calls += about * size.about_calls
        self.read += about * size.about_in
        self.written += about * size.about_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The least loss that the planned items of one place show with 80 % power."""

    dataset: str
    group: str
    n_items: int
    """Items that an attack can edit."""
    accuracy: float
    """Share of them that is expected to be right at first."""
    discordances: tuple[float, ...]
    """Shares of the right ones on which attack and harmless edits are expected to differ."""
    source: str
    """Where both come from."""

    @property
    def losses(self) -> tuple[float | None, ...]:
        """The least loss at each discordance; None if so few items show none."""
        n = round(self.n_items * self.accuracy)
        return tuple(detectable(n, share) for share in self.discordances)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun(Shown):
    """What a run would cost and could show."""

    costs: Sequence[Cost]
    """By model; roles come last."""
    least: Sequence[Least]
    max_usd: float | None
    """The limit of the experiment."""
    spent: float
    """US dollars that the folder has used up."""
    assumed: Sequence[str]
    """What else bound and estimate rest on."""

    @property
    def total(self) -> Cost:
        """The sum over all that are asked."""
        asked = [cost for cost in self.costs if cost.calls]
        total = Cost(model="all", minutes=0.0 if asked else None)
        for cost in asked:
            total.queries += cost.queries
            total.calls += cost.calls
            total.about_queries += cost.about_queries
            total.about_calls += cost.about_calls
            total.read += cost.read
            total.written += cost.written
            if cost.usd is not None:
                total.usd = (total.usd or 0.0) + cost.usd
            if total.minutes is not None:
                total.minutes = None if cost.minutes is None else total.minutes + cost.minutes
        return total

    @property
    def lines(self) -> Sequence[str]:
        """The estimate, with what all models cost, and the bound, with what queries are for."""
        total = self.total
        about = _amounts(total.about_calls, total.tokens, total.usd, total.minutes)
        parts = " + ".join(
            f"{part} {total.queries[part]:,}" for part in PARTS if total.queries[part]
        )
        return [
            f"estimate: about {about}",
            f"queries: at most {total.bound:,} (exact bound), {parts}, in at most "
            f"{total.calls:,} calls",
        ]

    def tables(self) -> Sequence[Table]:
        """Bound and estimate by model, and the least loss."""
        rows = [*self.costs, *([self.total] if len(self.costs) > 1 else [])]
        least = "The least loss beyond harmless edits that this run would find (80 % power)"
        return [
            table("cost", "Exact bound of queries, and estimate", rows, _COSTS),
            *([table("least", least, self.least, _LEAST, n_labels=2)] if self.least else []),
        ]

    def remarks(self) -> Sequence[Remark]:
        """What the estimate rests on, and where money stops the run."""
        sentences = [
            f"estimate for {cost.model}: {cost.basis}" for cost in self.costs if cost.basis
        ]
        sentences += self.assumed
        usd, n = self.total.usd, self.total.about_queries
        if usd is not None and self.max_usd is not None:
            where = "above the estimate"
            if usd > self.max_usd:
                where = f"after about {self.max_usd / usd * n:,.0f} of {n:,.0f} queries"
            spent = f", {dollars(self.spent)} of it spent already" if self.spent else ""
            sentences.append(f"max_usd = {dollars(self.max_usd)}{spent} stops this {where}")
        return [Remark(rule="dry_run", sentence=one, level="note") for one in sentences]


def rounded(number: float) -> str:
    """Return an estimate with three significant digits; counts keep theirs.

    >>> rounded(12345.6), rounded(0.1234), rounded(12345)
    ('12,300', '0.123', '12,345')
    """
    return f"{number if isinstance(number, int) else float(f'{number:.3g}'):,.10g}"


def lasting(minutes: float) -> str:
    """Return a time in words, with two significant digits.

    >>> lasting(0.0021), lasting(0.2), lasting(3.14), lasting(90), lasting(60 * 50)
    ('1 second', '12 seconds', '3.1 minutes', '1.5 hours', '2.1 days')
    """
    amount, unit = max(minutes * 60, 1), "second"
    for size, larger in ((60, "minute"), (60, "hour"), (24, "day")):
        if amount < size:
            break
        amount, unit = amount / size, larger
    text = f"{float(f'{amount:.2g}'):,g}"
    return f"{text} {unit}" + ("" if text == "1" else "s")


def dollars(usd: float) -> str:
    """Return US dollars as shown: cents count only from one dollar on.

    >>> dollars(12.345), dollars(0.0126), dollars(0.0)
    ('$12.35', '$0.0126', '$0.00')
    """
    return f"${usd:,.4f}" if 0 < usd < 1 else f"${usd:,.2f}"


def _amounts(
    calls: float | None, tokens: float | None, usd: float | None, minutes: float | None
) -> str:
    """Return amounts in words, without those that are unknown."""
    whole = calls if calls is None else round(calls)
    named = ((whole, "calls"), (tokens, "tokens"))
    words = [f"{rounded(n)} {name}" for n, name in named if n is not None]
    words += [] if minutes is None else [lasting(minutes)]
    return ", ".join(words if usd is None else [*words, dollars(usd)])


_COSTS = [
    column("Model", "model"),
    column("Queries, at most", "bound", "count"),
    column("about", lambda cost: round(cost.about_queries), "count"),
    column("Tokens, about", lambda cost: cost.tokens and round(cost.tokens), "count"),
    column("Dollars, about", "usd", "number"),
    column("Time, about", lambda cost: cost.minutes and lasting(cost.minutes)),
]
_LEAST = [
    column("Data", "dataset"),
    column("Group", "group"),
    column("Items", "n_items", "count"),
    column("Right at first", "accuracy", "score"),
    column(
        "Least loss",
        lambda least: " or ".join(
            "none" if loss is None else f"{loss:.3f}".removeprefix("0") for loss in least.losses
        ),
    ),
    column(
        "if attack and control differ on",
        lambda least: " or ".join(f"{100 * share:.0f} %" for share in least.discordances),
    ),
    column("Known from", "source"),
]


# -- the dry run ---------------------------------------------------------------------------------


def dry_run(prepared: Prepared, folder: Path | None = None) -> DryRun:
    """Bound and estimate what an experiment costs; nothing is asked.

    Args:
        prepared: the experiment. Where its victims are not open, only queries are counted.
        folder: of the run. What it, or else its newest neighbour, measured of the same models is
            expected of them, and what it has spent counts against `max_usd`.
    """
    if not prepared.victims:
        unopened = cast(Any, None)
        labels = labels_of(prepared.experiment.victim)
        victims = [Victim(label=one, task=unopened, backend=unopened) for one in labels]
        prepared = replace(prepared, victims=victims)
    counting, prices = _Counting(prepared, folder), all_prices(prepared.experiment)
    for trial in prepared.trials():
        counting.add(trial)
    return DryRun(
        costs=counting.costs(),
        least=list(_least(prepared, folder, counting.usual)),
        max_usd=prepared.experiment.experiment.max_usd,
        spent=usd_of(spent_in(folder), prices) if folder is not None and prices else 0.0,
        assumed=[*_power(prepared), *(remark for one in prepared.groups for remark in one.remarks)],
    )


def follow_up_lines(
    prepared: Prepared, works: Iterable[tuple[Asked, int]], folder: Path
) -> Iterator[str]:
    """Yield what tests or explanations cost at most, by model.

    Args:
        prepared: the experiment, with its victims open.
        works: what is left to ask, each with its most queries.
        folder: of the run.
    """
    counting = _Counting(prepared, folder)
    for work, n in works:
        victim = work.victim
        size = size_of(victim.task, work.item, victim.backend.identity.name)
        counting.bill(victim.label, "tests", n, n, size)
        if work.spec.get("generator") == ATTACKER:  # one call of every four
            n_written = n * TURNS // (TURNS + 1)
            counting.bill(f"role.{ATTACKER}", "tests", n_written, n_written, OF_ROLE)
    for cost in counting.costs():
        if cost.bound:
            yield (
                f"{cost.model}: at most {cost.bound:,} queries; for so many about "
                f"{_amounts(None, cost.tokens, cost.usd, cost.minutes)}"
            )


class _Counting:
    """Counts the trials of a plan, each on the bill of its model and of what it is for."""

    def __init__(self, prepared: Prepared, folder: Path | None) -> None:
        self._prepared = prepared
        self.usual = {one.label: usual_of(one, prepared, folder) for one in prepared.victims}
        labels = [*self.usual, *(role.label for role in prepared.roles)]
        self._costs = {label: Cost(model=label) for label in labels}
        self._writes = {role.name: role.decoding.max_new_tokens for role in prepared.roles}
        self._paid: dict[Hashable, int] = {}
        self._sizes: dict[Hashable, Size] = {}
        self._draws: dict[int, tuple[Attack, str]] = {}
        self._plans: dict[Hashable, tuple[int, int | None, bool, frozenset[str]]] = {}

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        attack, item, label = trial.attack, trial.item, trial.victim.label
        draws = self._drawn(attack, trial.attack_label)
        n, most_checks, is_copied, near = self._plan(trial)
        if most_checks is None and not is_copied:
            return
        tables, usual = self._prepared.experiment, self.usual[label]
        n_checks = (most_checks or 0) if tables.experiment.flip_check else 0
        size, clean = self._clean(trial, in_turns="turns" in attack.needs)
        n_clean = self._unpaid(clean, 1)
        self.bill(label, "clean", n_clean, n_clean, size)
        is_control = isinstance(attack, ControlArm | NonEntityNoise)
        about, lost = expected(attack, n, usual, is_control=is_control)
        place = (trial.dataset, trial.group, item.id)
        drawn = (label, draws, near, *place, trial.seed or 0, trial.repeat)
        if isinstance(attack, ControlArm):
            # Equal arms ask the same variants, so that the longest holds the others.
            new, most = self._unpaid(drawn, n), n + n_checks
            n_checks = self._unpaid((drawn, attack.success), n_checks)
            share = (new + n_checks) / max(most, 1)
            n, about, lost = new, about * share, lost * share
        elif is_copied:  # the entities of a text share its copy
            n, n_checks = self._unpaid(drawn, 1), self._unpaid(("check", drawn), n_checks)
            about = float(n)
        self.bill(label, "controls" if is_control else "attacks", n, about, size)
        self.bill(label, "checks", n_checks, min(n_checks, 1) * lost, size)
        if PARAPHRASER in attack.needs:
            self.bill(f"role.{PARAPHRASER}", "controls", n, n, OF_ROLE)
        if is_control:
            return
        if tables.analysis.transfer:
            others = [v.on(trial.dataset) for v in self._prepared.victims if v.label != label]
            n_others = sum(not attack.is_unseen_by(other) for other in others)
            self.bill(label, "transfer", n_others, n_others * lost, size)
        if tables.analysis.reuse and "names" in attack.needs:
            m = self._unpaid(("reuse", *drawn[:-2]), max(tables.analysis.reuse))
            self.bill(label, "reuse", m, m * usual.accuracy, size)
        if isinstance(attack, MedFuzz):
            self._add_medfuzz(trial, attack, about, lost, size)

    def _add_medfuzz(
        self, trial: Trial, attack: MedFuzz, about: float, lost: float, size: Size
    ) -> None:
        """Count what a trial of MedFuzz asks of roles, and its test.

        Args:
            trial: the trial.
            attack: its attack.
            about: expected attempts.
            lost: probability of a success.
            size: of a query to the victim.
        """
        test, most = self._prepared.experiment.test, attack.attempts
        item = cast(Question, trial.item)
        to_attacker, to_judge = role_sizes(attack, item, about, self._writes)
        self.bill(f"role.{ATTACKER}", "attacks", 4 * most, 2 * about, to_attacker)
        if JUDGE in self._writes:
            self.bill(f"role.{JUDGE}", "attacks", 2 * most + 1, about + lost, to_judge)
            n_clean = self._unpaid(("key", trial.dataset, item.id, attack.prompts.hash), 1)
            self.bill(f"role.{JUDGE}", "clean", n_clean, n_clean * lost, to_judge)
        if JUDGE in self._writes and (test is None or test.faithfulness):
            n_findings = len(findings_of(item))
            n = N_VOTES * (most * attack.max_words + n_findings)
            right = 1.0 if attack.every_item else self.usual[trial.victim.label].accuracy
            asked = N_VOTES * (INSERTIONS * about + n_findings * right)
            self.bill(f"role.{JUDGE}", "tests", n, asked, to_judge)
        # Of several runs and seeds of an item one is tested.
        place = (trial.victim.label, trial.dataset, trial.group, trial.attack_label, item.id)
        is_named = test is not None and (not test.items or item.id in test.items)
        if test is not None and is_named and self._unpaid(("test", *place), 1):
            price = price_of(test, most, likely_statistic(trial.victim))
            n = most_of_success(test.null, test.controls, test.max_calls)
            tested = min(n, price.expected(test.max_calls, test.controls) / TURNS)
            self.bill(trial.victim.label, "tests", n, tested * lost, size, test.max_calls)

    def bill(
        self,
        label: str,
        part: str,
        n: int,
        about: float,
        size: Size,
        most_calls: int | None = None,
    ) -> None:
        """Put queries on the bill of a model or role, if the experiment has it; see `Cost.add`."""
        if n and label in self._costs:
            self._costs[label].add(part, n, about, size, most_calls)

    def costs(self) -> list[Cost]:
        """Return what every model costs, with the lengths and the speed that were measured."""
        prices = all_prices(self._prepared.experiment)
        for label, cost in self._costs.items():
            n, usual = cost.about_calls, self.usual.get(label, Usual())
            cost.read = cost.read if usual.tokens_in is None else n * usual.tokens_in
            cost.written = cost.written if usual.tokens_out is None else n * usual.tokens_out
            if label in prices and cost.tokens is not None:
                cost.usd = prices[label].usd(cost.read, cost.written)
            if usual.calls_per_second and cost.calls:
                cost.minutes = n / usual.calls_per_second / 60
            cost.basis = self._basis(usual, cost.written, n) if label in self.usual else ""
        return list(self._costs.values())

    def _basis(self, usual: Usual, written: float, n_calls: float) -> str:
        """Say what the estimate of a model rests on.

        Args:
            usual: what is expected of it.
            written: tokens that it is expected to write.
            n_calls: expected calls.
        """
        first, flips = (f"{share * 100:.0f} %" for share in (usual.accuracy, usual.flips))
        is_attacked = not all(isinstance(one.attack, Unasked) for one in self._prepared.attacks)
        loses = f", an edit loses {flips} of these" if is_attacked else ""
        text = f"{first} right at first{loses} ({usual.source})"
        if self._prepared.kind.name == PAIRS:
            text = f"an edit moves {flips} of the scores further than max_change ({usual.source})"
        if usual.tokens_out is not None or written <= n_calls:  # a letter is one token
            return text
        return (
            f"{text}; uncertain: {written / n_calls:,.3g} tokens written a call, more if it "
            "reasons or explains its answers"
        )

    def _unpaid(self, key: Hashable, n: int) -> int:
        """Return how many of n equal queries no earlier trial pays, and count them as paid."""
        before = self._paid.get(key, 0)
        self._paid[key] = max(n, before)
        return max(n - before, 0)

    def _drawn(self, attack: Attack, label: str) -> str:
        """Return what tells an attack's draws from those of others."""
        if id(attack) not in self._draws:
            draws = label
            if isinstance(attack, ControlArm):
                # Conversations are the attack's own, and so are the spans that get random names.
                is_own = "turns" in attack.needs or isinstance(attack.harmless, RandomNames)
                own = {**attack.of.spec(), "budget": None} if is_own else None
                draws = content_hash([{**attack.spec(), "budget": None, "control_of": None}, own])
            self._draws[id(attack)] = attack, draws  # it lives, so that its id stays
        return self._draws[id(attack)][1]

    def _plan(self, trial: Trial) -> tuple[int, int | None, bool, frozenset[str]]:
        """Return what seeds and models do not differ in.

        Returns:
            The most queries; the most checks, None where the item cannot be attacked; whether a
            copy is asked in any case; of a control, the fields of the attack that half of its edits
            are in.
        """
        attack, item, resources = trial.attack, trial.item, trial.resources
        is_unseen = attack.is_unseen_by(trial.victim)
        is_long = (trial.dataset, item.id, "turns" in attack.needs) in trial.victim.too_long
        key = (id(attack), is_unseen, is_long, trial.dataset, trial.group, item.id, item.unit)
        if key not in self._plans:
            n, n_checks, near = 0, None, frozenset[str]()
            is_open = not (is_unseen or is_long) and attack.obstacle(item, resources) is None
            is_copied = attack.asks_copy_of(item) and not is_long
            if is_open and isinstance(attack, ControlArm):
                attack = attack.at(item, trial.rng(attack.of), resources)
                near = attack.near
            if is_open or is_copied:
                queries = never_lost(attack, item, resources)
                n = attack.budget if queries is None else len(queries)
                if isinstance(attack, AttackedArm):
                    n = attack.bound(item)
            if is_open:
                # A success that is refuted, or that fewer edits may give, is followed by another.
                goes_on = attack.ends != "success" and not attack.is_probe
                n_checks = min(2 if goes_on else 1, n)
                n_checks *= not isinstance(attack.goal_for(item), Measured)
            self._plans[key] = n, n_checks, is_copied, near
        return self._plans[key]

    def _clean(self, trial: Trial, *, in_turns: bool) -> tuple[Size, Hashable]:
        """Return the size of the query about a trial's clean item, and what trials share it."""
        victim, item, is_open = trial.victim, trial.item, trial.victim.backend is not None
        conversation = content_hash(victim.task.spec()) if in_turns and is_open else ""
        key = ("clean", victim.label, trial.dataset, item.id, conversation)
        if key not in self._sizes:
            unknown = Size(about_in=math.inf)
            model = victim.backend.identity.name if is_open else ""
            self._sizes[key] = size_of(victim.task, item, model) if is_open else unknown
        return self._sizes[key], key


def _least(prepared: Prepared, folder: Path | None, usual: Mapping[str, Usual]) -> Iterator[Least]:
    """Yield what the planned items can show beyond controls, by data set and group."""
    if not any(isinstance(part.attack, ControlArm) for part in prepared.attacks):
        return
    measured = _measured_losses(folder)
    first = sum(one.accuracy for one in usual.values()) / len(usual)
    is_assumed = all(one == assumed_of(prepared) for one in usual.values())
    unmeasured = "assumed" if is_assumed else "the estimate below"
    for dataset in prepared.datasets:
        for group in prepared.groups if prepared.kind.draws_names else ():
            resources = group.resources_on(dataset)
            attacks = [
                part.attack
                for part in prepared.attacks
                if prepared.holds(dataset, group, "", part) and not isinstance(part.attack, Unasked)
            ]
            items = prepared.items(dataset, group)
            n = sum(any(a.obstacle(item, resources) is None for a in attacks) for item in items)
            accuracy, share = measured.get((dataset.label, group.label), (None, None))
            if n:
                yield Least(
                    dataset=dataset.label,
                    group=group.label,
                    n_items=n,
                    accuracy=first if accuracy is None else accuracy,
                    discordances=(share,) if share else ASSUMED,
                    source=f"measured in {folder}" if accuracy is not None else unmeasured,
                )


def _measured_losses(folder: Path | None) -> dict[tuple[str, str], tuple[float, float]]:
    """Return accuracy and largest discordance of a folder's run, by data set and group."""
    run = Run.open(folder) if folder is not None and (folder / FILE).is_file() else None
    right = defaultdict[tuple[str, str], list[bool]](list)
    shares = defaultdict[tuple[str, str], float](float)
    for cell in run.cells if run else ():
        own, place = cell.one_per_item(), cell.place[:2]
        right[place] += own.eligible[own.answered | own.open_clean].tolist()
        for control in run.controls(cell).values() if run else ():
            net = compared(cell, control)
            differ = (net.only_first + net.only_second) / max(net.estimate.n, 1)
            shares[place] = max(differ, shares[place])
    return {place: (sum(own) / len(own), shares[place]) for place, own in right.items() if own}


def _power(prepared: Prepared) -> Iterator[str]:
    """Yield what tests could show."""
    test = prepared.experiment.test
    if test is None:
        return
    attacks = (part.attack for part in prepared.attacks)
    most = max(attack.attempts for attack in attacks if isinstance(attack, MedFuzz))
    price = price_of(test, most, Statistic.SHARE_CORRECT)
    sizes = [
        sum(not test.items or item.id in test.items for item in part.questions)
        for part in prepared.datasets
    ]
    n = max(sizes)
    yield f"[test]: of {n:,} attacked items, all lost: {outlook(price, test, n, n)}"


# -- what is expected ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What is expected of one model."""

    accuracy: float = 0.5
    """Share of items that are right at first."""
    flips: float = 0.1
    """Share of an attack's edits that flip a right answer."""
    control_flips: float = 0.05
    """The same of harmless edits."""
    tokens_in: float | None = None
    """Tokens read by a call; None: from the prompt's characters."""
    tokens_out: float | None = None
    """Tokens written by a call; None: usual lengths."""
    calls_per_second: float | None = None
    """With all workers busy; None if it was never measured."""
    source: str = "assumed"
    """Where the values come from."""


def assumed_of(prepared: Prepared) -> Usual:
    """Return what is usual of a model that was never measured."""
    attacks = [part.attack for part in prepared.attacks if not part.attack.is_control]
    attempts = [one.attempts for one in attacks if isinstance(one, MedFuzz)]
    if attempts and len(attempts) == len(attacks):
        return Usual(accuracy=KNOWN, flips=1 - (1 - FALLEN) ** (1 / max(attempts)))
    return Usual() if prepared.kind.is_judged else Usual(accuracy=1.0)


def usual_of(victim: Victim, prepared: Prepared, folder: Path | None) -> Usual:
    """Return what is expected of a model; of one that is not open, what is usual.

    It is measured in the run folder, or else in its newest neighbour that asked the same model in
    the same way.
    """
    usual = assumed_of(prepared)
    if victim.backend is None or folder is None:
        return usual
    model, task = victim.backend.identity.hash, victim.task.spec()
    others = [path.parent for path in folder.parent.glob(f"*/{FILE}") if path.parent != folder]
    others.sort(key=lambda path: (path / FILE).lstat().st_mtime, reverse=True)
    for place in (folder, *others[:_MOST_FOLDERS]):
        if (earlier := earlier_answers(place, model, task)) is not None:
            break
    else:
        return usual

    def share(n: int, of: int, usual: float) -> float:
        """Return a share, the usual one of nothing."""
        return n / of if of else usual

    n, workers = earlier.n_calls, victim.backend.traits.workers
    in_turns = any("turns" in part.attack.needs for part in prepared.attacks)
    is_alike = earlier.in_turns == in_turns and n > 0 and earlier.tokens_in > 0
    is_same_data = {part.loaded.source_hash for part in prepared.datasets} == earlier.datasets
    own = OWN_SECONDS if in_turns else 0.0
    (asked, of_controls), (lost, by_controls) = earlier.asked, earlier.flipped
    return replace(
        usual,
        accuracy=share(earlier.n_right, earlier.n_right + earlier.n_lost, usual.accuracy),
        flips=share(lost, asked, usual.flips),
        control_flips=share(by_controls, of_controls, usual.control_flips),
        tokens_in=earlier.tokens_in / n if is_alike and is_same_data else None,
        tokens_out=earlier.tokens_out / n if is_alike else None,
        calls_per_second=1 / (earlier.seconds / workers / n + own) if earlier.seconds else None,
        source=f"measured over {n:,} calls in {place}"
        + ("" if asked else ", where nothing was edited: what an edit loses is assumed"),
    )


def expected(
    attack: Attack, n: int, usual: Usual, *, is_control: bool = False
) -> tuple[float, float]:
    """Return the queries that a trial is expected to ask, and the probability of a success.

    A search ends at its first success, unless it asks every query; an item that is wrong at first
    is left alone, unless it is every item that is asked, or the attack is a control.
    """
    flips = usual.control_flips if is_control else usual.flips
    never = (1 - flips) ** n
    until = (1 - never) / flips if flips else float(n)
    if attack.ends == "all":
        until = float(n)
    of_wrong = 0.0
    if attack.is_copy:
        of_wrong = float(n)
    elif attack.every_item:
        of_wrong = until
    elif attack.is_control and "turns" not in attack.needs:
        of_wrong = float(min(n, 1))
    right = usual.accuracy
    return right * until + (1 - right) * of_wrong, right * (1 - never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Calls and tokens of one query about an unchanged item."""

    calls: int = 1
    """The most calls."""
    about_calls: int = 1
    """Calls, if no reply has to be repaired."""
    about_in: float = 0.0
    """Tokens read, from the number of characters."""
    about_out: float = 0.0
    """Tokens written, from the kind of answer."""


def size_of(task: AnyTask, item: Any, model: str) -> Size:
    """Measure a query about an unchanged item, from the calls that it makes first.

    Args:
        task: the model's task.
        item: the item.
        model: the model's name, which may say that it reasons.
    """
    flow = task.flow(item.candidate())
    calls = [request.call for request in next(flow)]
    flow.close()
    is_question = item.kind == Question.kind
    n = cast(Task, task).n_calls(len(item.options)) if is_question else len(calls)
    read, usual = zip(*(_of_call(call, model) for call in calls), strict=True)
    about_in = sum(read) / len(calls) / CHARACTERS_PER_TOKEN
    about_calls, about_out = n, n * max(usual)
    if isinstance(task, Conversation):
        # Three turns; later ones read the earlier again.
        thoughts = min(TURN, task.decoding.max_new_tokens)
        about_calls, about_in = 3, about_in + (2 * thoughts + CONFIDENCES) / 3
        about_out = thoughts + CONFIDENCES + (1 if task.by_letter else SHORT)
    return Size(
        calls=n,
        about_calls=about_calls,
        about_in=about_calls * about_in,
        about_out=about_out,
    )


OF_ROLE = Size(about_in=600, about_out=PLAN)
"""A call to a role whose texts are unknown."""


def role_sizes(
    attack: MedFuzz, item: Question, attempts: float, writes: Mapping[str, int]
) -> tuple[Size, Size]:
    """Return the mean call to attacker and judge in a trial of MedFuzz.

    The attacker's conversation holds its instructions and all earlier attempts, with what the
    target said; the judge reads the item, an insertion and a reasoning.

    Args:
        attack: the attack.
        item: the item.
        attempts: how many are expected.
        writes: role -> its `max_new_tokens`; there need not be a judge.
    """
    rules = attack.prompts.instructions(
        max_words=attack.max_words, attempts=attack.attempts, allow_history=attack.allow_history
    )
    listed = " ".join([item.question, *item.options])
    read, question = (len(text) / CHARACTERS_PER_TOKEN for text in (rules, listed))
    reasoning = min(TURN, attack.reasoning_tokens)
    per_attempt = question + 2 * REQUEST + reasoning + PLAN + INSERTED
    to_attacker = Size(
        about_in=read + question + REQUEST + max(attempts - 1, 0) / 2 * per_attempt,
        about_out=min((PLAN + INSERTED) / 2, writes[ATTACKER]),
    )
    about_out = min(VOTE, writes.get(JUDGE, 0))
    return to_attacker, Size(about_in=question + REQUEST + reasoning, about_out=about_out)


def _of_call(call: Call, model: str) -> tuple[int, int]:
    """Return the characters that a call reads, and the usual tokens that it writes."""
    texts, usual = list[str](), 0
    match call:
        case Generate():
            texts, usual = [plain(call.prompt)], written(model, call.decoding.max_new_tokens)
        case Choose():
            texts = [call.prompt]
        case Rank():
            texts = [call.prompt + option for option in call.options]
        case Score(first_token=True):
            texts, usual = [plain(call.prompt) + max(call.continuations, key=len)], 1
        case Score():
            texts = [plain(call.prompt) + text for text in ("", *call.continuations)]
        case Tag():
            texts = [" ".join(call.tokens)]
        case Compare() | Classify():
            texts = [call.text_a, call.text_b]
    return sum(map(len, texts)), usual


def written(model: str, max_new_tokens: int) -> int:
    """Return the usual tokens of one written answer.

    >>> written("gpt-4o", 128), written("gpt-4o", 2), written("deepseek-r1", 2048)
    (2, 2, 600)
    """
    is_long = max_new_tokens >= LONG or _REASONS.search(model) is not None
    return min(REASONED if is_long else SHORT, max_new_tokens)


# -- remarks about the experiment ----------------------------------------------------------------


def dry_run_remarks(prepared: Prepared) -> Iterator[str]:
    """Yield lines on rows, controls, criteria and slices."""
    for part in prepared.datasets:
        yield from (*part.understood, *part.loaded.notes)
        if skipped := part.loaded.skipped:
            n = plural(len(skipped), "bad row")
            yield f"dataset {part.label!r}: {n} left out (on_bad_row), the first: {skipped[0]}"
    yield from left_out_sentences(prepared.left_out)
    for row in surrogates_of(prepared):
        named = ", ".join(f"{row[f'n_{source}']:,} {source}" for source in SOURCES)
        yield (
            f"{row['dataset']}, {row['attack']} ({row['surrogate']}): names of "
            f"{row['n_mentions']:,} mentions: {named}"
        )
    if n_criteria := len(prepared.experiment.require):
        n = plural(n_criteria, "criterion", "criteria")
        yield f"{n} ([[require]]), fixed with the first query"
    if (slices := prepared.experiment.slices) is not None:
        yield f"slices by {', '.join(slices.by)}, fixed with the first query"
