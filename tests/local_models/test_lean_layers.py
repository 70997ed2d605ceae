"""Lean layers give the numbers of the layers they stand for, and only for these."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from medstress.backends.shared_prefix.lean_layers import LeanLayers  # noqa: E402

_SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.3,
}


def _model(name: str, **how: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**_SIZES, **how})
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for weight_name, weight in model.named_parameters():
        if "norm" in weight_name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


def _logits(model: Any) -> Any:
    tokens = torch.arange(40).view(2, 20)
    with torch.inference_mode():
        return model(input_ids=tokens, use_cache=False).logits


@pytest.mark.parametrize(
    ("name", "how", "n_lean"),
    [
        # Two norms and a gate a layer, a norm behind them, and the rotation.
        ("Llama", {}, 8),
        ("Mistral", {}, 8),
        ("Qwen2", {}, 8),
        # Norms of queries and keys as well.
        ("Qwen3", {}, 12),
        # Half of each head is turned, which is left to its own function.
        ("Phi3", {"partial_rotary_factor": 0.5, "pad_token_id": 0}, 6),
        # Norms scale by 1 + weight, gates are not SiLU.
        ("Gemma", {}, 1),
        # Pairs that are turned are neighbours; norms subtract the mean.
        ("Cohere", {}, 2),
        ("GPTNeoX", {}, 1),
    ],
)
def test_numbers_stay(name: str, how: dict[str, Any], n_lean: int) -> None:
    model = _model(name, **how)
    expected = _logits(model)
    lean = LeanLayers(model)
    assert len(lean) == n_lean
    with lean.used():
        found = _logits(model)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_was_there_is_there_again_after_an_error() -> None:
    model = _model("Llama")
    source = sys.modules[type(model).__module__]
    before, expected = source.apply_rotary_pos_emb, _logits(model)
    lean = LeanLayers(model)
    with lean.used():
        assert source.apply_rotary_pos_emb is not before
    with pytest.raises(ValueError, match="input_ids"), lean.used():
        model(nothing_like_this=1)
    assert source.apply_rotary_pos_emb is before
    assert not any("forward" in vars(module) for module in model.modules())
    assert torch.equal(_logits(model), expected)


def test_a_forward_that_somebody_replaced_is_left_alone() -> None:
    model = _model("Llama")
    lean, asked = LeanLayers(model), []
    gate = model.model.layers[0].mlp
    own = gate.forward

    def watched(states: Any) -> Any:
        asked.append(states.shape)
        return own(states)

    gate.forward = watched
    with lean.used():
        _logits(model)
    assert (len(asked), gate.forward) == (1, watched)


def test_other_number_formats_keep_their_layers() -> None:
    assert len(LeanLayers(_model("Llama").to(torch.bfloat16))) == 0


def test_a_model_of_another_thread_keeps_its_own_rotation() -> None:
    model, other = _model("Llama"), _model("Llama").to(torch.bfloat16)
    source = sys.modules[type(model).__module__]
    own, expected = source.apply_rotary_pos_emb, _logits(other)
    with LeanLayers(model).used(), ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(_logits, other).result(), expected)
        # Found while another is in use, the own function is still the one that was there.
        with LeanLayers(model).used():
            pass
        assert source.apply_rotary_pos_emb is own


@pytest.mark.parametrize("bound", [10.0, 0.05])
def test_a_gate_with_bounds_is_left_alone(bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("Llama")
    source = sys.modules[type(model).__module__]
    own = source.LlamaMLP.forward
    monkeypatch.setattr(
        source.LlamaMLP, "forward", lambda self, one: own(self, one.clamp(-bound, bound))
    )
    # The norms and the rotation.
    assert len(LeanLayers(model)) == 6


def test_parts_that_are_no_layers_are_left_alone() -> None:
    model = _model("Llama")
    gate = model.model.layers[0].mlp
    weight = gate.gate_proj.weight
    del gate.gate_proj
    gate.gate_proj = weight
    assert len(LeanLayers(model)) == 7


def test_a_layer_that_only_looks_like_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("Llama")
    source = sys.modules[type(model).__module__]
    own = source.LlamaRMSNorm.forward
    monkeypatch.setattr(source.LlamaRMSNorm, "forward", lambda self, one: own(self, one) + 0.01)
    # The gates and the rotation.
    assert len(LeanLayers(model)) == 3


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch is built without MKL here")
def test_products_of_few_rows_take_packed_weights() -> None:
    large = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "head_dim": 32}
    model = _model("Llama", **large)
    expected, lean = _logits(model), LeanLayers(model)
    lean.pack()
    for layer in model.modules():
        if type(layer) is torch.nn.Linear:
            layer.weight.data.zero_()
    with lean.used():
        found = _logits(model)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (lean.unpack(), lean.unpack()) == (True, False)
    lean.pack()
    with lean.used():
        assert not _logits(model).any()
