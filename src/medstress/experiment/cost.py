"""What an experiment would cost at most, without asking a model anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from medstress.attacks.protocol import (
    AsksInTurns,
    Attack,
    Bounded,
    SearchOn,
    n_repeats,
    needs_entities,
    search_on,
)
from medstress.experiment.parts import GroupPart, undefined_names, victim_labels
from medstress.experiment.prepared import Prepared
from medstress.items import Candidate, Question
from medstress.tasks.multiple_choice import listing
from medstress.tasks.templates import load_template
from medstress.tasks.wrapping import calls_per_query

CHARACTERS_PER_TOKEN = 4


def estimate(prepared: Prepared) -> Iterator[str]:
    """Lines: the exact upper bound of queries, and an estimate of tokens.

    The bound holds whatever the victim answers: every attackable item right at baseline, every
    attack using its whole budget, and every last query a success that is checked again; where
    the search goes on after an invalid success, two successes are checked.
    """
    settings = prepared.experiment.experiment
    n_victims = len(prepared.experiment.victim)
    seeds = {
        part.label: (1 if part.attack.deterministic else len(settings.seeds))
        * n_repeats(part.attack)
        for part in prepared.attacks
    }
    template = load_template(prepared.experiment.victim[0].prompt, prepared.base)
    baseline, perturbed, checks, trials, searches, characters = 0, 0, 0, 0, 0, 0
    for dataset in prepared.datasets:
        asked: set[str] = set()
        for group, part in product(prepared.groups, prepared.attacks):
            if (group.table is None) == needs_entities(part.attack):
                continue
            for item in prepared.items(dataset, group):
                if part.attack.obstacle(item, group.resources) is not None:
                    continue
                size = len(listing(template, Candidate(item=item)))
                n_clean = _clean_questions(part.attack, item, asked, seeds[part.label])
                baseline += n_clean
                characters += n_clean * size
                n = _most_queries(part.attack, item, group)
                trials += seeds[part.label]
                searches += 1
                checks += seeds[part.label] * _most_checks(part.attack, n)
                perturbed += seeds[part.label] * n
                characters += seeds[part.label] * n * size
    checks = checks if settings.flip_check else 0
    analysis = prepared.experiment.analysis
    carried = trials * (n_victims - 1) if analysis.transfer else 0
    universal = searches * max(analysis.universality, default=0)
    total = n_victims * (baseline + perturbed + checks + carried + universal)
    yield f"queries: at most {total:,} (exact bound)"
    yield _counts(
        "", n_victims, {"baseline": baseline, "perturbed": perturbed, "flip checks": checks}
    )
    if carried or universal:
        yield _counts("[analysis]: ", n_victims, {"transfer": carried, "universality": universal})
    yield from _calls_and_tokens(prepared, total // n_victims, characters)
    yield from _roles(prepared, n_victims, seeds)
    told = (undefined_names(group.label, group.perturbations) for group in prepared.groups)
    yield from filter(None, told)
    yield "money and time: unknown (no price or measured speed of these victims)"


def _calls_and_tokens(prepared: Prepared, queries: int, characters: int) -> Iterator[str]:
    """Lines, from the most queries of one victim and the characters of their prompts."""
    calls = _calls_per_query(prepared)
    prompts = zip(calls.values(), prepared.experiment.victim, strict=True)
    tokens = sum(n * (1 + v.shots) for n, v in prompts) * characters // CHARACTERS_PER_TOKEN
    if set(calls.values()) != {1}:
        told = ", ".join(f"{label} {n} a query" for label, n in calls.items())
        yield f"calls: at most {queries * sum(calls.values()):,} ({told})"
    yield (
        f"tokens: about {tokens:,} (estimate: {CHARACTERS_PER_TOKEN} characters a token, "
        "options listed, nothing shared)"
    )


def _clean_questions(attack: Attack, item: Question, asked: set[str], n_runs: int) -> int:
    """How often the clean item is asked: once for all, but anew in every run of an attack that
    asks in turns, which shows other worked questions."""
    if isinstance(attack, AsksInTurns):
        return n_runs
    n = int(item.id not in asked)
    asked.add(item.id)
    return n


def _roles(prepared: Prepared, n_victims: int, runs: Mapping[str, int]) -> Iterator[str]:
    """A line for each attack that asks other roles; how long they reply, nobody knows."""
    for part in prepared.attacks:
        if not isinstance(part.attack, AsksInTurns):
            continue
        n_items = sum(
            len(prepared.items(dataset, group))
            for dataset, group in product(prepared.datasets, prepared.groups)
            if group.table is None
        )
        n = n_victims * n_items * runs[part.label] * part.attack.budget
        yield (
            f"{part.label}: a query takes 3 calls in one conversation, 5 where replies have to be "
            f"repaired; {n:,} attempts at most, each with 2 calls to the attacker (4) and, where "
            "there is a judge, 3 to it (5)"
        )


def _calls_per_query(prepared: Prepared) -> dict[str, int]:
    """The most calls that a query of each victim takes, on the item with the most options."""
    questions = (item for part in prepared.datasets for item in part.questions)
    most = max((len(item.options) for item in questions), default=2)
    tables = prepared.experiment.victim
    return {
        label: (2 if table.answer_by == "text" and table.text_score == "unconditional" else 1)
        * calls_per_query(table.wrap, most)
        for label, table in zip(victim_labels(tables), tables, strict=True)
    }


def _counts(head: str, n_victims: int, counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{what} {n_victims * count:,}" for what, count in counts.items())
    return f"  {head}{told}"


def _most_queries(attack: Attack, item: Question, group: GroupPart) -> int:
    if isinstance(attack, Bounded):
        return attack.most_queries(item, group.resources)
    return min(attack.budget, group.perturbations.allowed(item).size)


def _most_checks(attack: Attack, n_queries: int) -> int:
    """Flip checks of one trial: the first success and, where it may be invalid and the search goes
    on, the first valid one."""
    goes_on = search_on(attack) is not SearchOn.NEVER
    may_be_invalid = getattr(attack, "variants", "mark") == "mark"
    return min(2 if goes_on and may_be_invalid else 1, n_queries)
