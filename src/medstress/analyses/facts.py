"""What the first lines are made of: the facts of an arm that rules read and templates say.

What is lost is counted in questions, as the mean over seeds. The interval of the worst of N results
holds at Sidak's level for those N (METHODS 1.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor

import numpy as np

from medstress.analyses.attempts import Gated
from medstress.analyses.results import Row
from medstress.analyses.run import Cell, Run
from medstress.analyses.scores import Score, Scores
from medstress.analyses.shown import (
    DIFFERENT,
    DOCUMENTS,
    ENTITIES,
    HARMLESS,
    MEANINGLESS,
    PAIRS,
    QUESTIONS,
    TEXTS,
    UNLINKED,
    Noun,
    attack_names,
    capital,
    control_words,
    decimal,
    model_names,
    noun_of,
)
from medstress.analyses.success import UNSEEN, part_of, share_open
from medstress.core.arms import CONTROLS, NOISE_CONTROL, arm_label
from medstress.core.trials import Queries, Trial
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.stats.estimate import Estimate, quantile, sidak, unknown, wilson_ends
from medstress.stats.paired import LEAST_UNITS, Difference, tango
from medstress.stats.shares import Mask

FEW_QUESTIONS, FEW_DOCUMENTS, FEW_PAIRS = 20, 30, 40
"""Below, a share, an F1 and a correlation say too little (METHODS 1.5, Few documents)."""
SIGNIFICANT = 0.05
ALL = "all"
"""The group of attacks that put in no names of a group."""
NO_SKILL = 0.1
"""Below, a score before any edit leaves nothing that could fall."""
NOISY = 2 / 3
"""A model of which harmless edits surely take more changes its answer whenever the text does."""
VERBS: Mapping[Noun, str] = {ENTITIES: "found", PAIRS: "scored"}
_SUBJECTS: Mapping[str, str] = {
    "f1": "F1 of {model}",
    "pearson": "the correlation of {model} with people's scores",
    "spearman": "the rank correlation of {model} with people's scores",
}


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
    """Results of the run among which this one may be the worst."""
    n_models: int
    """Models that have them."""
    score: Score | None
    """Of tagged texts and pairs, where the whole data set was perturbed."""
    taken: Estimate
    """Share lost, drop of the score, or accuracy where nothing is attacked, at Sidak's level."""
    net: Estimate | None
    """What the attack takes above its control, at the same level."""
    control: str | None
    """The control that the lines name."""
    control_cell: Cell | None
    is_awaited: bool
    """Whether a control is planned and has not been asked."""
    has_control: bool = False
    """Whether harmless edits were asked, even if nothing of the attack compares with them."""
    fits_none: bool
    """Whether the run would have a control of this attack, if one fitted."""
    apart: Row | None
    """Edits without meaning that the run tried as an attack of their own: those that take most."""

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
        return noun_of(self.trials[0])

    def distinct(self, kept: Mask, level: int = 2) -> int:
        """Count questions, or entities, over all seeds once; level 0 counts documents."""
        return len(np.unique(self.row.cell.units[level][kept]))

    @cached_property
    def n_all(self) -> int:
        """Questions of the data."""
        return len(np.unique(self.row.cell.units[2]))

    @cached_property
    def n_met(self) -> int:
        """Questions that could be attacked."""
        return self.distinct(self.row.cell.answered | self.row.cell.open_clean)

    @cached_property
    def n_right(self) -> int:
        """Questions that the model had right before any edit: the mean over seeds and runs."""
        return mean_right(self.row.cell)

    @cached_property
    def n_documents(self) -> int:
        """Units of a score: documents, texts or pairs."""
        return len({t.cluster for t in self.trials})

    @cached_property
    def mute(self) -> float:
        """Share of the attacked that failed or have no readable answer under attack."""
        n = self.row.counts
        return (n.n_unreadable_under_attack + n.n_failed) / n.n_eligible if n.n_eligible else 0.0

    @property
    def unread(self) -> tuple[str, str]:
        """What `mute` counts: said of all answers, and of some trials."""
        n = self.row.counts
        has = "has" if count_of(self.mute, self.n_right) == "1" else "have"
        if not n.n_failed:
            return "not one of its answers could be read", f"{has} no readable answer"
        if not n.n_unreadable_under_attack:
            return "every trial failed", "failed"
        return "every trial failed or has no readable answer", f"failed or {has} no readable answer"

    @cached_property
    def open_clean(self) -> float:
        """Share of what could be attacked that has no readable answer before any edit."""
        open_ = self.distinct(self.row.cell.open_clean)
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
    def gated(self) -> Gated:
        """Who decided what is evidence in the edits."""
        return Gated.of(self.trials)

    @cached_property
    def harmless(self) -> Estimate | None:
        """Share that the control takes."""
        loss = self.row.loss
        return loss.control[self.control] if loss and self.control else None

    @property
    def same_type(self) -> str:
        """How many random names of the type take, a control of the edit's size; empty without."""
        loss = self.row.loss
        if loss is None or self.control == "same_type" or "same_type" not in loss.control:
            return ""
        return count_of(loss.control["same_type"].value, self.n_right)

    @cached_property
    def harmless_unseen(self) -> float:
        """Share of the attacked that the control showed no edit."""
        return part_of(self.control_cell, lambda cell: cell.unseen)

    @cached_property
    def harmless_mute(self) -> float:
        """Share of the attacked without any readable answer under the control."""
        return part_of(self.control_cell, lambda cell: cell.mute)

    @cached_property
    def open(self) -> float:
        """Share of the attacked that the answers leave open; 0 where most could be read."""
        return share_open(self.row.cell)

    @cached_property
    def harmless_open(self) -> float:
        """The same of the control."""
        return share_open(self.control_cell) if self.control_cell else 0.0

    @property
    def valid(self) -> Estimate | None:
        """Share validly lost by people's labels, where these surely refute more than a tenth."""
        of = self.row.validity
        valid = None if of is None else of.asr_valid
        high, low = valid.ends[1] if valid else None, self.taken.ends[0]
        is_less = high is not None and low is not None and high < (1 - UNSEEN) * low
        return valid if is_less else None

    @property
    def is_judged(self) -> bool:
        """Whether enough was asked and answered to count what the attack takes."""
        return self.unseen <= UNSEEN and self.mute < 1

    @property
    def may_be_chance(self) -> bool:
        """Whether what the attack takes, above its control if it has one, may be nothing."""
        if self.score is not None:
            low = self.taken.ends[0]
            has_no_test = low is None and self.score.p is None
            return has_no_test or (low is not None and low <= 0) or self._is_likely(self.score.p)
        if self.net is None or self.row.loss is None or self.control is None:
            return False
        test = self.row.loss.tests[self.control]
        return not above(self.net) or test.n_units < LEAST_UNITS or self._is_likely(test.p)

    def _is_likely(self, p: float | None) -> bool:
        """Return whether the worst of as many results has such a p by chance."""
        return p is not None and 1 - (1 - p) ** self.n_results > SIGNIFICANT

    @property
    def is_harmless_first(self) -> bool:
        """Whether harmless edits are the headline: they take some, the attack may take no more."""
        return (
            self.is_judged
            and self.net is not None
            and self.harmless is not None
            and not above(self.net)
            and above(self.harmless)
        )

    @property
    def is_noise_first(self) -> bool:
        """Whether a score surely falls, and noise outside entities may make it fall as much."""
        if self.score is None or self.net is None or self.few or self.may_be_chance:
            return False
        return above(self.taken) and (self.net.low or 0.0) <= 0

    @property
    def is_noise_worse(self) -> bool:
        """Whether noise outside entities surely makes a score fall by more than the attack."""
        if self.score is None or self.net is None or self.few or not self.takes_less:
            return False
        return (self.taken.value or 0.0) > (self.net.value or 0.0)

    @property
    def _of_any_edit(self) -> list[Estimate]:
        """What every kind of edit takes, that of no meaning too; empty where none of these was
        tried. Random names of the type are an attack, and a repeated prompt has no edit."""
        control = self.row.loss.control if self.row.loss else {}
        tried = [control[n] for n in MEANINGLESS if n != "repeat" and n in control and control[n].n]
        return [*tried, self.taken] if tried else []

    @property
    def is_noisy(self) -> bool:
        """Whether any edit, of whatever kind, surely takes most of what was right."""
        lows = [share.ends[0] for share in self._of_any_edit]
        return bool(lows) and all(low is not None and low > NOISY for low in lows)

    @property
    def is_all_changed(self) -> bool:
        """Whether every answer changed, under harmless edits and under the attack."""
        return bool(self._of_any_edit) and all(share.value == 1 for share in self._of_any_edit)

    @property
    def takes_less(self) -> bool:
        """Whether the attack surely takes less than harmless edits do."""
        high = self.net.ends[1] if self.net is not None else None
        return high is not None and high < 0

    @property
    def may_guess(self) -> bool:
        """Whether the model may be guessing, where that is not said of too few questions."""
        knows = self.row.knows
        if knows is None or not knows.is_near_chance:
            return False
        return self.few is None or not self.cannot_tell

    @property
    def cannot_tell(self) -> bool:
        """Whether even a perfect model could not be told from guessing."""
        return self.row.knows is not None and self.row.knows.is_too_few(self.n_met)

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
    def undefined(self) -> str:
        """Why the clean answers have no score, such as one score for all pairs; empty where they
        have, and of questions."""
        of = self.row.scores
        if of is None or of.main.before.value is not None:
            return ""
        return f"{of.scoring.words[of.scoring.main]} is {of.main.before.method}"

    @cached_property
    def attempts(self) -> tuple[int, int]:
        """Attempts of the attack that never reached the model, and all of them."""
        queries = Queries(*self.row.cell.queries[self.row.cell.eligible].sum(axis=0).tolist())
        return queries.rejected, queries.rejected + queries.asked

    @property
    def few(self) -> tuple[int, Noun] | None:
        """What there is too little of."""
        if self.score is not None and self.noun is PAIRS:
            n, least = self.distinct(self.row.cell.eligible, 0), FEW_PAIRS
            noun = self.noun if n == self.n_right else UNLINKED
        elif self.score is not None:
            n, noun, least = self.n_documents, self._unit_noun, FEW_DOCUMENTS
        else:
            cell, noun, least = self.row.cell, self.noun, FEW_QUESTIONS
            kept = cell.answered | cell.open_clean if self.is_clean else cell.eligible
            n = self.n_met if self.is_clean else self.n_right
            if n >= least and noun is not PAIRS and (units := self.distinct(kept, 0)) < n:
                n, noun = units, DOCUMENTS if self._has_documents else DIFFERENT
        return (n, noun) if n < least else None

    @property
    def _unit_noun(self) -> Noun:
        if self.noun is PAIRS:
            return PAIRS
        return DOCUMENTS if self._has_documents else TEXTS

    @cached_property
    def _has_documents(self) -> bool:
        # One of them names questions that are asked again; documents may have any name.
        items = {t.item.id for t in self.trials if self.noun is QUESTIONS}
        return any(t.cluster != t.item.id and t.cluster not in items for t in self.trials)

    @property
    def takes_no_harm(self) -> bool:
        """Whether harmless edits take nothing."""
        return self.harmless is not None and not self.harmless.value

    @property
    def takes_no_more(self) -> bool:
        """Whether the attack takes no more questions than harmless edits do."""
        return self.harmless is not None and (
            self._rounded(self.taken) <= self._rounded(self.harmless)
        )

    def _rounded(self, share: Estimate) -> int:
        return in_questions(share.value or 0.0, self.n_right)

    @property
    def is_harmless(self) -> bool:
        """Whether the attack is a control, which the experiment names as an attack."""
        return _is_harmless(self.row)

    @property
    def lacks_control(self) -> bool:
        """Whether something is lost, and nothing says how much harmless edits take.

        Repeats of the prompt show chance alone: they are the control of a second turn.
        """
        if self.is_clean or self.is_harmless or (self.taken.value or 0.0) <= 0:
            return False
        if self.control == "repeat" and self.row.cell.attack.name != "challenge":
            return True
        if self.score is not None:
            return self.net is None
        return self.harmless is None or self.harmless_unseen > UNSEEN

    @property
    def rank(self) -> tuple[float, float, float, bool, int]:
        """How much the arm takes beyond harmless edits, how much it takes, how much of it no one
        can read; then the plan's order.

        Points choose the arm, because ends depend on how alike answers are: of 50 lost of 50 the
        low end may lie below that of 49. Whatever is chosen, Sidak's interval holds.
        """
        n = 1 if self.score is not None else self.n_met if self.is_clean else self.n_right
        taken = (self.taken.value or 0.0) * n
        beyond = taken if self.net is None else max(0.0, self.net.value or 0.0) * n
        return beyond, taken, self.mute * n, self.control is not None, -self.trials[0].number

    @cached_property
    def words(self) -> Mapping[str, str]:
        """What templates put in."""
        low, high = self.taken.ends
        n, net = self.n_met if self.is_clean else self.n_right, self.net
        least, most = net.ends if net is not None else (None, None)
        seen = self.distinct(self.row.cell.eligible & ~self.row.cell.unseen)
        controls = HARMLESS.get(self.control or "", "harmless edits")
        of = f" of {self.place}" if self.place else ""
        rest = f"; the worst of {self.n_results} results" if self.n_results > 1 else ""
        if self.n_models > 1:
            rest = f"; for all {self.n_results} results of {self.n_models} models"
        few_n, few_noun = self.few or (0, self.noun)
        mute, unseen = count_of(self.mute, n), count_of(self.unseen, n)
        is_moved = self.noun is PAIRS and self.score is None
        open_ = count_of(self.open_clean, self.n_met)
        values = {
            "model": self.model,
            "attack": self.attack,
            "Attack": capital(self.attack),
            "verb": VERBS.get(self.noun, "knew"),
            "right": f"{self.n_right:,}" if self.n_right else "none",
            "right_nouns": f"{self.noun.count(self.n_right)}{of}",
            "nouns": self.noun.many,
            "met": self._met(of),
            "lost": count_of(self.taken.value, n),
            "low": _outward(low, n, floor),
            "high": _outward(high, n, ceil),
            "worst": rest,
            "seen": f"{seen:,}",
            "objected": f"{self.gated.n_objected:,}",
            "unseen": unseen,
            "mute": mute,
            "all_unread": self.unread[0],
            "unread": self.unread[1],
            "were": "was" if unseen == "1" else "were",
            "undefined": self.undefined,
            "open": open_,
            "open_have": "has" if open_ == "1" else "have",
            "met_n": f"{self.n_met:,}",
            "needed": f"{self._needed():,}",
            "n_lost_attempts": f"{self.attempts[0]:,}",
            "n_attempts": f"{self.attempts[1]:,}",
            "controls": controls,
            "Controls": capital(controls),
            "harmless": count_of(self.harmless.value if self.harmless else None, n),
            "harmless_range": self._harmless_range(),
            "harmless_shown": count_of(1 - self.harmless_unseen, n),
            "harmless_mute": count_of(self.harmless_mute, n),
            "open_attack": count_of(self.open, n),
            "valid": count_of(self.valid.value if self.valid else None, n),
            "harmless_open": count_of(self.harmless_open, n),
            "net_range": _range(least, most, n),
            "few_n": f"{few_n:,}",
            "few_nouns": few_noun.many,
            "few": few_noun.count(few_n),
            "much": "many" if self.score is None else "much",
            "same_type": self.same_type if self.score is None else "",
            # A pair has no answer to lose: its score moves by more than `max_change`.
            "lose": "change" if is_moved else "lose",
            "lost_of": "changed the score of" if is_moved else "lost",
            "of": of,
        }
        return {**values, **self._score_words(rest), **self._apart_words()}

    def _apart_words(self) -> Mapping[str, str]:
        if self.apart is None:
            return {}
        cell = self.apart.cell
        taken, score = _taken(self.apart)
        n = mean_right(cell)
        lost = f"lost {count_of(taken.value, n)} of {self.noun.count(n)}"
        return {
            "apart": control_words(cell.attack.name),
            "apart_lost": lost if score is None else f"cost {decimal(taken.value, 2)}",
        }

    def _met(self, of: str) -> str:
        if self.n_met == self.n_all:
            return f"{self.noun.count(self.n_met)}{of}"
        return (
            f"the {self.noun.count(self.n_met)}{of} that could be attacked ({self.n_all:,} given)"
        )

    def _needed(self) -> int:
        """Return the fewest right answers that would show that the model does not guess."""
        chance, n = (self.row.knows.chance or 0.0 if self.row.knows else 0.0), self.n_met
        return next((k for k in range(n + 1) if n and wilson_ends(k, n)[0] > chance), n + 1)

    def _harmless_range(self) -> str:
        """Return what is in brackets: the range in seeds, of one seed the interval."""
        cell, share = self.control_cell, self.harmless
        if cell is None or share is None:
            return ""
        if len(cell.seeds) == 1:
            low, high = share.ends
            return f"{_outward(low, self.n_right, floor)} to {_outward(high, self.n_right, ceil)}"
        budget = self.row.cell.budget
        runs = len({t.repeat for t in cell.trials})
        counts = [round(one.flipped(budget).sum() / runs) for one in cell.by_seed()]
        least, most, n = min(counts), max(counts), len(counts)
        return f"{least:,} to {most:,} in {n} seeds" if least < most else f"in each of {n} seeds"

    def _score_words(self, rest: str) -> Mapping[str, str]:
        if self.score is None:
            return {}
        before, after, net = self.score.before, self.score.after, self.score.net_drop
        noun = self._unit_noun
        n = self.n_right if noun is PAIRS else self.n_documents
        shown = after.at(sidak(self.n_results))
        has_ends = self.few is None and shown.low is not None and shown.high is not None
        ends = f"; {decimal(shown.low, 2)} to {decimal(shown.high, 2)}" if has_ends else ""
        cost = None
        if net is not None and net.value is not None and self.score.drop.value is not None:
            cost = self.score.drop.value - net.value
        low, high = self.net.ends if self.net is not None else (None, None)
        subject = subject_of(self.row.scores, self.model) if self.row.scores else ""
        return {
            "subject": subject,
            "Subject": capital(subject),
            "before": decimal(before.value, 2),
            "after": decimal(after.value, 2),
            "size": f"{noun.count(n)}{ends}{rest}",
            "cost": decimal(cost, 2),
            "score_low": decimal(low, 2),
            "score_high": decimal(high, 2),
        }


