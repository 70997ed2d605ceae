"""What experts said, in numbers: judgements, agreement, planted controls, people as a yardstick."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_flipped, unit_of
from medstress.metrics.old_stats.agreement import MISSING, Ratings, agreement
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate
from medstress.results.formats import plural
from medstress.results.load import StoredRun, reviews_of
from medstress.results.reviewed import JUDGE, is_unbelieved, settled
from medstress.store.review_store import stored_rooms
from medstress.store.reviews import (
    ADJUDICATOR,
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
    YES,
    Review,
)

ALL = "all"
_CATEGORIES = (YES, NO, CANNOT_SAY)
LEAST_RIGHT = 0.75
"""Of planted cases; who always says the same is right in about half of them."""
_SAMPLE = ("mode", "seed", "drawn", "population", "arms", "planted", "complete", "time")


def describe_reviews(run: StoredRun, trials: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Return the part `review` of a summary; None if nobody has judged anything.

    Raters have numbers in the order in which they came, because summaries are passed on and names
    of raters are not.
    """
    reviews = sorted(run.once(reviews_of), key=lambda one: (one.time, one.reviewer))
    if not reviews:
        return None
    rows = {row.trial_id: row for row in trials}
    raters = _numbered(one.reviewer for one in reviews if one.role != ADJUDICATOR)
    judged = [one for one in reviews if SHOWN not in one.answers]
    decided = {one.reviewer.casefold() for one in reviews if one.role == ADJUDICATOR}
    return {
        "n_raters": len(raters),
        "n_adjudicators": len(decided),
        "samples": _samples(run),
        "progress": _progress(run, judged, raters),
        "judgements": [_judgement(name, judged, raters, rows) for name in JUDGEMENTS],
        "controls": _controls(judged, raters),
        "answers": _answers([one for one in reviews if ANSWER in one.answers], raters, rows),
    }


def _samples(run: StoredRun) -> list[dict[str, Any]]:
    rooms = stored_rooms(run.folder).values()
    return [{name: body[name] for name in _SAMPLE} for body in rooms]


