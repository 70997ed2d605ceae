"""What people said of cases: judgements, agreement, planted cases, and their own answers.

Raters have numbers in the order in which they came: summaries are passed on, and names are not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from medstress.analyses.people import JUDGE, SPLIT, believed, is_unbelieved, settled
from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import (
    HIDDEN,
    Entry,
    Remark,
    Shown,
    Table,
    column,
    table,
)
from medstress.core.trials import Trial
from medstress.stats.agreement import MISSING, Agreement, Ratings, agreement
from medstress.stats.estimate import Estimate
from medstress.stats.shares import rate_of
from medstress.store.reviews import (
    ANSWER,
    ATTACKED,
    CANNOT_SAY,
    CLEAN,
    EXPECTED,
    JUDGEMENTS,
    KEY_RIGHT,
    NO,
    RIGHT,
    SHOWN,
    UNCHANGED,
    WRONG_KEY,
    YES,
)
from medstress.store.reviews import Review as OneReview

ALL = "all"
LEAST_RIGHT = 0.75
"""Below this share of the planted cases a reader is warned of a rater; who always says the same is
right in about half of them."""
WORDS: Mapping[str, str] = {
    "key_right": "The right answer is still right",
    "misleading": "A careful clinician would be misled",
    "plausible": "The text is plausible",
    "harmful": "Harm is likely",
}
"""Judgement -> what yes says of a case."""
_PLANTED: Mapping[str, str] = {
    ALL: "all",
    UNCHANGED: "unchanged, so it is right",
    WRONG_KEY: "another option marked as right",
}
_CATEGORIES = (YES, NO, CANNOT_SAY)
Path: TypeAlias = tuple[str, ...]
"""The nested units of a trial; ids are unique in their data set alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample that people were given."""

    mode: str
    """`judge` for successes, `answer` for attacked items that people answer themselves."""
    seed: int
    drawn: int
    population: int
    """What it was drawn from, when it was."""
    planted: Mapping[str, int]
    """Sort of planted case -> how many."""
    n_cases: int = field(metadata=HIDDEN)
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judgement of all cases; a case of several trials counts once."""

    judgement: str
    n_cases: int
    n_split: int
    """Cases on which raters disagree."""
    yes: Estimate
    """Share of yes among the settled cases."""
    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What of people's words counts: labels of successes, without raters who are not believed."""

    n_valid: int
    n_invalid: int
    n_disputed: int
    """Raters disagree."""
    n_cannot_say: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPlanted:
    """How often a rater judges planted cases rightly, whose right word is known."""

    rater: str
    """`all` for all raters together."""
    control: str
    """Sort of planted case; `all` for all of them."""
    right: Estimate

    @property
    def is_of_rater(self) -> bool:
        """Whether it says how far one rater can be believed."""
        return self.rater != ALL and self.control == ALL

    @property
    def is_unbelieved(self) -> bool:
        """Whether what the rater says of right answers counts for nothing."""
        return self.is_of_rater and is_unbelieved(self.right.hits or 0, self.right.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """How often somebody is right on clean items, and on attacked ones."""

    clean: Estimate
    attacked: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """People who answered items themselves, and the models on the same items."""

    n_items: int
    people: Right
    models: Right


@dataclass(frozen=True, slots=True, kw_only=True)
class Review(Shown):
    """All that people said of a run."""

    n_raters: int
    samples: Sequence[Sample]
    judgements: Sequence[Judgement]
    labels: Labels
    controls: Sequence[OnPlanted]
    answers: Answers | None
    title = "What people say"

    @property
    def unbelieved(self) -> list[str]:
        """The raters whose words on right answers count for nothing."""
        return [one.rater for one in self.controls if one.is_unbelieved]

    @property
    def key_right(self) -> Judgement:
        """The judgement on which validity rests."""
        return next(one for one in self.judgements if one.judgement == KEY_RIGHT)

    def tables(self) -> Sequence[Table]:
        """Judgements, agreement, planted cases, and people's own answers."""
        judged = [one for one in self.judgements if one.n_cases]
        several = [one for one in judged if one.agreement.n_raters > 1]
        whys = dict.fromkeys(
            f"{one.agreement.krippendorff.method}."
            for one in several
            if one.agreement.krippendorff.value is None
        )
        both = self.answers
        answered = [("people", both.people), ("models", both.models)] if both else []
        accuracies = (
            "Only questions that a model answered rightly are attacked, so models are right on all "
            "clean ones."
        )
        caption, planted = (
            "What people say of the sampled cases",
            "Raters on planted cases, whose right word is known",
        )
        agree = "How far raters agree, planted cases left out"
        title = "People and models on the same questions, clean and attacked"
        return [
            table("review-judgements", caption, judged, _JUDGEMENTS, notes=list(self._notes())),
            table("review-agreement", agree, several, _AGREEMENT, notes=list(whys)),
            table("review-controls", planted, self.controls, _ON_PLANTED),
            table("review-answers", title, answered, _ANSWERS, notes=[accuracies]),
        ]

    def _notes(self) -> Iterator[str]:
        for one in self.samples:
            what = "successes" if one.mode == JUDGE else "attacked questions"
            yield f"Drawn: {one.drawn:,} of {one.population:,} {what}, seed {one.seed}."
        yield (
            "A case is settled if all raters say the same; “cannot say” next to another word "
            "leaves it open."
        )
        if self.key_right.n_cases:
            n = self.labels
            yield (
                f"Of the labels of successes {n.n_valid:,} say valid, {n.n_invalid:,} invalid, "
                f"{n.n_cannot_say:,} cannot say; {n.n_disputed:,} are disputed."
            )
        for rater in self.unbelieved:
            yield f"What {rater} says of right answers counts for nothing there."

    def remarks(self) -> Iterator[Remark]:
        """What to know before one believes what people say."""
        key = self.key_right
        if not key.n_cases:
            return
        if key.n_split:
            sentence = (
                f"Raters disagree whether the right answer is still right in {key.n_split:,} of "
                f"{key.n_cases:,} cases: their validity is unknown until they agree."
            )
            yield Remark("people_disagree", sentence)
        for one in (one for one in self.controls if one.is_of_rater):
            right = one.right
            if right.value is not None and right.value < LEAST_RIGHT:
                worth = "counts for nothing" if one.is_unbelieved else "may be worth little"
                sentence = (
                    f"Of {right.n:,} planted cases {one.rater} judged {right.hits or 0:,} rightly: "
                    f"what {one.rater} says of validity {worth}."
                )
                yield Remark("unbelieved" if one.is_unbelieved else "doubtful_rater", sentence)


def review_of(run: Run) -> Review | None:
    """Count what people said; None if no one has judged anything."""
    reviews = sorted(run.folder.reviews, key=lambda one: (one.time, one.reviewer))
    if not reviews:
        return None
    by_raters = dict.fromkeys(_name(one) for one in reviews)
    raters = {name: number for number, name in enumerate(by_raters, start=1)}
    trials = {trial.id: trial for trial in run.trials}
    judged = [one for one in reviews if SHOWN not in one.answers]
    return Review(
        n_raters=len(raters),
        samples=[_sample(room) for room in run.folder.rooms],
        judgements=[_judgement(name, judged, raters, trials) for name in JUDGEMENTS],
        labels=_labels(judged, trials),
        controls=_controls(judged, raters),
        answers=_answers(reviews, trials),
    )


REVIEW = Analysis("review", review_of)


def _name(one: OneReview) -> str:
    return one.reviewer.casefold()


def _called(number: int) -> str:
    return f"rater {number}"


def _sample(room: Mapping[str, Any]) -> Sample:
    names = ("mode", "seed", "drawn", "population", "planted", "time")
    return Sample(**{name: room[name] for name in names}, n_cases=len(room["cases"]))


def _path(trial: Trial) -> Path:
    return tuple(f"{trial.arm.place.dataset}/{part}" for part in trial.path)


def _first_trials(reviews: Iterable[OneReview], trials: Mapping[str, Trial]) -> set[str]:
    """Return one trial of every case, of those that the run still has."""
    reviewed = [(one.trial_id, one.case_id) for one in reviews if one.trial_id in trials]
    case_of = {trial: case for trial, case in reviewed if case is not None}
    first: dict[str, str] = {}
    for trial, _ in reviewed:
        first.setdefault(case_of.get(trial, str(trial)), str(trial))
    return set(first.values())


def _judgement(
    name: str, reviews: Sequence[OneReview], raters: Mapping[str, int], trials: Mapping[str, Trial]
) -> Judgement:
    first = _first_trials(reviews, trials)
    cases = {trial: word for trial, word in settled(reviews, name).items() if trial in first}
    paths = {trial: _path(trials[trial]) for trial in cases}
    words = [(paths[trial], word) for trial, word in cases.items() if word in (YES, NO)]
    return Judgement(
        judgement=name,
        n_cases=len(cases),
        n_split=sum(word == SPLIT for word in cases.values()),
        yes=rate_of((path, word == YES) for path, word in words),
        agreement=_agreement(name, reviews, raters, paths),
    )


def _agreement(
    name: str, reviews: Iterable[OneReview], raters: Mapping[str, int], paths: Mapping[str, Path]
) -> Agreement:
    of_trial: dict[str, dict[int, int]] = defaultdict(dict)
    for one in reviews:
        if one.trial_id in paths and name in one.answers:
            word = _CATEGORIES.index(one.answers[name])
            of_trial[str(one.trial_id)][raters[_name(one)]] = word
    ratings: list[Ratings] = [
        tuple(words.get(number, MISSING) for number in raters.values())
        for words in of_trial.values()
    ]
    return agreement(ratings, [paths[trial] for trial in of_trial])


def _labels(reviews: Sequence[OneReview], trials: Mapping[str, Trial]) -> Labels:
    """Count the labels of successes, one a case."""
    first = _first_trials(reviews, trials)
    words = settled(believed(reviews), KEY_RIGHT)
    counts = Counter(word for trial, word in words.items() if trial in first)
    return Labels(
        n_valid=counts[YES],
        n_invalid=counts[NO],
        n_disputed=counts[SPLIT],
        n_cannot_say=counts[CANNOT_SAY],
    )


def _controls(reviews: Iterable[OneReview], raters: Mapping[str, int]) -> list[OnPlanted]:
    """Estimate how often raters are right on planted cases: together and each, all and by sort."""
    marks: dict[tuple[int, str], list[tuple[Path, bool]]] = defaultdict(list)
    for one in reviews:
        if one.control in EXPECTED and KEY_RIGHT in one.answers:
            is_right = one.answers[KEY_RIGHT] == EXPECTED[one.control]
            for number in (0, raters[_name(one)]):
                for sort in (ALL, one.control):
                    marks[number, sort].append(((str(one.case_id),), is_right))
    order = (ALL, *EXPECTED)
    return [
        OnPlanted(
            rater=_called(number) if number else ALL,
            control=sort,
            right=rate_of(marks[number, sort]),
        )
        for number, sort in sorted(marks, key=lambda key: (key[0], order.index(key[1])))
    ]


def _answers(reviews: Iterable[OneReview], trials: Mapping[str, Trial]) -> Answers | None:
    """Compare people with models on the same items; None if no one answered any."""
    answered = [
        (one, trials[str(one.trial_id)])
        for one in reviews
        if ANSWER in one.answers and one.trial_id in trials
    ]
    if not answered:
        return None

    def people(version: str) -> Estimate:
        shown = [(one, t) for one, t in answered if one.answers[SHOWN] == version]
        return rate_of((_path(t), one.answers[RIGHT] == YES) for one, t in shown)

    def models(version: str) -> Estimate:
        shown = {t.id: t for one, t in answered if one.answers[SHOWN] == version}
        return rate_of((_path(t), version == CLEAN or t.first is None) for t in shown.values())

    return Answers(
        n_items=len({_path(trial) for _, trial in answered}),
        people=Right(clean=people(CLEAN), attacked=people(ATTACKED)),
        models=Right(clean=models(CLEAN), attacked=models(ATTACKED)),
    )


_JUDGEMENTS = (
    column("Judgement", lambda one: WORDS[one.judgement], key="judgement"),
    column("Yes", "yes", "share", "of the settled cases"),
    column("Cases", "n_cases", "count"),
    column("Split", "n_split", "count", "raters disagree"),
)
_AGREEMENT = (
    _JUDGEMENTS[0],
    column("Agreeing pairs", "agreement.raw", "score"),
    column("Krippendorff's alpha", "agreement.krippendorff", "score"),
)


def _believed(one: OnPlanted) -> Entry:
    return Entry(value=one.right, lines=("counts for nothing",) if one.is_unbelieved else ())


_ON_PLANTED = (
    column("Rater", "rater"),
    column("Planted", lambda one: _PLANTED[one.control]),
    column("Right", _believed, "share"),
)
_ANSWERS = (
    column("Who answered", "0", key="who"),
    column("Clean", "1.clean", "share"),
    column("Attacked", "1.attacked", "share"),
)