def facts_of(run: Run, rows: Sequence[Row], every: Sequence[Row]) -> Iterator[Facts]:
    """Yield the facts of the arms that have a result; controls and clean questions only where
    nothing else was tried.

    Args:
        run: the run.
        rows: of these arms.
        every: those of the run; intervals hold for the worst of them, whichever arms are asked for.
    """
    of_all, apart = _with_result(every), [row for row in every if _is_harmless(row)]
    places = [row.cell.place for row in rows]
    varies = [len({place[i] for place in places}) > 1 for i in (0, 1)]
    attacks = attack_names(cell.attack for cell in run.attacks)
    models = model_names(run.manifest["victims"])
    controls = run.manifest["config"]["experiment"].get("controls")
    for row, taken, score in _with_result(rows):
        # Drops of a score and shares of answers are two kinds of results.
        among = [part[0] for part in of_all if (part[2] is None) == (score is None)]
        n, place = max(1, len(among)), row.cell.place
        level = sidak(n)
        # Of the controls with trials of both the one that takes most if some take as much as the
        # attack, else the first.
        tried = {n: c for n, c in row.loss.control.items() if c.n} if row.loss else {}
        first = next((name for name in HARMLESS if name in tried), None)
        control = (row.loss.headline if row.loss else None) or first
        is_planned = any(arm_label(row.key.attack, n) in run.manifest["attacks"] for n in HARMLESS)
        has_control = bool(run.controls(row.cell))
        # By default questions have controls, other items none. Of controls that a list names, one
        # that it leaves out may fit.
        is_question = noun_of(row.cell.trials[0]) is QUESTIONS
        wants_controls = is_question if controls is None else controls is True
        yield Facts(
            row=row,
            model=models.get(place.victim, place.victim),
            attack=attacks[row.key.attack],
            place=", ".join(place[i] for i in (0, 1) if varies[i] and place[i] != ALL),
            n_results=n,
            n_models=len({one.key.victim for one in among}),
            score=score,
            taken=taken.at(level),
            net=_net(row, score, control, level),
            control=control,
            control_cell=run.controls(row.cell).get(control) if control else None,
            is_awaited=control is None and not run.is_complete and is_planned,
            has_control=has_control,
            fits_none=not (is_planned or has_control)
            and (wants_controls or changes_nothing(row.cell)),
            apart=None if _is_harmless(row) else _apart(row, apart),
        )


