"""What is read first: three lines, and whether one may rely on them.

Rules choose from results, templates say it (INTERFACE 4). What is lost is counted in questions, as
the mean over seeds. Ends of intervals decide what is said, points never do: the interval of the
worst of N results holds at Sidak's level for those N (METHODS 1.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, floor
from typing import Literal, NamedTuple, TypeAlias

from medstress.analyses import names
from medstress.analyses.as_json import HIDDEN
from medstress.analyses.names import Noun, capital, listed
from medstress.analyses.results import RESULTS, Row, Scored
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import Shown
from medstress.analyses.success import UNSEEN
from medstress.core.controls import CONTROLS, arm_label
from medstress.core.trials import Trial
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.stats.estimate import Estimate, Z, quantile, sidak, wilson_ends
from medstress.stats.paired import Difference, tango

Level: TypeAlias = Literal["yes", "no", "too few"]
FEW_QUESTIONS, FEW_DOCUMENTS, FEW_PAIRS = 20, 30, 40
"""Below, a share, an F1 and a correlation say too little (METHODS 1.5, Few documents)."""
SIGNIFICANT = 0.05
NOISY = 2 / 3
"""A model of which harmless edits surely take more changes its answer whenever the text does."""
SHOWN = 2
"""Reasons that the third line gives; `trust.reasons` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whether one may rely on the lines, and why not."""

    level: Level
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfModel:
    """The lines of one model of several."""

    model: str
    lines: Sequence[str]
    arm: Mapping[str, str] | None
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Shown):
    """The first lines of terminal, page and Markdown, those of the model that loses most."""

    lines: Sequence[str]
    arm: Mapping[str, str] | None
    """Data set, group, victim and attack that the lines speak of; None where nothing is
    measured."""
    trust: Trust
    models: Sequence[OfModel]
    """Of a run with several models, the one that loses most first."""
    rules: Sequence[str] = field(metadata=HIDDEN)
    """Which rule chose each line."""


class VerdictOfRun:
    """Three lines that say what was lost, what harmless edits take, and whether to rely on it."""

    name = "verdict"

    def compute(self, run: Run) -> Verdict:
        """Choose the arm that surely takes most, of the run and of each model."""
        results = run.of(RESULTS)
        return verdict_of(run, results.attacks if results else [])


VERDICT = VerdictOfRun()


def verdict_of(run: Run, rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the rows of attacks."""
    victims = list(dict.fromkeys([*run.manifest["victims"], *(row.key.victim for row in rows)]))
    first = _conclude(run, rows)
    if len(victims) < 2 or not rows:
        return replace(first, models=())
    models = [
        (victim, _conclude(run, [row for row in rows if row.key.victim == victim], victim))
        for victim in victims
    ]
    unmeasured = [victim for victim, verdict in models if verdict.arm is None]
    models.sort(key=lambda pair: _rank_of(pair[1], first))
    if unmeasured and first.arm is not None:
        reason = NOT_MEASURED.format(models=listed(unmeasured))
        trust = Trust(level="no", reasons=[*first.trust.reasons, reason])
        rule, line = _trust_line(trust, is_harmless_first=first.rules[0] == HEADLINE)
        first = replace(
            first, trust=trust, lines=[*first.lines[:2], line], rules=[*first.rules[:2], rule]
        )
    return replace(
        first,
        models=[
            OfModel(model=victim, lines=own.lines, arm=own.arm, trust=own.trust)
            for victim, own in models
        ],
    )


