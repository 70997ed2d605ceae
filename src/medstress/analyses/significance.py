"""Whether single successes are more than chance: stored tests against neutral edits (METHODS 2.6).

T is how likely the model is to give the right answer, from fresh samples. A control is as hard as
the attack where its T is no larger. A family is all questions that one attack attacked on one
model, each once; what held, or was not tested, has p = 1. Who asks, before the first call, and who
reads what was answered use the same nulls, statistics and prices.

References:
    Ness et al., "MedFuzz", 2024, Algorithm 2.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, exp
from typing import Any

from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import (
    HIDDEN,
    Remark,
    Shown,
    Table,
    column,
    named,
    table,
)
from medstress.core.arms import Place
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.stats.estimate import Estimate, benjamini_hochberg, holm
from medstress.stats.paired import difference_of_few
from medstress.stats.resampling import control_p
from medstress.store.reader import StoredInquiry

LEVEL = 0.05
"""A test is called significant at p up to this."""
FALSE_DISCOVERY_RATE = 0.10
"""Adjusted p-values up to this are discoveries where Benjamini and Hochberg adjust."""
TURNS, MOST_TURNS = 3, 5
"""Calls of one conversation with a model: reasoning, confidences, answer; the most, if confidences
and answer have to be repaired."""
LEAST_ASKED = 10
"""The fewest texts that a role is asked for at once, so that a test may leave as many unused."""

SETTINGS = ("null", "controls", "max_calls", "generator")
"""Keys of `[test]` that decide what is asked."""


class Null(StrEnum):
    """What a control is: an edit that should not work."""

    MATCHED = "matched"
    """The result of the attack's own loop, attempts until an error, with neutral insertions; a
    loop that held is easier than anything."""
    NEUTRAL = "neutral"
    """One neutral insertion, as in the paper, for items that were named beforehand."""

    @property
    def caution(self) -> str:
        """What a reader of its p-values has to know."""
        level = {
            Null.MATCHED: "p-values hold their level over all attacked questions",
            Null.NEUTRAL: "p-values compare what an attack chose with what it did not choose: "
            "where the hardness of insertions varies, they are too small",
        }[self]
        return f"Null {self}: {level}. Nothing is claimed about successes alone."


class Adjust(StrEnum):
    """How p-values are adjusted for the number of tests in their family."""

    BH = "bh"
    """Benjamini and Hochberg: controls the share of false discoveries."""
    HOLM = "holm"
    """Holm: controls the probability of any false discovery."""
    NONE = "none"
    """Not adjusted, as in the paper."""

    @property
    def level(self) -> float:
        """An adjusted p-value up to this is a discovery."""
        return FALSE_DISCOVERY_RATE if self is Adjust.BH else LEVEL

    def finds(self, p_adjusted: float) -> bool:
        """Whether that is a discovery.

        >>> Adjust.BH.finds(0.1 * 3 / 3)  # 0.10000000000000002
        True
        """
        return p_adjusted <= self.level + 1e-12

    @property
    def words(self) -> str:
        """What people call it."""
        return {"bh": "Benjamini-Hochberg", "holm": "Holm", "none": "nothing"}[self]

    @property
    def limit(self) -> str:
        """The level, and what adjusts p-values if anything does.

        >>> Adjust.BH.limit, Adjust.NONE.limit
        ('0.1 by Benjamini-Hochberg', '0.05')
        """
        return f"{self.level:g}" if self is Adjust.NONE else f"{self.level:g} by {self.words}"

    def of(self, p_values: Sequence[float], n_family: int) -> list[float]:
        """Adjust the p-values of tested successes within their family.

        Args:
            p_values: of the tested successes.
            n_family: attacked items; the others have p = 1.

        >>> [round(p, 6) for p in Adjust.BH.of([0.01, 0.02], 4)]
        [0.04, 0.04]
        >>> [round(p, 6) for p in Adjust.HOLM.of([0.01, 0.02], 4)]
        [0.04, 0.06]
        """
        if self is Adjust.NONE:
            return list(p_values)
        everyone = [*p_values, *[1.0] * (n_family - len(p_values))]
        adjusted = benjamini_hochberg(everyone) if self is Adjust.BH else holm(everyone)
        return adjusted[: len(p_values)]


class Statistic(StrEnum):
    """What estimates T, how likely the model is to give the right answer; the best one first."""

    KEY_PROBABILITY = "key_probability"
    """Mean P(right answer), normalised over the options, over sampled reasonings."""
    SHARE_CORRECT = "share_correct"
    """Share of sampled answers that are right."""

    @property
    def n_samples(self) -> int:
        """Sampled conversations behind one T; a share needs more than a mean."""
        return 20 if self is Statistic.SHARE_CORRECT else 5


def settings_key(settings: Mapping[str, Any]) -> str:
    """Return the settings of a test as text; equal for all tests that may be compared."""
    return json.dumps({name: settings[name] for name in SETTINGS}, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPrice:
    """What the controls of one success cost.

    >>> price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
    >>> price.controls(2_000), price.calls(118), price.calls(118, 10), price.least
    (118, 2000, 1901, 325)
    """

    null: Null
    statistic: Statistic
    attempts: int
    """K of the attack."""
    is_written: bool = False
    """Whether a role writes the insertions, one call each."""
    measured: float | None = None
    """Calls of a control, on average, where some were bought."""

    @property
    def of_success(self) -> int:
        """Calls for T of the clean item and of the success."""
        return 2 * TURNS * self.statistic.n_samples

    @property
    def usual(self) -> float:
        """Calls of a control: as measured, or a loop that holds, or T of a single insertion."""
        if self.measured is not None:
            return self.measured
        if self.null is Null.MATCHED:
            return (TURNS + self.is_written) * self.attempts
        return TURNS * self.statistic.n_samples + self.is_written

    @property
    def fewest(self) -> float:
        """The same of a single insertion that its first sample decides."""
        is_known = self.null is Null.MATCHED or self.measured is not None
        return self.usual if is_known else TURNS + self.is_written

    def with_flips(self, share: float) -> ControlPrice:
        """Return the price where so many loops of neutral insertions flip: then T is sampled.

        >>> price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
        >>> price.with_flips(0).controls(700, 9), price.with_flips(10 / 24).controls(700, 9)
        (37, 14)
        """
        if self.null is not Null.MATCHED or not share:
            return self
        return replace(self, measured=self.usual + share * TURNS * self.statistic.n_samples)

    @property
    def texts(self) -> int:
        """The most texts of a control."""
        return self.attempts if self.null is Null.MATCHED else 1

    @property
    def most(self) -> int:
        """The most calls of a control, texts apart: every attempt, and all samples of T."""
        looks = self.attempts if self.null is Null.MATCHED else 0
        return MOST_TURNS * (looks + self.statistic.n_samples)

    @property
    def least(self) -> int:
        """The least `max_calls` that is sure to buy a control."""
        return (
            2 * MOST_TURNS * self.statistic.n_samples
            + self.most
            + 2 * self.attempts * (self.is_written)
        )

    def too_small(self, max_calls: int) -> str:
        """Say that these calls may buy no control."""
        return (
            f"max_calls = {max_calls} is too small: a success with one control may take up to "
            f"{self.least} calls"
        )

    def controls(self, max_calls: int, n_tested: int = 1, each: float | None = None) -> int:
        """Return how many controls every success gets; the last one must be paid to its end.

        Args:
            max_calls: calls for each success.
            n_tested: successes, which share their calls.
            each: calls of a control; default: the usual ones.
        """
        left = n_tested * (max_calls - self.of_success - self._spare) - self.most
        return int(left / (each or self.usual) + 1 + 1e-9) // n_tested if left >= 0 else 0

    def span(self, max_calls: int, n_insertions: int, n_tested: int = 1) -> tuple[int, int]:
        """Return the controls that a success gets where all are dear, and where all are cheap.

        Args:
            max_calls: calls for each success.
            n_insertions: the most controls of null `neutral`.
            n_tested: successes, which share their calls.

        >>> price = ControlPrice(null=Null.NEUTRAL, statistic=Statistic.SHARE_CORRECT, attempts=3)
        >>> price.span(800, 30), price.span(2_000, 30)
        ((10, 30), (30, 30))
        """
        few, many = (self.controls(max_calls, n_tested, each) for each in (self.usual, self.fewest))
        most = many if self.null is Null.MATCHED else n_insertions
        return min(few, most), min(many, most)

    def words(self, few: int, many: int, of: str = "") -> str:
        """Say how many controls there are, of what."""
        if few == many:
            return f"about {few} controls{of}"
        calls = f"{self.fewest:.0f} to {self.usual:.0f} calls"
        return f"{few} to {many} controls{of} (a control takes {calls})"

    def expected(self, max_calls: int, n_insertions: int) -> float:
        """Return the calls that a success is expected to take.

        Loops of null `matched` go on until one could not be paid to its end. A single insertion is
        decided once T cannot come down to that of the success, which is taken to be below 1/4.
        """
        if self.null is Null.MATCHED:
            return max(0, max_calls - self.most)
        every = TURNS * (self.statistic.n_samples // 4 + 1) + self.is_written
        return min(max_calls, self.of_success + n_insertions * every)

    def calls(self, n_controls: int, n_tested: int = 1) -> int:
        """Return the `max_calls` that buys so many for every success; see `controls`.

        What was measured varies: some more are left for that.
        """
        last = self.most * (1 if self.measured is None else 2)
        shared = last + (n_tested * n_controls - 1) * self.usual
        every = self.of_success + self._spare
        return max(self.least, ceil(every + shared / n_tested - 1e-9))

    @property
    def _spare(self) -> int:
        return LEAST_ASKED if self.is_written else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a family can show at best, with every success at its smallest p.

    >>> Reach(controls=[30] * 40, n_family=40).n_needed
    13
    >>> Reach(controls=[30] * 4, n_family=4, adjust=Adjust.HOLM).n_needed  # 4/31 is above .05
    >>> Reach(controls=[23] * 2, counts=[0, 1], n_family=6).controls_needed  # one alone needs 59
    59
    """

    controls: Sequence[int]
    """Controls of each success; of those whose texts repeat, what the distinct texts make up."""
    limits: Sequence[int | None] = ()
    """The most that the texts of each success make up; None if that is not known, or no limit."""
    n_family: int
    """Attacked items, tested or with p = 1."""
    adjust: Adjust = Adjust.BH
    counts: Sequence[int] = ()
    """Controls as hard that each success has met already; they stay."""

    @property
    def n_controls(self) -> int:
        """The most controls of a success."""
        return max(self.controls, default=0)

    @property
    def p_min(self) -> float:
        """Smallest p-value of one test."""
        return 1 / (self.n_controls + 1)

    @property
    def smallest(self) -> float:
        """Smallest adjusted p-value."""
        pairs = zip(self.controls, self._counts, strict=True)
        least = [min(1.0, (1 + count) / (n + 1)) for n, count in pairs]
        return min(self.adjust.of(least, self.n_family), default=1.0)

    @property
    def _counts(self) -> Sequence[int]:
        return self.counts or [0] * len(self.controls)

    @property
    def n_needed(self) -> int | None:
        """How many successes must sit at `p_min` for one discovery; None if none is enough."""
        if self.adjust is not Adjust.BH:
            return 1 if self.can_show else None
        return ceil(self.p_min * self.n_family / self.adjust.level - 1e-9)

    @property
    def controls_needed(self) -> int | None:
        """Controls for each success with which a discovery is possible; None if texts repeat."""
        limits = self.limits or [None] * len(self.controls)
        family = 1 if self.adjust is Adjust.NONE else self.n_family
        needed = []
        for k in range(len(limits) if self.adjust is Adjust.BH else 1, 0, -1):
            share = family / (k * self.adjust.level)
            each = [ceil((1 + count) * share - 1e-9) - 1 for count in self._counts]
            pairs = zip(each, limits, strict=True)
            able = sorted(n for n, limit in pairs if limit is None or limit >= n)
            needed += able[k - 1 : k]
        return min(needed, default=None)

    @property
    def can_show(self) -> bool:
        """Whether an adjusted p-value can be small enough."""
        return self.adjust.finds(self.smallest)

    def shortfall(self, price: ControlPrice) -> str:
        """Return why nothing can be shown, and what it takes.

        >>> price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
        >>> Reach(controls=[118], n_family=40).shortfall(price)[-31:]
        ' a success, so max_calls = 6215'
        >>> Reach(controls=[99], limits=[99], n_family=40).shortfall(price)[-35:]
        "generator = 'attacker' ([test]) may"
        """
        n_tested, needed = len(self.controls), self.controls_needed
        best, distinct = self, ""
        if needed is None:  # with all texts there are
            pairs = zip(self.controls, self.limits, strict=True)
            best = replace(self, controls=[own if n is None else n for own, n in pairs])
            distinct = " distinct"
        text = (
            f"with about {best.n_controls}{distinct} controls a success no adjusted p can fall "
            f"below {best.smallest:.2g} ({plural(n_tested, 'success', 'successes')} among "
            f"{self.n_family} attacked), so nothing can be found at {self.adjust.limit}: "
        )
        if needed is None:
            few, other = "the lexicon has too few texts", GENERATOR
            if price.is_written:
                few, other = "control texts repeat", "another [role.attacker]"
            return f"{text}{few}, and no max_calls brings others; {other} may"
        controls, fewer = "", ""
        text = text if self.n_controls else "for a discovery "
        if price.null is Null.NEUTRAL:
            controls = f"controls = {needed} and "
            if price.measured is None:
                fewer = f", or fewer (a control takes {price.fewest} to {price.usual} calls)"
        return (
            f"{text}it takes about {needed} controls a success, so {controls}max_calls = "
            f"{price.calls(needed, n_tested)}{fewer}"
        )


