"""The page that extrapolates to 1,000 GPUs follows from its figures."""

from __future__ import annotations

import pytest


@pytest.fixture
def scale(script):
    return script("scale")


def given(scale, **changed):
    return scale.Given(**{**scale.measured(), **changed})


def test_the_page_is_what_the_command_writes(scale):
    page = scale.PAGE.read_text("utf-8")
    assert scale.fill(page, scale.parts_of(given(scale))) == page


def test_the_sizes_of_the_question_are_10_to_the_9_queries_and_11_hours_of_one_process(scale):
    one = given(scale)
    assert one.queries == 979_020_000
    assert 10 < one.queries / one.queries_per_second / 3600 < 12
    assert scale.steps(one, by_victim=True)[0].seconds == pytest.approx(0.97902 * 450 * 3.6)


def test_twice_the_gpus_halve_what_models_take_and_not_what_one_process_does(scale):
    once, twice = (
        {step.name: step.seconds for step in scale.steps(given(scale, gpus=n), by_victim=False)}
        for n in (1_000, 2_000)
    )
    assert twice["models answer"] == once["models answer"] / 2
    assert twice["weights are read"] == once["weights are read"] * 2
    for name in ("merging", "the plan is made", "ledgers travel"):
        assert twice[name] == once[name]


@pytest.mark.parametrize(
    ("changed", "by_victim", "first"),
    [
        ({}, False, "merging"),
        ({"merge_seconds": 0.1}, False, "weights are read"),
        ({"merge_seconds": 0.1, "storage_gb_per_second": 1e9}, False, "models are loaded"),
        ({"network_gb_per_second": 0.001}, True, "ledgers travel"),
        ({"shards": 10**9, "merge_seconds": 0.1}, True, "leases"),
    ],
)
def test_the_first_bottleneck_is_the_longest_wait(scale, changed, by_victim, first):
    found = scale.steps(given(scale, **changed), by_victim=by_victim)
    assert scale.first_bottleneck(found).name == first