def _with_result(rows: Sequence[Row]) -> list[tuple[Row, Estimate, Score | None]]:
    """Return rows that have a result, each with what it takes."""
    measured = [(row, *_taken(row)) for row in rows]
    measured = [part for part in measured if part[1].value is not None]
    attacked = [part for part in measured if not part[0].cell.attack.asks_clean_only] or measured
    plain = [part for part in attacked if not changes_nothing(part[0].cell)] or attacked
    # What never reached the model is no result.
    return [part for part in plain if part[0].counts.share_unseen < 1] or plain


def _apart(row: Row, harmless: Iterable[Row]) -> Row | None:
    """Return the row of edits without meaning that takes most of the same items."""
    here = [one for one in harmless if one.key.dataset == row.key.dataset]
    own = [one for one in here if one.key.victim == row.key.victim and one.counts.share_unseen < 1]
    return max(own, key=lambda one: _taken(one)[0].value or 0.0, default=None)


def _taken(row: Row) -> tuple[Estimate, Score | None]:
    """Return what an arm takes, and the score that falls where a whole data set is perturbed."""
    if row.scores is not None and row.scores.main.drop.value is not None:
        return row.scores.main.drop, row.scores.main
    if row.cell.attack.asks_clean_only and row.knows is not None:
        is_unread = bool(row.cell.open_clean.all())
        return unknown("") if is_unread else row.knows.accuracy, None
    asr = row.success.asr if row.success else None
    return asr or unknown(""), None


