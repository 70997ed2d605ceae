"""A seeded random sample of what a run found, and the population that it stands for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.experiment.plan import manifest as manifests
from medstress.kinds import kind_of
from medstress.metrics.controls import is_control
from medstress.metrics.counts import is_flipped
from medstress.results.load import StoredRun
from medstress.results.reviewed import JUDGE, SHEET, is_judgeable
from medstress.results.rows import trial_rows
from medstress.results.stored_prompts import Prompts
from medstress.review.blinding import code
from medstress.store.codec import decode_edits
from medstress.store.review_store import ReviewStore
from medstress.store.reviews import SECOND_ANSWER

DEFAULT = 50
"""Cases of a sample if nothing else is asked for."""
NO_SECOND = (
    " (none with a second right answer: no list of synonyms has another name of a right answer)"
)
ANSWER, ADJUDICATE = "answer", "adjudicate"
_ARM = ("dataset", "group", "victim", "attack")
Arm: TypeAlias = Mapping[str, Any]
"""An arm's parts and `n`, its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawable:
    """One attacked trial that a sample may hold."""

    trial_id: str
    """The trial."""
    dataset: str
    """Label of its data set."""
    item_id: str
    """Its item."""
    unit: str
    """The part of the item that it is about."""
    edits: tuple[Edit, ...]
    """What the attack did."""
    arm: tuple[str, str, str, str]
    """Data set, group, victim and attack."""
    hides_passage: bool = False
    """Whether the item has a passage that the victim's prompt left out: raters get none either."""


def population(run: StoredRun, mode: str) -> list[Drawable]:
    """Return what is drawn from, in the order of trials.

    To judge: every success whose key may still be right. To answer: every trial that showed the
    victim an edit, held or flipped, because successes alone would be chosen by the model's errors.
    """
    drawable = _maker(run)
    if mode == JUDGE:
        found = filter(is_judgeable, trial_rows(run))
        return [drawable(row, decode_edits(row.edits)) for row in found]
    rows = [row for row in trial_rows(run) if not is_control(row) and _has_key(row)]
    last = _last_edits(run)
    met = []
    for row in rows:
        edits = decode_edits(row.edits) if is_flipped(row) else last.get(row.trial_id, ())
        if edits and row.verdict in (Verdict.FLIPPED, Verdict.HELD):
            met.append(drawable(row, edits))
    return met


def draw(found: Sequence[Drawable], n: int, seed: int) -> list[Drawable]:
    """Draw n trials without replacement, all equally likely.

    Each is ranked by a hash of the seed and its id: the draw does not depend on the order, and a
    larger sample of the same seed holds the smaller one.

    Raises:
        UsageError: n is below 1.
    """
    if n < 1:
        raise UsageError(f"--sample {n}: expected a number of cases, at least 1")
    return sorted(found, key=lambda one: digest([seed, one.trial_id]))[:n]


def one_of_each_item(found: Sequence[Drawable], seed: int) -> list[Drawable]:
    """Return one trial of every item and unit, drawn by the same rank."""
    of_item: dict[tuple[str, str, str], list[Drawable]] = defaultdict(list)
    for one in found:
        of_item[one.dataset, one.item_id, one.unit].append(one)
    return [draw(rows, 1, seed)[0] for rows in of_item.values()]


def by_arm(found: Sequence[Drawable]) -> list[dict[str, Any]]:
    """Count trials by arm, so that a later estimate can weight what was drawn."""
    counts = Counter(one.arm for one in found)
    return [{**dict(zip(_ARM, arm, strict=True)), "n": counts[arm]} for arm in sorted(counts)]


def _has_key(row: TrialRow) -> bool:
    return row.key != "" and row.validity_reason != EVIDENCE_CHANGED


def _maker(run: StoredRun) -> Callable[[TrialRow, tuple[Edit, ...]], Drawable]:
    items, prompts = run.items_by_id(), Prompts(run.manifest)

    def make(row: TrialRow, edits: tuple[Edit, ...]) -> Drawable:
        has_passage = bool(getattr(items[row.dataset, row.item_id], "passage", ""))
        hides = has_passage and prompts.hides_passages(row.victim, row.dataset)
        return _drawable(row, edits, hides)

    return make


