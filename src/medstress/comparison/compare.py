"""Compare two runs, or two victims of one run, in which exactly one thing differs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from medstress.comparison.answered import check_answered, incomplete_notes, why_open
from medstress.comparison.attacked import at_first_edits, stored_notes, stored_specs, why_first
from medstress.comparison.contrasts import (
    ACCURACY,
    ACCURACY_AFTER,
    ASR,
    ASR_NET,
    CONDITIONING,
    CONTRASTS,
    is_netted,
)
from medstress.comparison.factors import TIME, Factor, also_differs, factors_of, names_of
from medstress.comparison.like_these import NameReader
from medstress.comparison.pairing import Pair, by_key, pairs_of, with_controls
from medstress.comparison.rows import Row, net_row, share_row
from medstress.comparison.sides import Arm, Side, left_out
from medstress.comparison.verdicts import FAIL, NOTHING, fails, verdict_of, worst
from medstress.comparison.words import sentence_of
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg, holm
from medstress.metrics.old_stats.verdicts import BETTER, UNDECIDED, WORSE
from medstress.results.formats import plural

_SAME_ITEMS = "only the attack differs, so both attack the same items: those right before it"
HOLM: Final = "holm"
BH: Final = "bh"
METRICS = (ACCURACY_AFTER, ACCURACY, ASR, ASR_NET)
"""The measures that may decide."""
ADJUSTMENTS = {HOLM: "Holm", BH: "Benjamini-Hochberg"}
_ADJUST = {HOLM: holm, BH: benjamini_hochberg}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How two arms are compared."""

    metric: str | None = None
    """The measure that decides; None for the one that fits the factor."""
    margin: float | None = None
    """The largest difference that does not matter, in (0, 1); None: B may only not be worse."""
    on_undecided: Literal["pass", "fail"] = FAIL
    """What an undecided comparison with a margin does to the exit code."""
    adjust: Literal["holm", "bh"] = HOLM
    """How p-values are adjusted over a family."""

    def __post_init__(self) -> None:
        if self.metric is not None and self.metric not in METRICS:
            raise UsageError(
                f"metric = {self.metric!r}: expected one of {', '.join(METRICS)}"
                f"{did_you_mean(self.metric, METRICS)}"
            )
        margin = self.margin
        if margin is not None and not 0 < margin < 1:
            raise UsageError(
                f"margin = {margin}: expected a difference between 0 and 1, such as 0.02 for two "
                "of 100 answers"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two runs, or two victims of one run, show of each other."""

    sides: tuple[Side, Side]
    """A and B."""
    factor: str
    """The one thing that differs; `time` if nothing does."""
    factors: tuple[Factor, ...]
    """What it is in A and in B; empty for `time`."""
    also: Mapping[str, Sequence[str]]
    """Libraries and settings that differ: [in A, in B]."""
    metric: str
    """The measure that decides."""
    why: str
    """Why it is this one."""
    settings: Settings
    """How they were compared."""
    rows: tuple[Row, ...]
    """Every measure of every pair of arms, those that decide first."""
    notes: tuple[str, ...] = field(default=())
    """What a reader of the numbers has to know."""

    @property
    def deciding_rows(self) -> list[Row]:
        """The rows that decide."""
        return [row for row in self.rows if row.decides]

    @property
    def verdict(self) -> str:
        """The verdict of all deciding rows together."""
        return worst([row.verdict for row in self.deciding_rows])

    @property
    def fails(self) -> bool:
        """True if a deciding row has a verdict to stop at: exit code 3."""
        return any(self.row_fails(row) for row in self.deciding_rows)

    def row_fails(self, row: Row) -> bool:
        """Return True if a row's verdict is one to stop at."""
        return fails(row.verdict, self.settings.margin, self.settings.on_undecided)

    def families(self) -> list[dict[str, Any]]:
        """Return the families of tests, with their size."""
        found = []
        for decides in dict.fromkeys(row.decides for row in self.rows):
            tested = [row.p is not None for row in self.rows if row.decides == decides]
            found.append(
                {
                    "name": "deciding" if decides else "others",
                    "size": sum(tested),
                    "without_pairs": len(tested) - sum(tested),
                    "adjust": self.settings.adjust,
                }
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the comparison of `compare --json` (docs: schema)."""
        return {
            "format": 1,
            "verdict": self.verdict,
            "fails": self.fails,
            "a": _described(self.sides[0]),
            "b": _described(self.sides[1]),
            "factor": {"name": self.factor, "what": [each.what for each in self.factors]},
            "also_differs": {key: list(values) for key, values in self.also.items()},
            "metric": self.metric,
            "why": self.why,
            "margin": self.settings.margin,
            "on_undecided": self.settings.on_undecided,
            "families": self.families(),
            "rows": [row.as_json() for row in self.rows],
            "notes": list(self.notes),
        }


def _described(side: Side) -> dict[str, Any]:
    manifest = side.manifest
    return {
        "folder": side.source,
        "experiment": manifest["config"]["experiment"]["name"],
        "fingerprint": manifest["fingerprint"],
        "started": manifest["started"],
        "finished": manifest["finished"],
        "complete": manifest["complete"],
        **side.about_root,
    }


def compare_sides(
    first: Side,
    second: Side,
    arms: Sequence[tuple[Arm, Arm]],
    settings: Settings,
    names: NameReader,
) -> Comparison:
    """Compare matched arms of two sides.

    Args:
        first: A.
        second: B.
        arms: the matched arms.
        settings: measure, margin and adjustment.
        names: reads the names that trials asked.

    Raises:
        UsageError: more than one thing differs, or the two have no item in common, or no trial
            that a measure counts, or every answer failed.
    """
    first, second = at_first_edits(first, second, arms, settings.metric)
    factors = {pair: factors_of(first.manifest, pair[0], second.manifest, pair[1]) for pair in arms}
    name, found = one_factor(factors.values())
    same = [pair for pair in arms if found and not factors[pair]]
    compared = [pair for pair in arms if pair not in same]
    ours, theirs = first.arms(), second.arms()
    pairs = {pair: pairs_of(by_key(ours[pair[0]]), by_key(theirs[pair[1]])) for pair in compared}
    if not any(pairs.values()):
        raise UsageError(_nothing_shared(first, second, compared))
    changes = not found or any(each.changes_clean_answers for each in found)
    stored = stored_specs(first, second, compared)
    changes = changes and not stored
    metric = settings.metric or (ACCURACY_AFTER if changes else ASR)
    if settings.metric is not None:
        why = "as asked for"
    elif stored:
        why = why_first(stored.values())
    else:
        why = CONDITIONING if changes else _SAME_ITEMS
    rows: list[Row] = []
    for pair, found_pairs in pairs.items():
        rows += _rows(first, second, pair, found_pairs, metric, changes, settings.margin)
    for row in rows:
        row.decides = row.metric == metric
    if not any(row.decides for row in rows):
        raise UsageError(f"--metric {metric}: the runs have no control in common to be net of")
    check_answered([pair for each in pairs.values() for pair in each], rows)
    for row in rows:
        if row.decides and row.metric != ASR_NET:
            row.names, row.names_reason = names.like_these(row, CONTRASTS[row.metric])
            row.names_verdict = _of_names(row)
    _settle(rows, settings)
    _leave_open(rows, why_open(first, second))
    for row in rows:
        row.sentence = sentence_of(row, name, settings.margin)
    return Comparison(
        sides=(first, second),
        factor=name,
        factors=tuple(found),
        also=also_differs(first.manifest, second.manifest),
        metric=metric,
        why=why,
        settings=settings,
        rows=tuple(sorted(rows, key=lambda row: not row.decides)),
        notes=(
            *stored_notes(first, second, compared),
            *_at_worst(rows),
            *incomplete_notes(first, second),
            *_held_by_both(first, second, pairs),
            *(f"{a.victim}, {a.attack}: the same in both, so left out" for a, _ in same),
            *left_out(ours, (a for a, _ in arms), first.name),
            *left_out(theirs, (b for _, b in arms), second.name),
        ),
    )


def one_factor(found: Collection[Sequence[Factor]]) -> tuple[str, list[Factor]]:
    """Return the name of the one factor, and what differs.

    Args:
        found: what differs, for each pair of arms.

    Raises:
        UsageError: several things differ.
    """
    factors = list(dict.fromkeys(factor for each in found for factor in each))
    names = names_of(factors)
    # Two things of one name, such as a new medstress and new weights, are two factors as well.
    most = max((sum(f.name == name for f in each) for each in found for name in names), default=0)
    if len(names) > 1 or most > 1:
        told = "; ".join(f"{factor.name} ({factor.what})" for factor in factors)
        raise UsageError(
            f"A and B differ in more than one thing: {told}. A difference could come from "
            "any of them: compare what differs in exactly one"
        )
    return names[0] if names else TIME, factors


def _rows(
    first: Side,
    second: Side,
    arms: tuple[Arm, Arm],
    pairs: Sequence[Pair],
    metric: str,
    changes_clean_answers: bool,
    margin: float | None,
) -> Iterator[Row]:
    """Yield the rows of one pair of arms."""
    metrics = [ACCURACY_AFTER, ACCURACY, ASR] if changes_clean_answers else [ASR]
    if metric not in metrics and metric != ASR_NET:
        metrics.append(metric)
    for each in metrics:
        yield share_row(arms, pairs, CONTRASTS[each], margin)
    for control, (ours, theirs) in _controls(first, second, arms).items():
        netted = with_controls(pairs, by_key(ours), by_key(theirs))
        yield net_row(arms, [pair for pair in netted if is_netted(pair)], control, margin)


def _controls(
    first: Side, second: Side, arms: tuple[Arm, Arm]
) -> dict[str, tuple[list[TrialRow], list[TrialRow]]]:
    """Return the trials of the controls that both arms have."""
    ours, theirs = first.controls(arms[0]), second.controls(arms[1])
    return {name: (ours[name], theirs[name]) for name in ours if name in theirs}


def _settle(rows: Sequence[Row], settings: Settings) -> None:
    """Adjust the p-values of each family, and give each row its verdict."""
    for decides in (True, False):
        family = [row for row in rows if row.decides == decides and row.p is not None]
        adjusted = _ADJUST[settings.adjust]([row.p for row in family if row.p is not None])
        for row, p in zip(family, adjusted, strict=True):
            row.p_adjusted = p
    for row in rows:
        row.verdict = verdict_of(row.claims, row.p_adjusted)


def _of_names(row: Row) -> str | None:
    """Return what the interval for names like these says of B."""
    if row.names is None or row.names.low is None or row.names.high is None:
        return None
    if row.names.low <= 0 <= row.names.high:
        return UNDECIDED
    return BETTER if (row.names.low > 0) == CONTRASTS[row.metric].is_rate_of_good else WORSE


def _leave_open(rows: Sequence[Row], why: str | None) -> None:
    """Leave every verdict open, numbers and all, if there is a reason to."""
    for row in rows:
        if why is not None and row.verdict != NOTHING:
            row.verdict, row.why_open = UNDECIDED, why


def _at_worst(rows: Sequence[Row]) -> Iterator[str]:
    worst_of = max((row.n_worst for row in rows if row.decides), default=0)
    lost = max((row.n_lost for row in rows if row.decides), default=0)
    if worst_of:
        trials = plural(worst_of, "trial")
        yield (
            f"an unreadable or failed answer counts against the victim in {trials} of the deciding "
            "rows, so shares differ from those of summary"
        )
    if lost:
        pairs = plural(lost, "pair")
        yield (
            f"a failed call leaves {pairs} of the deciding rows open: a verdict holds only if it "
            "holds with these counted for A, and for B"
        )


def _held_by_both(
    first: Side, second: Side, pairs: Mapping[tuple[Arm, Arm], Sequence[Pair]]
) -> Iterator[str]:
    """Yield a line if a side has trials that the other lacks."""
    for i, side in enumerate((first, second)):
        trials = side.arms()
        compared = dict.fromkeys(arms[i] for arms in pairs)
        own = {
            r.trial_id for arm in compared for s in by_key(trials[arm]).values() for r in s.values()
        }
        met = {(p.b if i else p.a).trial_id for found in pairs.values() for p in found}
        if lost := len(own - met):
            yield (
                f"{plural(lost, 'trial')} of {side.name} {'has' if lost == 1 else 'have'} no "
                "counterpart with the same item and seed, and are left out"
            )


def _nothing_shared(first: Side, second: Side, arms: Sequence[tuple[Arm, Arm]]) -> str:
    held, ids = [], []
    for i, side in enumerate((first, second)):
        rows = [row for arm in dict.fromkeys(pair[i] for pair in arms) for row in side.arms()[arm]]
        items = sorted({row.item_id for row in rows})
        seeds = sorted({str(row.seed) for row in rows if row.seed is not None})
        told = f" (such as {items[0]!r})" if items else ""
        of = f", seeds {', '.join(seeds)}" if seeds else ""
        held.append(f"{side.name} holds {plural(len(items), 'item')}{told}{of}")
        ids.append({*items})
    same = len(ids[0] & ids[1])
    again = f"; {same:,} have the same identifier in both" if same else ""
    return (
        f"nothing can be compared: {'; '.join(held)}{again}; but no trial of both has the same "
        "item content and seed and is more than a measurement"
    )
