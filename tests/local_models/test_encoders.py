"""Heads of encoders: multiple choice, token classifiers, cross-encoders and sentence encoders.

Tiny random models through the real code: the model's own numbers, word-to-piece alignment, windows,
and what is refused.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from late import torch, transformers
from medstress.backends.local import encoders as sentence_encoders
from medstress.backends.local.encoders import PairBackend, PieceTokenizer
from medstress.backends.options import BackendOptions
from medstress.core import registry
from medstress.core.calls import Classify, Compare, Failure, Generate, Rank, Scored, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.core.sentences import in_iob2
from medstress.testing import check_backend

CORPUS = [
    "naproxen and aspirin relieve pain in acute gout but not in scurvy",
    "patients with hypertension took lisinopril-hydrochlorothiazide for 12 weeks",
    "no interaction of warfarin with vitamin K was seen (p < 0.05)",
] * 20
LABELS = ["O", "B-Chemical", "I-Chemical"]
SENTENCES = [
    ("Naproxen", "relieves", "pain", "."),
    ("lisinopril-hydrochlorothiazide", "and", "warfarin", "(", "p", "<", "0.05", ")"),
    ("aspirin",),
    ("naïve", "patients", "with", "hypertension", "took", "☃", "vitamin", "K"),
    ("no", "interaction", "of", "warfarin", "with", "vitamin", "K", "was", "seen"),
]
SHORT = (SENTENCES[0], SENTENCES[2])
"""As second texts: two long ones may be more than a model's 64 positions."""
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.7,
}


def word_pieces() -> Any:
    from tokenizers import BertWordPieceTokenizer

    inner = BertWordPieceTokenizer(lowercase=True)
    inner.train_from_iterator(CORPUS, vocab_size=120, min_frequency=1, show_progress=False)
    return transformers.BertTokenizerFast(tokenizer_object=inner._tokenizer, model_max_length=64)


def byte_level(add_prefix_space: bool = False) -> Any:
    from tokenizers import ByteLevelBPETokenizer

    inner = ByteLevelBPETokenizer(add_prefix_space=add_prefix_space)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    inner.train_from_iterator(
        CORPUS, vocab_size=340, min_frequency=1, show_progress=False, special_tokens=special
    )
    from tokenizers import processors

    inner._tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=False, add_prefix_space=add_prefix_space
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner._tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=64,
    )


def unigram() -> Any:
    from tokenizers import SentencePieceUnigramTokenizer

    inner = SentencePieceUnigramTokenizer()
    inner.train_from_iterator(
        CORPUS,
        vocab_size=150,
        show_progress=False,
        special_tokens=["<unk>", "<pad>"],
        unk_token="<unk>",
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner._tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=64,
    )


def numbered(labels: list[str] | None) -> dict[str, Any]:
    if labels is None:
        return {"num_labels": 1}
    return {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}


