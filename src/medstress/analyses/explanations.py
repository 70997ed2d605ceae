"""Shapley profiles of prompts before and after an edit, as `explain` stored them.

Where the token with the largest value lies, and how far an edit moves the values near it and
elsewhere. Attacks that failed are shown with successes, and chance with every share.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.3 and Figure 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from medstress.analyses.facts import FEW_QUESTIONS
from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import (
    HIDDEN,
    Chart,
    Field,
    Point,
    Remark,
    Shown,
    Table,
    column,
    label,
    named,
    table,
)
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.resampling import RESAMPLES, bootstrapped, item_mean, resampled_mean
from medstress.stats.shares import Mask, Numbers

PURPOSE = "explain"
WINDOW = 10
"""Tokens on either side of an edit that count as near it."""
TOLERANCE = 1e-4
"""How far values and base may be from adding up to the output of the prompt."""
SHOWN = 12
"""Profiles that a result holds."""
FOUND, SCORE = "found", "score"
"""Outputs that are no options: the entity is found; the score of a pair."""
_TIE = 1e-8
"""Values that differ by less are tied: they are stored with nine decimals."""

Where: TypeAlias = Literal["edit", "answer"]
"""Where the top token may lie: in the edit, in the option that was answered. An edit may lie in an
option, so that the two overlap."""
Regime: TypeAlias = Literal["n<0", "n>0"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """The explanation of one prompt."""

    answer: str | None
    """The output that the model chose; None if it chose none."""
    tokens: tuple[str, ...]
    """Joined they are the explained text."""
    segments: tuple[tuple[str, bool, int], ...]
    """Place, whether it is an edit, and number of tokens of each part of the text, in order."""
    values: Numbers
    """Of each token for each output, shape (n_tokens, n_outputs)."""
    base: Numbers
    """The outputs with every token masked, shape (n_outputs,)."""
    full: Numbers
    """The outputs of the text, shape (n_outputs,)."""
    evaluations: int
    """Masked texts that were asked."""
    gap: float
    """The largest difference of base plus values to the output of the text."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Side:
        """Decode one side of a finding."""
        return cls(
            answer=stored["answer"],
            tokens=tuple(stored["tokens"]),
            segments=tuple((place, edited, n) for place, edited, n in stored["segments"]),
            values=np.array(stored["values"], dtype=np.float64),
            base=np.array(stored["base"], dtype=np.float64),
            full=np.array(stored["full"], dtype=np.float64),
            evaluations=stored["evaluations"],
            gap=stored["gap"],
        )

    @cached_property
    def edited(self) -> Mask:
        """Whether each token lies in an edit, shape (n_tokens,)."""
        return np.array([edited for _, edited, n in self.segments for _ in range(n)], dtype=bool)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The place of each token."""
        return tuple(place for place, _, n in self.segments for _ in range(n))


@dataclass(frozen=True, kw_only=True, eq=False)
class Explained:
    """The explanation of one trial with one mask."""

    trial: Trial
    outputs: tuple[str, ...]
    """Names of the outputs: options, labels, `found` and `wrong`, or `score`."""
    key: str
    """The output of the right answer."""
    value: str
    """What outputs are: `probability`, `answer` (0 or 1), `mixed` or `score`."""
    units: str
    """`tokens` of the model, or `words`."""
    mask: str
    """What replaces masked tokens; empty where they are left out."""
    before: Side
    after: Side

    @property
    def is_success(self) -> bool:
        """Whether the attack succeeded."""
        return self.trial.verdict is Verdict.FLIPPED

    @property
    def gap(self) -> float:
        """The larger gap of the two prompts; values add up where it is small (efficiency axiom)."""
        return max(self.before.gap, self.after.gap)

    @property
    def shows_edit(self) -> bool:
        """Whether the prompt shows the edit; one that lists no options may not."""
        return bool(self.before.edited.any() or self.after.edited.any())

    @property
    def regime(self) -> Regime | None:
        """`n<0` or `n>0` for attacks with an exponent."""
        n = self.trial.arm.attack.params.get("n")
        if not isinstance(n, int | float) or n == 0:
            return None
        return "n>0" if n > 0 else "n<0"

    def of(self, side: Side, output: str | None) -> Numbers | None:
        """Return the values of one output, shape (n_tokens,); None without that output."""
        return side.values[:, self.outputs.index(output)] if output in self.outputs else None

    def for_key(self, side: Side) -> Numbers:
        """Return the values of the right answer, shape (n_tokens,)."""
        return np.asarray(side.values[:, self.outputs.index(self.key)])


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstChance:
    """A share, what chance would give, and the difference."""

    share: Estimate
    chance: Estimate
    excess: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """What the explanations of some trials of one model show: of successes, or of failures."""

    victim: str
    regime: Regime | None
    """None: all."""
    kind: Literal["success", "failed"]
    n: int
    top_before: Mapping[Where, AgainstChance]
    top_after: Mapping[Where, AgainstChance]
    change: Estimate
    """Mean absolute change of a token's value for the right answer."""
    change_near: Estimate
    """The same within `WINDOW` tokens of the edit."""
    change_far: Estimate
    near: AgainstChance
    """Share of all change that lies near the edit."""
    top_changed: Estimate
    """Share of trials whose top token is at another place after the edit; tied tokens share the
    top, and an edit is one place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations(Shown):
    """All explanations of a run."""

    n: int
    n_successes: int
    n_not_explained: int
    """Trials without an explanation, because a call failed."""
    n_edit_not_shown: int
    values: Sequence[str]
    units: Sequence[str]
    masks: Sequence[str]
    broken: Sequence[str]
    """Trials whose values do not add up."""
    rows: Sequence[Profiles]
    cases: Sequence[Explained] = field(metadata=HIDDEN)
    """Those that are drawn: successes, else failed attacks, chosen by a hash."""
    explained: Sequence[Explained] = field(metadata=HIDDEN)
    title = "Shapley profiles"

    @property
    def is_score(self) -> bool:
        """Whether all that is explained are scores of pairs, which have no right answer."""
        return list(self.values) == [SCORE]

    def tables(self) -> Sequence[Table]:
        """The top token after the attack and the change near the edit; then before and after."""
        # A regime that has all trials of a model counts for them.
        narrow = {(row.victim, row.kind, row.n) for row in self.rows if row.regime}
        rows = [r for r in self.rows if r.regime or (r.victim, r.kind, r.n) not in narrow]
        unit, is_score = " or ".join(self.units), self.is_score
        of_top = "" if is_score else " for the option that was answered"
        values = "; ".join(_VALUES.get(value, value) for value in self.values)
        lies = (
            f"Owen values of {unit}{of_top}: {values}; tied tokens share the top place. By chance: "
            "the share of tokens that lie there. An edit may lie in an option, so that places "
            "overlap. Failed attacks are explained at their last query."
        )
        moved = (
            f"Top moved: the token with the largest value{of_top} is at another place after the "
            "edit; an edit is one place. The change of an edit is that of its sum, shared equally "
            "by its tokens."
        )
        share = "Share of trials whose top token lies in the edit; share of change near it"
        top = "Where the token with the largest Shapley value lies"
        of_key = "the score" if is_score else "the right answer"
        far = f"How far the edit moves the values for {of_key}"
        heads: list[Field] = [
            column("Attacks", lambda row: _REGIMES[row.regime] if row.regime else "all"),
            column("Trials", lambda row: "pairs" if is_score else _KINDS[row.kind]),
            named("Model", "victim"),
            column("n", "n", "count"),
        ]
        places: dict[Where, str] = {"edit": "In the edit"}
        if not is_score:
            is_entity = {case.key for case in self.cases} == {FOUND}
            places["answer"] = "In the entity" if is_entity else "In the chosen option"
        tops = [
            field
            for side in ("before", "after")
            for place, words in places.items()
            for field in _with_chance(f"{words}, {side}", f"top_{side}.{place}", f"{side}_{place}")
        ]
        near = [
            *_with_chance("In the edit", "top_after.edit", "edit"),
            *_with_chance("Change near it", "near", "near"),
        ]
        return [
            table("explained", share, rows, [*heads, *near]),
            table("explained-tops", top, rows, [*heads, *tops], notes=[lies]),
            table("explained-changes", far, rows, [*heads, *_CHANGES], notes=[moved]),
        ]

    def charts(self) -> Sequence[Chart]:
        """The words of each profile, coloured by their values, before and after."""
        return [_chart(case, i) for i, case in enumerate(self.cases)]

    def remarks(self) -> Iterator[Remark]:
        """What limits these numbers."""
        few = [
            f"{row.n:,} of {row.victim}" + (f" under {_REGIMES[row.regime]}" if row.regime else "")
            for row in self.rows
            if row.kind == "success" and row.n < FEW_QUESTIONS
        ]
        if few:
            sentence = (
                f"Fewer than {FEW_QUESTIONS} successes are explained ({'; '.join(few[:_MOST])}): "
                "do not rely on where their top token lies or on what moves near the edit."
            )
            yield Remark("few_explained", sentence)
        if self.broken:
            sentence = (
                f"The Shapley values of {len(self.broken):,} explanations do not add up within "
                f"{TOLERANCE:g} (first: trial {self.broken[0]}); do not use them."
            )
            yield Remark("values_do_not_add_up", sentence)
        if n := self.n_not_explained:
            sentence = (
                f"Of {n:,} trials a call failed, so they are not explained: explain them again, "
                "which asks the failed calls again."
            )
            yield Remark("not_explained", sentence)
        if len(self.masks) > 1:
            sentence = (
                f"Trials were explained with {len(self.masks)} masks ({', '.join(self.masks)}), "
                "whose values do not compare: explain all with one."
            )
            yield Remark("several_masks", sentence)


def explanations_of(run: Run) -> Explanations | None:
    """Read and count the explanations; None where nothing was explained."""
    explained, lost = explained_trials(run)
    if not explained and not lost:
        return None
    order = sorted(explained, key=lambda x: (not x.is_success, digest(["shown", x.trial.id])))
    return Explanations(
        n=len(explained),
        n_successes=sum(one.is_success for one in explained),
        n_not_explained=len(lost),
        n_edit_not_shown=sum(not one.shows_edit for one in explained),
        values=sorted({one.value for one in explained}),
        units=sorted({one.units for one in explained}),
        masks=sorted({one.mask for one in explained}),
        broken=[one.trial.id for one in explained if one.gap > TOLERANCE],
        rows=_rows(explained),
        cases=order[:SHOWN],
        explained=explained,
    )


EXPLANATIONS = Analysis("explanations", explanations_of)


def explained_trials(run: Run) -> tuple[list[Explained], dict[str, str]]:
    """Return the explanations in the order of trials, and why others failed, by trial.

    Of each trial there is one: that with the most evaluations, the last of those.
    """
    finest: dict[str, Mapping[str, Any]] = {}
    notes: dict[str, str] = {}
    for one in run.inquiries(PURPOSE):
        trial, n = one.spec["trial"], one.spec["evaluations"]
        notes.pop(trial, None)
        if one.note is not None:
            notes[trial] = one.note
        if one.findings and finest.get(trial, {}).get("evaluations", 0) <= n:
            finest[trial] = {**one.findings, "evaluations": n, "mask": one.spec["mask"]}
    explained = [
        Explained(
            trial=trial,
            outputs=tuple(stored["outputs"]),
            key=stored["key"],
            value=stored["value"],
            units=stored["units"],
            mask=stored["mask"],
            before=Side.of(stored["before"]),
            after=Side.of(stored["after"]),
        )
        for trial in run.trials
        if (stored := finest.get(trial.id)) is not None
    ]
    return explained, {trial: note for trial, note in notes.items() if trial not in finest}


# What one explanation shows --------------------------------------------------------------------


def top_shares(values: Numbers) -> Numbers:
    """Return how the top place is shared among tokens, shape (n_tokens,): equally by tied ones.

    >>> top_shares(np.array([0.1, 0.4, 0.4])).tolist()
    [0.0, 0.5, 0.5]
    """
    tied = values >= values.max() - _TIE
    return np.asarray(tied / tied.sum(), dtype=np.float64)


class _Top(NamedTuple):
    """How much of the top token lies in a place, and how often a random token would."""

    share: float
    chance: float


def top_places(one: Explained, side: Side) -> dict[Where, _Top] | None:
    """Return how much of the top token lies in each place; None if the model chose no output.

    The top token is the one with the largest value for the option that was answered.
    """
    values = one.of(side, side.answer)
    if values is None:
        return None
    places = np.array(side.places)
    answered = places == ("entity" if one.key == FOUND else side.answer)
    inside: dict[Where, Mask] = {"edit": side.edited, "answer": answered}
    top = top_shares(values)
    return {name: _Top(float(top[at].sum()), float(at.mean())) for name, at in inside.items()}


class Change(NamedTuple):
    """How far an edit moved the values for the right answer, token by token, and the top."""

    sizes: Numbers
    """Absolute changes, shape (n,); an edit's is the change of its sum, shared by its tokens."""
    near: Mask
    """Whether each lies within `WINDOW` tokens of an edit, or in one, shape (n,)."""
    top: float | None
    """How much of the top token is elsewhere after the edit; None without two readable answers."""

    @property
    def near_share(self) -> float | None:
        """Share of all change that lies near; None if nothing changed."""
        total = float(self.sizes.sum())
        return float(self.sizes[self.near].sum()) / total if total > 0 else None


