from __future__ import annotations

from math import nan

from medstress.results.formats import clean, count, decimal, interval, probability, shorten


def test_a_small_negative_number_that_rounds_to_nought_has_no_sign():
    assert decimal(-0.0001) == ".000"
    assert decimal(-1.5) == "−1.500"


def test_numbers_that_are_not_there_are_a_dash_everywhere():
    assert {decimal(None), decimal(nan), count(None), count(nan), probability(None)} == {"–"}
    assert interval({"value": None, "n": 0, "low": None, "high": None}) == "–"


def test_a_rate_of_one_keeps_its_leading_digit():
    assert decimal(1.0) == "1.000"
    assert decimal(0.99951) == "1.000"


def test_p_values_below_a_thousandth_only_say_so():
    assert probability(0.00099) == "< .001"
    assert probability(0.001) == ".001"


def test_short_texts_are_one_line_without_overrides_of_direction():
    assert shorten("a\nb\u202egnp", 20) == "a b\ufffdgnp"
    assert len(shorten("x" * 5000, 40)) == 40


def test_cleaned_text_can_always_be_written():
    hostile = "".join(map(chr, range(0x100))) + "\ud800\udfff\uffff"
    assert "\x00" not in clean(hostile)
    clean(hostile).encode()
