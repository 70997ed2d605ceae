"""What `[test]` and the roles beside the victim can cost at most, as far as that can be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from medstress.attacks.judges import JUDGE, N_VOTES, is_judge, votes_each
from medstress.attacks.medfuzz import MedFuzz
from medstress.attacks.protocol import AsksInTurns, Attack, n_repeats
from medstress.experiment.config import SignificanceTable
from medstress.experiment.prepared import Prepared
from medstress.experiment.roles import RolePart
from medstress.experiment.significance.plan import most_conversations, most_judged
from medstress.experiment.significance.settings import settings_of
from medstress.experiment.significance.writer import MAX_ROUNDS
from medstress.experiment.spent import all_prices
from medstress.metrics.monte_carlo import LEAST, ControlPlan
from medstress.metrics.significance import Null
from medstress.validity import PANEL

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
                "replies have to be repaired) and, where there are judges, at most 3 to each (5)"
            )
    n_attempts = sum(
        n_trials[part.label] * part.attack.budget
        for part in prepared.attacks
        if part.label in n_trials
    )
    for role in prepared.roles:
        n_written = _n_written(prepared, role.name, sum(n_trials.values()))
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
    if table is None or not table.significance or not table.panel or not is_judge(role):
        return 0
    settings = settings_of(table)
    controls = (
        n_trials[label] * most_judged(attack.attempts, attack.attempts, settings)
        for label, attack in _with_panel(prepared)
    )
    return sum(controls) * N_VOTES


def _n_clean(prepared: Prepared, role: str) -> int:
    """The votes of one judge on clean items: once an item, whatever else is asked about it."""
    prompts = {attack.prompts.hash for _, attack in _with_panel(prepared)}
    return _n_items(prepared) * N_VOTES * len(prompts) if is_judge(role) else 0


def _with_panel(prepared: Prepared) -> list[tuple[str, MedFuzz]]:
    """The attacks on whose edits judges vote, with their labels."""
    return [
        (part.label, part.attack)
        for part in prepared.attacks
        if isinstance(part.attack, MedFuzz) and PANEL in part.attack.gates_on
    ]


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
