"""One attack on one item, as everything that reads a run sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from medstress.core.arms import Arm
from medstress.core.frozen import fast_init
from medstress.core.items import TAGGED
from medstress.core.outcomes import Verdict
from medstress.core.text import WHOLE, Edit
from medstress.core.validity import REVIEW, Evidence


class Answer(NamedTuple):
    """What the victim answered about one candidate."""

    answer: str | None
    """An option letter or a label; None where unreadable, and where answers are no choice."""
    scores: tuple[float, ...] | None = None
    """Log probabilities over the options; the similarity of a pair alone."""
    mass: float | None = None
    """Probability on all option letters together."""
    text: str | None = None
    """The reply; the labels of a tagged text, joined by spaces."""
    cut_off: bool = False
    """Whether nothing could be read because the reply reached `max_new_tokens`."""


class Validity(NamedTuple):
    """Whether the right answer is still right after an edit."""

    valid: bool | None = None
    """True where a person says so, false where a person or a rule refutes it; None: unknown."""
    reason: str | None = None
    """`review`, the rule that refutes it, or `rule` where rules refute nothing."""
    evidence: tuple[Evidence, ...] = ()
    """What else speaks for or against it."""


UNKNOWN = Validity()


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Success:
    """One success of a trial."""

    query: int
    """The number of its query, from 1."""
    edits: tuple[Edit, ...]
    answer: Answer
    attempt: int | None = None
    """The attempt, for attacks that count attempts."""
    validity: Validity = UNKNOWN
    variant: str | None = None
    """Class of the new name against the right answer."""
    repeats: bool | None = None
    """Whether it succeeded again when asked alone; None if it was not asked."""
    similarity: float | None = None
    """Cosine of the embedded prompts before and after it (`[analysis] prompt_similarity`)."""

    @property
    def name(self) -> str | None:
        """The name that the first edit put in, case-folded."""
        return self.edits[0].replacement.casefold() if self.edits else None


class Queries(NamedTuple):
    """The perturbed queries of one trial; asked = paid + cached + failed."""

    asked: int = 0
    paid: int = 0
    cached: int = 0
    failed: int = 0
    unreadable: int = 0
    cut_off: int = 0
    """Of the unreadable ones, those whose reply reached `max_new_tokens`."""
    unchanged: int = 0
    """Those that put the same text in again."""
    ties: int = 0
    """Answers whose best score two options shared; the clean answer counts too."""
    probes: int = 0
    """Those that rank spans and are never a success."""
    rejected: int = 0
    """Attempts that gates or repeats took away, so that they were never asked."""

    @property
    def none_read(self) -> bool:
        """Whether something was answered, and no answer could be read; of arrays, which."""
        answered = self.asked - self.failed
        return (answered > 0) & (answered <= self.unreadable)


NO_QUERIES = Queries()
_ELIGIBLE = (Verdict.FLIPPED, Verdict.HELD, Verdict.MEASURED, Verdict.CUT_SHORT, Verdict.FAILED)
_LOST = (Verdict.FAILED, Verdict.CUT_SHORT)


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One attack on one item.

    *First* is the first success, which every rate counts. The *pick* is what people see: the first
    success that no rule or gate refuted if there is one, else the first. They are one object unless
    the search went on after a refuted success.
    """

    id: str
    """Content hash of what the trial is."""
    number: int
    """Its row in the run's file."""
    arm: Arm
    item: Any
    """The unit asked about: a question, an entity in its sentence, a pair."""
    cluster: str
    """The document where known; for pairs, those that share a sentence; else the item."""
    repeat: int
    """0 unless the attack runs several times on each item."""
    verdict: Verdict
    before: Answer | None = None
    """On the clean item."""
    first: Success | None = None
    pick: Success | None = None
    last: Answer | None = None
    """The last answer about an edit, where it is kept: a perturbed copy, or a search that held."""
    edits: tuple[Edit, ...] = ()
    """The edits of the pick, or of the perturbed copy."""
    queries: Queries = NO_QUERIES
    at: str | None = None
    """For failed trials and those cut short: `baseline` or `attack`; `TOO_LONG`: nothing could be
    asked."""
    corrected: bool | None = None
    """Whether one edit of an item that was wrong made the answer right."""
    answers: tuple[str | None, ...] = ()
    """The letter of every answer, of attacks that ask variants of all items."""
    excluded: Mapping[str, int] | None = None
    """How many names are never drawn, by reason."""
    records: tuple[Mapping[str, Any], ...] = ()
    """What happened in each attempt, in order."""
    note: str | None = None
    """Why it failed, was cut short or could not be attacked."""
    sampled: bool | None = None
    """Whether the success is in a random sample that people were given; None without one."""

    @property
    def ended(self) -> Verdict:
        """Its verdict; that on the clean item, where only what was asked about an item that is not
        attacked failed or was cut short."""
        before = self.before
        if self.at != "baseline" or before is None:
            return self.verdict
        if self.item.kind == TAGGED:
            return Verdict.NOT_ATTACKABLE if self.unit == WHOLE else Verdict.ALREADY_WRONG
        return Verdict.UNREADABLE if before.answer is None else Verdict.ALREADY_WRONG

    @property
    def is_asked_clean(self) -> bool:
        """Whether the clean item got an answer."""
        return not (self.at == "baseline" and self.ended in _LOST)

    @property
    def is_eligible(self) -> bool:
        """Whether the model was right on the clean item, so that it was attacked."""
        return self.ended in _ELIGIBLE and (self.at != "baseline" or self.is_asked_clean)

    @property
    def is_answered(self) -> bool:
        """Whether the clean item was asked and answered: the denominator of accuracy."""
        is_asked = self.at != "baseline" or self.is_asked_clean
        return is_asked and self.ended is not Verdict.NOT_ATTACKABLE

    @property
    def is_open_clean(self) -> bool:
        """Whether the clean answer is unreadable or missing: it may have been right."""
        return self.ended is Verdict.UNREADABLE or not self.is_asked_clean

    @property
    def is_lost(self) -> bool:
        """Whether it failed or was cut short."""
        return self.verdict in _LOST

    @property
    def is_mute(self) -> bool:
        """Whether it is eligible and none of its answers under attack could be read."""
        q = self.queries
        return self.is_eligible and 0 < q.asked - q.failed <= q.unreadable

    @property
    def is_refused(self) -> bool:
        """Whether it succeeded, but people find that the right answer is no longer right."""
        pick = self.pick
        return pick is not None and pick.validity[:2] == (False, REVIEW)

    def n_cut(self, turn: str) -> int:
        """How many of its conversations were cut off last in a turn; see `Prediction.cut_turn`."""
        return sum(one.get("cut_turn") == turn for one in self.records)

    @property
    def edit(self) -> Edit | None:
        """The edit that lists name: the one at its entity or nearest to it, else the first."""
        return next(iter(self.item.nearest_first(self.edits)), None)

    @property
    def unit(self) -> str:
        """The part of the item that the trial is about."""
        return str(self.item.unit)

    @property
    def path(self) -> tuple[str, str, str]:
        """The nested units, the widest first: cluster, item, part."""
        return self.cluster, self.item.id, self.unit

    @property
    def pairing(self) -> tuple[str, str, int]:
        """What a trial of another arm shares with it, but for the seed."""
        return self.item.id, self.unit, self.repeat
