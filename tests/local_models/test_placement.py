"""Where weights go: one device, a map, four bits; tiny models, read by the real code."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from late import torch
from medstress.backends.local import loading
from medstress.backends.local.loading import input_device
from medstress.backends.local.transformers import TransformersBackend, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Score, Scored
from medstress.core.errors import UsageError

CALLS = [
    Score("the patient with", (" a dose", " the drug of", " pain")),
    Score("the drug treats", (" aspirin", " insulin"), first_token=True),
]
SPLIT = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "disk",
    "model.layers.1": "cpu",
    "model.norm": "cpu",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


def scores(backend: Any) -> list[float]:
    replies = backend.answer(CALLS)
    assert all(isinstance(reply, Scored) for reply in replies)
    return [value for reply in replies for value in reply.log_probs]


@pytest.mark.parametrize("device_map", ["auto", SPLIT])
def test_a_model_that_is_spread_answers_as_in_one_piece_and_is_the_same_model(
    device_map, folder_of, sentence
):
    whole = open_backend(BackendOptions(model=str(folder_of("llama")), device="cpu"))
    spread = open_backend(BackendOptions(model=str(folder_of("llama")), device_map=device_map))
    assert isinstance(whole, TransformersBackend)
    assert isinstance(spread, TransformersBackend)
    assert np.allclose(scores(spread), scores(whole), atol=1e-4)
    assert spread.path == whole.path == "tree"
    text = [Generate(sentence(3, 6), Decoding(max_new_tokens=5))]
    assert spread.answer(text) == whole.answer(text)
    assert spread.identity == whole.identity
    assert spread.traits.parameters == whole.traits.parameters
    model = spread._loaded.model
    if device_map == SPLIT:
        # Left where the user put them: weights on the disk are nowhere in memory.
        assert model.hf_device_map == SPLIT
        assert model.model.layers[0].mlp.up_proj.weight.device.type == "meta"


def test_token_ids_go_where_the_hook_of_the_embedding_computes():
    class Hook:
        execution_device = 1

    embedding = torch.nn.Embedding(3, 2)

    class Model:
        device = torch.device("meta")

        def get_input_embeddings(self) -> Any:
            return embedding

    assert input_device(Model()) == torch.device("cpu")
    embedding._hf_hook = Hook()
    assert input_device(Model()) == torch.device("cuda:1")


@pytest.mark.parametrize(
    "options",
    [{"device_map": "auto", "device": "cpu"}, {"device_map": {"": "cuda:99"}}, {"device": "gpu"}],
)
def test_a_place_that_makes_no_sense_is_refused_with_a_sentence(options, folder_of, said):
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(model=str(folder_of("llama")), **options))
    said(str(caught.value))


@pytest.mark.release
@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs the extra quantized")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_four_bits_are_another_model_of_as_many_parameters(folder_of):
    folder = str(folder_of("wide_llama"))
    whole = open_backend(BackendOptions(model=folder, device="cpu"))
    packed = open_backend(BackendOptions(model=folder, device="cpu", load_in_4bit=True))
    assert isinstance(packed, TransformersBackend)
    kinds = {type(module).__name__ for module in packed._loaded.model.modules()}
    assert "Linear4bit" in kinds
    assert packed.identity.hash != whole.identity.hash
    assert packed.traits.parameters == whole.traits.parameters
    difference = np.abs(np.subtract(scores(packed), scores(whole)))
    assert 0 < difference.max() < 20


@pytest.mark.parametrize(
    ("absent", "options", "line"),
    [
        ("bitsandbytes", {"load_in_4bit": True}, r"pip install 'medstress\[quantized\]'"),
        ("accelerate", {"device_map": "auto"}, r"pip install 'medstress\[transformers\]'"),
    ],
)
def test_a_missing_package_is_named_with_its_install_line(absent, options, line, monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == absent else name)
    with pytest.raises(UsageError, match=line):
        open_backend(BackendOptions(model="x", **options))
