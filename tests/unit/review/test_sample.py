"""What is said of samples that were drawn elsewhere."""

from __future__ import annotations

from medstress.review.sample import Arm, odd_draw


def arms(**counts: int) -> list[Arm]:
    place = {"dataset": "d", "group": "drugs", "victim": "v"}
    return [{**place, "attack": name, "n": n} for name, n in counts.items()]


def test_a_draw_that_chance_hardly_makes_is_remarked_and_an_ordinary_one_is_not() -> None:
    population = arms(near=23, random=57)
    assert odd_draw(population, arms(near=9)) == (
        "a sheet is said to be drawn at random from 80 successes, but 9 of its 9 are of near, "
        "drugs, which has 23: chance hardly draws so"
    )
    assert odd_draw(population, arms(near=3, random=6)) is None
    assert odd_draw(population, arms(random=9)) is None  # .04
    assert odd_draw(population, arms(near=23, random=57)) is None
    assert odd_draw(arms(near=9), arms(near=9)) is None
