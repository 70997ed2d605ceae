"""How often an attack succeeds, how soon, with how many names, and against harmless edits.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, Table 1; eta and prompt similarity: Figure 2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, lgamma, log, log1p
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medstress.analyses.run import NEVER, Cell, Pairs, Reading, Run, contrast, pair, share_of
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    MEANINGLESS,
    Remark,
    control_words,
    right_ones,
    takes_more,
)
from medstress.core.arms import MEANINGS, NOISE_CONTROL
from medstress.core.hashing import rng_for
from medstress.core.outcomes import TOO_LONG, Verdict, is_too_long
from medstress.core.queries import ATTACKER
from medstress.core.trials import Queries, Trial
from medstress.stats.estimate import WILSON, Ends, Estimate, unknown, wilson_ends
from medstress.stats.paired import Difference
from medstress.stats.resampling import RESAMPLES, draw_kinds, mean_over, percentiles
from medstress.stats.shares import Mask, Numbers

EVERY_BUDGET = 1_000
"""Up to this budget `asr_at` lists every one, beyond it those at which the share changes."""
_PARTS = 40
"""Parts in which resamples of names are counted."""
MOST_OF_A_REASON = 200
"""Characters of an error that a warning gives."""
UNSEEN = 0.1
"""Share of the eligible trials without an edit above which nothing is judged by an attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Trials by how they ended.

    n_trials = n_already_wrong + n_not_attackable + n_unreadable_at_baseline
    + n_failed_at_baseline + n_eligible, and
    n_eligible = n_flipped + n_held + n_measured + n_cut_short + n_failed.
    """

    n_items: int
    n_trials: int
    n_already_wrong: int
    n_not_attackable: int
    n_unreadable_at_baseline: int
    n_failed_at_baseline: int
    n_eligible: int
    n_flipped: int
    n_held: int
    n_measured: int
    n_cut_short: int
    n_failed: int
    n_unreadable_answers: int
    n_unreadable_under_attack: int
    """Eligible trials none of whose answers under attack could be read."""
    n_never_asked: int
    """Eligible trials that showed the model no edit."""
    n_unchanged: int
    n_ties: int
    n_rejected: int
    """Attempts that gates or repeats took away."""

    @property
    def share_unseen(self) -> float:
        """Share of the eligible trials that showed the model no edit."""
        return self.n_never_asked / self.n_eligible if self.n_eligible else 0.0

    @property
    def is_unseen(self) -> bool:
        """Whether too many eligible trials showed no edit to judge anything by the attack."""
        return self.share_unseen > UNSEEN

    @property
    def is_tied(self) -> bool:
        """Whether a hash decides nearly every answer, because options share the best score."""
        return self.n_ties >= self.n_trials - self.n_not_attackable > 0


def counts(cell: Cell) -> Counts:
    """Count the trials of a cell."""
    n_ended = np.bincount(cell.ended, minlength=len(Verdict)).tolist()
    n_lost = np.bincount(cell.ended[cell.lost_clean], minlength=len(Verdict)).tolist()
    ended, lost = (dict(zip(Verdict, numbers, strict=True)) for numbers in (n_ended, n_lost))
    queries = Queries(*cell.queries.sum(axis=0).tolist())
    return Counts(
        n_items=cell.items(),
        n_trials=len(cell.trials),
        n_already_wrong=ended[Verdict.ALREADY_WRONG],
        n_not_attackable=ended[Verdict.NOT_ATTACKABLE],
        n_unreadable_at_baseline=ended[Verdict.UNREADABLE],
        n_failed_at_baseline=sum(n_lost),
        n_eligible=int(cell.eligible.sum()),
        n_flipped=ended[Verdict.FLIPPED],
        n_held=ended[Verdict.HELD],
        n_measured=ended[Verdict.MEASURED],
        n_cut_short=ended[Verdict.CUT_SHORT] - lost[Verdict.CUT_SHORT],
        n_failed=ended[Verdict.FAILED] - lost[Verdict.FAILED],
        n_unreadable_answers=queries.unreadable,
        n_unreadable_under_attack=int(cell.mute.sum()),
        n_never_asked=int(cell.unseen.sum()),
        n_unchanged=queries.unchanged,
        n_ties=queries.ties,
        n_rejected=queries.rejected,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveChance:
    """Exact one-sided test of "no better than guessing", each item once, failed answers wrong."""

    p: float | None
    method: str = (
        "exact binomial test against chance, greater; each item once, failed answers as wrong"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the model knew before any edit, and what is left under attack."""

    accuracy: Estimate
    """Right / answered, of what could be attacked."""
    chance: float | None
    """max(mean of 1/options, share of the commonest key); None where answers are no choice."""
    above_chance: AboveChance
    accuracy_after: Estimate
    """(eligible - flipped) / answered."""
    letter_mass: Estimate
    """Mean probability of all option letters together after clean prompts."""

    @property
    def is_near_chance(self) -> bool:
        """Whether what was right cannot be told from guessing."""
        low = self.accuracy.ends[0]
        return self.chance is not None and low is not None and low <= self.chance

    def is_too_few(self, n_items: int) -> bool:
        """Return whether even a perfect model could not be told from guessing on so few items."""
        if self.chance is None or not n_items:
            return False
        return wilson_ends(n_items, n_items)[0] <= self.chance