def _rank_of(verdict: Verdict, first: Verdict) -> int:
    """Put the model of the first lines first, and models without a measurement last."""
    if verdict.arm is None:
        return 2
    return int(first.arm is None or verdict.arm["victim"] != first.arm["victim"])


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What rules read of one arm, and what templates say of it."""

    row: Row
    model: str
    attack: str
    """In words."""
    place: str
    """Data set and group where the run has several."""
    n_results: int
    """Results among which this one may be the worst."""
    score: Scored | None
    """Of tagged texts and pairs, where the whole data set was perturbed."""
    score_name: str
    taken: Estimate
    """Share lost, drop of the score, or accuracy where nothing is attacked, at Sidak's level."""
    net: Estimate | None
    """What the attack takes above its control, at the same level."""
    control: str | None
    """The control that the lines name."""
    control_cell: Cell | None
    is_awaited: bool
    """Whether a control is planned and has not been asked."""
    others: Sequence[Facts] = ()
    """The worst arms elsewhere."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was attacked (`--attack none`)."""
        return self.row.cell.attack.asks_clean_only

    @cached_property
    def trials(self) -> Sequence[Trial]:
        """Of the cell."""
        return self.row.cell.trials

    @cached_property
    def noun(self) -> Noun:
        """What is counted."""
        return names.noun_of(self.trials[0])

    def distinct(self, holds: Callable[[Trial], bool]) -> int:
        """Count questions, or entities, over all seeds once."""
        return len({(t.item.id, t.unit) for t in self.trials if holds(t)})

    @cached_property
    def n_all(self) -> int:
        """Questions of the data."""
        return self.distinct(lambda t: True)

    @cached_property
    def n_met(self) -> int:
        """Questions that could be attacked."""
        return self.distinct(lambda t: t.is_answered or t.is_open_clean)

    @cached_property
    def n_right(self) -> int:
        """Questions that the model had right before any edit."""
        return self.distinct(lambda t: t.is_eligible)

    @cached_property
    def n_documents(self) -> int:
        """Units of a score: documents, texts or pairs."""
        return len({t.cluster for t in self.trials})

    @cached_property
    def mute(self) -> float:
        """Share of the attacked without any readable answer under attack."""
        n = self.row.counts
        return (n.n_unreadable_under_attack + n.n_failed) / n.n_eligible if n.n_eligible else 0.0

    @cached_property
    def open_clean(self) -> float:
        """Share of what could be attacked that has no readable answer before any edit."""
        open_ = self.distinct(lambda t: t.is_open_clean)
        return open_ / self.n_met if self.n_met else 0.0

    @property
    def unseen(self) -> float:
        """Share of the attacked that were shown no edit."""
        share = self.row.counts.share_unseen
        if self.is_clean:
            return 0.0
        # Noise that fits nowhere leaves a text as it is, which is part of the score.
        return share if self.score is None or share >= 1 else 0.0

    @cached_property
    def harmless(self) -> Estimate | None:
        """Share that the control takes."""
        loss = self.row.loss
        return loss.control[self.control] if loss and self.control else None

    @cached_property
    def harmless_unseen(self) -> float:
        """Share of the attacked that the control showed no edit."""
        return _share(self.control_cell, lambda t: t.saw_no_edit)

    @cached_property
    def harmless_mute(self) -> float:
        """Share of the attacked without any readable answer under the control."""
        return _share(self.control_cell, lambda t: t.is_mute)

    @property
    def is_judged(self) -> bool:
        """Whether enough was asked and answered to count what the attack takes."""
        return self.unseen <= UNSEEN and self.mute < 1

    @property
    def may_be_chance(self) -> bool:
        """Whether what the attack takes, above its control if it has one, may be nothing."""
        if self.score is not None:
            p = None if self.score.p is None else 1 - (1 - self.score.p) ** self.n_results
            return not _above(self.taken) or (p is not None and p > SIGNIFICANT)
        return self.net is not None and not _above(self.net)

    @property
    def is_harmless_first(self) -> bool:
        """Whether harmless edits are the headline: they take some, the attack may take no more."""
        return (
            self.is_judged
            and self.net is not None
            and self.harmless is not None
            and not _above(self.net)
            and _above(self.harmless)
        )

    @property
    def is_noisy(self) -> bool:
        """Whether harmless edits surely take most of what was right."""
        low = self.harmless.ends[0] if self.harmless else None
        return low is not None and low > NOISY

    @property
    def may_guess(self) -> bool:
        """Whether the model may be guessing, on enough questions to tell."""
        knows = self.row.knows
        return (
            self.score is None
            and knows is not None
            and knows.is_near_chance
            and not knows.is_too_few(self.n_met)
        )

    @property
    def is_at_chance(self) -> bool:
        """Whether no more was right than guessing gives on average."""
        knows = self.row.knows
        return (
            knows is not None
            and knows.chance is not None
            and (knows.accuracy.value or 0.0) <= knows.chance
        )

    @property
    def few(self) -> tuple[int, Noun] | None:
        """What there is too little of."""
        if self.score is not None and self.noun is names.PAIRS:
            n, noun, least = self.n_right, self.noun, FEW_PAIRS
        elif self.score is not None:
            n, noun, least = self.n_documents, self._unit_noun, FEW_DOCUMENTS
        else:
            n, noun, least = self.n_met if self.is_clean else self.n_right, self.noun, FEW_QUESTIONS
        return (n, noun) if n < least else None

    @property
    def _unit_noun(self) -> Noun:
        if self.noun is names.PAIRS:
            return names.PAIRS
        has_documents = any(t.cluster != t.item.id for t in self.trials)
        return names.DOCUMENTS if has_documents else names.TEXTS

    @property
    def rank(self) -> tuple[float, float, float, bool]:
        """How much the arm surely takes, then how much it takes, then how much it may take."""
        low, high = self.taken.ends
        value = self.taken.value or 0.0
        return (
            value if low is None else low,
            value,
            value if high is None else high,
            self.control is not None,
        )

    @cached_property
    def words(self) -> Mapping[str, str]:
        """What templates put in."""
        low, high = self.taken.ends
        n, net = self.n_met if self.is_clean else self.n_right, self.net
        least, most = net.ends if net is not None else (None, None)
        seen = self.distinct(lambda t: t.is_eligible and not t.saw_no_edit)
        controls = names.HARMLESS.get(self.control or "", "harmless edits")
        of = f" of {self.place}" if self.place else ""
        rest = f"; the worst of {self.n_results} results" if self.n_results > 1 else ""
        few_n, few_noun = self.few or (0, self.noun)
        values = {
            "model": self.model,
            "attack": self.attack,
            "Attack": capital(self.attack),
            "lose": _verb(self.attack),
            "verb": _VERBS.get(self.noun, "knew"),
            "right": f"{self.n_right:,}" if self.n_right else "none",
            "right_n": f"{self.n_right:,}",
            "right_nouns": f"{self.noun.count(self.n_right)}{of}",
            "nouns": self.noun.many,
            "met": self._met(of),
            "lost": _count(self.taken.value, n),
            "low": _outward(low, n, floor),
            "high": _outward(high, n, ceil),
            "most": _outward(high, n, floor),
            "worst": rest,
            "seen": f"{seen:,}",
            "unseen": _count(self.unseen, n),
            "mute": _count(self.mute, n),
            "open": _count(self.open_clean, self.n_met),
            "met_n": f"{self.n_met:,}",
            "needed": f"{self._needed():,}",
            "controls": controls,
            "Controls": capital(controls),
            "harmless": _count(self.harmless.value if self.harmless else None, n),
            "harmless_range": self._harmless_range(),
            "harmless_shown": _count(1 - self.harmless_unseen, n),
            "harmless_mute": _count(self.harmless_mute, n),
            # An integer above 0 is at least 1.
            "net_low": f"{max(1, floor((least or 0.0) * n)):,}",
            "net_high": _outward(most, n, ceil),
            "same_type": self._same_type(),
            "few_n": f"{few_n:,}",
            "few_nouns": few_noun.many,
            "few": few_noun.count(few_n),
            "others": self._others(),
        }
        return {**values, **self._score_words(rest)}

    def _met(self, of: str) -> str:
        if self.n_met == self.n_all:
            return f"{self.noun.count(self.n_met)}{of}"
        return (
            f"the {self.noun.count(self.n_met)}{of} that could be attacked ({self.n_all:,} asked)"
        )

    def _needed(self) -> int:
        """Return the fewest right answers that would show that the model does not guess."""
        chance, n = (self.row.knows.chance or 0.0 if self.row.knows else 0.0), self.n_met
        return next((k for k in range(n + 1) if n and wilson_ends(k, n)[0] > chance), n + 1)

    def _harmless_range(self) -> str:
        """Return what stands in brackets: the range in seeds, of one seed the interval."""
        cell, share = self.control_cell, self.harmless
        if cell is None or share is None:
            return ""
        if len(cell.seeds) == 1:
            low, high = share.ends
            return f"{_outward(low, self.n_right, floor)} to {_outward(high, self.n_right, ceil)}"
        budget = self.row.cell.budget
        counts = [int(one.flipped(budget).sum()) for one in cell.by_seed()]
        least, most, n = min(counts), max(counts), len(counts)
        return f"{least:,} to {most:,} in {n} seeds" if least < most else f"in each of {n} seeds"

    def _same_type(self) -> str:
        """Say what random names take, a control of the edit's size."""
        loss = self.row.loss
        if loss is None or self.control == "same_type" or "same_type" not in loss.control:
            return ""
        return SAME_TYPE.format(lost=_count(loss.control["same_type"].value, self.n_right))

    def _others(self) -> str:
        lost = [f for f in self.others if f.taken.value]
        if not lost:
            return ""
        parts = [
            (OTHER_SCORE if f.score is not None else OTHER).format(**f.words) for f in lost[:3]
        ]
        more = f"; {len(lost) - 3} more" if len(lost) > 3 else ""
        return f" {ALSO}: {'; '.join(parts)}{more}."

    def _score_words(self, rest: str) -> Mapping[str, str]:
        if self.score is None:
            return {}
        before, after, net = self.score.before, self.score.after, self.score.net_drop
        noun = self._unit_noun
        n = self.n_right if noun is names.PAIRS else self.n_documents
        shown = _at(after, sidak(self.n_results))
        has_ends = self.few is None and shown.low is not None and shown.high is not None
        ends = f"; {decimal(shown.low)} to {decimal(shown.high)}" if has_ends else ""
        cost = None
        if net is not None and net.value is not None and self.score.drop.value is not None:
            cost = self.score.drop.value - net.value
        low, high = self.net.ends if self.net is not None else (None, None)
        name = self.score_name
        subject = _SUBJECTS.get(name, f"{capital(name)} of {{model}}").format(model=self.model)
        return {
            "subject": subject,
            "before": decimal(before.value),
            "after": decimal(after.value),
            "size": f"{noun.count(n)}{ends}{rest}",
            "cost": decimal(cost),
            "score_low": decimal(low),
            "score_high": decimal(high),
        }