def _progress(
    run: StoredRun, reviews: Sequence[Review], raters: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Count what each rater has judged of a sample: of several, the one that is nearest its end."""
    samples = [
        {str(each["id"]) for each in body["cases"]}
        for body in stored_rooms(run.folder).values()
        if body["mode"] == JUDGE
    ]
    by_rater: dict[int, set[str]] = defaultdict(set)
    for one in reviews:
        if one.role != ADJUDICATOR and one.case_id is not None and KEY_RIGHT in one.answers:
            by_rater[raters[one.reviewer.casefold()]].add(one.case_id)
    found = []
    for number, cases in sorted(by_rater.items()):
        begun = [sample for sample in samples if sample & cases]
        if begun:
            sample = max(begun, key=lambda each: (len(each & cases) / len(each), len(each)))
            counts = {"n_judged": len(sample & cases), "n_cases": len(sample)}
            found.append({"rater": _called(number), **counts})
    return found


def review_warnings(review: Mapping[str, Any]) -> list[str]:
    """Return what to know before one believes what reviewers say."""
    key = _key_right(review)
    if not key["n_cases"]:
        return []
    return [*_split_lines(key), *rater_lines(review), *_unfinished_lines(review)]


def _key_right(review: Mapping[str, Any]) -> Mapping[str, Any]:
    (key,) = [each for each in review["judgements"] if each["judgement"] == KEY_RIGHT]
    return dict(key)


def _split_lines(key: Mapping[str, Any]) -> list[str]:
    if not key["n_open"]:
        return []
    return [
        f"raters disagree whether the key is right in {key['n_open']} of {key['n_cases']} cases: "
        "their validity is unknown until somebody decides (medstress review DIR --adjudicate)"
    ]


def rater_lines(review: Mapping[str, Any]) -> list[str]:
    """Return a warning for each rater whose word is worth little, and one if a rater is alone."""
    planted = [each for each in review["controls"] if each["control"] == ALL]
    found = [
        f"of {plural(right['n'], 'planted case')} {each['rater']} judged "
        f"{round(right['value'] * right['n'])} rightly: what {each['rater']} says of validity "
        + ("counts for nothing" if _is_out(right) else "may be worth little")
        for each in planted
        if each["rater"] != ALL and (right := each["right"])["n"] and right["value"] < LEAST_RIGHT
    ]
    if not planted:
        found.append(
            "no planted case was judged, so nothing says how careful raters are (medstress review "
            "DIR shows some)"
        )
    if _key_right(review)["agreement"]["n_raters"] < 2:
        found.append(
            "one rater alone judged whether keys are right, so it is not known whether another "
            "would say the same"
        )
    return found


def unbelieved(review: Mapping[str, Any]) -> list[str]:
    """Return the raters whose word on validity counts for nothing."""
    return [
        str(each["rater"])
        for each in review["controls"]
        if each["control"] == ALL and each["rater"] != ALL and _is_out(each["right"])
    ]


def _is_out(right: Mapping[str, Any]) -> bool:
    return is_unbelieved(round((right["value"] or 0.0) * right["n"]), right["n"])


def _unfinished_lines(review: Mapping[str, Any]) -> list[str]:
    return [
        f"{each['rater']} has judged {each['n_judged']} of the {each['n_cases']} cases of the "
        "sample: those that are left may be harder"
        for each in review["progress"]
        if each["n_judged"] < each["n_cases"]
    ]


def _numbered(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found.setdefault(name.casefold(), len(found))
    return found


def _called(number: int) -> str:
    return f"rater {number + 1}"


def _judgement(
    name: str,
    reviews: Sequence[Review],
    raters: Mapping[str, int],
    rows: Mapping[str, TrialRow],
) -> dict[str, Any]:
    """Describe one judgement of all cases: those of several trials count once."""
    first = _first_trials(reviews, rows)
    said = {trial: one for trial, one in settled(reviews, name).items() if trial in first}
    units = {trial: _item(rows[trial]) for trial in said}
    known = [(trial, one.word) for trial, one in said.items() if one.word in (YES, NO)]
    split = [one for one in said.values() if one.is_split]
    return {
        "judgement": name,
        "n_cases": len(said),
        "n_split": len(split),
        "n_decided": sum(one.decided is not None for one in split),
        "n_open": sum(one.decided is None for one in split),
        "yes": rate((units[trial], word == YES) for trial, word in known).as_json(),
        "agreement": _agreement(name, reviews, raters, units),
    }


def _agreement(
    name: str,
    reviews: Sequence[Review],
    raters: Mapping[str, int],
    units: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    of_trial: dict[str, dict[int, int]] = defaultdict(dict)
    for one in reviews:
        if (
            one.trial_id is not None
            and one.trial_id in units
            and one.role != ADJUDICATOR
            and name in one.answers
        ):
            place = raters[one.reviewer.casefold()]
            of_trial[one.trial_id][place] = _CATEGORIES.index(one.answers[name])
    ratings: list[Ratings] = [
        tuple(given.get(place, MISSING) for place in range(len(raters)))
        for given in of_trial.values()
    ]
    found = asdict(agreement(ratings, [units[trial] for trial in of_trial]))
    return {
        key: Estimate(**value).as_json() if isinstance(value, dict) else value
        for key, value in found.items()
    }


def _first_trials(reviews: Sequence[Review], rows: Mapping[str, TrialRow]) -> set[str]:
    """Return one trial of every case; reviews of trials that the run no longer has are left out."""
    known = [(one.trial_id, one.case_id) for one in reviews if one.trial_id in rows]
    case_of = {trial: case for trial, case in known if case is not None}
    first: dict[str, str] = {}
    for trial, _ in known:
        first.setdefault(case_of.get(trial, str(trial)), str(trial))
    return set(first.values())


def _item(row: TrialRow) -> tuple[str, ...]:
    """Return the nested units of a trial; ids are unique in their data set alone."""
    return tuple(f"{row.dataset}/{part}" for part in unit_of(row))


def _controls(reviews: Sequence[Review], raters: Mapping[str, int]) -> list[dict[str, Any]]:
    """Estimate how often raters judge the key of planted controls rightly, in all and each."""
    told: dict[tuple[int, str], list[tuple[str, bool]]] = defaultdict(list)
    for one in reviews:
        if one.control in EXPECTED and KEY_RIGHT in one.answers:
            is_right = one.answers[KEY_RIGHT] == EXPECTED[one.control]
            number = raters.get(one.reviewer.casefold(), 0)
            for place in ((-1, ALL), (-1, one.control), (number, ALL), (number, one.control)):
                told[place].append((str(one.case_id), is_right))
    order = (ALL, *EXPECTED)
    places = sorted(told, key=lambda place: (place[0], order.index(place[1])))
    return [
        {
            "rater": ALL if number < 0 else _called(number),
            "control": control,
            "right": rate(told[number, control]).as_json(),
        }
        for number, control in places
    ]


def _answers(
    reviews: Sequence[Review], raters: Mapping[str, int], rows: Mapping[str, TrialRow]
) -> dict[str, Any] | None:
    """Compare people with models on the same items; None if nobody answered any."""
    known = [one for one in reviews if one.trial_id in rows]
    if not known:
        return None
    asked = {
        version: {str(one.trial_id) for one in known if one.answers[SHOWN] == version}
        for version in (CLEAN, ATTACKED)
    }
    by_rater: dict[int, list[Review]] = defaultdict(list)
    for one in known:
        by_rater[raters[one.reviewer.casefold()]].append(one)
    return {
        "n_items": len({_item(rows[str(one.trial_id)]) for one in known}),
        "people": _people(known, rows),
        "raters": [
            {"rater": _called(number), **_people(by_rater[number], rows)}
            for number in sorted(by_rater)
        ],
        "models": {
            CLEAN: rate((_item(rows[trial]), True) for trial in asked[CLEAN]).as_json(),
            ATTACKED: rate(
                (_item(rows[trial]), not is_flipped(rows[trial])) for trial in asked[ATTACKED]
            ).as_json(),
        },
    }


def _people(reviews: Sequence[Review], rows: Mapping[str, TrialRow]) -> dict[str, Any]:
    return {
        version: rate(
            (_item(rows[str(one.trial_id)]), one.answers[RIGHT] == YES)
            for one in reviews
            if one.answers[SHOWN] == version
        ).as_json()
        for version in (CLEAN, ATTACKED)
    }
