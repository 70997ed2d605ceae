"""Multiple-choice heads: the model's own numbers, pair by pair, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from medstress.backends.local.encoders import PairBackend
from medstress.backends.local.transformers import open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Failure, Rank, Scored
from medstress.core.errors import UsageError
from medstress.testing import check_backend

torch = pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

TINY = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 66,
    "type_vocab_size": 2,
    "pad_token_id": 1,
    "initializer_range": 0.5,
}
WORDS = ["aspirin", "insulin", "scurvy", "vitamin", "which", "drug", "treats", "pain", "gout"]


def make_tokenizer(**given: Any) -> Any:
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


def bert() -> tuple[Any, Any]:
    return transformers.BertForMultipleChoice(transformers.BertConfig(**TINY)), make_tokenizer()


def padded_left() -> tuple[Any, Any]:
    return bert()[0], make_tokenizer(padding_side="left")


def roberta() -> tuple[Any, Any]:
    names = ["input_ids", "attention_mask"]
    model = transformers.RobertaForMultipleChoice(transformers.RobertaConfig(**TINY))
    return model, make_tokenizer(model_input_names=names, model_max_length=64)


def without_mask() -> tuple[Any, Any]:
    model = transformers.FNetForMultipleChoice(transformers.FNetConfig(**TINY))
    return model, make_tokenizer(model_input_names=["input_ids", "token_type_ids"])


BUILDERS = {build.__name__: build for build in (bert, padded_left, roberta, without_mask)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            torch.manual_seed(3)
            made[name] = tmp_path_factory.mktemp(name)
            for part in BUILDERS[name]():
                part.save_pretrained(made[name])
        return made[name]

    return folder


@pytest.fixture
def opened(folder_of):
    def open_it(name: str = "bert", **how: Any) -> PairBackend:
        options = BackendOptions(model=str(folder_of(name)), answer_by="head", **how)
        backend = open_backend(options)
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


@pytest.mark.parametrize("name", BUILDERS)
def test_log_probabilities_are_those_of_the_plain_model(name, opened, folder_of):
    plain = transformers.AutoModelForMultipleChoice.from_pretrained(folder_of(name)).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder_of(name))
    backend = opened(name, batch_size=3)
    check_backend(backend, CALLS, tolerance=1e-4)
    for call, reply in zip(CALLS, backend.answer(CALLS), strict=True):
        values = []
        for option in call.options:
            pair = tokenizer(call.prompt, option, truncation=False, padding=False)
            with torch.inference_mode():
                inputs = {key: torch.tensor([[row]]) for key, row in pair.items()}
                values.append(float(plain(**inputs).logits))
        expected = torch.log_softmax(torch.tensor(values), dim=0).tolist()
        assert log_probs(reply) == pytest.approx(expected, abs=1e-4)
        # Not by chance: the options are told apart.
        assert max(expected) - min(expected) > 1e-2


def test_only_the_changed_pair_is_read_again(opened):
    backend = opened()
    clean = Rank("which drug treats pain", ("aspirin", "insulin", "w1 w2", "w3"))
    backend.answer([clean])
    before = backend.counters
    changed = Rank(clean.prompt, ("aspirin", "w8 w9", "w1 w2", "w3"))
    (reply,) = backend.answer([changed])
    forwarded = backend.counters["tokens_forwarded"] - before["tokens_forwarded"]
    # <s> which drug treats pain </s> w8 w9 </s>
    assert forwarded == 9
    assert backend.counters["tokens_naive"] - before["tokens_naive"] == 8 + 9 + 9 + 8
    assert log_probs(reply) == pytest.approx(log_probs(opened().answer([changed])[0]), abs=1e-5)


@pytest.mark.parametrize(("name", "most"), [("bert", 66), ("roberta", 64)])
def test_too_long_a_pair_fails_its_call_only_and_nothing_is_cut(name, most, opened):
    special = 3
    fits = Rank(words(40), ("aspirin", words(most - special - 40)))
    too_long = Rank(words(40), ("aspirin", words(most - special - 40 + 1)))
    failed, fine, short = opened(name).answer([too_long, fits, CALLS[0]])
    assert isinstance(failed, Failure)
    assert failed.error.startswith(f"{most + 1} tokens are more than the {most} positions")
    assert isinstance(fine, Scored)
    assert fine.n_tokens == (44, most)
    assert isinstance(short, Scored)


def test_values_that_are_no_numbers_are_handed_on(opened):
    backend = opened()
    with torch.no_grad():
        backend._loaded.model.classifier.bias.fill_(math.nan)
    assert all(map(math.isnan, log_probs(backend.answer([CALLS[0]])[0])))


def test_a_model_without_a_head_or_without_its_weights_is_refused(tmp_path, folder_of):
    def refusal(folder: Path, **options: Any) -> str:
        with pytest.raises(UsageError) as caught:
            open_backend(BackendOptions(model=str(folder), **options))
        return str(caught.value)

    assert 'use answer_by = "head"' in refusal(folder_of("bert"), answer_by="letter")
    for part in (bert()[0].bert, make_tokenizer()):
        part.save_pretrained(tmp_path)
    assert "BertForMultipleChoice" in refusal(tmp_path, answer_by="head")
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["BertForMultipleChoice"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "classifier.bias, classifier.weight" in refusal(tmp_path, answer_by="head")