class Rule(NamedTuple):
    """A template, and when it is the one; the first rule that holds says the line."""

    name: str
    holds: Callable[[Facts], bool]
    text: str


class Reason(NamedTuple):
    """Why one may not rely on the lines."""

    name: str
    level: Level
    holds: Callable[[Facts], bool]
    text: str


_VERBS: Mapping[Noun, str] = {names.ENTITIES: "found", names.PAIRS: "scored"}
_SUBJECTS: Mapping[str, str] = {
    "f1": "F1 of {model}",
    "pearson": "The correlation of {model} with people's scores",
    "spearman": "The rank correlation of {model} with people's scores",
}
KNEW = "{model} {verb} {right} of {met}"
HEADLINE = "harmless_first"
TAKEN: Sequence[Rule] = (
    Rule("clean", lambda f: f.is_clean, KNEW + " ({low} to {high})."),
    Rule(
        "score_same",
        lambda f: f.score is not None and f.words["before"] == f.words["after"],
        "{subject} stays at {before} under {attack} ({size}).{others}",
    ),
    Rule(
        "score_rises",
        lambda f: f.score is not None and (f.taken.value or 0.0) < 0,
        "{subject} rises from {before} to {after} under {attack} ({size}).{others}",
    ),
    Rule(
        "score_chance",
        lambda f: f.score is not None and f.may_be_chance,
        "{subject} falls from {before} to {after} under {attack} ({size}); the drop may be chance."
        "{others}",
    ),
    Rule(
        "score",
        lambda f: f.score is not None,
        "{subject} falls from {before} to {after} under {attack} ({size}).{others}",
    ),
    Rule(
        "never_shown",
        lambda f: f.unseen >= 1,
        KNEW + ". {Attack} showed it no edit, so nothing is known of them.{others}",
    ),
    Rule(
        "hardly_shown_lost",
        lambda f: f.unseen > UNSEEN and bool(f.taken.value),
        KNEW + ". {Attack} showed it an edit in {seen} of them and made it lose {lost}; nothing is "
        "known of the others.{others}",
    ),
    Rule(
        "hardly_shown",
        lambda f: f.unseen > UNSEEN,
        KNEW + ". {Attack} showed it an edit in {seen} of them, so nothing is known of the others."
        "{others}",
    ),
    Rule(
        "mute",
        lambda f: f.mute >= 1,
        KNEW + ". Under {attack} not one of its answers could be read, so up to {right} are lost."
        "{others}",
    ),
    Rule(
        HEADLINE,
        lambda f: f.is_harmless_first,
        "{Controls} alone make {model} lose {harmless} ({harmless_range}) of the {right_nouns} it "
        "{verb}.{others}",
    ),
    Rule(
        "guessing",
        lambda f: f.may_guess and f.is_at_chance,
        KNEW + ", no more than guessing gives. {Attack} made it lose {lost} of them.{others}",
    ),
    Rule(
        "may_guess",
        lambda f: f.may_guess,
        KNEW + ", which guessing may give too. {Attack} made it lose {lost} of them.{others}",
    ),
    Rule(
        "none",
        lambda f: not f.taken.value,
        KNEW + ". {Attack} made it lose none (at most {most}{worst}).{others}",
    ),
    Rule(
        "taken",
        lambda f: True,
        KNEW + ". {Attack} made it lose {lost} of them ({low} to {high}{worst}).{others}",
    ),
)
"""The first line."""
HARMLESS: Sequence[Rule] = (
    Rule("clean", lambda f: f.is_clean, "Nothing was attacked."),
    Rule(
        "score_more",
        lambda f: f.score is not None and f.net is not None and _above(f.net),
        "The same noise outside entities costs {cost}: {score_low} to {score_high} more is lost "
        "where entities are hit.",
    ),
    Rule(
        "score_as_much",
        lambda f: f.score is not None and f.net is not None,
        "The same noise outside entities costs {cost}; that more is lost where entities are hit "
        "may be chance.",
    ),
    Rule("awaited", lambda f: f.is_awaited, "Harmless edits have not been tried yet."),
    Rule("not_tried", lambda f: f.harmless is None, "No harmless edits were tried."),
    Rule(
        "attack_none",
        lambda f: f.is_harmless_first and not f.taken.value,
        "{Attack} {lose} none (at most {most}{worst}): no more than {controls} do.",
    ),
    Rule(
        "attack_no_more",
        lambda f: f.is_harmless_first and _rounded(f.taken, f) <= _rounded(f.harmless, f),
        "{Attack} {lose} {lost} ({low} to {high}{worst}): no more than {controls} do.",
    ),
    Rule(
        "attack_chance",
        lambda f: f.is_harmless_first,
        "{Attack} {lose} {lost} ({low} to {high}{worst}); the difference may be chance.",
    ),
    Rule(
        "harmless_unseen",
        lambda f: f.harmless_unseen > UNSEEN,
        "{Controls} were shown in {harmless_shown} of the {right_n}, so nothing is known of them.",
    ),
    Rule(
        "harmless_mute",
        lambda f: f.harmless_mute > UNSEEN,
        "Under {controls} {harmless_mute} of the {right_n} have no readable answer.",
    ),
    Rule("plain", lambda f: not f.is_judged, "{Controls} lose {harmless}.{same_type}"),
    Rule(
        "none_either",
        lambda f: not f.taken.value and f.harmless is not None and not f.harmless.value,
        "{Controls} lose none either.{same_type}",
    ),
    Rule(
        "none_chance",
        lambda f: f.may_be_chance and f.harmless is not None and not f.harmless.value,
        "{Controls} lose none; the difference may be chance.{same_type}",
    ),
    Rule(
        "some_chance",
        lambda f: f.may_be_chance,
        "{Controls} alone lose {harmless}; the difference may be chance.{same_type}",
    ),
    Rule(
        "more",
        lambda f: True,
        "{Controls} alone lose {harmless}. {Attack} {lose} more: {net_low} to {net_high} {nouns} of "
        "{right_n}.{same_type}",
    ),
)
"""The second line."""
REASONS: Sequence[Reason] = (
    Reason(
        "unread",
        "no",
        lambda f: f.mute > UNSEEN,
        "{mute} of {right} have no readable answer under attack",
    ),
    Reason(
        "unseen", "no", lambda f: f.unseen > UNSEEN, "{unseen} of {right_nouns} were never attacked"
    ),
    Reason(
        "noisy",
        "no",
        lambda f: f.is_harmless_first and f.is_noisy,
        "this model changes its answer whenever the text changes",
    ),
    Reason(
        HEADLINE,
        "no",
        lambda f: f.is_harmless_first and not f.is_noisy,
        "{controls} may lose as many",
    ),
    Reason(
        "guessing",
        "no",
        lambda f: f.may_guess,
        "the model may be guessing ({needed} of {met_n} would show that it does not)",
    ),
    Reason(
        "open_clean",
        "no",
        lambda f: f.open_clean > UNSEEN,
        "{open} of {met_n} have no readable answer before any edit",
    ),
    Reason(
        "ties",
        "no",
        lambda f: f.row.counts.n_ties >= f.row.counts.n_trials - f.row.counts.n_not_attackable > 0,
        "the model gives its best score to several options",
    ),
    Reason(
        "not_tried",
        "no",
        lambda f: (
            f.score is None
            and not f.is_clean
            and bool(f.taken.value)
            and (f.harmless is None or f.harmless_unseen > UNSEEN)
        ),
        "harmless edits may lose as many",
    ),
    Reason("few", "too few", lambda f: f.few is not None, "only {few}"),
)
"""Why one may not rely on the lines; all that hold are given."""
SAME_TYPE = " Random names of the same type lose {lost}."
ALSO = "Also lost"
OTHER = "{lost} of {right_nouns} ({attack})"
OTHER_SCORE = "{subject} from {before} to {after} ({attack})"
UNREAD_ELSEWHERE = "{attack}: {mute} of {right} have no readable answer"
INCOMPLETE = "only {done:,} of {planned:,} planned trials have ended"
NOT_COMPLETE = "the run is not complete"
DOUBT = "the run's file may not be what was measured"
NOT_MEASURED = "nothing was measured of {models}"
NO_ANSWER: Mapping[str, str] = {
    "no_trial": "No trial has ended yet.",
    "failed": "Every call of {model} failed.",
    "unread": "Not one answer of {model} could be read.",
    "not_attackable": "None of the {all} could be attacked.",
    "wrong": "{model} {verb} none of the {met}, so it had nothing to lose.",
    "nothing": "Nothing was measured of {model}.",
}
"""The first line where no arm has a result."""
NOTHING_ATTACKED = "Nothing was attacked."
NOTHING_MEASURED = "nothing was measured"
RELY, DO_NOT = "You can rely on this.", "Do not rely on this: {reasons}."
DO_NOT_RATE = "Do not rely on the attack's rate: {reasons}."
TOO_FEW = "Too few {few_nouns} to rely on this: {few_n}."


