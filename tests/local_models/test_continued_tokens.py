"""Tokens of a text and its continuations are those of a tokenizer that reads each of them whole."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from late import Late, transformers
from medstress.backends.local.tokens import PromptTokenizer, reads_by_words

tokenizers: Any = Late("tokenizers")
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


def _byte_pairs(cut: Any, *, normalizer: Any = None, model: Any = None) -> Any:
    tokenizer = tokenizers.Tokenizer(model or tokenizers.models.BPE())
    tokenizer.pre_tokenizer = cut
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _byte_level(**keys: Any) -> Any:
    return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, **keys)


def _first() -> Any:
    """As GPT-2 and SmolLM2, with a token before each text and one behind it."""
    digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    tokenizer = _byte_pairs(tokenizers.pre_tokenizers.Sequence([digits, _byte_level()]))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=ends
    )
    return tokenizer


def _later(normalizer: Any = None) -> Any:
    pattern = tokenizers.Regex(_LATER)
    split = tokenizers.pre_tokenizers.Split(pattern, behavior="isolated")
    cut = tokenizers.pre_tokenizers.Sequence([split, _byte_level(use_regex=False)])
    return _byte_pairs(cut, normalizer=normalizer)


BY_WORDS: dict[str, Callable[[], Any]] = {
    "first": _first,
    "later": _later,
    "composed": lambda: _later(tokenizers.normalizers.NFC()),
    # These two put a space before a text.
    "prefix": lambda: _byte_pairs(tokenizers.pre_tokenizers.ByteLevel()),
    "metaspace": lambda: _byte_pairs(tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "one word": lambda: _byte_pairs(_byte_level(use_regex=False)),
    "dropout": lambda: _byte_pairs(_byte_level(), model=tokenizers.models.BPE(dropout=0.1)),
    "normalizer": lambda: _later(tokenizers.normalizers.Replace(" ", "_")),
    "no words": lambda: tokenizers.Tokenizer(tokenizers.models.BPE()),
    "unigram": lambda: tokenizers.Tokenizer(tokenizers.models.Unigram([("a", 0.0)], 0)),
}


@cache
def made(name: str) -> Any:
    inner = (BY_WORDS | OTHERS)[name]()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner)


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


@pytest.mark.parametrize("name", BY_WORDS)
@given(text=_texts, continuations=st.lists(_texts, min_size=1, max_size=4))
def test_a_continued_text_has_the_tokens_of_the_whole_one(name, text, continuations):
    tokenizer = made(name)
    assert reads_by_words(tokenizer)
    reader = PromptTokenizer(tokenizer, name, open_end=True)
    for chat in (False, True):
        (found,) = reader.continued([(text, continuations, chat)])
        assert found == reader.tokens([text, *(text + one for one in continuations)], chat=chat)


def test_a_text_is_encoded_once_and_only_its_end_again(monkeypatch):
    encoded: list[str] = []
    tokens = PromptTokenizer.tokens

    def watched(self: PromptTokenizer, texts: Sequence[str], *, chat: bool) -> Any:
        encoded.extend(texts)
        return tokens(self, texts, chat=chat)

    monkeypatch.setattr(PromptTokenizer, "tokens", watched)
    reader, options = PromptTokenizer(made("first"), "first", open_end=True), (" A", " B")
    texts = [f"{_CORPUS[n]} Which one is it?\nAnswer:" for n in (0, 1)]
    reader.continued([(text, options, False) for text in texts])
    end = " one is it?\nAnswer:"
    assert sorted(encoded) == sorted([end, *(end + one for one in options), *texts])
    encoded.clear()
    reader.continued([("two words", (" yes",), False)])
    assert encoded == ["two words", "two words yes"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_tokenizers_are_known(name):
    assert not reads_by_words(made(name))
