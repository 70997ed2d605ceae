"""How answers came about: letter mass, ties, unchanged queries, edited options, no question."""

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.answers import (
    NO_SCORES,
    answer_fields,
    chose_edited,
    key_probability_change,
    letter_mass,
)
from medstress.metrics.cautions import cautions
from medstress.metrics.counts import count_verdicts, is_never_asked
from medstress.metrics.success import asr, asr_asked

Make = Callable[..., TrialRow]
RUN = {"complete": True}


def said(trials: list[TrialRow], word: str) -> list[str]:
    return [each for each in cautions(trials, RUN) if word in each]


def test_letter_mass_is_the_mean_over_clean_prompts_that_have_one(trial: Make) -> None:
    masses = (0.1, 0.2, None, 0.6)
    trials = [trial(item_id=str(i), letter_mass=mass) for i, mass in enumerate(masses)]
    found = letter_mass(trials)
    assert (found.value, found.n) == (pytest.approx(0.3), 3)
    assert 0.1 <= (found.low or 0) < 0.3
    assert letter_mass(trials[2:3]).value is None


def test_a_victim_with_little_mass_on_letters_is_named_once(trial: Make) -> None:
    def asked(victim: str, group: str, mass: float | None) -> list[TrialRow]:
        return [
            trial(victim=victim, group=group, item_id=str(i), letter_mass=mass, n_asked=1)
            for i in range(3)
        ]

    low = [*asked("low", "drugs", 0.07), *asked("low", "diseases", 0.23)]
    fine = [*asked("fine", "drugs", 0.5), *asked("text", "drugs", None)]
    (sentence,) = said([*low, *fine], "letter_mass")
    assert sentence.startswith(
        "low gives all option letters together only .23 on sample/diseases, .07 on sample/drugs"
    )


def test_counts_are_sums_and_unknown_where_a_trial_did_not_count(trial: Make) -> None:
    new = [trial(item_id=str(i), n_ties=i, n_unchanged=2) for i in range(3)]
    found = answer_fields(new)
    assert (found["n_ties"], found["n_unchanged"]) == (3, 6)
    mixed = answer_fields([*new, trial(item_id="old")])
    assert (mixed["n_ties"], mixed["n_unchanged"]) == (None, None)


def test_the_edited_option_is_counted_among_successes_that_say(trial: Make) -> None:
    flips = [
        trial(item_id=str(i), verdict=Verdict.FLIPPED, chose_edited=chosen)
        for i, chosen in enumerate((True, False, False, None))
    ]
    found = chose_edited([*flips, trial(item_id="held", chose_edited=True)])
    assert (found.value, found.n) == (pytest.approx(1 / 3), 3)


def test_trials_that_asked_no_edit_are_counted_and_left_out_of_asr_asked(trial: Make) -> None:
    trials = [
        trial(item_id="1", verdict=Verdict.FLIPPED, n_asked=3),
        trial(item_id="2", n_asked=8),
        trial(item_id="3", n_asked=0),
        trial(item_id="4", n_asked=5, n_probes=5),
        trial(item_id="5", verdict=Verdict.ALREADY_WRONG),
        trial(item_id="6", verdict=Verdict.NOT_ATTACKABLE),
    ]
    assert answer_fields(trials)["n_never_asked"] == 2
    assert (asr(trials).value, asr(trials).n) == (1 / 4, 4)
    assert (asr_asked(trials).value, asr_asked(trials).n) == (1 / 2, 2)
    assert count_verdicts(trials)["n_held"] == 3  # the verdict stays
    (sentence,) = said(trials, "saw no edit")
    assert sentence.startswith("random: in 2 of 4 eligible trials the victim mock saw no edit")
    assert "and 2 of them count as held" in sentence
    assert not said(trials[:2], "saw no edit")
    none = asr_asked(trials[2:4])
    assert (none.value, none.n) == (None, 0)


@pytest.mark.parametrize(("n_asked", "warns"), [(9, True), (10, False)])
def test_the_warning_comes_from_a_tenth_of_the_eligible_trials_on(
    trial: Make, n_asked: int, warns: bool
) -> None:
    never = trial(item_id="never", n_asked=0)
    asked = [trial(item_id=str(i), n_asked=3) for i in range(n_asked)]
    wrong = [trial(item_id=f"w{i}", verdict=Verdict.ALREADY_WRONG) for i in range(20)]
    assert bool(said([never, *asked, *wrong], "saw no edit")) is warns
    # One victim that was shown little is not hidden by another that was shown all.
    other = [trial(item_id=str(i), n_asked=3, victim="other") for i in range(50)]
    assert bool(said([never, *asked, *wrong, *other], "saw no edit")) is warns


def test_a_trial_that_failed_before_any_question_asked_nothing_but_is_not_held(trial: Make) -> None:
    values: dict[str, Any] = {"verdict": Verdict.FAILED, "at": "attack", "n_asked": 0}
    trials = [trial(item_id="1", **values), trial(item_id="2", n_asked=1)]
    assert answer_fields(trials)["n_never_asked"] == 1
    assert not said(trials, "saw no edit")


def test_a_trial_in_which_every_query_changed_nothing_saw_no_edit(trial: Make) -> None:
    row = trial(verdict=Verdict.HELD, n_asked=2, n_cached=2, n_unchanged=2)
    assert is_never_asked(row)
    assert not is_never_asked(trial(verdict=Verdict.HELD, n_asked=2, n_paid=2, n_unchanged=1))


def test_the_change_of_the_keys_probability_is_of_trials_with_both_answers(trial: Make) -> None:
    flipped = Verdict.FLIPPED
    trials = [
        trial(item_id="a", verdict=flipped, score_before=0.9, first_success_score=0.1),
        # The pick came later.
        trial(
            item_id="b", verdict=flipped, score_before=0.6, first_success_score=0.2, score_after=0.5
        ),
        trial(item_id="c", score_before=0.9),
        # A perturbed copy is answered once.
        trial(item_id="d", score_before=0.7, score_after=0.6),
        trial(item_id="e", verdict=Verdict.ALREADY_WRONG, score_before=0.03),
    ]
    found = key_probability_change(trials)
    assert (found.value, found.n) == (pytest.approx((-0.8 - 0.4 - 0.1) / 3), 3)


def test_without_scores_the_change_is_null_and_says_why(trial: Make) -> None:
    found = key_probability_change([trial(), trial(item_id="q2", verdict=Verdict.FLIPPED)])
    assert (found.value, found.low, found.n, found.method) == (None, None, 0, NO_SCORES)


def test_the_similarity_of_a_pair_is_no_probability(trial: Make) -> None:
    pair = trial(n_options=0, score_before=3.2, score_after=1.0, verdict=Verdict.MEASURED)
    assert key_probability_change([pair]).value is None