def _conclude(run: Run, rows: Sequence[Row], victim: str | None = None) -> Verdict:
    """Return the lines on some rows: those of the whole run, or of one model."""
    facts = list(_facts(run, rows))
    if not facts:
        return _nothing(rows, victim)
    # One question of one is the highest share there is, and says least.
    most = max(f.n_right for f in facts)
    worst = max((f for f in facts if 2 * f.n_right >= most), key=lambda f: f.rank)
    own = [f for f in facts if f.model == worst.model]
    best = replace(worst, others=list(_elsewhere(worst, own)))
    rule, first = _say(TAKEN, best)
    second_rule, second = _say(HARMLESS, best)
    trust = _trust(run, best, [f for f in own if f is not worst])
    third_rule, third = _trust_line(trust, rule == HEADLINE, best)
    arm = {name: getattr(best.row.key, name) for name in ("dataset", "group", "victim", "attack")}
    return Verdict(
        lines=[first, second, third],
        arm=arm,
        trust=trust,
        models=(),
        rules=[rule, second_rule, third_rule],
    )


def _say(rules: Sequence[Rule], facts: Facts) -> tuple[str, str]:
    rule = next(rule for rule in rules if rule.holds(facts))
    return rule.name, rule.text.format(**facts.words)


def _elsewhere(worst: Facts, facts: Sequence[Facts]) -> Iterator[Facts]:
    """Yield the worst arm of every other place, and of a count beside a score."""
    kinds: dict[tuple[str, str, bool], Facts] = {}
    for f in sorted(facts, key=lambda f: f.rank):
        kinds[f.row.key.dataset, f.row.key.group, f.score is None] = f
    here = (worst.row.key.dataset, worst.row.key.group, worst.score is None)
    yield from (f for kind, f in kinds.items() if kind != here)