def _is_harmless(row: Row) -> bool:
    """Return whether an attack is a control whose edits mean nothing."""
    return row.cell.attack.name in (*MEANINGLESS, NOISE_CONTROL)


def changes_nothing(cell: Cell) -> bool:
    """Return whether an arm is a control that the experiment names as an attack, or changes what
    the right answer rests on."""
    is_control = cell.attack.name in (*CONTROLS, NOISE_CONTROL)
    return is_control or any(
        t.pick is not None and t.pick.validity.reason == EVIDENCE_CHANGED for t in cell.trials
    )


def _net(row: Row, score: Score | None, control: str | None, level: float) -> Estimate | None:
    if score is not None:
        net = score.net_drop
        return None if net.value is None else net.at(level)
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


def subject_of(scores: Scores, model: str) -> str:
    """Return what the main score of a model is called in a sentence."""
    name, words = scores.scoring.main, scores.scoring.words
    return _SUBJECTS.get(name, f"{words[name]} of {{model}}").format(model=model)


def above(estimate: Estimate) -> bool:
    """Return whether the low end lies above 0."""
    low = estimate.ends[0]
    return low is not None and low > 0


def in_questions(share: float, n: int, way: Callable[[float], int] | None = None) -> int:
    """Return a share in questions: ends of intervals outwards, points to the nearest, half up.

    Nine digits keep rounding errors from adding one.

    Args:
        share: of the questions.
        n: questions.
        way: `floor` for low ends, `ceil` for high ends; None for points.

    >>> in_questions(0.5, 5), in_questions(0.09, 39, ceil), in_questions(0.09, 39, floor)
    (3, 4, 3)
    """
    exact = round(share * n, 9)
    return floor(exact + 0.5) if way is None else way(exact)