def change_of(one: Explained) -> Change:
    """Align two prompts and compare their values; tokens outside edits are the same in both."""
    before, after = one.for_key(one.before), one.for_key(one.after)
    chosen = [one.of(side, side.answer) for side in (one.before, one.after)]
    tops = [top_shares(values) for values in chosen if values is not None]
    kept = 0.0
    sizes: list[float] = []
    edited: list[bool] = []
    first = second = 0
    for (_, is_edit, n), (_, _, m) in zip(one.before.segments, one.after.segments, strict=True):
        old, new = before[first : first + n], after[second : second + m]
        is_one = is_edit or n != m
        if len(tops) == 2:
            was, now = tops[0][first : first + n], tops[1][second : second + m]
            kept += min(was.sum(), now.sum()) if is_one else float(np.minimum(was, now).sum())
        first, second = first + n, second + m
        if is_one:
            size = max(m, 1) if n or m else 0
            sizes += [abs(float(new.sum() - old.sum())) / max(size, 1)] * size
            edited += [is_edit] * size
        else:
            sizes += np.abs(new - old).tolist()
            edited += [False] * n
    near = np.zeros(len(edited), dtype=bool)
    for place in np.flatnonzero(edited):
        near[max(place - WINDOW, 0) : place + WINDOW + 1] = True
    top = max(1.0 - float(kept), 0.0) if len(tops) == 2 else None
    return Change(np.array(sizes, dtype=np.float64), near, top)