def _trust(run: Run, facts: Facts, rest: Sequence[Facts]) -> Trust:
    reasons = [
        (reason.level, reason.text.format(**facts.words))
        for reason in REASONS
        if reason.holds(facts)
    ]
    for other in rest:
        if other.mute > UNSEEN:
            reasons.append(("no", UNREAD_ELSEWHERE.format(**other.words)))
    if not run.is_complete:
        done, planned = len(run.trials), int(run.manifest["n_planned"])
        text = INCOMPLETE if done < planned else NOT_COMPLETE
        reasons.insert(0, ("no", text.format(done=done, planned=planned)))
    if run.folder.doubt:
        reasons.insert(0, ("no", DOUBT))
    levels = {level for level, _ in reasons}
    level: Level = "no" if "no" in levels else "too few" if levels else "yes"
    return Trust(level=level, reasons=list(dict.fromkeys(text for _, text in reasons)))


def _trust_line(
    trust: Trust, is_harmless_first: bool, facts: Facts | None = None
) -> tuple[str, str]:
    if trust.level == "yes":
        return "yes", RELY
    if trust.level == "too few" and facts is not None:
        return "too few", TOO_FEW.format(**facts.words)
    text = DO_NOT_RATE if is_harmless_first else DO_NOT
    return "no", text.format(reasons="; ".join(trust.reasons[:SHOWN]))


