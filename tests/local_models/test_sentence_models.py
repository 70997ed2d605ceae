"""Token classifiers, cross-encoders and sentence encoders: tiny random models through the real
code, word-to-piece alignment, windows, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.backends.local import encoders as sentence_encoders
from medstress.backends.local.encoders import PieceTokenizer
from medstress.backends.options import BackendOptions
from medstress.core import registry
from medstress.core.calls import Classify, Compare, Failure, Generate, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.core.label_schemes import in_iob2
from medstress.testing import check_backend

torch = pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

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


def bert(tokenizer: Any, head: str, labels: list[str] | None = None) -> Any:
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=64, **SMALL, **numbered(labels)
    )
    return getattr(transformers, f"BertFor{head}")(config)


def numbered(labels: list[str] | None) -> dict[str, Any]:
    if labels is None:
        return {"num_labels": 1}
    return {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}


def saved(folder: Path, tokenizer: Any, model: Any) -> Path:
    torch.manual_seed(7)
    model.init_weights()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def opened(folder: Path, task: str, name: str = "transformers", **keys: Any) -> Any:
    options = BackendOptions(model=str(folder), task=task, device="cpu", **keys)
    return registry.load("backends", name)(options)


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


def test_labels_are_those_of_the_models_own_logits_at_first_pieces(tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "TokenClassification", LABELS))
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
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
        (["O", "S-Chemical", "E-Chemical"], "iobes", ("O", "B-Chemical")),
        (["Disease", "O", "Chemical"], "io", ("B-Disease", "O", "B-Chemical")),
        (["B", "O", "I"], "iob2", ("B", "O", "I")),
    ],
)
def test_labels_of_other_schemes_are_given_in_iob2(labels, scheme, declared, tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "TokenClassification", LABELS))
    plain = opened(folder, "ner").answer([Tag(words) for words in SENTENCES])
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **numbered(labels)}), "utf-8")
    backend = opened(folder, "ner")
    assert backend.traits.labels == declared
    renamed = dict(zip(LABELS, labels, strict=True))
    for before, after in zip(plain, backend.answer([Tag(w) for w in SENTENCES]), strict=True):
        own = [renamed[label] for label in before.labels]
        assert after.labels == in_iob2(own, scheme)
        assert {label[0] for label in after.labels} <= set("OBI")


def test_a_long_sentence_is_read_in_windows_and_every_word_is_labelled(tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "TokenClassification", LABELS))
    words = tuple(" ".join(CORPUS[:12]).split())
    (windows,) = PieceTokenizer(tokenizer, "m", 64).windows([words])
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


def test_a_cross_encoder_keeps_the_contract_and_gives_the_models_output(tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "SequenceClassification"))
    backend = opened(folder, "similarity")
    pairs = [Compare(" ".join(a), " ".join(b)) for a in SENTENCES for b in SHORT]
    check_backend(backend, pairs)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        inputs = tokenizer(pairs[1].text_a, pairs[1].text_b, return_tensors="pt")
        expected = model(**inputs).logits[0, 0].item()
    (reply,) = backend.answer([pairs[1]])
    assert reply.score == pytest.approx(expected, abs=1e-5)
    assert isinstance(backend.answer([Generate("?")])[0], Failure)


def test_a_classifier_of_pairs_gives_log_probabilities_in_the_order_asked(tmp_path):
    tokenizer, labels = word_pieces(), ["no", "yes", "maybe"]
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "SequenceClassification", labels))
    backend = opened(folder, "classification", answer_by="head")
    assert backend.traits.labels == tuple(labels)
    pairs = [
        Classify(" ".join(a), " ".join(b), ("yes", "maybe", "no")) for a in SENTENCES for b in SHORT
    ]
    check_backend(backend, pairs)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        inputs = tokenizer(pairs[1].text_a, pairs[1].text_b, return_tensors="pt")
        expected = model(**inputs).logits[0].log_softmax(-1)[[1, 2, 0]].tolist()
    (reply,) = backend.answer([pairs[1]])
    assert reply.log_probs == pytest.approx(expected, abs=1e-5)
    assert isinstance(backend.answer([Generate("?")])[0], Failure)


def test_the_library_s_cross_encoders_pass_through_their_activation(tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "SequenceClassification"))
    pair = Compare("naproxen relieves pain", "aspirin relieves pain")
    raw = opened(folder, "similarity").answer([pair])[0].score
    (default,) = opened(folder, "similarity", "sentence_transformers").answer([pair])
    assert default.score == pytest.approx(1 / (1 + np.exp(-raw)), abs=1e-6)
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    (plain,) = opened(folder, "similarity", "sentence_transformers").answer([pair])
    assert plain.score == pytest.approx(raw, abs=1e-6)


def test_a_cross_encoder_of_the_hub_is_not_taken_for_an_encoder(tmp_path, monkeypatch):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, "SequenceClassification"))
    pair = Compare("naproxen relieves pain", "aspirin relieves pain")
    expected = opened(folder, "similarity", "sentence_transformers").answer([pair])
    load = sentence_encoders.load_model
    monkeypatch.setattr(sentence_encoders, "model_folder", lambda *_: folder)
    monkeypatch.setattr(
        sentence_encoders, "load_model", lambda options: load(replace(options, model=str(folder)))
    )
    found = opened(Path("owner/cross-encoder"), "similarity", "sentence_transformers")
    assert found.answer([pair]) == expected


def test_a_bi_encoder_gives_the_cosine_of_mean_pooled_states(tmp_path):
    tokenizer = word_pieces()
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SMALL)
    folder = saved(tmp_path, tokenizer, transformers.BertModel(config))
    backend = opened(folder, "similarity", "sentence_transformers")
    pairs = [Compare(" ".join(a), " ".join(b)) for a in SENTENCES for b in SHORT]
    check_backend(backend, pairs)
    model = transformers.AutoModel.from_pretrained(folder).eval()

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
        ("SequenceClassification", ["no", "maybe", "yes"], "similarity", "3 outputs"),
        ("SequenceClassification", None, "classification", "one output"),
        ("TokenClassification", LABELS, "similarity", "BertForSequenceClassification"),
    ],
)
def test_a_head_that_does_not_fit_the_task_is_refused(head, labels, task, where, tmp_path):
    tokenizer = word_pieces()
    folder = saved(tmp_path, tokenizer, bert(tokenizer, head, labels))
    with pytest.raises(UsageError, match=where):
        opened(folder, task, answer_by="head" if task == "classification" else None)


def test_a_sentence_encoder_answers_no_questions(tmp_path):
    with pytest.raises(UsageError, match="sentence pairs"):
        opened(tmp_path, "ner", "sentence_transformers")
