"""Bound the cost of an experiment without asking a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, cast

from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.protocol import Attack, AttackTraits, SearchOn
from medstress.core.items import Question
from medstress.costs.controls import SharedControls
from medstress.costs.money import Spent, money_lines
from medstress.costs.phases import most_tested, role_lines, roles_about, tests_remark
from medstress.costs.query_sizes import CHARACTERS_PER_TOKEN, query_size
from medstress.costs.sentences import sentence_cost
from medstress.costs.speeds import Speed, measured_speed
from medstress.costs.usual import Usual, expected_trial, reasons, usual_of
from medstress.experiment.plan.conversations import victim_of
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import all_prices, prices_of
from medstress.tasks.multiple_choice import AnswerBy
from medstress.tasks.task import Task
from medstress.tasks.victim import Victim

CONVERSATION_CALLS = "3 (5 with repaired replies)"
"""Calls of a conversation."""


@dataclass(slots=True)
class _Counts:
    """Upper bounds of one victim's queries."""

    baseline: int = 0
    perturbed: int = 0
    checks: int = 0
    controls: int = 0
    transfer: int = 0
    universality: int = 0
    tests: int = 0
    attempts: float = 0.0
    """Expected queries of attacks that ask in conversations, each of which asks the roles."""

    @property
    def total(self) -> int:
        asked = self.baseline + self.perturbed + self.checks + self.controls
        return asked + self.transfer + self.universality + self.tests


@dataclass(slots=True)
class _ItemQueries:
    """Upper bounds of one victim's queries about one item."""

    item: Question
    dataset: str
    """Label of its data set."""
    attack: Attack | None = None
    """The attack, if it asks in conversations."""
    clean: int = 0
    """Queries about the clean item."""
    edited: dict[int | None, int] = field(default_factory=dict)
    """Most bytes that an edit adds to a prompt (None: unknown) -> queries."""
    about: float = 0.0
    """Expected queries about the edited item."""


@dataclass(slots=True)
class _Tokens:
    """Calls and tokens of one victim."""

    calls: int = 0
    about_queries: float = 0.0
    """Expected queries."""
    about_in: float = 0.0
    about_out: float = 0.0
    long_out: float | None = None
    """Tokens written if every answer were as long as allowed; None if their length is known."""
    most_in: int | None = 0
    """None if an attack writes texts without a bound."""
    most_out: int = 0


def estimate(prepared: Prepared, folder: Path | None = None) -> Iterator[str]:
    """Yield lines: the exact upper bound of queries; bounds and estimates of tokens, time, money.

    The bound assumes the most expensive answers: every attackable item is right at baseline,
    every attack uses its whole budget, and every last query is a success that is checked again.
    Two successes are checked where the search goes on after an invalid one. Control arms that ask
    the same count once.

    Args:
        prepared: the experiment, with its victims open.
        folder: folder of the run; measured speeds are read from it and its neighbours.
    """
    if not prepared.kind.draws_names:
        yield from sentence_cost(prepared, folder)
        return
    n_victims = len(prepared.experiment.victim)
    usuals = [usual_of(victim, prepared, folder) for victim in prepared.victims]
    counts, by_victim = _count_all(prepared, n_victims, usuals)
    yield f"queries: at most {counts.total:,} (exact bound)"
    shown = {
        "baseline": counts.baseline,
        "perturbed": counts.perturbed,
        "flip checks": counts.checks,
    }
    if counts.controls:
        shown["controls"] = counts.controls
    yield _counts("", shown)
    if counts.transfer or counts.universality:
        shown = {"transfer": counts.transfer, "universality": counts.universality}
        yield _counts("[analysis]: ", shown)
    if prepared.experiment.test is not None:
        yield _counts("[test]: ", {"controls and samples": counts.tests})
        yield tests_remark(prepared)
    tokens = {
        victim.label: _tokens(victim, by_item, usual)
        for victim, by_item, usual in zip(prepared.victims, by_victim, usuals, strict=False)
    }
    yield from _calls(prepared, tokens, counts.total)
    for victim, usual in zip(prepared.victims, usuals, strict=False):
        yield _assumptions(victim, usual, tokens[victim.label])
    yield _tokens_line(list(tokens.values()), prepared)
    yield from role_lines(prepared, n_victims, counts.attempts)
    yield from filter(None, (group.remark for group in prepared.groups))
    for victim in prepared.victims:
        yield _time(victim, tokens[victim.label], measured_speed(victim, prepared, folder))
    yield from _money(tokens, prepared, counts, folder)
    if prepared.roles:
        yield "tokens and money of victims leave out what other roles read and write"