GENERATOR = "generator = 'attacker' ([test])"
"""What has other texts than the lexicon."""
PURPOSE = "test"
ADJUSTED = "tests"
"""Manifest entry: settings of tests -> how their p-values are adjusted."""
TEXTS = "control_texts"
"""Manifest entry: trial -> how many texts the lexicon has for its controls, if that is too few."""
FIXED = "fixed_family"
"""Manifest entry: the items that `[test]` named before the first query, with their hash."""
STOP_AT = 10
"""A test of null `matched` ends when so many controls are at least as hard."""
GUESS = 0.5
"""A success is marked a guess where P(right answer) of the clean item is below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessTest:
    """The test of one success."""

    trial: Trial = field(metadata=HIDDEN)
    trial_id: str
    p: float
    """p = (1 + count) / (n_controls + 1); 10 / n_controls where it ended at ten as hard."""
    p_adjusted: float = 1.0
    p_paper: str | None = field(default=None, metadata=HIDDEN)
    """Null `neutral`: the share of controls as hard, without the +1; no p-value if `< 1/n`."""
    count: int
    """Controls at least as hard as the attack."""
    n_controls: int
    t_original: float
    t_attack: float
    effect: Estimate = field(metadata=HIDDEN)
    """t_original - t_attack."""
    guess: bool
    """Whether P(right answer) of the clean item, or else T of it, is below .5."""
    calls: int
    """Calls of models and roles that the test took."""
    n_distinct: int | None = field(default=None, metadata=HIDDEN)
    """How many controls the distinct texts make up; None if no text repeats."""

    @property
    def has_ended(self) -> bool:
        """Whether so many controls were as hard that null `matched` asks no more."""
        return self.count >= STOP_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTests:
    """The tests of one attack on one model: a family."""

    place: Place = field(metadata=HIDDEN)
    dataset: str
    victim: str
    attack: str
    null: Null
    n_family: int
    """Attacked items, which p-values are adjusted over."""
    items: Sequence[SuccessTest]
    adjust: Adjust = field(metadata=HIDDEN)
    n_successes: int = field(metadata=HIDDEN)
    """Successes that people do not refuse."""
    named: Sequence[str] = field(metadata=HIDDEN)
    """The items that were named before the first query; empty for all."""
    reach: Reach = field(metadata=HIDDEN)
    price: ControlPrice = field(metadata=HIDDEN)
    unfinished: Sequence[tuple[str, str]] = field(metadata=HIDDEN)
    """Items whose success could not be tested, and why."""
    why: str | None = field(metadata=HIDDEN)
    """Why calls failed, so that the tests may be asked again."""

    @property
    def n_discoveries(self) -> int:
        """Tests whose adjusted p is at most the level."""
        return sum(self.adjust.finds(one.p_adjusted) for one in self.items)

    @property
    def n_guesses(self) -> int:
        """Tests of successes on items that the model hardly knew."""
        return sum(one.guess for one in self.items)


def family_of(trials: Iterable[Trial], items: Collection[str]) -> list[Trial]:
    """Return one trial of every attacked item, of the named ones alone if there are any.

    Of several runs or seeds it is the first that attacked the item: what an attack does, does not
    decide which one is tested, so that levels are over items.
    """
    attacked = [
        one
        for one in trials
        if one.is_eligible and not one.arm.is_control and (not items or one.item.id in items)
    ]
    first = dict[tuple[Place, str, str], Trial]()
    for one in sorted(attacked, key=lambda trial: (trial.arm.seed or 0, trial.repeat)):
        first.setdefault((one.arm.place, one.arm.attack.label, one.item.id), one)
    chosen = {one.id for one in first.values()}
    return [one for one in attacked if one.id in chosen]


def tested(trial: Trial, stored: dict[str, Any], null: Null) -> SuccessTest:
    """Return the test of one success, not adjusted yet."""
    effect = difference_of_few(stored["original"], stored["fuzz"])
    t_original = sum(stored["original"]) / len(stored["original"])
    count, n = stored["hard"], stored["n"]
    before, item = trial.before, trial.item
    p_clean = t_original
    if before is not None and before.scores is not None:
        p_clean = exp(before.scores[item.letters.index(item.key)])
    is_neutral = null is Null.NEUTRAL
    return SuccessTest(
        trial=trial,
        trial_id=trial.id,
        p=control_p(count, n, stored["distinct"], stop_at=None if is_neutral else STOP_AT),
        p_paper=(f"{count / n:.3g}" if count else f"< 1/{n}") if is_neutral else None,
        count=count,
        n_controls=n,
        t_original=t_original,
        t_attack=sum(stored["fuzz"]) / len(stored["fuzz"]),
        effect=effect,
        guess=p_clean < GUESS,
        calls=stored["calls"],
        n_distinct=stored["distinct"],
    )


def tests_of(stored: StoredInquiry, family: Sequence[Trial], run: Run) -> ArmTests:
    """Return the tests of one family, adjusted over all that was attacked.

    Args:
        stored: what was asked.
        family: the attacked trials of its arm.
        run: says how p-values are adjusted.
    """
    spec, findings = stored.spec, stored.findings or {"tests": []}
    null = Null(spec["null"])
    adjust = Adjust(run.manifest.get(ADJUSTED, {}).get(settings_key(spec), Adjust.BH))
    by_id = {trial.id: trial for trial in family if not trial.is_refused}
    ours = [one for one in findings["tests"] if one["trial"] in by_id]
    tests = [tested(by_id[one["trial"]], one, null) for one in ours if one["note"] is None]
    adjusted = adjust.of([one.p for one in tests], len(family))
    # Where texts repeat, more controls do not make p smaller. A test that ended with ten as hard
    # would have gone on like the others.
    n = [one.n_controls if one.n_distinct is None else one.n_distinct for one in tests]
    ends = [one.n_distinct is None and null is Null.MATCHED and one.has_ended for one in tests]
    arm = family[0].arm
    price = ControlPrice(
        null=null,
        statistic=Statistic(findings.get("statistic", Statistic.SHARE_CORRECT)),
        attempts=arm.attack.attempts or 1,
        is_written=spec["generator"] == "attacker",
    )
    known = {} if price.is_written else run.manifest.get(TEXTS, {})
    known = {one: n // price.texts for one, n in known.items()}
    bought = sum(one.calls for one in tests) - len(tests) * price.of_success
    n_bought = sum(one.n_controls for one in tests)
    return ArmTests(
        place=arm.place,
        dataset=arm.place.dataset,
        victim=arm.place.victim,
        attack=arm.attack.label,
        null=null,
        n_family=len(family),
        items=[replace(one, p_adjusted=p) for one, p in zip(tests, adjusted, strict=True)],
        adjust=adjust,
        n_successes=sum(trial.first is not None for trial in by_id.values()),
        named=run.manifest.get(FIXED, {}).get("items", ()),
        reach=Reach(
            controls=[max(n) if end else own for own, end in zip(n, ends, strict=True)],
            limits=[known.get(one.trial_id, one.n_distinct) for one in tests],
            n_family=len(family),
            adjust=adjust,
        ),
        price=replace(price, measured=max(bought / n_bought, TURNS) if n_bought else None),
        unfinished=[
            (str(by_id[one["trial"]].item.id), one["note"])
            for one in ours
            if one["note"] is not None
        ],
        why=stored.note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance(Shown):
    """All tests of successes."""

    rows: Sequence[ArmTests]
    """Families with a test that finished: the latest of each null."""
    families: Sequence[ArmTests] = field(metadata=HIDDEN)
    """These, and those whose latest test could not finish."""
    n_earlier: int = field(metadata=HIDDEN)
    """Families that are left out, because other settings of the same null were asked later."""
    title = "Tests of successes"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """What every family shows, then every test."""
        notes = (
            "Discoveries: tests whose adjusted p is up to .10 (Benjamini-Hochberg) or .05 (Holm, "
            "or nothing). What held, or is not tested, has p = 1. Needed: how many successes must "
            "sit at the smallest p possible for one discovery. Guesses: successes on questions "
            "that the model hardly knew.",
            *dict.fromkeys(row.null.caution for row in self.rows),
            *([f"Left out: {plural(self.n_earlier, 'earlier test')}."] if self.n_earlier else []),
        )
        tests = [(row, one) for row in self.rows for one in row.items]
        meant = (
            "T: how likely the model is to give the right answer, from fresh samples. The paper's "
            "p is the share of controls at least as hard; below 1/n it is no p-value."
        )
        caption, every = "Are single successes more than chance?", "Every test of a success"
        return [
            table("significance", caption, self.rows, _FAMILIES, notes=notes),
            table("tests-of-successes", every, tests, _TESTS, notes=[meant]),
        ]

    def remarks(self) -> Iterator[Remark]:
        """What could not be tested, and what could not be shown."""
        return (one for family in self.families for one in _remarks(family))


def _remarks(row: ArmTests) -> Iterator[Remark]:
    at = (*row.place, row.attack)
    if row.why is not None:
        sentence = (
            f"{row.attack}: the tests of successes could not finish: {row.why}. `medstress test` "
            "asks what is missing."
        )
        yield Remark("not_tested", sentence, at)
    elif row.unfinished:
        item, why = row.unfinished[0]
        sentence = (
            f"{row.attack}: {len(row.unfinished):,} successes could not be tested, such as that on "
            f"{item!r}: {why}."
        )
        yield Remark("not_testable", sentence, at)
    if not row.reach.can_show and not all(one.has_ended for one in row.items):
        known = replace(row.reach, counts=[one.count for one in row.items])
        sentence = f"{row.attack}, null {row.null}: {known.shortfall(row.price)}"
        if not row.price.is_written and row.reach.controls_needed is not None:
            sentence += ", if the lexicon has so many texts (--dry-run tells)"
        yield Remark("shows_nothing", f"{sentence}.", at)


def significance_of(run: Run) -> Significance | None:
    """Adjust the stored tests family by family; None where nothing was tested."""
    last: dict[tuple[str, Place, str], StoredInquiry] = {}
    for one in run.inquiries(PURPOSE):
        key = settings_key(one.spec), Place(one.dataset, one.group, one.victim), one.attack
        last.pop(key, None)  # the order is that of the latest ones
        last[key] = one
    family = family_of(run.trials, run.manifest.get(FIXED, {}).get("items", ()))
    families = [
        tests_of(stored, own, run)
        for (_, place, attack), stored in sorted(last.items(), key=lambda pair: pair[0][1:])
        if (own := [t for t in family if (t.arm.place, t.arm.attack.label) == (place, attack)])
    ]
    if not families:
        return None
    finished = [one for one in families if one.items]
    rows, latest = (
        {(one.place, one.attack, one.null): one for one in some} for some in (finished, families)
    )
    shown = {id(one): one for one in (*rows.values(), *latest.values())}
    return Significance(
        rows=list(rows.values()),
        families=list(shown.values()),
        n_earlier=len(finished) - len(rows),
    )


SIGNIFICANCE = Analysis("significance", significance_of)


def _number(pair: tuple[ArmTests, SuccessTest]) -> str:
    """Return the item of a test, with its run where there are several."""
    trial = pair[1].trial
    return f"{trial.item.id}, run {trial.repeat + 1}" if trial.repeat else str(trial.item.id)


def _noted(test: SuccessTest) -> str | None:
    """Say what a reader of p has to know: a guess, and texts that repeat, which bound it."""
    n = test.n_distinct
    repeats = [] if n is None else [f"texts repeat: p is at least 1/{n + 1}"]
    return "; ".join(["guess"] * test.guess + repeats) or None


_FAMILIES = (
    named("Model", "victim"),
    named("Attack", "attack", wide=True),
    column("Null", lambda row: str(row.null)),
    column("Tested", lambda row: len(row.items), "count"),
    column("Successes", "n_successes", "count"),
    column("Attacked", "n_family", "count", "adjusted over"),
    column("Named", lambda row: ", ".join(row.named) or None, wide=True),
    column("By", "adjust.words"),
    column("Discoveries", "n_discoveries", "count"),
    column("Guesses", "n_guesses", "count", wide=True),
    column("Smallest p possible", "reach.p_min", "p", "with so many controls"),
    column("Needed", "reach.n_needed", "count", "successes at the smallest p possible"),
)
_TESTS = (
    column("Question", _number),
    named("Model", "0.victim"),
    named("Attack", "0.attack", wide=True),
    column("Null", lambda pair: str(pair[0].null), wide=True),
    column("T clean", "1.t_original", "number"),
    column("T attacked", "1.t_attack", "number"),
    column("Difference", "1.effect", "score", wide=True),
    column("As hard", "1.count", "count", "controls at least as hard as the attack"),
    column("Controls", "1.n_controls", "count"),
    column("Paper's p", "1.p_paper", wide=True),
    column("p", "1.p", "p"),
    column("Adjusted p", "1.p_adjusted", "p"),
    column("Calls", "1.calls", "count", "that the test took", wide=True),
    column("Remark", lambda pair: _noted(pair[1]), key="note"),
)