def knowledge(cell: Cell) -> Knowledge:
    """Estimate accuracy before and after, and chance."""
    items = cell.one_per_item()
    asked = [trial for trial in items.trials if trial.is_answered]
    chance = _chance(asked)
    masses = [(i, t.before.mass) for i, t in enumerate(cell.trials) if t.before is not None]
    weighed = [(i, mass) for i, mass in masses if mass is not None]
    p = None
    if chance is not None and any(t.verdict is not Verdict.UNREADABLE for t in asked):
        clean = items.answered | items.open_clean
        p = _at_least(int(items.eligible[clean].sum()), int(clean.sum()), chance)
    return Knowledge(
        accuracy=cell.share(cell.read("accuracy")),
        chance=chance,
        above_chance=AboveChance(p=p),
        accuracy_after=cell.share(cell.read("accuracy_after")),
        letter_mass=_mean(cell, weighed, "mean letter mass"),
    )


def _chance(asked: Sequence[Trial]) -> float | None:
    """Return max(mean of 1/options, share of the commonest key) over items (METHODS 1.2)."""
    letters = [trial.item.choices for trial in asked]
    if not letters or not all(letters):
        return None
    keys = Counter(trial.item.key for trial in asked)
    return max(fmean(1 / len(some) for some in letters), max(keys.values()) / len(asked))