def _count_all(
    prepared: Prepared, n_victims: int, usuals: Sequence[Usual]
) -> tuple[_Counts, list[list[_ItemQueries]]]:
    """Return the counts of all victims together, and the queries about each item by victim."""
    known: dict[tuple[frozenset[tuple[str, str]], Usual], tuple[_Counts, list[_ItemQueries]]] = {}
    found = []
    victims: list[Victim | None] = [*prepared.victims] or [None] * n_victims
    for victim, usual in zip(victims, usuals or [Usual()] * n_victims, strict=True):
        unseen = _unseen(prepared, victim) if victim else frozenset()
        if (unseen, usual) not in known:
            known[unseen, usual] = _count(prepared, n_victims, unseen, usual)
        found.append(known[unseen, usual])
    total = {
        each.name: sum(getattr(counts, each.name) for counts, _ in found)
        for each in fields(_Counts)
    }
    return _Counts(**total), [by_item for _, by_item in found]


def _unseen(prepared: Prepared, victim: Victim) -> frozenset[tuple[str, str]]:
    """Return (data set, attack) where the victim's prompt shows nothing that the attack edits."""
    return frozenset(
        (dataset.label, part.label)
        for dataset, part in product(prepared.datasets, prepared.attacks)
        if victim.on(dataset.label).misses(part.traits.edits_only)
    )


def _count(
    prepared: Prepared, n_victims: int, unseen: Collection[tuple[str, str]], usual: Usual
) -> tuple[_Counts, list[_ItemQueries]]:
    """Return the counts of one victim, and its queries about each item."""
    settings, analysis = prepared.experiment.experiment, prepared.experiment.analysis
    counts, found = _Counts(), list[_ItemQueries]()
    for dataset in prepared.datasets:
        by_item: dict[tuple[str, str | None], _ItemQueries] = {}
        controls = SharedControls()
        for group, part in product(prepared.question_groups, prepared.attacks):
            traits = part.traits
            if (group.table is None) == traits.needs_entities or (
                dataset.label,
                part.label,
            ) in unseen:
                continue
            seeds = traits.repeats * (1 if traits.deterministic else len(settings.seeds))
            conversing = part.attack if traits.in_turns else None
            growth, resources = _growth(part, group), group.resources_on(dataset)
            for item in prepared.items(dataset, group):
                if part.attack.obstacle(item, resources) is not None:
                    continue
                # A conversation asks the clean item anew for every seed, after other examples.
                of_item = by_item.setdefault(
                    (item.id, part.label if conversing else None),
                    _ItemQueries(item, dataset.label, conversing, clean=seeds if conversing else 1),
                )
                n = part.attack.most_queries(item, resources)
                if isinstance(part.attack, ControlArm):
                    n_checks = int(settings.flip_check)
                    new = controls.add(
                        part.attack,
                        (group.label, item.id),
                        settings.seeds,
                        n,
                        n_checks=n_checks,
                    )
                    counts.controls += new
                    of_item.edited[growth] = of_item.edited.get(growth, 0) + new
                    # Of what it adds to other controls, the share that a trial of it asks.
                    trial = expected_trial(traits, n, usual, control=True)
                    asked = trial.queries + n_checks * trial.successes
                    of_item.about += new * asked / max(n + n_checks, 1)
                    continue
                checks = seeds * _most_checks(traits, n) if settings.flip_check else 0
                transferred = seeds * (n_victims - 1) if analysis.transfer else 0
                universal = max(analysis.universality, default=0)
                counts.perturbed += seeds * n
                counts.checks += checks
                counts.transfer += transferred
                counts.universality += universal
                tests = most_tested(part.attack, prepared.experiment.test)
                counts.tests += seeds * tests
                more = seeds * (n + tests) + checks + transferred + universal
                of_item.edited[growth] = of_item.edited.get(growth, 0) + more
                trial = expected_trial(traits, n, usual)
                counts.attempts += seeds * trial.queries if traits.in_turns else 0
                after = seeds * tests + checks + transferred
                of_item.about += seeds * trial.queries + trial.successes * after
                of_item.about += usual.accuracy * universal
        counts.baseline += sum(each.clean for each in by_item.values())
        found += by_item.values()
    return counts, found


