"""What an experiment would cost and could show, before a model is asked.

The bound of queries counts the planned trials at their most expensive: every item is right at
first, every budget is used up, every last query is a success that is checked again and tested. What
is asked once for several trials, such as equal controls beside two attacks, counts once. The
estimate counts what runs usually ask, and says whether its numbers were measured.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.faithfulness import findings_of
from medstress.analyses.families import TURNS, Adjust, ControlPrice, Null, Reach, Statistic
from medstress.analyses.run import Run, contrast, pair
from medstress.analyses.shown import Field, Remark, Shown, Table, column, table
from medstress.attacks.attacked import AttackedArm
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.controls.paraphrase import ROLE as PARAPHRASER
from medstress.attacks.controls.same_type import RandomNames
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.noise_control import NonEntityNoise
from medstress.attacks.protocol import Attack, never_lost
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Measured
from medstress.core.queries import ATTACKER, JUDGE
from medstress.engine.trial import Trial
from medstress.experiment.expected import (
    OF_ROLE,
    Size,
    Usual,
    expected,
    role_sizes,
    size_of,
    usual_of,
)
from medstress.experiment.file.config import victim_labels
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import all_prices, usd_of
from medstress.experiment.significance.mentions import N_VOTES
from medstress.experiment.significance.plan import likely_statistic, most_of_success
from medstress.experiment.stages import FollowUp
from medstress.stats.power import ASSUMED, detectable
from medstress.store.counts import Price, spent_in
from medstress.store.database import FILE
from medstress.tasks.victim import Victim

Amounts: TypeAlias = NDArray[np.float64]
FIELDS = ("queries", "calls", "most in", "most out", "about", "about calls", "in", "out", "long")
"""The amounts of a bill: the most queries, calls and tokens, and what is expected of them."""
PARTS = ("clean", "attacks", "controls", "checks", "transfer", "reuse", "tests")
"""What queries are for."""
INSERTIONS = 1.5
"""Of one attempt, as usual; at most one a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one model, or all together, may be asked; None is unknown or without a bound."""

    model: str
    """Its label; a role's begins with `role.`."""
    queries: Mapping[str, int]
    """Part -> the most queries. A query of a role is a call."""
    calls: int
    """The most calls."""
    about_queries: float
    """Estimate."""
    about_calls: float
    """Estimate."""
    tokens: float | None
    """Estimate."""
    most_tokens: int | None
    """Bound: a token has a byte or more."""
    usd: float | None
    """Estimate in US dollars of what has a price."""
    long_usd: float | None
    """The same if every answer took `max_new_tokens`; None if lengths are known or measured."""
    most_usd: float | None
    """Bound."""
    minutes: float | None
    """Estimate, at a speed that was measured."""
    basis: str = ""
    """What the estimate rests on."""

    @property
    def bound(self) -> int:
        """The most queries."""
        return sum(self.queries.values())


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
    shares: Sequence[Cost]
    """The same without tests, and then all tests."""
    total: Cost
    least: Sequence[Least]
    max_usd: float | None
    """The limit of the experiment."""
    spent: float
    """US dollars that the folder has used up."""
    assumed: Sequence[str]
    """What else bound and estimate rest on."""

    @property
    def bound(self) -> int:
        """The most queries of the models under attack."""
        return sum(cost.bound for cost in self.costs if not cost.model.startswith("role."))

    @property
    def lines(self) -> Sequence[str]:
        """The bound of queries, the estimate of everything, and its bound; a line each."""
        total = self.total
        parts = [
            f"{one.model.removeprefix('role.')} {_amounts(one.about_calls, None, one.usd, None)}"
            for one in self.shares
            if one.about_calls
        ]
        about = _amounts(total.about_calls, total.tokens, total.usd, total.minutes)
        most = _amounts(total.calls, total.most_tokens, total.most_usd, None)
        queries = ", ".join(f"{part} {n:,}" for part, n in total.queries.items())
        calls = sum(cost.calls for cost in self.costs if not cost.model.startswith("role."))
        in_calls = f", in at most {calls:,} calls" if total.about_calls > self.bound else ""
        return [
            f"queries: at most {self.bound:,} (exact bound){in_calls}",
            f"estimate: about {about}" + (f" ({'; '.join(parts)})" if len(parts) > 1 else ""),
            f"bound: at most {most} (queries: {queries})",
        ]

    def tables(self) -> Sequence[Table]:
        """Bound and estimate by model, and the least loss."""
        rows = [*self.costs, *([self.total] if len(self.costs) > 1 else [])]
        least = "Least loss beside harmless edits that is found with 80 % power"
        return [
            table("cost", "Exact bound of queries, and estimate", rows, _COSTS, notes=_TOKENS),
            *([table("least", least, self.least, _LEAST, n_labels=2)] if self.least else []),
        ]

    def remarks(self) -> Sequence[Remark]:
        """What the estimate rests on, and where money stops the run."""
        sentences = [
            f"estimate for {cost.model}: {cost.basis}" for cost in self.costs if cost.basis
        ]
        sentences += [*self.assumed, *self._stop()]
        return [Remark(rule="dry_run", sentence=one, level="note") for one in sentences]

    def _stop(self) -> Iterator[str]:
        usd, long, most = self.total.usd, self.total.long_usd, self.total.most_usd
        if usd is None:
            return
        if self.max_usd is None:
            limit = float(f"{max(2 * usd, long or 0.0):.2g}")
            yield f"no max_usd: --set experiment.max_usd={limit:g} would stop a run that costs more"
            return
        spent = f", {dollars(self.spent)} of it spent already" if self.spent else ""
        if most is not None and most <= self.max_usd:
            where = "never: it is not below the bound"
        elif usd <= self.max_usd:
            where = "above the estimate" + (", below that of long answers" if long else "")
        else:
            n = self.max_usd / usd * self.total.about_queries
            where = f"after about {n:,.0f} of {self.total.about_queries:,.0f} queries"
        yield f"max_usd = {dollars(self.max_usd)}{spent} stops this {where}"