# What they show together -----------------------------------------------------------------------


def _rows(explained: Iterable[Explained]) -> list[Profiles]:
    """Return a row for all attacks and each regime, by model."""
    groups: dict[tuple[str, str, bool], list[Explained]] = defaultdict(list)
    for one in explained:
        for regime in dict.fromkeys(("", one.regime or "")):
            groups[one.trial.arm.place.victim, regime, not one.is_success].append(one)
    return [_row(groups[key], is_all=not key[1]) for key in sorted(groups)]


def _row(members: Sequence[Explained], *, is_all: bool) -> Profiles:
    changes = [(one, change_of(one)) for one in members]
    near = [
        (one, _Top(share, float(change.near.mean())))
        for one, change in changes
        if (share := change.near_share) is not None and one.shows_edit
    ]

    def mean_size(part: Callable[[Change], Numbers]) -> Estimate:
        sizes = [(one, part(change)) for one, change in changes]
        return _mean((one, float(some.mean())) for one, some in sizes if some.size)

    return Profiles(
        victim=members[0].trial.arm.place.victim,
        regime=None if is_all else members[0].regime,
        kind="success" if members[0].is_success else "failed",
        n=len(members),
        top_before=_tops(members, lambda one: one.before),
        top_after=_tops(members, lambda one: one.after),
        change=mean_size(lambda change: change.sizes),
        change_near=mean_size(lambda change: change.sizes[change.near]),
        change_far=mean_size(lambda change: change.sizes[~change.near]),
        near=_against_chance(near),
        top_changed=item_mean(
            _by_unit((one, change.top) for one, change in changes if change.top is not None)
        ),
    )


