"""What one model's successes do to another, and names that keep succeeding on other items.

Both are read from questions that were asked after the trials.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from medstress.analyses.run import Analysis, Cell, Reading, Run, share_of
from medstress.analyses.shown import (
    Chart,
    Entry,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    as_entry,
    attack_labels,
    column,
    label,
    named,
    panel,
    table,
)
from medstress.core.arms import Place
from medstress.core.hashing import content_hash
from medstress.core.outcomes import Outcome
from medstress.core.text import edits_of
from medstress.core.trials import Success, Trial
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.shares import number_units
from medstress.store.reader import StoredInquiry

PURPOSE, _CHECKED = "transfer", "asked again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One model's successes under one attack, asked of another model.

    transfer = n_reached / n_asked. The diagonal, `source` = `target`, is the flip check: the same
    model asked again, alone.
    """

    dataset: str
    group: str
    attack: str
    source: str
    """The model that the attack succeeded on."""
    target: str
    """The model that was asked."""
    n_successes: int
    n_right: int
    """Of these, those on items that the target has right."""
    n_items: int
    """Their items."""
    n_asked: int
    """Those that the target answered."""
    n_open: int
    """Those that it was asked without an answer."""
    n_reached: int
    """Answers that reach the goal of the attack."""
    n_wrong: int | None
    """Wrong answers; None where the flip check does not say which they were."""
    n_unreadable: int | None
    transfer: Estimate
    """n_reached / n_asked; at worst unreadable answers and missing ones reach the goal too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Shown):
    """Every ordered pair of models under every attack."""

    rows: Sequence[Carried]
    title = "Transfer"

    def tables(self) -> Sequence[Table]:
        """One line for each pair of models."""
        notes = [
            "Of the successes on one model, those that also mislead another which has the item "
            "right. A model asked about its own successes is the flip check."
        ]
        caption = "Successes on one model, asked of another"
        return [table("transfer", caption, self.rows, FIELDS, notes=notes)]

    def charts(self) -> Sequence[Chart]:
        """A matrix for each attack: the model of the row misled, the model of the column asked."""
        if len({row.target for row in self.rows}) < 2:
            return ()
        several = len({(row.dataset, row.group) for row in self.rows}) > 1
        points = [
            Point(
                row.target,
                row.transfer,
                row.source,
                label(row.attack).words + f", {row.group}, {row.dataset}" * several,
                f"{row.n_reached:,} of {row.n_asked:,}",
            )
            for row in self.rows
            if row.transfer.value is not None
        ]
        title = "Share of successes on the model of the row that mislead that of the column"
        y = "share that carries over"
        return [Chart("transfer", title, "heat", "asked of", y, points, by_model=True)]

    def remarks(self) -> Iterator[Remark]:
        """Say what a reader of the shares has to know."""
        others = [row for row in self.rows if row.source != row.target]
        if not others:
            yield Remark(
                "one_model",
                "[analysis] transfer needs two models or more; with one it only repeats the flip "
                "check.",
            )
        for target in sorted({row.target for row in others}):
            rows = [row for row in others if row.target == target]
            if n_open := sum(row.n_open for row in rows):
                sentence = (
                    f"{n_open:,} successes on other models were asked of {target} without an "
                    "answer; run again with --retry-failed."
                )
                yield Remark("not_answered", sentence, (target,))


def transfer_of(run: Run) -> Transfer | None:
    """Read every pair of models; None where no transfer was asked for.

    transfer[i, j] = #{successes of i that reach the attack's goal on j} / #{successes of i on items
    that j has right, which j answered}. Every seed's trial counts.
    """
    answers = answers_of(run)
    if not answers and not run.manifest["config"].get("analysis", {}).get(PURPOSE):
        return None
    right, rows = right_on(run), []
    models: dict[str, set[str]] = defaultdict(set)
    for cell in run.attacks:
        models[cell.place.dataset].add(cell.place.victim)
    for cell in sorted(run.attacks, key=lambda c: (*c.place[:2], c.attack.label, c.place.victim)):
        won = [(trial, trial.first) for trial in cell.trials if trial.first is not None]
        for target in sorted(models[cell.place.dataset]) if won else ():
            on_target = right.get((cell.place.dataset, target), frozenset())
            rows.append(_carried(cell, target, won, on_target, answers))
    return Transfer(rows=rows)


TRANSFER = Analysis(PURPOSE, transfer_of)


def answers_of(run: Run) -> dict[tuple[str, str], StoredInquiry]:
    """Return (trial, model that was asked) -> the inquiry, answered if there is one that is."""
    answers: dict[tuple[str, str], StoredInquiry] = {}
    for one in run.inquiries(PURPOSE):
        key = one.spec["trial"], one.victim
        if one.outcomes or key not in answers:
            answers[key] = one
    return answers


def right_on(run: Run) -> dict[tuple[str, str], frozenset[tuple[str, str]]]:
    """Return (data set, model) -> (item, part) that it answers right, over groups and attacks."""
    right: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for trial in run.trials:
        if trial.is_eligible and not trial.arm.is_control:
            place = trial.arm.place
            right[place.dataset, place.victim].add((trial.item.id, trial.unit))
    return {place: frozenset(items) for place, items in right.items()}


def _carried(
    cell: Cell,
    target: str,
    won: Sequence[tuple[Trial, Success]],
    right: frozenset[tuple[str, str]],
    answers: Mapping[tuple[str, str], StoredInquiry],
) -> Carried:
    """Count what became of the successes on a model that were asked of another, or of itself.

    The flip check says whether the goal was reached again, not by which answer: only where exactly
    the wrong answers reach it.
    """
    is_check = target == cell.place.victim
    fits = [one for one in won if is_check or (one[0].item.id, one[0].unit) in right]
    asked: list[tuple[Trial, str | None, bool]] = []
    for trial, first in fits:
        answer = answers.get((trial.id, target))
        if is_check:
            if first.repeats is not None:
                asked.append((trial, _CHECKED, first.repeats))
        # A retry may have changed the success since.
        elif answer and edits_of(json.loads(answer.spec["edits"])) == first.edits:
            outcome = answer.outcomes[0] if answer.outcomes else None
            asked.append((trial, outcome, bool(answer.reached)))
    outcomes = Counter(outcome for _, outcome, _ in asked)
    has_answer = np.array([outcome is not None for _, outcome, _ in asked], dtype=bool)
    is_open = [outcome in (None, Outcome.UNREADABLE) for _, outcome, _ in asked]
    is_read = ~np.array(is_open, dtype=bool)
    reached = np.array([is_reached for *_, is_reached in asked], dtype=bool) & has_answer
    share = Reading(
        counts=has_answer,
        hit=reached,
        may_count=np.ones(len(asked), dtype=bool),
        least=reached & is_read,
        most=reached | ~is_read,
    )
    transfer = share_of(share, number_units([trial.path for trial, *_ in asked]))
    n_wrong: int | None = outcomes[Outcome.WRONG]
    if is_check:
        by_wrong = not cell.attack.params.get("unreadable_is_success")
        is_known = by_wrong and cell.attack.goal == "untargeted"
        n_wrong = int(reached.sum()) if is_known else None
        if not asked:
            transfer = unknown("no success was asked again: flip_check = false")
    return Carried(
        dataset=cell.place.dataset,
        group=cell.place.group,
        attack=cell.attack.label,
        source=cell.place.victim,
        target=target,
        n_successes=len(won),
        n_right=len(fits),
        n_items=len({trial.item.id for trial, _ in fits}),
        n_asked=int(has_answer.sum()),
        n_open=outcomes[None],
        n_reached=int(reached.sum()),
        n_wrong=n_wrong,
        n_unreadable=None if is_check else outcomes[Outcome.UNREADABLE],
        transfer=transfer,
    )


def _carry_over(row: Carried) -> Entry:
    is_check = row.source == row.target
    return Entry(value=row.transfer, lines=("flip check",)) if is_check else as_entry(row.transfer)


FIELDS = (
    named("Attack", "attack"),
    named("Model misled", "source"),
    named("Model asked", "target"),
    named("Data", "dataset", wide=True),
    named("Group", "group", wide=True),
    column("Successes", "n_successes", "count"),
    column("Right", "n_right", "count", "on items that the other model has right"),
    column("Carry over", _carry_over, "share"),
    column("Wrong", "n_wrong", "count", wide=True),
    column("Unreadable", "n_unreadable", "count", wide=True),
)

# Reusable names --------------------------------------------------------------------------------

REUSED = "reuse"
"""What questions about reusable names are stored as, and their setting is called."""
FOLDS = 5
LISTED = 20
"""Names listed an attack."""
OVERLAPS = (5, 10, 20)
"""Lengths of the lists that are compared between models."""
PERSISTENCE = 0.9
"""p of rank-biased overlap: the first ten places carry 86 % of the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A name, and how often it succeeded."""

    name: str
    """Case-folded."""
    n_successes: int
    n_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(OfAttack):
    """The names that succeed most, read off the successes themselves."""

    names: Sequence[Ranked]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The top m names of two models under one attack."""

    dataset: str
    group: str
    attack: str
    victim: str
    against: str
    m: int
    jaccard: float | None
    rank_biased_overlap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused(OfAttack):
    """Share of the eligible items that the top m names flip, ranked on other items and asked."""

    m: int
    n_items: int
    """Eligible items."""
    n_never_asked: int
    """Of these, those that no name was put into: none succeeded elsewhere, or none is allowed."""
    n_unanswered: int
    """Those with a call that failed before it was decided."""
    reuse: Estimate
    """Flipped / decided; at worst unreadable answers and missing ones flip too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(Shown):
    """Reusable names."""

    names: Sequence[Listed]
    overlap: Sequence[Overlap]
    asked: Sequence[Reused]
    title = "Reusable names"

    def tables(self) -> Sequence[Table]:
        """What was asked on other items, then the lists, and what models share."""
        lines = [(row, name) for row in self.names for name in row.names if name.n_items > 1]
        fifths = (
            "The names that succeed most on four fifths of the items, put into the items of the "
            "last fifth, in the span that the attack chose there, and asked."
        )
        counted = "Counted on the successes that rank them; names that flip one item are left out."
        flipped = "Items that the top m names of other items flip"
        several = "Names that succeed on several items"
        return [
            table("reuse", flipped, self.asked, _REUSED, notes=[fifths]),
            table("names", several, lines, _NAMES, notes=[counted]),
            table("overlap", "Top names that two models share", self.overlap, _OVERLAP),
        ]

    def charts(self) -> Sequence[Chart]:
        """Share of items flipped against m."""
        points = [
            Point(row.m, row.reuse, row.attack, panel(row, self.asked))
            for row in self.asked
            if row.reuse.value is not None
        ]
        title, x = "Items that the top names of other items flip", "names that were put in (m)"
        return [Chart("reuse", title, "lines", x, "share of items flipped", points)]

    def remarks(self) -> Sequence[Remark]:
        """Say which calls failed."""
        return [
            Remark(
                "not_answered",
                f"{label(row.attack).words}: {row.n_unanswered:,} items have a reusable name "
                "without an answer; run again with --retry-failed.",
                (*row.place, row.attack),
            )
            for row in self.asked
            if row.n_unanswered
        ]


def reuse_of(run: Run) -> Reuse | None:
    """Rank names, compare lists, and read what was asked; None where no attack draws names."""
    cells = [cell for cell in run.attacks if cell.attack.draws_names and cell.eligible.any()]
    if not cells:
        return None
    settings: Mapping[str, Any] = run.manifest["config"].get("analysis", {})
    sizes = sorted(map(int, settings.get(REUSED) or ()))
    asked: dict[tuple[Place, str, str], list[StoredInquiry]] = defaultdict(list)
    for one in run.inquiries(REUSED) if sizes else ():
        place = Place(one.dataset, one.group, one.victim)
        asked[place, one.attack, one.item_id].append(one)
    ranked = [(cell, ranking(_eligible(cell))) for cell in cells]
    return Reuse(
        names=[Listed(**cell.labels, names=names[:LISTED]) for cell, names in ranked],
        overlap=_overlaps(ranked),
        asked=[row for cell in cells for row in _reused(cell, asked, sizes)],
    )


REUSE = Analysis(REUSED, reuse_of)


def _eligible(cell: Cell) -> list[Trial]:
    return [trial for trial in cell.trials if trial.is_eligible]


def ranking(trials: Iterable[Trial]) -> list[Ranked]:
    """Rank the names of first successes by their number, then by items, then by spelling."""
    items: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        if trial.first is not None and trial.first.name is not None:
            items[trial.first.name][trial.item.id] += 1
    ranked = [
        Ranked(name=name, n_successes=counts.total(), n_items=len(counts))
        for name, counts in items.items()
    ]
    return sorted(ranked, key=lambda one: (-one.n_successes, -one.n_items, one.name))


def folds(items: Iterable[str]) -> dict[str, int]:
    """Assign items to folds whose sizes differ by at most one, by a hash of their identifiers."""
    order = sorted(set(items), key=lambda item: (content_hash(item), item))
    return {item: i % FOLDS for i, item in enumerate(order)}


def cross_fitted(trials: Sequence[Trial], m: int) -> dict[str, tuple[str, ...]]:
    """Return the m names to ask on each item: the top of a ranking without the item's fold.

    Args:
        trials: eligible trials of one attack in one place.
        m: how many names.

    Returns:
        Item -> names, case-folded, best first; fewer if fewer ever succeeded.
    """
    fold_of = folds(trial.item.id for trial in trials)
    tops = {
        fold: tuple(
            one.name for one in ranking(t for t in trials if fold_of[t.item.id] != fold)[:m]
        )
        for fold in set(fold_of.values())
    }
    return {item: tops[fold] for item, fold in fold_of.items()}


def _flips(one: StoredInquiry, m: int) -> tuple[bool | None, bool, bool] | None:
    """Return whether one of the first m names is a success, whether surely, and whether maybe.

    The first is None where a call failed before it was decided; the whole where no name was put in.
    """
    n = sum(name in one.spec["top"][:m] for name in one.spec["asked"])
    if not n:
        return None
    outcomes = one.outcomes
    flips = False if n <= len(outcomes) else None
    if one.reached and len(outcomes) <= n:
        flips = True
    surely = bool(flips) and outcomes[-1] != Outcome.UNREADABLE
    return flips, surely, flips is not False or Outcome.UNREADABLE in outcomes[:n]


def _reused(
    cell: Cell,
    asked: Mapping[tuple[Place, str, str], Sequence[StoredInquiry]],
    sizes: Sequence[int],
) -> list[Reused]:
    """Return a row for each m.

    Answers about rankings that later trials have changed are left out, as if not asked yet.
    """
    if not sizes:
        return []
    trials = _eligible(cell)
    tops = cross_fitted(trials, max(sizes))
    path = {trial.item.id: trial.path[:2] for trial in trials}
    current = {
        item: one
        for item, top in sorted(tops.items())
        for one in asked.get((cell.place, cell.attack.label, item), ())
        if top and tuple(one.spec["top"][: len(top)]) == top
    }
    rows = []
    for m in sizes:
        put = {item: read for item, one in current.items() if (read := _flips(one, m)) is not None}
        decided = np.array([flips is not None for flips, *_ in put.values()], dtype=bool)
        hit, least, most = np.array(list(put.values()), dtype=bool).reshape(-1, 3).T
        share = Reading(decided, hit, np.ones(len(put), dtype=bool), least, most)
        rows.append(
            Reused(
                **cell.labels,
                m=m,
                n_items=len(tops),
                n_never_asked=len(tops) - len(put),
                n_unanswered=int((~decided).sum()),
                reuse=share_of(share, number_units([path[item] for item in put])),
            )
        )
    return rows


def _overlaps(ranked: Iterable[tuple[Cell, Sequence[Ranked]]]) -> list[Overlap]:
    """Compare the top m names of every two models under one attack."""
    by_attack: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(dict)
    for cell, names in ranked:
        key = cell.place.dataset, cell.place.group, cell.attack.label
        by_attack[key][cell.place.victim] = [one.name for one in names]
    rows = []
    for (dataset, group, attack), lists in sorted(by_attack.items()):
        for victim, against in combinations(sorted(lists), 2):
            for m in OVERLAPS:
                first, second = lists[victim][:m], lists[against][:m]
                rows.append(
                    Overlap(
                        dataset=dataset,
                        group=group,
                        attack=attack,
                        victim=victim,
                        against=against,
                        m=m,
                        jaccard=jaccard(first, second),
                        rank_biased_overlap=rank_biased_overlap(first, second),
                    )
                )
    return rows


def jaccard(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return shared names over all names of two lists; None if both are empty.

    >>> jaccard(["a", "b"], ["b", "c"])
    0.3333333333333333
    """
    union = set(first) | set(second)
    return len(set(first) & set(second)) / len(union) if union else None