def opened(folder: Path, task: str, name: str = "transformers", **keys: Any) -> Any:
    options = BackendOptions(model=str(folder), task=task, device="cpu", **keys)
    return registry.load("backends", name)(options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves each small BERT with word pieces once: `saved(head, labels)`."""
    made: dict[Any, Path] = {}
    tokenizer = word_pieces()

    def folder(head: str, labels: list[str] | None = None) -> Path:
        key = (head, *(labels or ()))
        if key not in made:
            config = transformers.BertConfig(
                vocab_size=len(tokenizer), max_position_embeddings=64, **SMALL, **numbered(labels)
            )
            torch.manual_seed(7)
            model = getattr(transformers, f"Bert{head}")(config)
            made[key] = tmp_path_factory.mktemp("model")
            model.save_pretrained(made[key])
            tokenizer.save_pretrained(made[key])
        return made[key]

    return folder


def own(folder: Path, auto: str) -> tuple[Any, Any]:
    """The plain model and tokenizer of a folder."""
    model = getattr(transformers, f"AutoModel{auto}").from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


KINDS: dict[str, Callable[[], Any]] = {
    "word pieces": word_pieces,
    "byte level": byte_level,
    "byte level with prefix space": lambda: byte_level(add_prefix_space=True),
    "sentence piece": unigram,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_read_at_its_first_piece(kind):
    tokenizer = KINDS[kind]()
    pieces = PieceTokenizer(tokenizer, "m", 64)
    for words, (window,) in zip(SENTENCES, pieces.windows(SENTENCES), strict=True):
        text, starts, position = " ".join(words), [], 0
        for word in words:
            starts.append(position)
            position += len(word) + 1
        whole = tokenizer(text, return_offsets_mapping=True)
        assert list(window.rows[window.names.index("input_ids")]) == whole["input_ids"]
        assert [word for word, _ in window.places] == list(range(len(words)))
        for word, piece in window.places:
            start, end = whole["offset_mapping"][piece]
            # The piece holds the word's first character, and begins at most one space earlier.
            assert start <= starts[word] < end
            assert starts[word] - start <= 1


def test_labels_are_those_of_the_models_own_logits_at_first_pieces(saved):
    folder = saved("ForTokenClassification", LABELS)
    model, tokenizer = own(folder, "ForTokenClassification")
    backend = opened(folder, "ner")
    assert backend.traits.labels == tuple(LABELS)
    check_backend(backend, [Tag(words) for words in SENTENCES])
    found = backend.answer([Tag(words) for words in SENTENCES])
    for words, reply in zip(SENTENCES, found, strict=True):
        inputs = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            best = model(**inputs).logits[0].argmax(-1).tolist()
        owners = inputs.word_ids()
        firsts = [owners.index(word) for word in range(len(words))]
        assert reply == Tagged(
            labels=tuple(LABELS[best[piece]] for piece in firsts), tokens_in=len(owners)
        )


@pytest.mark.parametrize(
    ("labels", "scheme", "declared"),
    [
        (["O", "S-Chemical", "E-Chemical"], "iobes", ("O", "B-Chemical", "I-Chemical")),
        (["Disease", "O", "Chemical"], "io", ("B-Disease", "O", "B-Chemical")),
        (["B", "O", "I"], "iob2", ("B", "O", "I")),
    ],
)
def test_labels_of_other_schemes_are_given_in_iob2(labels, scheme, declared, saved, tmp_path):
    folder = Path(shutil.copytree(saved("ForTokenClassification", LABELS), tmp_path / "model"))
    plain = opened(folder, "ner").answer([Tag(words) for words in SENTENCES])
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **numbered(labels)}), "utf-8")
    backend = opened(folder, "ner")
    assert backend.traits.labels == declared
    renamed = dict(zip(LABELS, labels, strict=True))
    for before, after in zip(plain, backend.answer([Tag(w) for w in SENTENCES]), strict=True):
        assert after.labels == in_iob2([renamed[label] for label in before.labels], scheme)
        assert {label[0] for label in after.labels} <= set("OBI")


def test_a_long_sentence_is_read_in_windows_and_every_word_is_labelled(saved):
    folder = saved("ForTokenClassification", LABELS)
    words = tuple(" ".join(CORPUS[:12]).split())
    (windows,) = PieceTokenizer(own(folder, "")[1], "m", 64).windows([words])
    assert len(windows) > 2
    assert max(map(len, windows)) <= 64
    assert sorted(word for window in windows for word, _ in window.places) == list(
        range(len(words))
    )
    for number, window in enumerate(windows):  # with context on both sides
        pieces = [piece for _, piece in window.places]
        assert number == 0 or min(pieces) >= 4
        assert number == len(windows) - 1 or max(pieces) <= len(window) - 5
    (reply,) = opened(folder, "ner").answer([Tag(words)])
    assert len(reply.labels) == len(words)


@pytest.mark.parametrize("labels", [None, ["no", "yes", "maybe"]])
def test_a_pair_has_the_models_output_or_log_probabilities_in_the_order_asked(labels, saved):
    folder, order = saved("ForSequenceClassification", labels), ("yes", "maybe", "no")
    texts = [(" ".join(a), " ".join(b)) for a in SENTENCES for b in SHORT]
    if labels is None:
        backend, pairs = opened(folder, "similarity"), [Compare(*both) for both in texts]
    else:
        backend = opened(folder, "classification", answer_by="head")
        pairs = [Classify(*both, order) for both in texts]
        assert backend.traits.labels == tuple(labels)
    check_backend(backend, pairs)
    model, tokenizer = own(folder, "ForSequenceClassification")
    with torch.inference_mode():
        logits = model(**tokenizer(*texts[1], return_tensors="pt")).logits[0]
    (reply,) = backend.answer([pairs[1]])
    if labels is None:
        assert reply.score == pytest.approx(logits[0].item(), abs=1e-5)
    else:
        expected = logits.log_softmax(-1)[[1, 2, 0]].tolist()
        assert reply.log_probs == pytest.approx(expected, abs=1e-5)
    assert isinstance(backend.answer([Generate("?")])[0], Failure)


PAIR = Compare("naproxen relieves pain", "aspirin relieves pain")


def test_the_library_s_cross_encoders_pass_through_their_activation(saved, tmp_path):
    folder = Path(shutil.copytree(saved("ForSequenceClassification"), tmp_path / "model"))
    raw = opened(folder, "similarity").answer([PAIR])[0].score
    (default,) = opened(folder, "similarity", "sentence_transformers").answer([PAIR])
    assert default.score == pytest.approx(1 / (1 + np.exp(-raw)), abs=1e-6)
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    (plain,) = opened(folder, "similarity", "sentence_transformers").answer([PAIR])
    assert plain.score == pytest.approx(raw, abs=1e-6)


def test_a_cross_encoder_of_the_hub_is_not_taken_for_an_encoder(saved, monkeypatch):
    folder = saved("ForSequenceClassification")
    expected = opened(folder, "similarity", "sentence_transformers").answer([PAIR])
    load = sentence_encoders.load_model
    monkeypatch.setattr(sentence_encoders, "model_folder", lambda *_: folder)
    monkeypatch.setattr(
        sentence_encoders,
        "load_model",
        lambda options: load(options.model_copy(update={"model": str(folder)})),
    )
    found = opened(Path("owner/cross-encoder"), "similarity", "sentence_transformers")
    assert found.answer([PAIR]) == expected


def test_a_bi_encoder_gives_the_cosine_of_mean_pooled_states(saved):
    folder = saved("Model")
    backend = opened(folder, "similarity", "sentence_transformers")
    pairs = [Compare(" ".join(a), " ".join(b)) for a in SENTENCES for b in SHORT]
    check_backend(backend, pairs)
    model, tokenizer = own(folder, "")

    def vector(text: str) -> Any:
        with torch.inference_mode():
            return model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)

    expected = torch.nn.functional.cosine_similarity(
        vector(pairs[1].text_a), vector(pairs[1].text_b), dim=0
    ).item()
    (reply,) = backend.answer([pairs[1]])
    assert reply.score == pytest.approx(expected, abs=1e-5)
    (same,) = backend.answer([Compare("pain", "pain")])
    assert same.score == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("head", "labels", "task", "where"),
    [
        ("SequenceClassification", None, "ner", "BertForTokenClassification"),
        ("SequenceClassification", ["no", "yes", "maybe"], "similarity", "3 outputs"),
        ("SequenceClassification", None, "classification", "one output"),
        ("TokenClassification", LABELS, "similarity", "BertForSequenceClassification"),
    ],
)
def test_a_head_that_does_not_fit_the_task_is_refused(head, labels, task, where, saved):
    folder = saved(f"For{head}", labels)
    with pytest.raises(UsageError, match=where):
        opened(folder, task, answer_by="head" if task == "classification" else None)


def test_a_sentence_encoder_answers_no_questions(tmp_path):
    with pytest.raises(UsageError, match="sentence pairs"):
        opened(tmp_path, "ner", "sentence_transformers")


# -- multiple choice -------------------------------------------------------------------------------

TINY = {
    **SMALL,
    "vocab_size": 120,
    "max_position_embeddings": 66,
    "type_vocab_size": 2,
    "pad_token_id": 1,
    "initializer_range": 0.5,
}
WORDS = ["aspirin", "insulin", "scurvy", "vitamin", "which", "drug", "treats", "pain", "gout"]


def of_words(**given: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["<s>", "</s>", "<unk>", *WORDS, *(f"w{i}" for i in range(100))]
    model = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    # As all-MiniLM-L6-v2 comes: it would cut and fill up whatever is not told otherwise.
    inner.enable_truncation(8)
    inner.enable_padding(length=8)
    names = given.pop("model_input_names", ["input_ids", "token_type_ids", "attention_mask"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        pad_token="</s>",
        unk_token="<unk>",
        model_input_names=names,
        **given,
    )


def plain() -> tuple[Any, Any]:
    return transformers.BertForMultipleChoice(transformers.BertConfig(**TINY)), of_words()


def padded_left() -> tuple[Any, Any]:
    return plain()[0], of_words(padding_side="left")


def roberta() -> tuple[Any, Any]:
    names = ["input_ids", "attention_mask"]
    model = transformers.RobertaForMultipleChoice(transformers.RobertaConfig(**TINY))
    return model, of_words(model_input_names=names, model_max_length=64)


def without_mask() -> tuple[Any, Any]:
    model = transformers.FNetForMultipleChoice(transformers.FNetConfig(**TINY))
    return model, of_words(model_input_names=["input_ids", "token_type_ids"])


CHOICES = {build.__name__: build for build in (plain, padded_left, roberta, without_mask)}


@pytest.fixture(scope="module")
def folder_of_choice(tmp_path_factory):
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            torch.manual_seed(3)
            made[name] = tmp_path_factory.mktemp(name)
            for part in CHOICES[name]():
                part.save_pretrained(made[name])
        return made[name]

    return folder


@pytest.fixture
def choosing(folder_of_choice):
    def open_it(name: str = "plain", **how: Any) -> PairBackend:
        options = BackendOptions(model=str(folder_of_choice(name)), answer_by="head", **how)
        backend = registry.load("backends", "transformers")(options)
        assert isinstance(backend, PairBackend)
        return backend

    return open_it


def words(n: int, start: int = 0) -> str:
    return " ".join(f"w{(start + 7 * i) % 100}" for i in range(n))


CALLS = [
    Rank(
        f"which drug treats {words(1 + 3 * i, i)}",
        tuple(words(1 + k * i % 17, k) for k in range(n)),
    )
    for i, n in enumerate((4, 4, 2, 5, 4, 3, 4, 10))
]


def log_probs(reply: Any) -> tuple[float, ...]:
    assert isinstance(reply, Scored)
    return reply.log_probs


@pytest.mark.parametrize("name", CHOICES)
def test_log_probabilities_are_those_of_the_plain_model(name, choosing, folder_of_choice):
    model, tokenizer = own(folder_of_choice(name), "ForMultipleChoice")
    backend = choosing(name, batch_size=3)
    check_backend(backend, CALLS, tolerance=1e-4)
    for call, reply in zip(CALLS, backend.answer(CALLS), strict=True):
        values = []
        for option in call.options:
            pair = tokenizer(call.prompt, option, truncation=False, padding=False)
            with torch.inference_mode():
                inputs = {key: torch.tensor([[row]]) for key, row in pair.items()}
                values.append(float(model(**inputs).logits))
        expected = torch.log_softmax(torch.tensor(values), dim=0).tolist()
        assert log_probs(reply) == pytest.approx(expected, abs=1e-4)
        # Not by chance: the options are told apart.
        assert max(expected) - min(expected) > 1e-2


def test_only_the_changed_pair_is_read_again(choosing):
    backend = choosing()
    clean = Rank("which drug treats pain", ("aspirin", "insulin", "w1 w2", "w3"))
    backend.answer([clean])
    before = backend.counters
    changed = Rank(clean.prompt, ("aspirin", "w8 w9", "w1 w2", "w3"))
    (reply,) = backend.answer([changed])
    forwarded = backend.counters["tokens_forwarded"] - before["tokens_forwarded"]
    # <s> which drug treats pain </s> w8 w9 </s>
    assert forwarded == 9
    assert backend.counters["tokens_naive"] - before["tokens_naive"] == 8 + 9 + 9 + 8
    assert log_probs(reply) == pytest.approx(log_probs(choosing().answer([changed])[0]), abs=1e-5)


@pytest.mark.parametrize(("name", "most"), [("plain", 66), ("roberta", 64)])
def test_too_long_a_pair_fails_its_call_only_and_nothing_is_cut(name, most, choosing):
    special = 3
    fits = Rank(words(40), ("aspirin", words(most - special - 40)))
    too_long = Rank(words(40), ("aspirin", words(most - special - 40 + 1)))
    failed, fine, short = choosing(name).answer([too_long, fits, CALLS[0]])
    assert isinstance(failed, Failure)
    assert failed.error.startswith(f"{most + 1} tokens are more than the {most} positions")
    assert isinstance(fine, Scored)
    assert fine.n_tokens == (44, most)
    assert isinstance(short, Scored)


def test_values_that_are_no_numbers_are_handed_on(choosing):
    backend = choosing()
    with torch.no_grad():
        backend._loaded.model.classifier.bias.fill_(math.nan)
    assert all(map(math.isnan, log_probs(backend.answer([CALLS[0]])[0])))


def test_a_model_without_a_head_or_without_its_weights_is_refused(tmp_path, folder_of_choice):
    def refusal(folder: Path, **options: Any) -> str:
        with pytest.raises(UsageError) as caught:
            registry.load("backends", "transformers")(BackendOptions(model=str(folder), **options))
        return str(caught.value)

    assert 'use answer_by = "head"' in refusal(folder_of_choice("plain"), answer_by="letter")
    for part in (plain()[0].bert, of_words()):
        part.save_pretrained(tmp_path)
    assert "BertForMultipleChoice" in refusal(tmp_path, answer_by="head")
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["BertForMultipleChoice"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "classifier.bias, classifier.weight" in refusal(tmp_path, answer_by="head")