def _tops(
    members: Sequence[Explained], side_of: Callable[[Explained], Side]
) -> dict[Where, AgainstChance]:
    tops = [(one, top) for one in members if (top := top_places(one, side_of(one))) is not None]
    shown = [(one, top["edit"]) for one, top in tops if one.shows_edit]
    answered = [(one, top["answer"]) for one, top in tops]
    return {"edit": _against_chance(shown), "answer": _against_chance(answered)}


def _against_chance(tops: Sequence[tuple[Explained, _Top]]) -> AgainstChance:
    chance = item_mean(_by_unit((one, top.chance) for one, top in tops))
    excess = item_mean(_by_unit((one, top.share - top.chance) for one, top in tops), -1.0)
    if chance.value is not None and excess.low is not None and excess.high is not None:
        # A share lies between 0 and 1.
        low, high = max(excess.low, -chance.value), min(excess.high, 1 - chance.value)
        excess = replace(excess, low=low, high=high)
    share = item_mean(_by_unit((one, top.share) for one, top in tops))
    return AgainstChance(share=share, chance=chance, excess=excess)


def _mean(values: Iterable[tuple[Explained, float]]) -> Estimate:
    """Estimate a mean that has no largest value."""
    means = _by_unit(values)
    m = means.size
    method = f"bootstrap over {m} items, {RESAMPLES} resamples, percentile 95 %"
    if not m:
        return unknown(method)
    return bootstrapped(float(means.mean()), resampled_mean(means, np.arange(m)), m, method)