def _facts(run: Run, rows: Sequence[Row]) -> Iterator[Facts]:
    """Yield the facts of the arms that have a result; controls and clean questions only where
    nothing else was tried."""
    measured = [(row, *_taken(row)) for row in rows]
    measured = [part for part in measured if part[1].value is not None]
    attacked = [part for part in measured if not part[0].cell.attack.asks_clean_only] or measured
    plain = [part for part in attacked if not _changes_nothing(part[0].cell)] or attacked
    # What never reached the model is no result.
    plain = [part for part in plain if part[0].counts.share_unseen < 1] or plain
    scored = [part for part in plain if part[2] is not None]
    places = [row.cell.place for row in rows]
    varies = [len({place[i] for place in places}) > 1 for i in (0, 1)]
    attacks = names.attack_names(cell.attack for cell in run.attacks)
    models = names.model_names(run.manifest["victims"])
    for row, taken, score, score_name in plain:
        n = len(scored) if score is not None else len(plain) - len(scored)
        level, place = sidak(n), row.cell.place
        control = _control(row)
        yield Facts(
            row=row,
            model=models.get(place.victim, place.victim),
            attack=attacks[row.key.attack],
            place=", ".join(place[i] for i in (0, 1) if varies[i]),
            n_results=n,
            score=score,
            score_name=score_name,
            taken=_at(taken, level),
            net=_net(row, score, control, level),
            control=control,
            control_cell=run.controls(row.cell).get(control) if control else None,
            is_awaited=control is None and _is_awaited(run, row),
        )


