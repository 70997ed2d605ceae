"""Adapters, through peft itself: weights made in the test, saved and read by the real code."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from late import torch
from medstress.backends.local import files as adapters
from medstress.backends.local.transformers import TransformersBackend, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Score, Scored
from medstress.core.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="needs the extra adapters")
CALLS = [
    Score("the patient with", (" a dose", " the drug of", " pain")),
    Score("the drug treats", (" aspirin", " insulin"), first_token=True),
]


@pytest.fixture
def adapter_of(folder_of, tmp_path):
    """Makes a LoRA adapter with random weights; returns its folder and the merged model's."""

    def made(name: str, modules: list[str], task: str, seed: int = 0) -> tuple[Path, Path]:
        import peft
        import transformers

        kind = {"CAUSAL_LM": "AutoModelForCausalLM", "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM"}[task]
        model = getattr(transformers, kind).from_pretrained(folder_of(name))
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=modules, task_type=task)
        wrapped = peft.get_peft_model(model, config)
        torch.manual_seed(seed)
        with torch.no_grad():
            for key, weight in wrapped.named_parameters():
                if "lora_" in key:
                    weight.normal_(std=0.3)
        adapter, merged = tmp_path / f"adapter-{seed}", tmp_path / f"merged-{seed}"
        wrapped.save_pretrained(adapter)
        wrapped.merge_and_unload().save_pretrained(merged)
        transformers.AutoTokenizer.from_pretrained(folder_of(name)).save_pretrained(merged)
        return adapter, merged

    return made


def scores(backend: Any, calls: Any = CALLS) -> list[float]:
    replies = backend.answer(calls)
    assert all(isinstance(reply, Scored) for reply in replies)
    return [value for reply in replies for value in reply.log_probs]


@needs_peft
@pytest.mark.parametrize(
    ("name", "modules", "task"),
    [("llama", ["q_proj", "down_proj"], "CAUSAL_LM"), ("t5", ["q", "v", "wo"], "SEQ_2_SEQ_LM")],
)
def test_answers_are_those_of_the_merged_model_and_not_of_the_base(
    name, modules, task, folder_of, adapter_of
):
    adapter, merged = adapter_of(name, modules, task)
    base = open_backend(BackendOptions(model=str(folder_of(name))))
    changed = open_backend(BackendOptions(model=str(folder_of(name)), adapter=str(adapter)))
    expected = open_backend(BackendOptions(model=str(merged)))
    assert isinstance(changed, TransformersBackend)
    assert isinstance(base, TransformersBackend)
    assert changed.path == base.path
    assert np.allclose(scores(changed), scores(expected), atol=1e-4)
    assert np.abs(np.subtract(scores(changed), scores(base))).max() > 0.1
    text = [Generate("the patient", Decoding(max_new_tokens=6))]
    assert changed.answer(text) == expected.answer(text)
    assert changed.traits.parameters == base.traits.parameters
    assert changed.identity.name == f"{folder_of(name)} + {adapter}"


@needs_peft
def test_the_identity_knows_the_adapter_and_not_where_it_or_its_base_lies(
    folder_of, adapter_of, tmp_path
):
    first, _ = adapter_of("llama", ["q_proj"], "CAUSAL_LM")
    other, _ = adapter_of("llama", ["q_proj"], "CAUSAL_LM", seed=1)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in first.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    settings = json.loads((moved / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "elsewhere"
    (moved / "adapter_config.json").write_text(json.dumps(settings))

    def hash_with(adapter: str | None) -> str:
        options = BackendOptions(
            model=str(folder_of("llama")), adapter=adapter, base=tmp_path, device="cpu"
        )
        return open_backend(options).identity.hash

    assert hash_with(str(first)) == hash_with("moved")
    assert len({hash_with(None), hash_with(str(first)), hash_with(str(other))}) == 3


@needs_peft
def test_an_adapter_of_another_model_is_refused_with_a_sentence(folder_of, adapter_of):
    adapter, _ = adapter_of("llama", ["q_proj"], "CAUSAL_LM")
    with pytest.raises(UsageError, match="does not fit the model") as caught:
        open_backend(BackendOptions(model=str(folder_of("gpt2")), adapter=str(adapter)))
    assert "\n" not in str(caught.value)


@needs_peft
def test_an_adapter_without_its_weights_is_refused(folder_of, adapter_of):
    from safetensors.torch import load_file, save_file

    adapter, _ = adapter_of("llama", ["q_proj"], "CAUSAL_LM")
    weights = load_file(adapter / "adapter_model.safetensors")
    kept = {key: weight for key, weight in weights.items() if "layers.0" in key}
    save_file(kept, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"lacks weights that its adapter_config\.json lists"):
        open_backend(BackendOptions(model=str(folder_of("llama")), adapter=str(adapter)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "is not a peft adapter: expected adapter_config.json"),
        ({"adapter_config.json": "{", "adapter_model.bin": ""}, "is not JSON"),
        ({"adapter_config.json": "{}", "adapter_model.bin": ""}, "has no peft_type"),
        (
            {
                "adapter_config.json": '{"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 3}',
                "adapter_model.bin": "",
            },
            "puts trained tokens before the prompt",
        ),
    ],
)
def test_a_folder_that_is_no_usable_adapter_is_refused_before_the_model_is_read(
    files, said, tmp_path, monkeypatch
):
    monkeypatch.setattr(adapters, "find_spec", lambda name: object())
    folder = tmp_path / "adapter"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        open_backend(BackendOptions(model="no-such-model", adapter="adapter", base=tmp_path))