def _by_unit(values: Iterable[tuple[Explained, float]]) -> Numbers:
    """Return the mean of each document's (else item's) values."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, value in values:
        by[one.trial.arm.place.dataset, one.trial.cluster].append(value)
    return np.array([fmean(by[unit]) for unit in sorted(by)], dtype=np.float64)


# What is shown ---------------------------------------------------------------------------------

_VALUES = {
    "probability": "P(option) among the options",
    "answer": "1 for the option that was answered, else 0, because the model gives no scores",
    "mixed": "P(option), or 1 and 0 where an answer has no scores",
    "score": "the model's score of the pair",
}
_REGIMES: Mapping[Regime, str] = {"n<0": "near names (n < 0)", "n>0": "far names (n > 0)"}
_KINDS = {"success": "successes", "failed": "failed attacks"}
_MOST = 5
"""Models that have a sentence; the tables have all."""


def _with_chance(heading: str, of: str, key: str) -> list[Field]:
    """Return the columns of a share at a path, and of what chance would give."""
    return [
        column(heading, f"{of}.share", "score", key=key),
        column("by chance", f"{of}.chance.value", "number", key=f"{key}_by_chance"),
    ]


_CHANGES = (
    column("Top moved", "top_changed", "share"),
    column("Mean change", "change", "score"),
    column(f"within {WINDOW} tokens", "change_near", "score"),
    column("farther away", "change_far", "score"),
    *_with_chance("Share near", "near", "near"),
)


def _chart(case: Explained, number: int) -> Chart:
    """Return the words of one trial: before in one panel, after in the other.

    Their values are for the answer; for the right one where there is no answer.
    """
    trial, points = case.trial, []
    names = [
        trial.item.id,
        label(trial.arm.attack.label).words,
        trial.arm.place.victim,
    ]
    title = ", ".join(names) + (", attack failed" if trial.verdict is Verdict.HELD else "")
    for when, side in (("Before", case.before), ("After", case.after)):
        at = case.outputs.index(side.answer if side.answer in case.outputs else case.key)
        panel = f"{when}: {_head(case, side, at)}"
        values = np.round(side.values[:, at], 6).tolist()
        for i, (token, value, place) in enumerate(
            zip(side.tokens, values, side.places, strict=True)
        ):
            is_edited = bool(side.edited[i])
            tip = f"{place}, edited" if is_edited else place
            points.append(Point(i, value, token, panel, tip, marked=is_edited))
    name, y = f"profile-{number}", "Shapley value"
    notes = ("Blue speaks for the output, orange against it; a frame marks the edit.",)
    return Chart(name, title, "words", "token", y, points, unit=False, notes=notes)


def _head(case: Explained, side: Side, at: int) -> str:
    ends = f"{side.base[at]:.3f}", f"{side.full[at]:.3f}"
    if case.value == SCORE:
        return f"score {ends[1]}; with everything masked {ends[0]}"
    answer = "no readable answer" if side.answer is None else f"answered {side.answer}"
    right = " (right)" if side.answer == case.key else ""
    return f"{answer}{right}; values for {case.outputs[at]}: {ends[0]} to {ends[1]}"
