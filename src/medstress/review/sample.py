"""A seeded random sample of what a run found, and the population that it stands for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.metrics.controls import is_control
from medstress.metrics.counts import is_flipped
from medstress.results.load import StoredRun
from medstress.results.reviewed import JUDGE, is_judgeable
from medstress.results.rows import trial_rows
from medstress.store.codec import decode_edits
from medstress.store.prompts import Prompts
from medstress.store.reviews import SECOND_ANSWER

DEFAULT = 50
"""Cases of a sample if nothing else is asked for."""
NO_SECOND = (
    " (none with a second right answer: no list of synonyms has another name of a right answer)"
)
ANSWER, ADJUDICATE = "answer", "adjudicate"
_ARM = ("dataset", "group", "victim", "attack")


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
        unit = item.units()[0]
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
