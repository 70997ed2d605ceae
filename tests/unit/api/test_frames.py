"""Rows of a summary as columns of one type each."""

import polars

from medstress.api.results import result_rows
from medstress.core.frames import frame_of

ESTIMATE = {"value": 0.5, "n": 4, "low": 0.1, "high": 0.9, "method": "Wilson 95 %"}


def test_estimates_and_tables_of_estimates_become_columns():
    rows = [
        {"attack": "a", "asr": ESTIMATE, "asr_net": {"no_op": ESTIMATE}, "queries": {"asked": 3}},
        {"attack": "b", "asr": None, "asr_net": {}, "queries": {"asked": 2}},
    ]
    first, second = result_rows(rows)
    assert (first["asr"], first["asr_low"], first["asr_n"]) == (0.5, 0.1, 4)
    assert (first["asr_net_no_op"], first["asr_net_no_op_high"]) == (0.5, 0.9)
    assert first["queries_asked"] == 3
    assert first.keys() == second.keys()
    assert second["asr_low"] is None


def test_a_column_of_several_types_is_text_and_no_row_is_lost():
    frame = frame_of([{"n": 1, "x": 1}, {"n": "two", "x": 0.5}, {"n": None, "x": None}], {})
    assert frame["n"].to_list() == ["1", "two", None]
    assert frame["x"].to_list() == [1.0, 0.5, None]
    assert frame_of([], {}).equals(polars.DataFrame())
