"""Models that cannot be used: one sentence each, before or instead of answers."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from late import torch, transformers
from medstress.backends.local.transformers import open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Failure, Generate, Scored
from medstress.core.errors import UsageError


def sentence_of(folder: Path | str) -> str:
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(model=str(folder), device="cpu"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("without", "said"),
    [(("model",), "has no weights"), (("tokenizer", "special", "vocab", "merges"), "tokenizer")],
)
def test_a_folder_that_lacks_a_part_is_told(without, said, copied):
    assert said in sentence_of(copied("llama", *without))


def test_a_tokenizer_of_another_model_is_told_by_its_numbers(copied):
    folder = copied("llama")
    config = transformers.AutoConfig.from_pretrained(folder)
    config.vocab_size = 100
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    said = sentence_of(folder)
    assert "tokenizer of model" in said
    assert "the model has 100 embeddings" in said


def test_a_model_that_lacks_weights_is_warned_of(copied, caplog):
    from safetensors.torch import load_file, save_file

    file = copied("llama") / "model.safetensors"
    kept = {k: value for k, value in load_file(file).items() if ".1.mlp.up_proj" not in k}
    save_file(kept, file, metadata={"format": "pt"})
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    open_backend(BackendOptions(model=str(file.parent), device="cpu"))
    logger.removeHandler(caplog.handler)
    assert "layers.1.mlp.up_proj" in caplog.text


def test_a_padding_token_beyond_the_embedding_is_no_matter(copied):
    folder = copied("llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    config.vocab_size = len(tokenizer) - 1
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    assert open_backend(BackendOptions(model=str(folder), device="cpu")).traits.parameters > 0


def test_a_model_that_does_not_fit_into_memory_is_told(folder_of, monkeypatch):
    errors = [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ]

    def full(*_: Any, **__: Any) -> None:
        raise errors.pop()

    monkeypatch.setattr(transformers.LlamaForCausalLM, "from_pretrained", full)
    while errors:
        assert "does not fit into memory in float32" in sentence_of(folder_of("llama"))


@pytest.mark.parametrize("name", ["llama", "alibi", "t5"])
def test_batches_that_do_not_fit_are_halved_on_every_path_and_nothing_is_lost(
    name, questions, sentence, open_tiny, monkeypatch
):
    texts = [Generate(sentence(i, 6), Decoding(max_new_tokens=2)) for i in range(4)]
    calls = [*questions(9), *texts]
    expected = open_tiny(name).answer(calls)
    backend = open_tiny(name)
    assert backend.path in ("tree", "plain")  # checked while there is memory
    model = backend._loaded.model
    reader = model.get_encoder() if model.config.is_encoder_decoder else model
    embedding = reader.get_input_embeddings()
    forward, limit, refused = embedding.forward, 45, 0

    def small_machine(ids: Any) -> Any:
        nonlocal refused
        if ids.numel() > limit:
            refused += 1
            raise MemoryError
        return forward(ids)

    monkeypatch.setattr(embedding, "forward", small_machine)
    replies = backend.answer(calls)
    assert refused > 0
    for one, other in zip(replies, expected, strict=True):
        if isinstance(other, Scored):
            assert isinstance(one, Scored)
            assert np.allclose(one.log_probs, other.log_probs, atol=1e-4)
        else:
            assert one == other
    limit = 0
    for reply in backend.answer(calls[::3]):
        assert isinstance(reply, Failure)
        assert reply.error.count("out of memory") == 1
