"""A tiny encoder with random weights, and sentences that it can learn by heart in seconds."""

import random

import pytest

from late import torch, transformers
from medstress.core.sentences import SentencePair, TaggedText

CHEMICALS = [("aspirin",), ("warfarin",), ("salicylic", "acid"), ("morphine",), ("naproxen",)]
OTHERS = ["patients", "received", "for", "severe", "pain", "daily", "and", "without", "relief"]
PAGES = "abcdefghijklmnopqrstuvwxyz"


def sentence(number):
    """A sentence with one chemical among other words."""
    rng = random.Random(number)
    name = rng.choice(CHEMICALS)
    before, after = (rng.choices(OTHERS, k=rng.randint(1, 4)) for _ in range(2))
    labels = ["B-Chemical", *["I-Chemical"] * (len(name) - 1)]
    return TaggedText(
        id=f"s{number}",
        tokens=(*before, *name, *after),
        labels=(*["O"] * len(before), *labels, *["O"] * len(after)),
    )


def pair(number):
    """Two texts; alike where the second is the first, apart where the words differ."""
    rng = random.Random(number)
    words = rng.choices(OTHERS, k=4)
    same = number % 2 == 0
    other = words if same else rng.choices([name[0] for name in CHEMICALS], k=4)
    return SentencePair(
        id=f"p{number}", text_a=" ".join(words), text_b=" ".join(other), score=4.0 if same else 0.0
    )


def iob(items):
    """In the layout of an IOB file."""
    blocks = ("\n".join(map("\t".join, zip(i.tokens, i.labels, strict=True))) for i in items)
    return "\n\n".join(blocks) + "\n"


@pytest.fixture
def as_iob():
    """Writes texts in the layout of an IOB file."""
    return iob


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """The folder of the encoder."""
    from tokenizers import BertWordPieceTokenizer

    # Given, not trained: training breaks ties by chance, and the model would differ every time.
    words = [*OTHERS, *(word for name in CHEMICALS for word in name), *PAGES]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *words, *(f"##{letter}" for letter in PAGES)]
    inner = BertWordPieceTokenizer({piece: i for i, piece in enumerate(pieces)}, lowercase=True)
    tokenizer = transformers.BertTokenizerFast(
        tokenizer_object=inner._tokenizer, model_max_length=64
    )
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("encoder")
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def sentences():
    """Sixty sentences."""
    return [sentence(number) for number in range(60)]


@pytest.fixture
def pairs():
    """Forty pairs."""
    return [pair(number) for number in range(40)]


@pytest.fixture
def workplace(tmp_path, monkeypatch, sentences, encoder):
    """The current folder, with data to train on and to attack, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.iob").write_text(iob(sentences))
    (tmp_path / "test.iob").write_text(iob([sentence(number) for number in range(100, 125)]))
    return tmp_path


@pytest.fixture
def experiment(encoder):
    """An experiment on them."""
    return {
        "experiment": {"controls": False, "name": "toy", "seeds": [0]},
        "dataset": [{"name": "iob", "path": "test.iob"}],
        "attack": [
            {"name": "swap_noise", "scope": "all"},
            {"name": "keyboard_noise", "scope": "all"},
        ],
        "train": {
            "model": str(encoder),
            "data": {"path": "train.iob"},
            "dev": 0.2,
            "epochs": 12,
            "batch_size": 8,
            "learning_rate": 5e-3,
            "patience": 0,
            "adversarial": [{"attack": "swap_noise"}],
        },
    }
