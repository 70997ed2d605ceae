"""What `[test]` and the roles beside the victim can cost at most, as far as that can be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from medstress.attacks.judges import JUDGE, N_VOTES, is_judge, votes_each
from medstress.attacks.medfuzz import MedFuzz
from medstress.attacks.protocol import Attack
from medstress.experiment.config import SignificanceTable
from medstress.experiment.prepared import Prepared
from medstress.experiment.roles import RolePart
from medstress.experiment.significance.bounds import Bound, bound_of
from medstress.experiment.significance.settings import settings_of
from medstress.experiment.significance.writer import MAX_ROUNDS
from medstress.experiment.spent import all_prices
from medstress.metrics.hardness import Statistic

PER_ATTEMPT = {"attacker": 5, JUDGE: N_VOTES + 2}
"""Calls to a role at an attempt, with all repairs and votes on categories."""


def most_tested(attack: Attack, table: SignificanceTable | None) -> tuple[int, int]:
    """The most conversations of one trial's test, and of its share of the faithfulness slope.

    The trial is taken to be a success at the last attempt, with as many insertions as words may
    be inserted.
    """
    if table is None or not isinstance(attack, MedFuzz):
        return 0, 0
    tests = 0
    if table.significance:
        tests = _bound(attack, table).n_conversations
    slopes = (attack.max_words + 1) * table.slope_samples if table.faithfulness_slope else 0
    return tests, slopes


def _bound(attack: MedFuzz, table: SignificanceTable, *, votes: int = 0) -> Bound:
    return bound_of(attack.attempts, attack.attempts, settings_of(table), votes=votes)


def tests_remark(prepared: Prepared) -> str:
    """Why the bound of `[test]` is as large as it is."""
    table = prepared.experiment.test
    assert table is not None
    settings = settings_of(table)
    told = "every trial a success, every loop of controls run to its end"
    tested = [part.attack for part in prepared.attacks if isinstance(part.attack, MedFuzz)]
    if table.significance and tested:
        costs = [
            settings.cost(attack.attempts, attack.attempts, statistic)
            for attack in tested
            for statistic in Statistic
        ]
        most = max(settings.plan(cost).most for cost in costs)
        told += f", up to {most} controls a success"
        if settings.max_calls is not None:
            told += f" for max_calls = {settings.max_calls}"
    return f"  [test] is bounded by: {told}"


def role_lines(prepared: Prepared, n_victims: int) -> Iterator[str]:
    """What every role may be asked, and what its replies cost at their longest."""
    n_trials = {
        part.label: n_victims * _n_items(prepared) * _n_runs(prepared, part.attack)
        for part in prepared.attacks
        if part.traits.in_turns
    }
    for part in prepared.attacks:
        if part.traits.in_turns:
            n = n_trials[part.label] * part.traits.budget
            yield (
                f"{part.label}: at most {n:,} attempts, each with 2 calls to the attacker (5 where "
                "replies have to be repaired) and, where there are judges, at most 3 to each (5)"
            )
    n_attempts = sum(
        n_trials[part.label] * part.traits.budget
        for part in prepared.attacks
        if part.label in n_trials
    )
    for role in prepared.roles:
        n_written = _n_written(prepared, role.name, n_trials)
        n_for_controls = n_written + _n_votes(prepared, role.name, n_trials)
        n_clean = _n_clean(prepared, role.name)
        per_attempt = PER_ATTEMPT[JUDGE if is_judge(role.name) else role.name]
        n = n_attempts * per_attempt + n_clean + n_for_controls
        parts = {"about clean items": n_clean, "for controls": n_for_controls}
        yield _role(role, n, parts, prepared)
    yield from _mentions(prepared)


def _n_items(prepared: Prepared) -> int:
    return sum(
        len(prepared.items(dataset, group))
        for dataset, group in product(prepared.datasets, prepared.question_groups)
        if group.table is None
    )


def _n_runs(prepared: Prepared, attack: Attack) -> int:
    return len(prepared.experiment.experiment.seeds) * attack.traits.repeats


def _n_written(prepared: Prepared, role: str, n_trials: Mapping[str, int]) -> int:
    """The most calls for controls that a role writes."""
    return MAX_ROUNDS * sum(
        n_trials[label] * bound.n_written
        for label, bound in _bounds(prepared)
        if role == "attacker"
    )


def _n_votes(prepared: Prepared, role: str, n_trials: Mapping[str, int]) -> int:
    """The most votes of judges on controls."""
    votes = N_VOTES if is_judge(role) else 0
    return sum(n_trials[label] * bound.n_votes for label, bound in _bounds(prepared, votes))


def _n_clean(prepared: Prepared, role: str) -> int:
    """The votes of one judge on clean items: once an item, whatever else is asked about it."""
    attacks = [part.attack for part in prepared.attacks]
    prompts = {a.prompts.hash for a in attacks if isinstance(a, MedFuzz) and a.has_panel}
    return _n_items(prepared) * N_VOTES * len(prompts) if is_judge(role) else 0


def _bounds(prepared: Prepared, votes: int = 0) -> Iterator[tuple[str, Bound]]:
    """The bound of one test of every attack, by label; `votes` are those on one control."""
    table = prepared.experiment.test
    if table is None or not table.significance:
        return
    for part in prepared.attacks:
        if isinstance(part.attack, MedFuzz):
            judged = table.panel and part.attack.has_panel
            yield part.label, _bound(part.attack, table, votes=votes if judged else 0)


def _role(role: RolePart, n: int, parts: Mapping[str, int], prepared: Prepared) -> str:
    longest = n * role.decoding.max_new_tokens
    of_them = "".join(f", {count:,} of them {what}" for what, count in parts.items() if count)
    told = (
        f"role {role.name}: at most {n:,} calls{of_them}, and {longest:,} tokens written "
        f"(max_new_tokens = {role.decoding.max_new_tokens})"
    )
    price = all_prices(prepared.experiment).get(role.label)
    if price is None:
        return f"{told}; money: unknown (no price_in and price_out)"
    return (
        f"{told}, ${price.usd(0, longest):,.2f}; what it reads grows with its conversation and is "
        f"not bounded (${price.usd_in:g} for a million tokens)"
    )


def _mentions(prepared: Prepared) -> Iterator[str]:
    table = prepared.experiment.test
    n_judges = sum(is_judge(role.name) for role in prepared.roles)
    if table is None or not n_judges:
        return
    if table.faithfulness:
        yield (
            f"faithfulness: further {n_judges * votes_each(n_judges)} votes of judges for each "
            "insertion that a victim saw, and for each of up to 5 sentences of a vignette"
        )
    if table.faithfulness_slope:
        yield f"faithfulness slope: further {table.slope_samples} votes of judges an insertion"
