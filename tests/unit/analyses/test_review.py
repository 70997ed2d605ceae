"""What people said of planted cases: judgements, raters who are not believed, their own answers."""

from dataclasses import replace
from typing import Any

from medstress.analyses.results import RESULTS
from medstress.analyses.review import REVIEW, Review
from medstress.core.trials import Trial
from medstress.store.reviews import Review as OneReview
from planted_trials import planted_run, trial

CASES = [trial(i, flipped_at=1) for i in range(8)]


def label(rater: str, case: int, word: str = "yes", **rest: Any) -> OneReview:
    """One rater's word on whether a right answer is still right."""
    return OneReview(
        trial_id=CASES[case].id,
        case_id=f"c{case}",
        reviewer=rater,
        answers={"key_right": word, **rest.pop("more", {})},
        time=f"2026-01-01T00:00:{case:02}",
        **rest,
    )


def planted(rater: str, number: int, *, right: bool, sort: str = "wrong_key") -> OneReview:
    """One rater's word on a planted case."""
    expected = "yes" if sort == "unchanged" else "no"
    word = expected if right else {"yes": "no", "no": "yes"}[expected]
    return OneReview(
        trial_id=None,
        case_id=f"p{number}",
        control=sort,
        control_of="cases/q1",
        reviewer=rater,
        answers={"key_right": word},
        time="2026-01-02",
    )


def result(reviews: list[OneReview], trials: list[Trial] = CASES, **parts: Any) -> Review:
    computed = planted_run(trials, reviews=reviews, **parts).of(REVIEW)
    assert computed is not None
    return computed


def rules(review: Review) -> set[str]:
    return {remark.rule for remark in review.remarks()}


def test_two_raters_who_always_say_yes_agree_on_nothing_that_chance_would_not_do():
    review = result([label(rater, case) for rater in ("Anna", "Ben") for case in range(8)])
    key = review.key_right
    assert (key.yes.hits, key.yes.n) == (8, 8)
    assert key.agreement.raw.value == 1.0
    assert key.agreement.krippendorff.value is None
    assert "chance alone would agree as well" in key.agreement.krippendorff.method
    agreement = review.tables()[1]
    assert [column.heading for column in agreement.columns] == ["Judgement", "Agreeing pairs"]
    assert any("chance alone" in note for note in agreement.notes)


def test_who_always_says_yes_is_not_believed():
    sorts = ("unchanged", "wrong_key") * 3
    yes_to_all = [
        planted("Anna", i, right=sort == "unchanged", sort=sort) for i, sort in enumerate(sorts)
    ]
    review = result([label("Anna", case) for case in range(8)] + yes_to_all)
    assert review.unbelieved == ["rater 1"]
    # The words stay in the table, and none of them is a label.
    assert review.key_right.yes.hits == 8
    assert (review.labels.n_valid, review.labels.n_invalid) == (0, 0)
    assert "unbelieved" in rules(review)
    asked_of = planted_run(CASES, reviews=[label("Anna", case) for case in range(8)] + yes_to_all)
    note = next(r for r in asked_of.of(RESULTS).remarks() if r.rule == "validity_unknown")
    assert "not known of 8 of 8 successes (who judged its successes judged too few" in note.sentence


def test_a_careful_rater_is_believed_and_a_doubtful_one_is_named():
    marks = [planted("Anna", i, right=True) for i in range(4)]
    marks += [planted("Ben", i, right=i > 0) for i in range(3)]
    review = result([label("Anna", 0), label("Ben", 0), *marks])
    assert review.unbelieved == []
    assert "doubtful_rater" in rules(review)
    of_all = next(one for one in review.controls if one.rater == "all" and one.control == "all")
    assert (of_all.right.hits, of_all.right.n) == (6, 7)
    assert of_all.right.effect > 1


def test_a_dispute_is_open():
    split = [
        label("Anna", 0),
        label("Ben", 0, "no"),
        label("Anna", 1),
        label("Ben", 1, "cannot say"),
    ]
    review = result(split)
    assert review.key_right.n_split == 2
    assert review.labels.n_disputed == 2
    assert "people_disagree" in rules(review)


def test_a_case_of_several_trials_counts_once():
    twice = [label("Anna", 0), label("Anna", 1)]
    same = [replace(one, case_id="c0") for one in twice]
    assert result(twice).key_right.n_cases == 2
    assert result(same).key_right.n_cases == 1


def test_people_answer_the_same_items_as_the_models():
    def answer(case: int, shown: str, right: str) -> OneReview:
        return OneReview(
            trial_id=CASES[case].id,
            case_id=f"{shown}{case}",
            reviewer="Anna",
            answers={"answer": "A", "shown": shown, "right": right},
            time="2026-01-01",
        )

    reviews = [answer(0, "clean", "yes"), answer(0, "attacked", "yes"), answer(1, "attacked", "no")]
    review = result(reviews)
    assert (review.answers.people.attacked.hits, review.answers.people.attacked.n) == (1, 2)
    # All cases are successes of the attack, so models lose them all and know them clean.
    assert (review.answers.models.attacked.hits, review.answers.models.clean.hits) == (0, 1)
    # Their own answers are no judgement.
    assert review.key_right.n_cases == 0
    assert not [*review.remarks()]
