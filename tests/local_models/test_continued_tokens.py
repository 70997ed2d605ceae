"""Tokens of a text and its continuations are those of a tokenizer that reads each of them whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from medstress.backends.models.continued_tokens import (
    Continued,
    Encode,
    _alike,
    reads_by_words,
    tokens_of_each,
)
from medstress.backends.models.prompt_tokens import PromptTokenizer

_CORPUS = [
    "A 45-year-old woman takes 500 mg aspirin daily; she's had chest pain.\n\nWhat's next?",
    "A. yes\nB. no\nC. heparin 5000 IU/mL\nD. beta-blockers (e.g. metoprolol)\nAnswer: C",
    "Answer:  A   B \t C\r\n  D ... !!\n\n\n don't; they'll  ünïcode naïve β-lactam \u2009 5,000",
] * 4
# The pattern of Llama 3 and, but for the digits, of Qwen 2: punctuation takes line breaks along.
_LATER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_pairs(cut: Any, *, normalizer: Any = None, model: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(model or models.BPE())
    tokenizer.pre_tokenizer = cut
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _first() -> Tokenizer:
    """As GPT-2 and SmolLM2, with a token before each text and one behind it."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    cut = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer = _byte_pairs(cut)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=ends
    )
    return tokenizer


def _later(normalizer: Any = None) -> Tokenizer:
    split = pre_tokenizers.Split(Regex(_LATER), behavior="isolated")
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _byte_pairs(pre_tokenizers.Sequence([split, whole]), normalizer=normalizer)


TOKENIZERS = {
    "first": PreTrainedTokenizerFast(tokenizer_object=_first()),
    "later": PreTrainedTokenizerFast(tokenizer_object=_later()),
    "composed": PreTrainedTokenizerFast(tokenizer_object=_later(normalizers.NFC())),
    # These two put a space before a text.
    "prefix": PreTrainedTokenizerFast(tokenizer_object=_byte_pairs(pre_tokenizers.ByteLevel())),
    "metaspace": PreTrainedTokenizerFast(
        tokenizer_object=_byte_pairs(pre_tokenizers.Metaspace(prepend_scheme="always"))
    ),
}

_pieces = st.sampled_from(
    [
        *"aAbsdé́β.,;:!?()-'1290",
        " ",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u2009",
        "aspirin",
        " chest",
        "Answer:",
        "'s",
        "'ll",
        "500 mg",
        "</s>",
        "\n\n",
    ]
)
_texts = st.lists(_pieces, max_size=30).map("".join)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=_texts, continuations=st.lists(_texts, min_size=1, max_size=4))
def test_a_continued_text_has_the_tokens_of_the_whole_one(
    name: str, text: str, continuations: list[str]
) -> None:
    tokenizer = TOKENIZERS[name]
    assert reads_by_words(tokenizer)
    reader = PromptTokenizer(tokenizer, name, open_end=True)
    for chat in (False, True):
        (found,) = reader.tokens_of_each([Continued(text, tuple(continuations), chat)])
        assert found == reader.tokens([text, *(text + one for one in continuations)], chat=chat)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(beginning=_texts, ends=st.lists(_texts, min_size=2, max_size=5), other=_texts)
def test_texts_that_begin_alike_have_the_tokens_of_whole_ones(
    name: str, beginning: str, ends: list[str], other: str
) -> None:
    tokenizer = TOKENIZERS[name]
    reader = PromptTokenizer(tokenizer, name, open_end=True)
    texts = [*(beginning + end for end in ends), other]
    for chat in (False, True):
        found = reader.tokens_of_each([Continued(text, (), chat) for text in texts])
        assert [tokens for (tokens,) in found] == reader.tokens(texts, chat=chat)


def _watched() -> tuple[PromptTokenizer, list[str], Encode]:
    """A tokenizer, what it was asked for so far, and how to ask it."""
    asked: list[str] = []
    reader = PromptTokenizer(TOKENIZERS["first"], "first", open_end=True)

    def encode(texts: Sequence[str], special: bool) -> list[tuple[int, ...]]:
        asked.extend(texts)
        return reader.tokens(texts, chat=not special)

    return reader, asked, encode


def test_what_texts_begin_with_is_encoded_once() -> None:
    reader, asked, encode = _watched()
    vignette = 3 * "A woman of 45 years takes aspirin daily; what is next? "
    texts = [vignette + f"A. heparin B. {name} Answer:" for name in ("aspirin", "warfarin", "zinc")]
    given = [Continued(text, (), True) for text in [*texts, "Nothing alike."]]
    found = tokens_of_each(given, encode, by_words=True)
    whole = [one.text for one in given]
    assert [tokens for (tokens,) in found] == reader.tokens(whole, chat=True)
    assert [text for text in asked if vignette in text] == texts[:1]
    assert sum(map(len, asked)) < 0.7 * sum(map(len, whole))


def test_groups_are_cut_where_items_change() -> None:
    instruction, said = "Answer by a letter, please. " * 30, "A woman of 45 has pain. " * 20
    texts = [f"{instruction}{n}. {said}A. {name}" for n in range(4) for name in ("a", "b", "c")]
    groups = _alike([(text, special) for special in (True, False) for text in texts])
    assert [len(group) for group in groups] == [3] * 8


def test_added_tokens_of_several_words_are_not_read_by_words() -> None:
    tokenizer = _first()
    tokenizer.add_tokens(["of the left upper chest"])
    assert not reads_by_words(PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def test_a_text_is_encoded_once() -> None:
    _, asked, encode = _watched()
    options = (" A", " B")
    texts = [Continued(f"{_CORPUS[n]} Which one is it?\nAnswer:", options, False) for n in (0, 1)]
    tokens_of_each(texts, encode, by_words=True)
    end = " one is it?\nAnswer:"
    assert sorted(asked) == sorted(
        [end, *(end + one for one in options), *(one.text for one in texts)]
    )


def test_where_a_text_is_not_cut_it_is_encoded_with_each_continuation() -> None:
    asked: list[str] = []

    def encode(texts: Sequence[str], special: bool) -> list[tuple[int, ...]]:
        asked.extend(texts)
        return [tuple(text.encode()) for text in texts]

    text = "one two three four five"
    for one, by_words in (("two words", True), (text, False)):
        tokens_of_each([Continued(one, (" yes",), False)], encode, by_words=by_words)
    assert asked == ["two words", "two words yes", text, text + " yes"]


def test_an_end_that_is_encoded_otherwise_alone_is_not_used() -> None:
    def encode(texts: Sequence[str], special: bool) -> list[tuple[int, ...]]:
        return [tuple(ord(letter) + len(text) * special for letter in text) for text in texts]

    text = Continued("one two three four five", ("!",), False)
    whole = encode([text.text, text.text + "!"], True)
    assert tokens_of_each([text], encode, by_words=True) == [whole]


@pytest.mark.parametrize(
    "tokenizer",
    [
        pytest.param(
            _byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
            id="one-word",
        ),
        pytest.param(
            _byte_pairs(
                pre_tokenizers.ByteLevel(add_prefix_space=False), model=models.BPE(dropout=0.1)
            ),
            id="dropout",
        ),
        pytest.param(_later(normalizers.Replace(" ", "_")), id="normalizer"),
        pytest.param(Tokenizer(models.BPE()), id="no-words"),
        pytest.param(Tokenizer(models.Unigram([("a", 0.0)], 0)), id="unigram"),
    ],
)
def test_other_tokenizers_are_known(tokenizer: Tokenizer) -> None:
    assert not reads_by_words(PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def test_a_tokenizer_in_python_is_not_cut() -> None:
    assert not reads_by_words(object())