def _at_least(k: int, n: int, p: float) -> float:
    """Return the probability of k or more hits in n trials of probability p."""
    if k <= 0 or p >= 1:
        return 1.0
    logs = (
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) + (n - i) * log1p(-p)
        for i in range(k, n + 1)
    )
    return min(1.0, sum(map(exp, logs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBudget:
    """A share within a budget."""

    budget: int
    estimate: Estimate = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSuccess:
    """Perturbed queries up to the first success, over successes; None without any."""

    median: float | None
    mean: float | None

    @classmethod
    def of(cls, numbers: Sequence[int]) -> ToSuccess:
        """Return median and mean of some numbers."""
        if not numbers:
            return cls(median=None, mean=None)
        return cls(median=float(median(numbers)), mean=fmean(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """How often and how soon an attack succeeds."""

    asr: Estimate
    """Flipped / eligible."""
    asr_decided: Estimate
    """Flipped / (flipped + held)."""
    asr_asked: Estimate
    """Flipped / eligible that saw an edit."""
    asr_at: Sequence[AtBudget]
    queries_to_success: ToSuccess
    key_probability_change: Estimate
    """Mean change of P(right answer) to the first success, else to the last answer."""


def success(cell: Cell) -> Success:
    """Estimate ASR(B) = flipped within B / eligible, for the budget and every smaller one."""
    reading = cell.read("asr")
    decided = cell.has(Verdict.FLIPPED, Verdict.HELD)
    queries = [trial.first.query for trial in cell.trials if trial.first is not None]
    changes = list(_probability_changes(cell))
    return Success(
        asr=cell.share(reading),
        asr_decided=cell.share(reading.only(decided)),
        asr_asked=cell.share(reading.only(~cell.unseen)),
        asr_at=at_budgets(cell),
        queries_to_success=ToSuccess.of(queries),
        key_probability_change=_mean(cell, changes, "attacked answers"),
    )


def at_budgets(cell: Cell) -> list[AtBudget]:
    """Read ASR at every smaller budget off one run: queries do not depend on the budget."""
    last = cell.budget
    steps = {int(b) for b in cell.first[cell.eligible] if b != NEVER}
    every = range(1, last + 1)
    shown = every if last <= EVERY_BUDGET else sorted({1, last, *(b for b in steps if b <= last)})
    points: list[AtBudget] = []
    for b in shown:
        if points and b not in steps:
            points.append(AtBudget(budget=b, estimate=points[-1].estimate))
        else:
            points.append(AtBudget(budget=b, estimate=cell.share(cell.read("asr", b))))
    return points


def _probability_changes(cell: Cell) -> Iterator[tuple[int, float]]:
    """Yield place and change of P(key): to the first success, else to the last answer."""
    for i in np.flatnonzero(cell.eligible).tolist():
        trial = cell.trials[i]
        after = trial.last if trial.first is None else trial.first.answer
        letters = trial.item.choices
        if not (letters and trial.before and after):
            continue
        if trial.before.scores is not None and after.scores is not None:
            at = letters.index(trial.item.key)
            yield i, exp(after.scores[at]) - exp(trial.before.scores[at])


def _mean(cell: Cell, values: Sequence[tuple[int, float]], what: str) -> Estimate:
    """Estimate a mean over trials, documents drawn whole."""
    if not values:
        return unknown(f"no {what}")
    places = [i for i, _ in values]
    return mean_over(np.array([v for _, v in values]), cell.units[0][places], what)


def what_helps(reasons: Iterable[str | None]) -> str | None:
    """Say what helps trials that failed, all by prompts that are too long; None for any others.

    An attacker's conversation grows with its attempts, any other with its question alone.
    """
    reasons = list(reasons)
    if not all(map(is_too_long, reasons)):
        return None
    of_attacker = [bool(one and one.startswith(f"role {ATTACKER!r}")) for one in reasons]
    others = ["fewer attempts"] * any(of_attacker) + ["shorter questions"] * (not all(of_attacker))
    return f"they fail again as they are: choose a larger context, or {' and '.join(others)}"


_SENTENCES: Mapping[str, str] = {
    "near_chance": "{victim} is not shown to be above chance on {dataset}: what it loses cannot be "
    "told from guessing.",
    "failed": "{attack}: {failed:,} of {n_trials:,} trials failed; {advice}.{why}",
    "too_long": "{attack}: {long:,} of {n_trials:,} trials were not attackable.{why_long}",
    "unreadable_under_attack": "{attack}: in {n_unreadable_under_attack:,} of {n_eligible:,} "
    "trials no answer under attack could be read, so they may be lost.",
    "saw_no_edit": "{attack}: in {n_never_asked:,} of {n_eligible:,} trials the model saw no edit, "
    "so do not rely on this attack.",
    "ties": "{victim} gives its best score to several options in nearly every answer; a hash of "
    "question and letter decides then.",
}


def _commonest(notes: Iterable[str | None]) -> str:
    """Return the commonest of the notes and its number, to end a sentence."""
    counted = Counter(filter(None, notes)).most_common(1)
    shown = [f" {n:,} times: {' '.join(note.split())[:MOST_OF_A_REASON]}" for note, n in counted]
    return "".join(shown)


def remarks(cell: Cell, n: Counts, knows: Knowledge | None, loss: Loss | None) -> Iterator[Remark]:
    """Say what a reader of the rates has to know."""
    at = (*cell.place, cell.attack.label)
    notes = [t.note for t in cell.trials if t.verdict is Verdict.FAILED]
    # Those that are known before the run are a note on the data set.
    long = [t.note for t in cell.trials if t.verdict is Verdict.NOT_ATTACKABLE and t.at != TOO_LONG]
    long = list(filter(is_too_long, long))
    facts = {
        **cell.labels,
        **asdict(n),
        "failed": len(notes),  # not those that were cut short before their clean answer
        "advice": what_helps(notes) or "run again with --retry-failed",
        "why": _commonest(notes),
        "long": len(long),
        "why_long": _commonest(long),
    }
    # Where nothing could be read, what the model knows is unknown: p is None.
    is_near = knows is not None and knows.is_near_chance and knows.above_chance.p is not None
    is_clean = cell.attack.asks_clean_only
    is_unseen = n.is_unseen and not is_clean
    holds = (is_near, facts["failed"], long, n.n_unreadable_under_attack, is_unseen, n.is_tied)
    for (rule, sentence), is_so in zip(_SENTENCES.items(), holds, strict=True):
        if is_so:
            if is_clean and rule == "near_chance":
                sentence = f"{sentence.partition(':')[0]}."
            yield Remark(rule, sentence.format(**facts), at)
    if loss is not None and (name := loss.headline) is not None:
        c, how = loss.control[name], MEANINGS.get(name, "when its control edits the text")
        sentence = (
            f"Harmless edits alone take {c.hits:,} of {c.n:,} {right_ones(cell.trials[0])} "
            f"({name.replace('_', ' ')}: {how}); {cell.attack.label} is not shown to take more."
        )
        yield Remark("control_takes_as_much", sentence, at, "note")


# Against controls -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What an attack takes, and what each of its controls takes, by name of the control."""

    control: Mapping[str, Estimate]
    """Share that the control flips, of the questions that both may flip."""
    asr_net: Mapping[str, Estimate]
    """a - c on the same trials."""
    loss_bounds: Mapping[str, Ends]
    """From the low end of a - c, at least 0, to the high end of a; open answers at their worst."""
    tests: Mapping[str, Difference] = field(metadata=HIDDEN)

    def takes_as_much(self, control: str) -> bool:
        """Return whether harmless edits take some and the attack is not shown to take more.

        The interval of a - c reaches 0, and the low end of c is above 0.
        """
        net, least = self.asr_net[control].ends[0], self.control[control].ends[0]
        return net is not None and net <= 0 and least is not None and least > 0

    @property
    def headline(self) -> str | None:
        """The control whose harmless edits are the headline: of those that take as much as the
        attack the one that surely takes most; None without one."""
        as_much = [n for n in MEANINGLESS if n in self.control and self.takes_as_much(n)]
        return max(as_much, key=lambda name: self.control[name].ends[0] or 0.0, default=None)


class AgainstControl(NamedTuple):
    """An attack against one control."""

    control: Estimate
    net: Difference
    bounds: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What gates and repeats left of an arm's attempts."""

    asked: float
    """Share of the attempts that reached the model."""
    new: float
    """Share of the queries after the first of a trial that asked a new variant."""
    repeats: Mapping[int, Sequence[int]]
    """Number of a trial -> its queries that asked a variant again."""

    def limits(self, cell: Cell, budget: int) -> NDArray[np.int64]:
        """Return up to which query a control's flip counts for each trial, shape (n,).

        Where the attack held, it is the number of variants that it asked. Where it succeeded, it is
        those up to the success and, for the attempts left, a binomial draw at the arm's shares,
        seeded by the trial. `NEVER` where nothing was taken away.
        """
        attempts = cell.budget
        return np.array([self._limit(t, attempts, budget) for t in cell.trials], dtype=np.int64)

    def _limit(self, trial: Trial, attempts: int, budget: int) -> int:
        first, again = trial.first, self.repeats.get(trial.number, ())
        if first is None or first.query > budget:
            if not again and not trial.queries.rejected:
                return NEVER
            n = min(budget, trial.queries.asked)
            return n - sum(query <= n for query in again)
        arm, n = trial.arm, first.query
        stream = f"reach of {arm.attack.label}/{arm.place.group}/{arm.place.victim}/{trial.unit}"
        rng = rng_for(arm.seed or 0, stream, arm.place.dataset, trial.item.id, trial.repeat)
        left = max(attempts - (first.attempt or n + trial.queries.rejected), 0)
        more = min(budget - n, int(rng.binomial(left, self.asked)))
        return n - sum(query <= n for query in again) + int(rng.binomial(more, self.new))


def reach(run: Run, cell: Cell) -> Reach | None:
    """Return what gates and repeats left of an attack's attempts; None where they took nothing."""
    tried = [trial for trial in cell.trials if trial.is_eligible]
    # The answer to a repeat comes from a cache, so edits are read only where some answer did.
    repeats = {
        t.number: again
        for t in tried
        if t.queries.cached and (again := run.folder.repeats.get(t.number))
    }
    asked = sum(trial.queries.asked for trial in tried)
    rejected = sum(trial.queries.rejected for trial in tried)
    if not rejected and not repeats:
        return None
    later = sum(max(trial.queries.asked - 1, 0) for trial in tried)
    return Reach(
        asked=asked / (asked + rejected),
        new=1 - sum(map(len, repeats.values())) / later if later else 1.0,
        repeats=repeats,
    )


def loss(run: Run, cell: Cell) -> Loss | None:
    """Compare an attack with its controls at its budget; None without any."""
    controls = run.controls(cell)
    if not controls:
        return None
    left = reach(run, cell)
    pairs = {name: pair(cell, control) for name, control in controls.items()}
    full = {n: at_budget(cell, controls[n], pairs[n], cell.budget, left) for n in controls}
    return Loss(
        control={name: part.control for name, part in full.items()},
        asr_net={name: part.net.estimate for name, part in full.items()},
        loss_bounds={name: part.bounds for name, part in full.items()},
        tests={name: part.net for name, part in full.items()},
    )


def doubt(
    run: Run, cell: Cell, budget: int | None = None, whole: Cell | None = None, level: float = 0.95
) -> str | None:
    """Say which harmless edits surely lose more than the attack, or have answers that say too
    little; None where none do.

    Args:
        run: the run.
        cell: the attack, or a slice of it.
        budget: perturbed queries that count; default: the attack's.
        whole: the attack; default: `cell`.
        level: of the interval of a - c, which has to end below 0.
    """
    controls, of = run.controls(cell), whole or cell
    left = reach(run, of) if controls else None
    for name in (name for name in (*MEANINGLESS, NOISE_CONTROL) if name in controls):
        pairs = pair(cell, controls[name])
        both = readings(cell, controls[name], pairs, budget or of.budget, left)
        high = contrast(*both, pairs.units, level).estimate.ends[1]
        if high is not None and high < 0:
            return takes_more(name)
        if share_open(controls[name]) > UNSEEN:
            return f"answers under {control_words(name)} failed or could not be read"
    return None


def part_of(cell: Cell | None, mask: Callable[[Cell], Mask]) -> float:
    """Return a share of the attacked: answers before any edit may be open too, which is another
    matter."""
    if cell is None or not cell.eligible.any():
        return 0.0
    return int((mask(cell) & cell.eligible).sum()) / int(cell.eligible.sum())


def share_open(cell: Cell) -> float:
    """Return the share of the attacked that may be lost, for all that their answers say.

    0 where at most a tenth of the answers failed or could not be read: then the interval says it.
    """
    sums = Queries(*cell.queries[cell.eligible].sum(axis=0).tolist())
    if sums.unreadable + sums.failed <= UNSEEN * sums.asked:
        return 0.0
    read = cell.read("asr")
    return part_of(cell, lambda _: read.counts & read.most & ~read.hit)


def readings(
    cell: Cell, control: Cell, pairs: Pairs, budget: int, left: Reach | None
) -> tuple[Reading, Reading]:
    """Return what attack and control flip within a budget, one place a pair.

    Args:
        cell: the attack.
        control: its control.
        pairs: their trials on the same items.
        budget: perturbed queries that count.
        left: what gates and repeats left of the attack's attempts (`reach`).
    """
    ours = cell.read("asr", budget).at(pairs.first)
    others = control.read("asr", budget).at(pairs.second)
    if left is None:
        return ours, others
    counts = control.first[pairs.second] <= left.limits(cell, budget)[pairs.first]
    is_open = (~control.eligible | control.lacks)[pairs.second]
    return ours, others._replace(
        hit=others.hit & counts,
        least=others.least & counts,
        most=(others.most & counts) | is_open,
    )


def at_budget(
    cell: Cell, control: Cell, pairs: Pairs, budget: int, left: Reach | None = None
) -> AgainstControl:
    """Compare an attack with a control on the trials of both; the arguments are `readings`'."""
    ours, others = readings(cell, control, pairs, budget, left)
    net = contrast(ours, others, pairs.units)
    low, high = net.estimate.ends[0], cell.share(cell.read("asr", budget)).ends[1]
    bounds: Ends = (None, None) if low is None or high is None else (max(0.0, low), high)
    both, may = ours.counts & others.counts, ours.may_count & others.may_count
    of_both = others._replace(counts=both, may_count=may)
    return AgainstControl(share_of(of_both, pairs.units), net, bounds)


# Names that succeed ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """Diversity of the names that succeeded, within a seed and then averaged."""

    diversity: Estimate
    """eta = 1 - sum_j q_j^2, q_j the share of name j; grows with the number of successes."""
    diversity_unbiased: Estimate
    """1 - sum_j c_j (c_j - 1) / (n (n - 1)), c_j the successes of name j."""
    prompt_similarity: Estimate
    """Mean cosine of the whole prompts before and after first successes."""


def diversity(cell: Cell) -> Diversity:
    """Estimate both forms of the Gini-Simpson index from the same resamples, and similarity.

    If n is far from 0, the seeds of one item put in the same few names. Pooled, they would look
    like reuse between items, or hide it.
    """
    has_names = cell.attack.draws_names or not cell.arm.is_control
    plain, unbiased = both_forms(names_by_seed(cell.trials) if has_names else [])
    return Diversity(
        diversity=plain,
        diversity_unbiased=unbiased,
        prompt_similarity=prompt_similarity(cell),
    )


def names_by_seed(trials: Iterable[Trial]) -> list[dict[str, list[str]]]:
    """Return for every seed and repeat the names of first successes by document or item."""
    seeds: dict[tuple[bool, int, int], dict[str, list[str]]] = defaultdict(dict)
    for trial in trials:
        seed = trial.arm.seed
        if trial.first is not None and trial.first.name is not None:
            names = seeds[seed is not None, seed or 0, trial.repeat]
            names.setdefault(trial.cluster, []).append(trial.first.name)
    return [seeds[key] for key in sorted(seeds)]


def gini_simpson(counts: ArrayLike, *, unbiased: bool = False) -> Numbers:
    """Return the probability that two successes put in different names.

    1 - sum_j (c_j / n)^2, drawing the two with replacement, or in the unbiased form
    1 - sum_j c_j (c_j - 1) / (n (n - 1)), drawing them without.

    Args:
        counts: successes by name, shape (..., n_names); 1 in total, 2 for the unbiased form.
        unbiased: True for the unbiased form.

    Returns:
        Shape (...), in [0, 1].

    >>> float(gini_simpson([3, 1])), float(gini_simpson([3, 1], unbiased=True))
    (0.375, 0.5)

    References:
        Simpson, "Measurement of diversity", Nature 1949.
    """
    c, taken = np.asarray(counts, dtype=np.float64), int(unbiased)
    n = c.sum(axis=-1)
    return np.asarray(1 - (c * (c - taken)).sum(axis=-1) / (n * (n - taken)))


def both_forms(seeds: Sequence[Mapping[str, Sequence[str]]]) -> tuple[Estimate, Estimate]:
    """Estimate the plain and the unbiased index, drawing whole items of all seeds together.

    The interval goes from the 2.5 % to the 97.5 % quantile of the resamples, shifted by the
    difference of the index and their mean: a resample repeats names, so that its index is lower by
    a factor 1 - 1/n on average, and unshifted quantiles would often lie below the value (with 15
    successes over 20 equally likely names they cover the truth in 30 % of simulations, shifted
    ones in more than 95 %). If it has no width, all m items look alike. Then, with L the lower
    Wilson end for m of m, two successes both look like these with probability L^2, and the interval
    is [L^2 eta, 1 - L^2 (1 - eta)].

    Args:
        seeds: the names of each seed by item.

    References:
        Davison and Hinkley, "Bootstrap Methods and their Application", 1997, chapter 5.
    """
    drawn = _resampled(seeds)
    plain, unbiased = (
        _mean_over_seeds(seeds, [index[form] for index in drawn], unbiased=form)
        for form in (False, True)
    )
    return plain, unbiased


def _mean_over_seeds(
    seeds: Sequence[Mapping[str, Sequence[str]]], drawn: Sequence[Numbers], *, unbiased: bool
) -> Estimate:
    counts = [Counter(name for group in names.values() for name in group) for names in seeds]
    enough = [i for i, names in enumerate(counts) if names.total() > unbiased]
    if not enough:
        why = "needs at least 2 successes" if unbiased else "needs a success"
        return unknown(why, sum(names.total() for names in counts))
    n, m = sum(counts[i].total() for i in enough), len({x for i in enough for x in seeds[i]})
    value = float(np.mean([gini_simpson([*counts[i].values()], unbiased=unbiased) for i in enough]))
    indices = np.stack([drawn[i] for i in enough])
    # A resample may have too few successes of a seed; the others count then.
    has = np.isfinite(indices)
    some = has.any(axis=0)
    means = np.where(has, indices, 0).sum(axis=0)[some] / has.sum(axis=0)[some]
    low, high = percentiles(means)
    what = "successes" if m == n else f"the successes of {m} items"
    method = f"bootstrap over {what}, {RESAMPLES} resamples, recentred percentile 95 %"
    if low == high:
        both = wilson_ends(m, m)[0] ** 2
        low, high = both * value, 1 - both * (1 - value)
        method = f"{WILSON} over {m} items that look alike (their bootstrap interval has no width)"
    else:
        shift = value - float(means.mean())
        low, high = max(0.0, low + shift), min(1.0, high + shift)
    if len(enough) > 1:
        method = f"mean over {len(enough)} seeds, within each; {method}"
    return Estimate(value=value, n=n, low=low, high=high, method=method)


def _resampled(seeds: Sequence[Mapping[str, Sequence[str]]]) -> list[dict[bool, Numbers]]:
    """Return both forms of each seed's index in every resample of the items of all seeds.

    An index is nan in a resample that has too few successes of the seed.
    """
    items = sorted({item for names in seeds for item in names})
    if not items:
        return []
    looks = Counter(tuple(tuple(sorted(names.get(item, ()))) for names in seeds) for item in items)
    kinds, drawn = draw_kinds(looks)
    indices = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(len(seeds)):
            # (name, look) in order, so that the columns of one name are next to each other.
            places = sorted((name, row) for row, kind in enumerate(kinds) for name in kind[i])
            starts = [at for at, (name, _) in enumerate(places) if name != places[at - 1][0]] or [0]
            looks_of = [row for _, row in places]
            parts: dict[bool, list[Numbers]] = {False: [], True: []}
            for rows in np.array_split(drawn, _PARTS):  # thousands of names fill the memory
                counts = np.add.reduceat(rows[:, looks_of], starts, axis=1)
                for form, made in parts.items():
                    made.append(gini_simpson(counts, unbiased=form))
            indices.append({form: np.concatenate(made) for form, made in parts.items()})
    return indices


def prompt_similarity(cell: Cell) -> Estimate:
    """Estimate the mean cosine of prompts over first successes whose prompts were embedded."""
    firsts = [(i, t.first) for i, t in enumerate(cell.trials) if t.first is not None]
    embedded = [(i, f.similarity) for i, f in firsts if f.similarity is not None]
    if not embedded:
        return unknown("not computed")
    n_open = len(firsts) - len(embedded)
    what = "mean cosine of prompts over successes" + (f", {n_open} not embedded" if n_open else "")
    places, values = zip(*embedded, strict=True)
    return mean_over(np.array(values), cell.units[0][list(places)], what)
