"""Upper bounds of the cost of `[test]` and of the roles, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from medstress.analyses.families import Statistic
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.controls.written_paraphrases import ROLE as PARAPHRASER
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.medfuzz.judges import JUDGE, N_VOTES, is_judge, votes_each
from medstress.attacks.protocol import Attack
from medstress.costs.money import dollars
from medstress.experiment.file.config import SignificanceTable
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.roles import RolePart
from medstress.experiment.plan.spending import all_prices
from medstress.significance.bounds import Bound, bound_of
from medstress.significance.settings import settings_of
from medstress.significance.writer import MAX_ROUNDS

PER_ATTEMPT = {"attacker": 5, JUDGE: N_VOTES + 2}
"""Most calls to a role in one attempt, with all repairs and votes on categories."""


READ_BY_ROLE, WRITTEN_BY_ROLE = 1_200, 150
"""Usual tokens that a call to a role reads (rules, question, conversation) and writes (JSON)."""


def most_tested(attack: Attack, table: SignificanceTable | None) -> int:
    """Return the most conversations that the test of one trial takes; it assumes a success."""
    if table is None or not table.significance or not isinstance(attack, MedFuzz):
        return 0
    return _bound(attack, table).n_conversations


def _bound(attack: MedFuzz, table: SignificanceTable, *, votes: int = 0) -> Bound:
    return bound_of(attack.attempts, settings_of(table), votes=votes)


def tests_remark(prepared: Prepared) -> str:
    """Explain the assumptions of the bound of `[test]`."""
    table = prepared.experiment.test
    assert table is not None
    settings = settings_of(table)
    assumed = "every trial is a success, every loop of controls runs to its end"
    tested = [part.attack for part in prepared.attacks if isinstance(part.attack, MedFuzz)]
    if table.significance and tested:
        costs = [
            settings.cost(attack.attempts, statistic)
            for attack in tested
            for statistic in Statistic
        ]
        most = max(settings.plan(cost).most for cost in costs)
        assumed += f", each success has up to {most} controls"
        if settings.max_calls is not None:
            assumed += f" for max_calls = {settings.max_calls}"
    return f"  the bound of [test] assumes: {assumed}"


def role_lines(prepared: Prepared, n_victims: int, attempts: float) -> Iterator[str]:
    """Yield lines on the most calls to every role and the most that its replies cost.

    Args:
        prepared: the experiment.
        n_victims: how many victims it has.
        attempts: the expected attempts of all attacks that ask roles.
    """
    # Control arms share the conversation of their attack and ask no role.
    attacks = [
        part
        for part in prepared.attacks
        if part.traits.in_turns and not isinstance(part.attack, ControlArm)
    ]
    n_trials = {
        part.label: n_victims * _n_items(prepared) * _n_runs(prepared, part.attack)
        for part in attacks
    }
    n_attempts = 0
    for part in attacks:
        n = n_trials[part.label] * part.traits.budget
        n_attempts += n
        yield (
            f"{part.label}: at most {n:,} attempts, each with 2 calls to the attacker (5 with "
            "repaired replies) and at most 3 calls to each judge (5 with repaired replies)"
        )
    for role in prepared.roles:
        n_written = _n_written(prepared, role.name, n_trials)
        n_for_controls = n_written + _n_votes(prepared, role.name, n_trials)
        n_clean = _n_clean(prepared, role.name)
        per_attempt = PER_ATTEMPT.get(JUDGE if is_judge(role.name) else role.name, 0)
        n_for_controls += _n_paraphrases(prepared, role.name, n_victims)
        n = n_attempts * per_attempt + n_clean + n_for_controls
        parts = {"about clean items": n_clean, "for controls": n_for_controls}
        yield _role(role, n, parts, prepared, _role_about(prepared, role, n_victims, attempts))
    yield from _mentions(prepared)


def roles_about(prepared: Prepared, n_victims: int, attempts: float) -> float:
    """Return the expected price of all roles in US dollars, as far as they have prices."""
    roles = prepared.roles
    return sum(_role_about(prepared, role, n_victims, attempts) or 0.0 for role in roles)


def _role_about(
    prepared: Prepared, role: RolePart, n_victims: int, attempts: float
) -> float | None:
    """Return the expected price of a role; None without a price.

    An attempt asks the attacker twice and a judge three times, without repairs; paraphrases count
    in full, controls of `[test]` not at all.
    """
    price = all_prices(prepared.experiment).get(role.label)
    if price is None:
        return None
    per_attempt = {"attacker": 2, JUDGE: N_VOTES}.get(JUDGE if is_judge(role.name) else role.name)
    n = attempts * (per_attempt or 0) + _n_clean(prepared, role.name)
    n += _n_paraphrases(prepared, role.name, n_victims)
    return price.usd(n * READ_BY_ROLE, n * min(WRITTEN_BY_ROLE, role.decoding.max_new_tokens))


def _n_paraphrases(prepared: Prepared, role: str, n_victims: int) -> int:
    """Return the most paraphrases that a role writes: one a query."""
    per_item = sum(
        part.traits.budget * _n_runs(prepared, part.attack)
        for part in prepared.attacks
        if role in part.traits.roles and role == PARAPHRASER
    )
    return n_victims * _n_items(prepared) * per_item


def _n_items(prepared: Prepared) -> int:
    return sum(
        len(prepared.items(dataset, group))
        for dataset, group in product(prepared.datasets, prepared.question_groups)
        if group.table is None
    )


def _n_runs(prepared: Prepared, attack: Attack) -> int:
    return len(prepared.experiment.experiment.seeds) * attack.traits.repeats


def _n_written(prepared: Prepared, role: str, n_trials: Mapping[str, int]) -> int:
    """Return the most calls that write controls."""
    return MAX_ROUNDS * sum(
        n_trials[label] * bound.n_written
        for label, bound in _bounds(prepared)
        if role == "attacker"
    )


def _n_votes(prepared: Prepared, role: str, n_trials: Mapping[str, int]) -> int:
    """Return the most votes of judges on controls."""
    votes = N_VOTES if is_judge(role) else 0
    return sum(n_trials[label] * bound.n_votes for label, bound in _bounds(prepared, votes))


def _n_clean(prepared: Prepared, role: str) -> int:
    """Return the votes of one judge on clean items: each is judged once with each prompt set."""
    attacks = [part.attack for part in prepared.attacks]
    prompts = {a.prompts.hash for a in attacks if isinstance(a, MedFuzz) and a.has_panel}
    return _n_items(prepared) * N_VOTES * len(prompts) if is_judge(role) else 0


def _bounds(prepared: Prepared, votes: int = 0) -> Iterator[tuple[str, Bound]]:
    """Yield (label, bound of one test) of every attack; `votes` is the number on one control."""
    table = prepared.experiment.test
    if table is None or not table.significance:
        return
    for part in prepared.attacks:
        if isinstance(part.attack, MedFuzz):
            judged = votes if part.attack.has_panel else 0
            yield part.label, _bound(part.attack, table, votes=judged)


def _role(
    role: RolePart, n: int, parts: Mapping[str, int], prepared: Prepared, about: float | None
) -> str:
    most_written = n * role.decoding.max_new_tokens
    of_them = "".join(f", {count:,} of them {what}" for what, count in parts.items() if count)
    line = (
        f"role {role.name}: at most {n:,} calls{of_them}, and {most_written:,} tokens written "
        f"(max_new_tokens = {role.decoding.max_new_tokens})"
    )
    price = all_prices(prepared.experiment).get(role.label)
    if price is None:
        return f"{line}; money: unknown (no price_in and price_out)"
    return (
        f"{line}, ${price.usd(0, most_written):,.2f}; tokens read grow with the conversation and "
        f"have no bound (${price.usd_in:g} per million tokens); about {dollars(about or 0.0)} in "
        "all (estimate)"
    )


def _mentions(prepared: Prepared) -> Iterator[str]:
    table = prepared.experiment.test
    n_judges = sum(is_judge(role.name) for role in prepared.roles)
    if table is None or not n_judges:
        return
    if table.faithfulness:
        yield (
            f"faithfulness: {n_judges * votes_each(n_judges)} more votes of judges for each "
            "insertion that a victim saw, and for each of up to 5 sentences of a vignette"
        )