def _taken(row: Row) -> tuple[Estimate, Scored | None, str]:
    """Return what an arm takes, and the score that falls where a whole data set is perturbed."""
    name, score = next(iter((row.scores or {}).items()), ("", None))
    if score is not None and score.drop.value is not None:
        return score.drop, score, name
    if row.cell.attack.asks_clean_only and row.knows is not None:
        return row.knows.accuracy, None, ""
    asr = row.success.asr if row.success else None
    return asr or Estimate(value=None, n=0, low=None, high=None, method=""), None, ""


def _changes_nothing(cell: Cell) -> bool:
    """Return whether an arm is a control that the experiment names as an attack, or changes what
    the right answer rests on."""
    is_control = cell.attack.name in (*CONTROLS, names.NOISE_OUTSIDE)
    return is_control or any(
        t.pick is not None and t.pick.validity.reason == EVIDENCE_CHANGED for t in cell.trials
    )


def _control(row: Row) -> str | None:
    """Return the control that says most: the first of `names.HARMLESS` with trials of both."""
    if row.loss is None:
        return None
    return next(
        (n for n in names.HARMLESS if n in row.loss.control and row.loss.control[n].n), None
    )


def _is_awaited(run: Run, row: Row) -> bool:
    planned = run.manifest["attacks"]
    labels = (arm_label(row.key.attack, name) for name in names.HARMLESS)
    return not run.is_complete and any(label in planned for label in labels)


def _net(row: Row, score: Scored | None, control: str | None, level: float) -> Estimate | None:
    if score is not None:
        net = score.net_drop
        return None if net is None or net.value is None else _at(net, level)
    if row.loss is None or control is None:
        return None
    return _difference_at(row.loss.tests[control], level)


