"""Texts in CSV files are never computed, and come back as they were."""

import csv
import io
import re

from hypothesis import given
from hypothesis import strategies as st

from medstress.core.frames import Reader, Writer, neutral, original

TRIGGERS = "=+-@\t\r\n＝＋－＠"
cells = st.one_of(
    st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"], include_characters="\t\n")),
    st.text(st.sampled_from(TRIGGERS + "'\"ab ,;"), max_size=8),
)


@given(cells)
def test_a_text_is_not_computed_and_comes_back(text):
    for cell in neutral(text).split(";"):  # as where a semicolon separates cells
        assert cell[:1] not in [*TRIGGERS]
    assert original(neutral(text)) == text


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_rows_come_back_through_a_file(rows, line_end):
    stream = io.StringIO(newline="")
    writer = Writer(stream, ["first", "=second"], line_end)
    for first, second in rows:
        writer.write({"first": first, "=second": second})
    stream.seek(0)
    read = list(Reader(stream))
    marked = [tuple(re.sub("\r(?!\n)", "\ufffd", cell) for cell in row) for row in rows]
    assert [(row["first"], row["=second"]) for row in read] == marked, "a bare return has a mark"


def test_numbers_stay_numbers():
    stream = io.StringIO(newline="")
    Writer(stream, ["a", "b", "c"]).write({"a": -0.5, "b": None, "c": "-0.5"})
    assert list(csv.reader(io.StringIO(stream.getvalue())))[1] == ["-0.5", "", "'-0.5"]
