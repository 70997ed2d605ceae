import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.text import Edit, apply_edits, copy_case


def edit(start: int, end: int, replacement: str) -> Edit:
    return Edit(field="A", start=start, end=end, replacement=replacement)


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    """A text and edits that do not overlap, in any order."""
    text = draw(st.text(max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    edits = [edit(start, end, draw(st.text(max_size=6))) for start, end in spans]
    return text, draw(st.permutations(edits))


@given(st.text())
def test_no_edits_leave_a_text_as_it_is(text):
    assert apply_edits(text, []) == text


@given(edited_texts())
def test_the_length_changes_by_what_the_edits_add_and_remove(given):
    text, edits = given
    gained = sum(len(e.replacement) - (e.end - e.start) for e in edits)
    assert len(apply_edits(text, edits)) == len(text) + gained


@given(edited_texts())
def test_replacing_each_span_by_itself_changes_nothing(given):
    text, edits = given
    same = [edit(e.start, e.end, text[e.start : e.end]) for e in edits]
    assert apply_edits(text, same) == text


@given(edited_texts())
def test_edits_from_right_to_left_one_by_one_give_the_same_text(given):
    text, edits = given
    expected = text
    for e in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        expected = expected[: e.start] + e.replacement + expected[e.end :]
    # Insertions at one position stand in the order given, which one by one would reverse.
    if len({(e.start, e.end) for e in edits}) == len(edits):
        assert apply_edits(text, edits) == expected


def test_insertions_at_one_position_stand_in_the_order_given():
    assert apply_edits("ad", [edit(1, 1, "b"), edit(1, 1, "c")]) == "abcd"


@pytest.mark.parametrize(
    "edits",
    [
        [edit(0, 2, "x"), edit(1, 3, "y")],
        [edit(3, 5, "x")],
        [edit(2, 1, "x")],
        [edit(-1, 1, "x")],
        [edit(0, 3, "x"), edit(0, 3, "x")],
    ],
    ids=["overlap", "past the end", "reversed", "negative", "twice the same"],
)
def test_edits_that_overlap_or_leave_the_text_are_refused(edits, said):
    with pytest.raises(ValueError) as caught:
        apply_edits("abcd", edits)
    said(str(caught.value))


ascii_names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)


@given(ascii_names, ascii_names)
def test_only_the_first_character_takes_the_case(replacement, original):
    result = copy_case(replacement, original)
    assert result[1:] == replacement[1:]
    assert result.casefold() == replacement.casefold()
    if original[0].isalpha() and replacement[0].isalpha():
        assert result[0].isupper() == original[0].isupper()
