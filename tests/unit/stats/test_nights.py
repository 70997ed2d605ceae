"""The nightly gate: the recipe by hand, what it refuses, and its file."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.stats.nights import (
    STAKES,
    Night,
    State,
    allowed,
    as_json,
    begin,
    feed,
    read_state,
    unspent,
    weight,
)


def fed(outcomes: str, state: State | None = None) -> list[Night]:
    """Nights that are behind (b), ahead (a) or level (-)."""
    state, nights = state or begin("base"), []
    for outcome in outcomes:
        b, c = {"b": (9, 3), "a": (3, 9), "-": (5, 5)}[outcome]
        nights.append(feed(state, b, c, 100, margin=state.margin, digest=f"night {state.t + 1}"))
        state = nights[-1].state
    return nights


def test_three_nights_by_hand() -> None:
    fortunes = [0.0] * 5
    for t, (x, night) in enumerate(zip([1, 0, -1], fed("b-a"), strict=True), start=1):
        w = 0.5 / 365 + 0.5 / (t * (t + 1))
        fortunes = [(v + w) * (1 + s * x) for v, s in zip(fortunes, STAKES, strict=True)]
        rest = 1 - sum(0.5 / 365 + 0.5 / (j * (j + 1)) for j in range(1, t + 1))
        assert night.x == x
        assert night.state.fortunes == pytest.approx(fortunes)
        assert night.e == pytest.approx(sum(fortunes) / 5 + rest)
        assert night.e == night.state.e
    assert night.state.nights == ("night 1", "night 2", "night 3")


def test_all_weights_are_one_fortune() -> None:
    assert sum(weight(j) for j in range(1, 500)) + unspent(499) == pytest.approx(1)
    assert unspent(0) == 1


def test_where_both_sides_are_equally_likely_the_fortune_is_1_on_average() -> None:
    """All 2^8 series of eight nights: E is a martingale."""
    ends = [fed("".join(series))[-1].e for series in product("ab", repeat=8)]
    assert sum(ends) / len(ends) == pytest.approx(1)
    assert min(ends) > 0


def test_a_build_that_is_behind_every_night_raises_the_alarm_on_the_ninth() -> None:
    """METHODS 1.5: median delay 9 for a drop that begins on night 1."""
    nights = fed("b" * 12)
    first = next(i for i, night in enumerate(nights, start=1) if night.alarm)
    assert 6 <= first <= 9
    assert nights[-1].state.first_alarm == first
    later = fed("a" * 10, nights[-1].state)
    assert not later[-1].alarm
    assert later[-1].state.first_alarm == first


def test_a_drop_within_the_margin_is_bet_on_as_if_it_were_none() -> None:
    state = begin("base", margin=0.05)
    assert feed(state, 14, 8, 200, margin=0.05, digest="1").x == -1
    assert feed(state, 18, 8, 200, margin=0.05, digest="1").x == 0
    assert feed(state, 19, 8, 200, margin=0.05, digest="1").x == 1
    rounded = begin("base", margin=0.07)  # .07 * 100 is above 7 by rounding
    assert feed(rounded, 8, 1, 100, margin=0.07, digest="1").x == 0


def test_no_item_left_is_a_night_without_a_bet() -> None:
    night = feed(begin("base"), 0, 0, 0, margin=0.0, digest="1")
    assert (night.x, night.state.t) == (0, 1)
    assert night.e == pytest.approx(1)


def test_a_night_fed_twice_is_refused() -> None:
    state = fed("ba")[-1].state
    with pytest.raises(ValueError, match="got the one that was fed as night 1"):
        feed(state, 1, 0, 10, margin=0.0, digest="night 1")


def test_another_margin_and_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="margin of the series"):
        feed(begin("base"), 1, 0, 10, margin=0.1, digest="1")
    for b, c, n in ((-1, 0, 10), (6, 5, 10)):
        with pytest.raises(ValueError, match="counts of different items"):
            feed(begin("base"), b, c, n, margin=0.0, digest="1")
    with pytest.raises(ValueError, match="margin from 0 to below 1"):
        begin("base", 1.0)


def test_deterministic_items_are_bet_on_once_and_sampled_ones_every_night() -> None:
    state = begin("base")
    assert allowed(state, ["q1", "q2"], is_afresh=False) == ["q1", "q2"]
    state = feed(state, 1, 0, 2, margin=0.0, digest="1", spent=["q1", "q2"]).state
    assert allowed(state, ["q1", "q2", "q3"], is_afresh=False) == ["q3"]
    assert allowed(state, ["q1", "q2", "q3"], is_afresh=True) == ["q1", "q2", "q3"]
    with pytest.raises(ValueError, match="got 1 again, such as q2"):
        feed(state, 0, 0, 2, margin=0.0, digest="2", spent=["q2", "q3"])


def test_a_state_comes_back_from_json_to_the_last_digit() -> None:
    state = fed("bb-abbbbbbbbbbbbb", begin("base", 0.02))[-1].state
    state = feed(state, 1, 0, 3, margin=0.02, digest="x", spent=["b", "a"]).state
    assert state.first_alarm is not None
    assert read_state(json.dumps(as_json(state))) == state
    assert as_json(state)["spent"] == ["a", "b"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 2),
        ("baseline", None),
        ("margin", 1),
        ("margin", True),
        ("margin", 10**400),
        ("stakes", [0.1]),
        ("fortunes", [0.0] * 4),
        ("fortunes", [0.0] * 4 + [-1.0]),
        ("fortunes", [0.0] * 4 + [float("nan")]),
        ("nights", ["a", "a"]),
        ("nights", "abc"),
        ("spent", [1]),
        ("first_alarm", 3),
        ("first_alarm", "1"),
    ],
)
def test_a_field_that_cannot_be_is_named(field: str, value) -> None:
    with pytest.raises(ValueError, match=field):
        read_state({**as_json(fed("b")[-1].state), field: value})


@pytest.mark.parametrize("found", ["{", "[]", "{}", b"\xff", 3, "[" * 100_000])
def test_what_is_no_state_is_refused(found) -> None:
    with pytest.raises(ValueError, match="state of a nightly gate"):
        read_state(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@settings(max_examples=200)
@given(st.sampled_from(sorted(as_json(begin("a")))), JSON)
def test_whatever_a_field_holds_it_is_read_or_refused_in_a_sentence(field: str, value) -> None:
    text = {**as_json(begin("a")), field: value}
    with suppress(Refused):
        state = _read(text)
        assert read_state(as_json(state)) == state


class Refused(Exception):
    pass


def _read(found) -> State:
    try:
        return read_state(found)
    except ValueError as error:
        if "state of a nightly gate" not in str(error):
            raise
        raise Refused from error


def test_a_fortune_stays_a_number_however_long_the_build_is_behind() -> None:
    state = fed("b" * 1200)[-1].state
    assert read_state(json.dumps(as_json(state))) == state