def _growth(part: AttackPart, group: GroupPart) -> int | None:
    """Return the most bytes that the attack adds to a prompt; None if unknown."""
    if not part.traits.puts_one_name:
        return part.traits.adds_bytes
    # A name takes the case of the text it replaces, and capitals may take more bytes.
    names = group.perturbations.names
    return max((max(len(n.encode()), len(n.upper().encode())) for n in names), default=0)


def _tokens(victim: Victim, by_item: list[_ItemQueries], usual: Usual) -> _Tokens:
    total, model = _Tokens(), victim.backend.identity.name
    about_calls = long_out = 0.0
    for each in by_item:
        on_dataset = victim.on(each.dataset)
        task = _task(on_dataset)
        if each.attack is not None:
            task = _task(victim_of(on_dataset, each.attack, "", each.item, 0, 0))
        size = query_size(task, each.item, model)
        n = each.clean + sum(each.edited.values())
        total.calls += n * task.n_calls(len(each.item.options))
        about = each.clean + each.about
        total.about_queries += about
        about_calls += about * size.about_calls
        total.about_in += about * size.about_in
        total.about_out += about * size.about_out
        long_out += about * size.most_out
        total.most_out += n * size.most_out
        for growth, times in ((0, each.clean), *each.edited.items()):
            if growth is None or total.most_in is None:
                total.most_in = None
            else:
                total.most_in += times * size.longer_by(growth)
    if usual.tokens_in is not None:
        total.about_in = about_calls * usual.tokens_in
    if usual.tokens_out is not None:
        total.about_out = about_calls * usual.tokens_out
    elif _writes(victim):
        total.long_out = long_out
    return total


def _assumptions(victim: Victim, usual: Usual, tokens: _Tokens) -> str:
    """Say what the estimates of a victim rest on."""
    written = tokens.about_out / tokens.about_queries if tokens.about_queries else 0.0
    line = (
        f"estimate for {victim.label}: about {tokens.about_queries:,.0f} queries (tokens written "
        f"by each: {written:,.3g}), if {usual.accuracy * 100:.0f} % of the questions are right at "
        f"first and an edit flips {usual.flips * 100:.0f} % of them ({usual.source})"
    )
    if tokens.long_out is None or not tokens.about_queries:
        return line
    most = tokens.long_out / tokens.about_queries
    if _may_reason(victim):
        line += "; uncertain: this model may reason, and its thoughts have no usual length"
        return f"{line} (at most {most:,.3g} a query)"
    return f"{line}; uncertain: up to {most:,.3g} a query if it explains its answers"


def _spec(victim: Victim) -> dict[str, Any]:
    """Return what a victim's own task is, below its wrappers."""
    spec = victim.task.spec()
    while "task" in spec:
        spec = spec["task"]
    return spec


def _writes(victim: Victim) -> bool:
    return _spec(victim).get("answer_by") == AnswerBy.GENERATE


def _may_reason(victim: Victim) -> bool:
    most, _ = _spec(victim)["decoding"]
    return reasons(victim.backend.identity.name, most)