def _difference_at(test: Difference, level: float) -> Estimate:
    """Return a paired difference with its interval at another level."""
    e = test.estimate
    if e.value is None or e.low is None or e.high is None:
        return e
    f = e.effect
    low, high = tango(test.only_first / f, test.only_second / f, e.n / f, quantile(level))
    worst = e.worst
    if worst is not None and worst[0] is not None and worst[1] is not None:
        worst = max(-1.0, worst[0] + low - e.low), min(1.0, worst[1] + high - e.high)
    return replace(e, low=low, high=high, worst=worst)


def _at(estimate: Estimate, level: float) -> Estimate:
    """Return an estimate with its interval at another level.

    That of a score is resampled; both of its arms grow as normal quantiles do.
    """
    if estimate.hits is not None:
        return estimate.at(level)
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    wider = quantile(level) / Z
    ends = value - wider * (value - low), value + wider * (high - value)
    return replace(estimate, low=max(-2.0, ends[0]), high=min(2.0, ends[1]))


def _nothing(rows: Sequence[Row], victim: str | None) -> Verdict:
    """Say why nothing was measured."""
    trials = [t for row in rows for t in row.cell.trials]
    n = [row.counts for row in rows]

    def all_of(count: Callable[[Trial], bool]) -> int:
        return len({(t.arm.place.dataset, t.item.id, t.unit) for t in trials if count(t)})

    def total(*counts: str) -> int:
        return sum(getattr(one, name) for one in n for name in counts)

    n_attackable = total("n_trials") - total("n_not_attackable")
    rule = (
        "no_trial"
        if not trials
        else "not_attackable"
        if not n_attackable
        else "failed"
        if total("n_failed_at_baseline") == n_attackable
        else "unread"
        if total("n_unreadable_at_baseline") == n_attackable
        else "wrong"
        if total("n_already_wrong")
        else "nothing"
    )
    noun = names.noun_of(trials[0]) if trials else names.QUESTIONS
    n_all, n_met = all_of(lambda t: True), all_of(lambda t: t.is_answered or t.is_open_clean)
    met = noun.count(n_met)
    victims = list(dict.fromkeys(row.key.victim for row in rows))
    first = NO_ANSWER[rule].format(
        model=victim or (listed(victims) if victims else "the model"),
        verb=_VERBS.get(noun, "knew"),
        all=noun.count(n_all),
        met=met if n_met == n_all else f"{met} that could be attacked ({n_all:,} asked)",
    )
    third = DO_NOT.format(reasons=NOTHING_MEASURED)
    return Verdict(
        lines=[first, NOTHING_ATTACKED, third],
        arm=None,
        trust=Trust(level="no", reasons=[NOTHING_MEASURED]),
        models=(),
        rules=[rule, "clean", "no"],
    )


def _share(cell: Cell | None, holds: Callable[[Trial], bool]) -> float:
    if cell is None or not cell.eligible.any():
        return 0.0
    return sum(t.is_eligible and holds(t) for t in cell.trials) / int(cell.eligible.sum())


def _above(estimate: Estimate) -> bool:
    """Return whether the low end lies above 0."""
    low = estimate.ends[0]
    return low is not None and low > 0


def _rounded(share: Estimate | None, facts: Facts) -> int:
    return round((share.value or 0.0) * facts.n_right) if share else 0


def _count(share: float | None, n: int) -> str:
    """Return a share in questions.

    >>> _count(0.5, 10), _count(0.0, 10), _count(0.01, 10)
    ('5', 'none', 'fewer than 1')
    """
    if not share:
        return "none"
    return f"{round(share * n):,}" if round(share * n) else "fewer than 1"


def _outward(end: float | None, n: int, way: Callable[[float], int]) -> str:
    """Return an end in questions; nine digits keep rounding errors from adding one."""
    return "?" if end is None else f"{way(round(end * n, 9)):,}"


def _verb(words: str) -> str:
    return "lose" if words.endswith("s") else "loses"


def decimal(value: float | None) -> str:
    """Write a score as the lines do.

    >>> decimal(0.934), decimal(1.0), decimal(-0.2), decimal(None)
    ('.93', '1.00', '−.20', '?')
    """
    if value is None:
        return "?"
    text = f"{abs(value):.2f}".removeprefix("0")
    return f"\N{MINUS SIGN}{text}" if value < 0 and text.strip(".0") else text
