"""Comparisons on stored attacks: what was chosen by answers gives no better or worse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow

Make = Callable[..., TrialRow]
SPEC = {
    "name": "attacked",
    "budget": 4,
    "of": {"name": "entity_substitution", "sampler": "random", "budget": 4},
    "label": "random",
    "set": "s",
    "selection": "all",
    "is_blind": True,
    "source": {"fingerprint": "f", "victim": "mock", "model_hash": "1"},
}
NEW = {"victims.mock.model": "new", "victims.mock.model_hash": "2"}


def stored(**changes: Any) -> dict[str, Any]:
    return {"attacks.random": copy.deepcopy({**SPEC, **changes})}


@pytest.fixture
def side(trial: Make) -> Callable[..., list[TrialRow]]:
    """Trials flipped at these queries; None: held; 0: wrong before."""

    def make(*firsts: int | None) -> list[TrialRow]:
        verdicts = {None: Verdict.HELD, 0: Verdict.ALREADY_WRONG}
        return [
            trial(
                item_id=f"q{i}",
                item_hash=f"h{i}",
                seed=0,
                trial_id=str(i),
                verdict=verdicts.get(first, Verdict.FLIPPED),
                first_success=first or None,
            )
            for i, first in enumerate(firsts)
        ]

    return make


def test_on_successes_alone_a_truly_worse_victim_would_look_better_and_gets_no_verdict(
    side: Any, compared: Any, said: Any
) -> None:
    """A lost 10 of 100 items, the 10 of the file; B loses 30 of 100, and 5 of these 10."""
    changes = stored(selection="flipped")
    a, b = side(*[1] * 10), side(*[1] * 5, *[None] * 5)
    with pytest.raises(UsageError) as error:
        compared(a, b, {**NEW, **changes}, changes)
    said(str(error.value), "a truly worse victim looks better")
    assert "A repeats 10 of 10" in str(error.value)
    assert "B repeats 5 of 10" in str(error.value)
    # The same trials without the mark would say that B is better.
    unmarked = stored()
    assert compared(a * 1, b, {**NEW, **unmarked}, unmarked).rows[0].difference.value < 0


def test_a_file_that_somebody_filtered_gives_no_verdict(
    side: Any, compared: Any, said: Any
) -> None:
    changes = stored(selection="filtered")
    with pytest.raises(UsageError) as error:
        compared(side(1, None), side(None, 1), {**NEW, **changes}, changes)
    said(str(error.value), "nobody knows")


def test_only_the_first_edit_and_items_right_in_both_count(side: Any, compared: Any) -> None:
    """A's later flips are why its lists end; items wrong in B say nothing of the attack."""
    a, b = side(1, 2, 3, None, 1, None), side(None, 1, None, 1, 0, 0)
    found = compared(a, b, {**NEW, **stored()}, stored())
    (row,) = found.deciding_rows
    assert (row.metric, len(row.pairs)) == ("asr", 4)
    assert [each.value for each in row.values] == [1 / 4, 2 / 4]
    assert {each.metric for each in found.rows} == {"asr"}
    assert any("first edit" in note for note in found.notes)
    assert "no answer chose" in found.why


def test_the_victim_whose_answers_led_to_the_edits_is_no_side(
    side: Any, compared: Any, said: Any
) -> None:
    changes = stored(is_blind=False)
    with pytest.raises(UsageError) as error:
        compared(side(1, None), side(None, 1), {**NEW, **changes}, changes)
    said(str(error.value), "follow from answers")
    third = {**changes, "victims.mock.model": "third", "victims.mock.model_hash": "3"}
    found = compared(side(1, None), side(None, 1), {**NEW, **changes}, third)
    assert any("led to the edits" in note for note in found.notes)
    assert "no answer chose" not in found.why


def test_the_run_that_was_stored_stands_against_a_replay_of_its_edits(
    side: Any, compared: Any
) -> None:
    found = compared(side(1, None), side(None, 1), {**NEW, **stored()})
    assert found.factor == "victim"
    other = stored(source={**SPEC["source"], "fingerprint": "g"})
    with pytest.raises(UsageError):
        compared(side(1, None), side(None, 1), {**NEW, **other})


def test_accuracy_cannot_decide(side: Any, compared: Any, said: Any) -> None:
    with pytest.raises(UsageError) as error:
        compared(
            side(1, None), side(None, 1), {**NEW, **stored()}, stored(), metric="accuracy_after"
        )
    said(str(error.value), "accuracy_after")


def test_equal_victims_come_out_equal_although_one_of_them_chose_the_set(
    side: Any, compared: Any
) -> None:
    """A and B err at random on 3 of 10 edits; A's first error ends the list of an item."""
    rng = np.random.default_rng(4)
    of_a, of_b = rng.random((2, 2000, 4)) < 0.3
    firsts: tuple[list[int | None], list[int | None]] = ([], [])
    for a, b in zip(of_a, of_b, strict=True):
        length = 1 + int(np.argmax(a)) if a.any() else 4
        firsts[0].append(length if a.any() else None)
        firsts[1].append(1 + int(np.argmax(b[:length])) if b[:length].any() else None)
    # Up to the last edit B would look far better.
    lost = [sum(first is not None for first in each) / 2000 for each in firsts]
    assert lost[0] - lost[1] > 0.2
    found = compared(side(*firsts[0]), side(*firsts[1]), {**NEW, **stored()}, stored())
    assert found.verdict == "undecided"
    assert abs(found.deciding_rows[0].difference.value) < 0.04


def test_unreadable_answers_to_later_edits_make_no_victim_worse(side: Any, compared: Any) -> None:
    """All held in both; of B 40 of 200 trials of four edits have an unreadable answer somewhere."""
    changes = stored()
    a, b = side(*[None] * 200), side(*[None] * 200)
    b = [replace(row, n_asked=4, n_unreadable=1) if i < 40 else row for i, row in enumerate(b)]
    found = compared(a, b, {**NEW, **changes}, changes)
    assert found.verdict == "undecided"
