"""What `[test]` and the roles beside the victim can cost at most, as far as that can be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from medstress.attacks.medfuzz import JUDGE, MedFuzz
from medstress.attacks.protocol import AsksInTurns, Attack, n_repeats
from medstress.experiment.config import SignificanceTable
from medstress.experiment.prepared import Prepared
from medstress.experiment.roles import RolePart
from medstress.experiment.significance.plan import most_conversations, most_votes
from medstress.experiment.significance.settings import settings_of
from medstress.experiment.significance.writer import MAX_ROUNDS
from medstress.experiment.spent import all_prices
from medstress.metrics.monte_carlo import LEAST, ControlPlan
from medstress.metrics.significance import Null
from medstress.validity import PANEL

PER_ATTEMPT = {"attacker": (2, 5), "judge": (3, 5)}
"""Calls to a role at an attempt, and with all repairs and votes on categories."""


def most_tested(attack: Attack, table: SignificanceTable | None) -> tuple[int, int]:
    """The most conversations of one trial's test, and of its share of the faithfulness slope.

    The trial is taken to be a success at the last attempt, with as many insertions as words may
    be inserted.
    """
    if table is None or not isinstance(attack, MedFuzz):
        return 0, 0
    tests = 0
    if table.significance:
        tests = most_conversations(attack.attempts, attack.attempts, settings_of(table))
    slopes = (attack.max_words + 1) * table.slope_samples if table.faithfulness_slope else 0
    return tests, slopes


def tests_remark(prepared: Prepared) -> str:
    """Why the bound of `[test]` is as large as it is."""
    table = prepared.experiment.test
    assert table is not None
    settings = settings_of(table)
    told = "every trial a success, every loop of controls run to its end"
    tested = [part.attack for part in prepared.attacks if isinstance(part.attack, MedFuzz)]
    if settings.controls.fixed is None and table.significance and tested:
        few = replace(settings, controls=ControlPlan(fixed=LEAST))
        one = max(most_conversations(each.attempts, each.attempts, few) for each in tested)
        told += (
            f", {settings.controls.most} controls each; most tests stop earlier (after {LEAST} "
            f"controls a success has taken at most {one:,})"
        )
    return f"  [test] is bounded by: {told}"


def role_lines(prepared: Prepared, n_victims: int) -> Iterator[str]:
    """What every role may be asked, and what its replies cost at their longest."""
    n_trials = {
        part.label: n_victims * _n_items(prepared) * _n_runs(prepared, part.attack)
        for part in prepared.attacks
        if isinstance(part.attack, AsksInTurns)
    }
    for part in prepared.attacks:
        if isinstance(part.attack, AsksInTurns):
            n = n_trials[part.label] * part.attack.budget
            yield (
                f"{part.label}: at most {n:,} attempts, each with 2 calls to the attacker (5 where "
                "replies have to be repaired) and, where there is a judge, 3 to it (5)"
            )
    n_attempts = sum(
        n_trials[part.label] * part.attack.budget
        for part in prepared.attacks
        if part.label in n_trials
    )
    for role in prepared.roles:
        n_written = _n_written(prepared, role.name, sum(n_trials.values()))
        n_for_controls = n_written + _n_votes(prepared, role.name, n_trials)
        n = n_attempts * PER_ATTEMPT[role.name][1] + n_for_controls
        yield _role(role, n, n_for_controls, prepared)
    yield from _mentions(prepared)


def _n_items(prepared: Prepared) -> int:
    return sum(
        len(prepared.items(dataset, group))
        for dataset, group in product(prepared.datasets, prepared.question_groups)
        if group.table is None
    )


def _n_runs(prepared: Prepared, attack: Attack) -> int:
    return len(prepared.experiment.experiment.seeds) * n_repeats(attack)


def _n_written(prepared: Prepared, role: str, n_trials: int) -> int:
    """The most calls for controls that a role writes."""
    table = prepared.experiment.test
    if table is None or not table.significance or role != "attacker":
        return 0
    settings = settings_of(table)
    if settings.null is Null.PARAPHRASE or (
        settings.generator == "attacker" and settings.null is Null.NEUTRAL
    ):
        return n_trials * settings.controls.most * MAX_ROUNDS
    looped = settings.null in (Null.MATCHED, Null.FLIPPED, Null.BEST_OF_K)
    return n_trials * LEAST * MAX_ROUNDS if settings.generator == "attacker" and looped else 0


def _n_votes(prepared: Prepared, role: str, n_trials: Mapping[str, int]) -> int:
    """The most votes of judges on controls."""
    table = prepared.experiment.test
    if table is None or not table.significance or not table.panel or role != JUDGE:
        return 0
    settings = settings_of(table)
    return sum(
        n_trials[part.label] * most_votes(part.attack.attempts, part.attack.attempts, settings)
        for part in prepared.attacks
        if isinstance(part.attack, MedFuzz) and PANEL in part.attack.gates_on
    )


def _role(role: RolePart, n: int, n_for_controls: int, prepared: Prepared) -> str:
    longest = n * role.decoding.max_new_tokens
    controls = f", {n_for_controls:,} of them for controls" if n_for_controls else ""
    told = (
        f"role {role.name}: at most {n:,} calls{controls}, and {longest:,} tokens written "
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
    if table is None or not any(role.name == "judge" for role in prepared.roles):
        return
    if table.faithfulness:
        yield (
            "faithfulness: further 3 calls to the judge for each insertion that a victim saw, and "
            "for each of up to 5 sentences of a vignette"
        )
    if table.faithfulness_slope:
        yield f"faithfulness slope: further {table.slope_samples} calls to the judge an insertion"