def _task(victim: Victim) -> Task:
    """Return the task of a victim; all victims here answer questions."""
    return cast(Task, victim.task)


def _calls(prepared: Prepared, tokens: Mapping[str, _Tokens], queries: int) -> Iterator[str]:
    """Yield a line if some query takes more than one call."""
    total = sum(each.calls for each in tokens.values())
    if total != queries:
        questions = (item for part in prepared.datasets for item in part.questions)
        most = max((len(item.options) for item in questions), default=2)
        detail = ", ".join(f"{v.label} {_task(v).n_calls(most)} a query" for v in prepared.victims)
        conversing = [part.label for part in prepared.attacks if part.traits.in_turns]
        if conversing:
            detail += f"; {CONVERSATION_CALLS} per conversation of {conversing[0]!r}"
        yield f"calls: at most {total:,} ({detail})"


def _tokens_line(tokens: list[_Tokens], prepared: Prepared) -> str:
    about = sum(each.about_in + each.about_out for each in tokens)
    line = (
        f"tokens: about {about:,.0f} (estimate: {CHARACTERS_PER_TOKEN} characters a token where "
        "none were measured, nothing shared); "
    )
    bounds = [each.most_in + each.most_out for each in tokens if each.most_in is not None]
    if len(bounds) == len(tokens):
        return f"{line}at most {sum(bounds):,} (bound: a token has a byte or more)"
    traits = ((part, part.traits) for part in prepared.attacks)
    parts = (p for p, each in traits if not each.puts_one_name and each.adds_bytes is None)
    return f"{line}no bound: {next(parts).label!r} writes texts of its own"


def _time(victim: Victim, tokens: _Tokens, speed: Speed | None) -> str:
    if speed is None:
        return (
            f"time of {victim.label}: unknown (no earlier run of this model beside the run "
            "folder, nor its answers in the shared cache)"
        )
    seconds = tokens.calls / speed.calls_per_second
    shown = f"{seconds / 3600:,.2g} hours" if seconds >= 360 else f"{seconds:,.2g} seconds"
    return (
        f"time of {victim.label}: at most {shown}, at {speed.calls_per_second:,.3g} calls a second "
        f"(measured over {speed.n_calls:,} calls in {speed.source})"
    )


def _money(
    tokens: Mapping[str, _Tokens], prepared: Prepared, counts: _Counts, folder: Path | None
) -> Iterator[str]:
    """Yield the estimate of money, its bound, and what `max_usd` does."""
    about = roles_about(prepared, len(prepared.victims), counts.attempts)
    prices = prices_of(prepared.experiment.victim)
    priced_roles = all_prices(prepared.experiment).keys() - prices.keys()
    most: float | None = None if priced_roles else 0.0  # what roles read has no bound
    longer = 0.0
    for label, price in prices.items():
        each = tokens[label]
        about += price.usd(each.about_in, each.about_out)
        if each.long_out is not None:
            longer += price.usd(0, max(each.long_out - each.about_out, 0.0))
        if most is not None:
            unbounded = each.most_in is None
            most = None if unbounded else most + price.usd(each.most_in or 0, each.most_out)
    yield from money_lines(
        Spent(
            about=about,
            most=most,
            if_long=about + longer if longer else None,
            n_queries=sum(each.about_queries for each in tokens.values()),
            free=[label for label in tokens if label not in prices],
        ),
        prepared,
        folder,
    )


def _counts(head: str, counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{what} {count:,}" for what, count in counts.items())
    return f"  {head}{listed}"


def _most_checks(traits: AttackTraits, n_queries: int) -> int:
    """Return the most flip checks of one trial.

    The first success is checked and, if a rule may refute it and the search goes on, the first
    success that no rule refutes.
    """
    goes_on = traits.search_on is not SearchOn.NEVER
    return min(2 if goes_on and traits.may_be_refuted else 1, n_queries)