def _drawable(row: TrialRow, edits: tuple[Edit, ...], hides_passage: bool) -> Drawable:
    return Drawable(
        trial_id=row.trial_id,
        dataset=row.dataset,
        item_id=row.item_id,
        unit=row.unit,
        edits=edits,
        arm=(row.dataset, row.group, row.victim, row.attack),
        hides_passage=hides_passage,
    )


def _last_edits(run: StoredRun) -> dict[str, tuple[Edit, ...]]:
    """Return trial -> its last edit, unless that changes nothing."""
    numbers, items = run.trial_numbers(), run.items()
    last = {trial: edits for trial, _, edits in run.attack_edits() if trial in numbers}
    found = {}
    for trial, text in last.items():
        name, row = numbers[trial]
        item, edits = items[row][1], decode_edits(text)
        unit = kind_of(item).units(item)[0]
        if any(unit.replaced(edit) != edit.replacement for edit in edits):
            found[name] = edits
    return found


def described(body: Mapping[str, Any]) -> str:
    """Return one sentence about a drawn sample."""
    what = "successes" if body["mode"] == JUDGE else "attacked items"
    n = sum(body["planted"].values())
    texts = len(body["cases"]) - n if body["mode"] == JUDGE else len(body["cases"]) // 2
    none = "" if body["planted"].get(SECOND_ANSWER) or n < 4 else NO_SECOND
    return (
        f"{body['drawn']} of {body['population']} {what} (seed {body['seed']}): {texts} different "
        f"texts, and {n} planted controls{none}"
    )


_TOO_RARE = 1e-3
"""Probability below which a draw is called odd."""


def odd_draw(population: Sequence[Arm], drawn: Sequence[Arm]) -> str | None:
    """Say of a sample that chance hardly draws from the arms as it has them; None if it may be.

    By the hypergeometric tails of each arm's count, times two and the number of arms (Bonferroni).
    """
    from scipy.stats import hypergeom

    counts = {_arm(each): int(each["n"]) for each in drawn}
    n, total = sum(counts.values()), sum(int(each["n"]) for each in population)
    for each in population:
        of_arm, met = int(each["n"]), counts.get(_arm(each), 0)
        tails = hypergeom.cdf(met, total, of_arm, n), hypergeom.sf(met - 1, total, of_arm, n)
        if min(tails) * 2 * len(population) < _TOO_RARE:
            return (
                f"a sheet is said to be drawn at random from {total} successes, but {met} of its "
                f"{n} are of {each['attack']}, {each['group']}, which has {of_arm}: chance hardly "
                "draws so"
            )
    return None


def _arm(counted: Arm) -> tuple[str, ...]:
    return tuple(counted[name] for name in _ARM)


def keep_told_sample(run: StoredRun, store: ReviewStore, drawn: Sequence[str], seed: int) -> None:
    """Keep that a sheet's trials were drawn at random outside, as its maker says.

    Args:
        run: the run.
        store: its reviews.
        drawn: the trial of every row of the sheet, whether it was judged or not: leaving out what
            a rater left blank would flatter.
        seed: with which they were drawn; kept with the sample, so that others can ask.

    Raises:
        UsageError: the seed is negative, or some are no successes, so they are no sample of these.
    """
    if seed < 0:
        raise UsageError(f"--drawn-at-random {seed}: expected the seed of the draw, 0 or more")
    all_of_them = population(run, JUDGE)
    of_run = {one.trial_id for one in all_of_them}
    trials = sorted(set(drawn))
    if odd := [trial for trial in trials if trial not in of_run]:
        raise UsageError(
            f"--drawn-at-random: expected a sample of the run's {len(of_run)} successes, and "
            f"{odd[0]} is none of them; leave such rows out"
        )
    chosen = [one for one in all_of_them if one.trial_id in set(trials)]
    body = {
        "mode": SHEET,
        "seed": seed,
        "sample": len(trials),
        "drawn": len(trials),
        "population": len(of_run),
        "arms": by_arm(all_of_them),
        "planted": {},
        "complete": bool(run.manifest.get("complete")),
        "time": manifests.now(),
        "remark": odd_draw(by_arm(all_of_them), by_arm(chosen)),
        "cases": [{"id": f"{SHEET}/{trial}", "trials": [trial]} for trial in trials],
    }
    store.add_room(code(store.key(), "room", SHEET, seed, trials, len(of_run)), body)
