from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.calls import Chosen, Generated, Scored
from medstress.core.errors import StoreError
from medstress.core.items import LETTERS, Mention, Question
from medstress.core.text import Edit, edit_rows
from medstress.store.codec import (
    decode_answer,
    decode_edits,
    decode_item,
    encode_answer,
    encode_item,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
WORDS = TEXT.filter(str.strip)
REAL = st.floats(allow_nan=False, allow_infinity=False)
TOKENS = st.integers(0, 2**40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | REAL | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def scored(draw):
    pairs = draw(st.lists(st.tuples(REAL, st.integers(0, 10_000)), max_size=10))
    return Scored(
        log_probs=tuple(value for value, _ in pairs),
        n_tokens=tuple(n for _, n in pairs),
        tokens_in=draw(TOKENS),
        tokens_out=draw(TOKENS),
    )


GENERATED = st.builds(Generated, text=TEXT, tokens_in=TOKENS, tokens_out=TOKENS)
CHOSEN = st.builds(
    Chosen,
    text=st.none() | TEXT,
    answer=st.none() | st.sampled_from(LETTERS),
    scores=st.none() | st.lists(REAL, max_size=10).map(tuple),
    tokens_in=TOKENS,
    tokens_out=TOKENS,
)


@st.composite
def questions(draw):
    options = draw(st.lists(WORDS, min_size=2, max_size=10, unique_by=str.strip))
    letters = LETTERS[: len(options)]
    item = Question(
        id=draw(TEXT),
        context=draw(TEXT),
        stem=draw(WORDS),
        options=tuple(options),
        key=draw(st.sampled_from(letters)),
        metadata=draw(st.dictionaries(TEXT, JSON, max_size=3)),
    )
    fields = [name for name in (*letters, "context", "stem", "question") if item.text_of(name)]
    mentions = []
    for name in draw(st.lists(st.sampled_from(fields), max_size=4)):
        start = draw(st.integers(0, len(item.text_of(name)) - 1))
        end = draw(st.integers(start + 1, len(item.text_of(name))))
        mentions.append(Mention(field=name, start=start, end=end, type=draw(TEXT)))
    return Question(
        id=item.id,
        context=item.context,
        stem=item.stem,
        options=item.options,
        key=item.key,
        mentions=tuple(mentions),
        metadata=item.metadata,
    )


@given(scored() | GENERATED | CHOSEN)
def test_an_answer_comes_back_bit_by_bit(answer):
    body = encode_answer(answer)
    assert decode_answer(body, answer.tokens_in, answer.tokens_out) == answer
    assert body.encode("utf-8")  # what SQLite will store


def test_a_score_that_is_not_a_number_comes_back_as_one():
    answer = Scored(log_probs=(math.nan, -math.inf), n_tokens=(1, 1))
    back = decode_answer(encode_answer(answer), 0, 0)
    assert isinstance(back, Scored)
    assert [type(value) for value in back.log_probs] == [float, float]
    assert math.isnan(back.log_probs[0])
    assert back.log_probs[1] == -math.inf


def test_an_answer_of_a_newer_kind_is_refused(said):
    with pytest.raises(StoreError) as caught:
        decode_answer('["z",1]', 0, 0)
    said(str(caught.value), "unknown kind of answer 'z'")


@given(
    st.lists(
        st.builds(
            Edit,
            field=st.sampled_from([*LETTERS, "context", "stem"]),
            start=st.integers(0, 10_000),
            end=st.integers(0, 10_000),
            replacement=TEXT,
        )
    ).map(tuple)
)
def test_edits_come_back(edits):
    assert decode_edits(json.dumps(edit_rows(edits))) == edits


@given(questions())
def test_an_item_comes_back_with_its_hash_and_metadata(item):
    back = decode_item(encode_item(item))
    assert back == item
    assert back.hash == item.hash
    assert back.metadata == item.metadata