def dry_run(prepared: Prepared, folder: Path | None = None) -> DryRun:
    """Bound and estimate what an experiment costs; nothing is asked.

    Args:
        prepared: the experiment. Where its victims are not open, only queries are counted.
        folder: of the run. What it, or else its newest neighbour, measured of the same models is
            expected of them, and what it has spent counts against `max_usd`.
    """
    if not prepared.victims:
        unopened = cast(Any, None)
        labels = victim_labels(prepared.experiment.victim)
        victims = [Victim(label=one, task=unopened, backend=unopened) for one in labels]
        prepared = replace(prepared, victims=victims)
    counting, prices = _Counting(prepared, folder), all_prices(prepared.experiment)
    for trial in prepared.trials():
        counting.add(trial)
    costs, shares, total = counting.costs()
    return DryRun(
        costs=costs,
        shares=shares,
        total=total,
        least=list(_least(prepared, folder)),
        max_usd=prepared.experiment.experiment.max_usd,
        spent=usd_of(spent_in(folder), prices) if folder is not None and prices else 0.0,
        assumed=[*_assumed(prepared), *filter(None, (one.remark for one in prepared.groups))],
    )


def follow_up_lines(
    prepared: Prepared, works: Iterable[tuple[FollowUp, int]], folder: Path
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
    for cost in counting.costs()[0]:
        if cost.bound:
            yield (
                f"{cost.model}: at most {cost.bound:,} queries; for so many about "
                f"{_amounts(None, cost.tokens, cost.usd, cost.minutes)}"
            )


class _Plan(NamedTuple):
    """What is known of a trial before it is asked."""

    n: int
    """The most queries."""
    n_checks: int | None
    """The most checks; None where the item cannot be attacked."""
    growth: float
    """The most bytes that edits add."""
    is_copied: bool
    """Whether a copy is asked in any case."""
    near: frozenset[str]
    """Of a control: the fields of the attack that half of its edits are in."""


class _Counting:
    """Counts the trials of a plan, each on the bill of its model and of what it is for."""

    def __init__(self, prepared: Prepared, folder: Path | None) -> None:
        victims, self._prepared = prepared.victims, prepared
        self._usual = {one.label: usual_of(one, prepared, folder) for one in victims}
        self._labels = [*self._usual, *(role.label for role in prepared.roles)]
        self._writes = {role.name: role.decoding.max_new_tokens for role in prepared.roles}
        self._bills = defaultdict[tuple[str, str], Amounts](partial(np.zeros, len(FIELDS)))
        self._paid: dict[Hashable, int] = {}
        self._sizes: dict[Hashable, Size] = {}
        self._draws: dict[int, tuple[Attack, str]] = {}
        self._plans: dict[Hashable, _Plan] = {}
        self._longest: dict[int, int] = {}

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        attack, item, label = trial.attack, trial.item, trial.victim.label
        draws = self._drawn(attack, trial.attack_label)
        n, most_checks, growth, is_copied, near = self._plan(trial)
        if most_checks is None and not is_copied:
            return
        tables, usual = self._prepared.experiment, self._usual[label]
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
        self.bill(label, "controls" if is_control else "attacks", n, about, size, growth)
        self.bill(label, "checks", n_checks, min(n_checks, 1) * lost, size, growth)
        if PARAPHRASER in attack.needs:
            self.bill(f"role.{PARAPHRASER}", "controls", n, n, OF_ROLE)
        if is_control:
            return
        if tables.analysis.transfer:
            others = [v.on(trial.dataset) for v in self._prepared.victims if v.label != label]
            n_others = sum(not attack.is_unseen_by(other) for other in others)
            self.bill(label, "transfer", n_others, n_others * lost, size, growth)
        if tables.analysis.reuse and "names" in attack.needs:
            m = self._unpaid(("reuse", *drawn[:-2]), max(tables.analysis.reuse))
            self.bill(label, "reuse", m, m * usual.accuracy, size, growth)
        if isinstance(attack, MedFuzz):
            self._add_roles(trial, attack, about, lost)
            test = tables.test
            if test is not None and (not test.items or item.id in test.items):
                self._add_tests(trial, attack, lost, size, growth)

    def _add_roles(self, trial: Trial, attack: MedFuzz, about: float, lost: float) -> None:
        """Count what a trial of MedFuzz, and questions about its reasonings, ask of roles.

        Args:
            trial: the trial.
            attack: its attack.
            about: expected attempts.
            lost: probability of a success.
        """
        test, most = self._prepared.experiment.test, attack.attempts
        item = cast(Question, trial.item)
        to_attacker, to_judge = role_sizes(attack, item, about, self._writes)
        self.bill(f"role.{ATTACKER}", "attacks", 4 * most, 2 * about, to_attacker)
        if JUDGE not in self._writes:
            return
        self.bill(f"role.{JUDGE}", "attacks", 2 * most + 1, about + lost, to_judge)
        n_clean = self._unpaid(("key", trial.dataset, item.id, attack.prompts.hash), 1)
        self.bill(f"role.{JUDGE}", "clean", n_clean, n_clean * lost, to_judge)
        if test is None or test.faithfulness:
            n_findings = len(findings_of(item))
            n = N_VOTES * (most * attack.max_words + n_findings)
            asked = N_VOTES * (INSERTIONS * about + n_findings * self._right(trial))
            self.bill(f"role.{JUDGE}", "tests", n, asked, to_judge)

    def _add_tests(
        self, trial: Trial, attack: MedFuzz, lost: float, size: Size, growth: float
    ) -> None:
        """Count the test of a success, with what the trial knows of it."""
        test = self._prepared.experiment.test
        assert test is not None
        price = ControlPrice(
            null=Null(test.null),
            statistic=likely_statistic(trial.victim),
            attempts=attack.attempts,
            is_written=test.generator == ATTACKER,
        )
        n = most_of_success(test.null, test.controls, test.max_calls)
        about = min(n, price.expected(test.max_calls, test.controls) / TURNS)
        self.bill(trial.victim.label, "tests", n, about * lost, size, growth)

    def _right(self, trial: Trial) -> float:
        """Return the probability that an item is attacked."""
        return 1.0 if trial.attack.every_item else self._usual[trial.victim.label].accuracy

    def bill(
        self, label: str, part: str, n: int, about: float, size: Size, growth: float = 0
    ) -> None:
        """Put queries on a bill.

        Args:
            label: of a model or role; nothing is counted if the experiment has no such role.
            part: of `PARTS`.
            n: the most of them.
            about: how many are expected.
            size: of one query about the unchanged item.
            growth: the most bytes that edits add to a text.
        """
        if label in self._labels and n:
            long_out = size.most_out if size.may_explain else size.about_out
            of_query = (size.about_calls, size.about_in, size.about_out, long_out)
            most_in = size.most_in + (size.places and size.places * growth)
            most = (size.calls, most_in, size.most_out)
            amounts = (n, *(n * one for one in most), about, *(about * one for one in of_query))
            self._bills[label, part] += np.array(amounts)

    def costs(self) -> tuple[list[Cost], list[Cost], Cost]:
        """Return what every model costs, the same without tests beside all tests, and the sum."""
        prices = all_prices(self._prepared.experiment)
        rows = [
            (label, part, _estimated(amounts, self._usual.get(label), prices.get(label)))
            for (label, part), amounts in self._bills.items()
        ]
        by_label = [(one, [row for row in rows if row[0] == one]) for one in self._labels]
        models = [_cost(label, own, self._usual.get(label)) for label, own in by_label]
        shares = [_cost(label, [r for r in own if r[1] != "tests"]) for label, own in by_label]
        tests = _cost("tests", [row for row in rows if row[1] == "tests"])
        return models, [*shares, tests], _cost("all", rows)

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

    def _plan(self, trial: Trial) -> _Plan:
        """Return what seeds and models do not differ in."""
        attack, item, resources = trial.attack, trial.item, trial.resources
        is_unseen = attack.is_unseen_by(trial.victim)
        is_long = (trial.dataset, item.id) in trial.victim.too_long
        key = (id(attack), is_unseen, is_long, trial.dataset, trial.group, item.id, item.unit)
        if key not in self._plans:
            n, n_checks, growth, near = 0, None, math.inf, frozenset[str]()
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
                if queries is not None:
                    growth = max((_bytes_added(one.candidate) for one in queries), default=0)
            if is_open:
                # A success that is refuted, or that fewer edits may give, is followed by another.
                goes_on = attack.ends != "success" and not attack.is_probe
                n_checks = min(2 if goes_on else 1, n)
                n_checks *= not isinstance(attack.goal_for(item), Measured)
            if "names" in attack.needs:
                names = resources.perturbations.names
                if id(names) not in self._longest:
                    # A name takes the case of what it replaces; capitals may take more bytes.
                    sizes = (len(text.encode()) for one in names for text in (one, one.upper()))
                    self._longest[id(names)] = max(sizes, default=0)
                growth = self._longest[id(names)]
            if isinstance(attack, MedFuzz):
                growth = self._writes[ATTACKER]
            self._plans[key] = _Plan(n, n_checks, growth, is_copied, near)
        return self._plans[key]

    def _clean(self, trial: Trial, *, in_turns: bool) -> tuple[Size, Hashable]:
        """Return the size of the query about a trial's clean item, and what trials share it."""
        victim, item, is_open = trial.victim, trial.item, trial.victim.backend is not None
        conversation = content_hash(victim.task.spec()) if in_turns and is_open else ""
        key = ("clean", victim.label, trial.dataset, item.id, conversation)
        if key not in self._sizes:
            unknown = Size(about_in=math.inf, most_in=math.inf)
            model = victim.backend.identity.name if is_open else ""
            self._sizes[key] = size_of(victim.task, item, model) if is_open else unknown
        return self._sizes[key], key


def _bytes_added(candidate: Candidate) -> int:
    """Return how many bytes longer edits make a question."""
    old = sum(len(candidate.item.replaced(edit).encode()) for edit in candidate.edits)
    return sum(len(edit.replacement.encode()) for edit in candidate.edits) - old


def _estimated(amounts: Amounts, usual: Usual | None, price: Price | None) -> dict[str, float]:
    """Return amounts by name, with lengths that were measured, money and minutes."""
    row, usual = dict(zip(FIELDS, amounts.tolist(), strict=True)), usual or Usual()
    if usual.tokens_in is not None:
        row["in"] = row["about calls"] * usual.tokens_in
    if usual.tokens_out is not None:
        row["out"] = row["long"] = row["about calls"] * usual.tokens_out
    speed = usual.calls_per_second
    row["minutes"] = row["about calls"] / speed / 60 if speed else math.inf
    if price is not None:
        row["usd"] = price.usd(row["in"], row["out"])
        row["long usd"] = price.usd(row["in"], max(row["long"], row["out"]))
        row["most usd"] = price.usd(row["most in"], row["most out"])
    return row


def _cost(
    name: str, rows: Sequence[tuple[str, str, Mapping[str, float]]], usual: Usual | None = None
) -> Cost:
    queries, sums = Counter[str](), defaultdict[str, float](float)
    for _, part, row in rows:
        queries[part] += int(row["queries"])
        for key, amount in row.items():
            sums[key] += amount

    def known(*names: str) -> float | None:
        value = sum(sums.get(name, math.inf) for name in names)
        return value if math.isfinite(value) else None

    most_tokens = known("most in", "most out")
    most_usd = known("most usd")
    return Cost(
        model=name,
        queries={part: queries[part] for part in PARTS if queries[part]},
        calls=int(sums["calls"]),
        about_queries=sums["about"],
        about_calls=sums["about calls"],
        tokens=known("in", "out"),
        most_tokens=most_tokens if most_tokens is None else math.ceil(most_tokens),
        usd=known("usd"),
        long_usd=known("long usd") if sums["long"] > sums["out"] else None,
        # In whole cents that are not below it.
        most_usd=None if most_usd is None else math.ceil(most_usd * 100 - 1e-9) / 100,
        minutes=known("minutes"),
        basis="" if usual is None else usual.sentence(sums["out"], sums["long"], sums["about"]),
    )


def _least(prepared: Prepared, folder: Path | None) -> Iterator[Least]:
    """Yield what the planned items can show, by data set and group."""
    measured = _measured(folder)
    for dataset in prepared.datasets:
        for group in prepared.question_groups:
            resources = group.resources_on(dataset)
            attacks = [p.attack for p in prepared.attacks if prepared.holds(dataset, group, "", p)]
            items = prepared.items(dataset, group)
            n = sum(any(a.obstacle(item, resources) is None for a in attacks) for item in items)
            accuracy, share = measured.get((dataset.label, group.label), (None, None))
            if n:
                yield Least(
                    dataset=dataset.label,
                    group=group.label,
                    n_items=n,
                    accuracy=Usual().accuracy if accuracy is None else accuracy,
                    discordances=(share,) if share else ASSUMED,
                    source="assumed" if accuracy is None else f"measured in {folder}",
                )


def _measured(folder: Path | None) -> dict[tuple[str, str], tuple[float, float]]:
    """Return accuracy and largest discordance of a folder's run, by data set and group."""
    run = Run.open(folder) if folder is not None and (folder / FILE).is_file() else None
    right = defaultdict[tuple[str, str], list[bool]](list)
    shares = defaultdict[tuple[str, str], float](float)
    for cell in run.cells if run else ():
        own, place = cell.one_per_item(), cell.place[:2]
        right[place] += own.eligible[own.answered | own.open_clean].tolist()
        for control in run.controls(cell).values() if run else ():
            pairs = pair(cell, control)
            lost = cell.read("asr").at(pairs.first), control.read("asr").at(pairs.second)
            net = contrast(*lost, pairs.units)
            differ = (net.only_first + net.only_second) / max(net.estimate.n, 1)
            shares[place] = max(differ, shares[place])
    return {place: (sum(own) / len(own), shares[place]) for place, own in right.items() if own}


def _assumed(prepared: Prepared) -> Iterator[str]:
    """Yield what tests could show."""
    test = prepared.experiment.test
    attacks = [part.attack for part in prepared.attacks if isinstance(part.attack, MedFuzz)]
    if test is None:
        return
    price = ControlPrice(
        null=Null(test.null),
        statistic=Statistic.SHARE_CORRECT,
        attempts=max(attack.attempts for attack in attacks),
        is_written=test.generator == ATTACKER,
    )
    few, many = price.span(test.max_calls, test.controls)
    # Of a hundred attacked items, all lost: how many must be at the smallest p.
    reach = Reach(n_tested=100, n_family=100, n_controls=many, adjust=Adjust(test.adjust))
    needed = f"{reach.n_needed} %" if reach.adjust is Adjust.BH else "one"
    yield f"[test]: max_calls = {test.max_calls:,} for each success, on average: " + (
        f"{price.words(few, many)}, so that p is at least {reach.p_min:.2g}, and a discovery "
        f"at {reach.adjust.level:g} by {reach.adjust.words} takes {needed} of what was attacked at "
        "that p"
        if reach.can_show
        else reach.shortfall(price)
    )


def _amounts(
    calls: float | None, tokens: float | None, usd: float | None, minutes: float | None
) -> str:
    """Return amounts in words, without those that are unknown."""
    whole = calls if calls is None else round(calls)
    named = ((whole, "calls"), (tokens, "tokens"))
    words = [f"{rounded(n)} {name}" for n, name in named if n is not None]
    words += [] if minutes is None else [lasting(minutes)]
    return ", ".join(words if usd is None else [*words, dollars(usd)])


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


def _share(loss: float | None) -> str:
    return "none" if loss is None else f"{loss:.3f}".removeprefix("0")


_TOKENS = ("Tokens: 4 characters each where none were measured, one byte each at most.",)
_COSTS: list[Field[Cost]] = [
    column("Model", "model"),
    column("Queries, at most", "bound", "count"),
    column("about", lambda cost: round(cost.about_queries), "count"),
    column("Tokens, about", lambda cost: cost.tokens and round(cost.tokens), "count"),
    column("at most", "most_tokens", "count"),
    column("Dollars, about", "usd", "number"),
    column("if answers are long", "long_usd", "number"),
    column("at most", "most_usd", "count"),
    column("Time, about", lambda cost: cost.minutes and lasting(cost.minutes)),
]
_LEAST: list[Field[Least]] = [
    column("Data", "dataset"),
    column("Group", "group"),
    column("Items", "n_items", "count"),
    column("Right at first", "accuracy", "score"),
    column("Least loss", lambda least: " or ".join(map(_share, least.losses))),
    column(
        "if they differ on",
        lambda least: " or ".join(f"{100 * share:.0f} %" for share in least.discordances),
    ),
    column("From", "source"),
]