def rank_biased_overlap(
    first: Sequence[str], second: Sequence[str], p: float = PERSISTENCE
) -> float | None:
    """Return the extrapolated rank-biased overlap of two rankings without ties (RBO_EXT).

    With X_d the overlap of the first d places, s and l the lengths of the shorter and the
    longer list: RBO_EXT = (1-p)/p [sum_{d=1..l} X_d/d p^d + sum_{d=s+1..l} X_s (d-s)/(s d) p^d]
    + [(X_l - X_s)/l + X_s/s] p^l.

    Args:
        first: names, best first, each once.
        second: the same of another model.
        p: how slowly the weight of ranks falls, in (0, 1).

    Returns:
        A value in [0, 1]; None if a list is empty.

    >>> rank_biased_overlap(["a", "b"], ["a", "b"]), rank_biased_overlap(["a"], ["b"])
    (1.0, 0.0)

    References:
        Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", ACM TOIS
        2010, Eq. 32.
    """
    short, long = sorted((first, second), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return None
    overlap = [len(set(short[:d]) & set(long[:d])) for d in range(1, n + 1)]
    agreement = sum(overlap[d - 1] / d * p**d for d in range(1, n + 1))
    unseen = sum(overlap[s - 1] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    tail = ((overlap[n - 1] - overlap[s - 1]) / n + overlap[s - 1] / s) * p**n
    return min((1 - p) / p * (agreement + unseen) + tail, 1.0)


_REUSED = (
    *attack_labels(),
    column("Names (m)", lambda row: str(row.m)),
    column("Items", "n_items", "count"),
    column("Flipped", "reuse", "share"),
    column("Never asked", "n_never_asked", "count", "no name succeeded or is allowed"),
    column("No answer", "n_unanswered", "count", wide=True),
)
_NAMES = (
    column("Name", "1.name"),
    *attack_labels("0"),
    column("Successes", "1.n_successes", "count"),
    column("Items", "1.n_items", "count"),
)
_OVERLAP = (
    named("Attack", "attack"),
    named("Model", "victim"),
    named("and", "against"),
    named("Data", "dataset", wide=True),
    named("Group", "group", wide=True),
    column("Top", lambda row: str(row.m)),
    column("Shared of all", "jaccard", "number", "Jaccard"),
    column("Rank-biased overlap", "rank_biased_overlap", "number"),
)