def mean_right(cell: Cell) -> int:
    """Count the questions, or entities, that a model had right: the mean over seeds and runs.

    Each question counts by the share of its trials with a clean answer in which it was right, so
    that what has not ended, or failed, changes nothing.
    """
    units = cell.units[2]
    right = np.bincount(units, cell.eligible)
    met = np.bincount(units, cell.eligible | cell.answered | cell.open_clean)
    return max(round(float((right[met > 0] / met[met > 0]).sum())), int(right.any()))


def count_of(share: float | None, n: int) -> str:
    """Return a point in questions.

    >>> count_of(0.5, 10), count_of(0.0, 10), count_of(0.01, 10)
    ('5', 'none', 'fewer than 1')
    """
    if not share:
        return "none"
    return f"{in_questions(share, n):,}" if in_questions(share, n) else "fewer than 1"


def _range(low: float | None, high: float | None, n: int) -> str:
    """Return an interval above 0 in questions; one whose low end is less than a question has none.

    >>> _range(0.25, 0.5, 10), _range(0.02, 0.5, 10)
    ('2 to 5', 'up to 5')
    """
    least = in_questions(low or 0.0, n, floor)
    return (
        f"{least:,} to {_outward(high, n, ceil)}" if least else f"up to {_outward(high, n, ceil)}"
    )


def _outward(end: float | None, n: int, way: Callable[[float], int]) -> str:
    return "?" if end is None else f"{in_questions(end, n, way):,}"
