"""Linear layers that multiply with oneDNN give the numbers of torch's own."""

from typing import Any

import numpy as np
import pytest

from late import torch
from medstress.core.calls import Scored
from medstress.entities import processor
from medstress.entities.processor import use_onednn


@pytest.fixture
def products(monkeypatch):
    """Pretend that MKL is slow here; the rows of each product that oneDNN was asked for."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("torch is built without MKL or oneDNN here")
    asked: list[int] = []
    product = processor.product

    def counted(states: Any, weight: Any, bias: Any) -> Any:
        asked.append(states.numel() // states.shape[-1])
        return product(states, weight, bias)

    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(processor, "product", counted)
    return asked


def changed(layer: Any, asked: list[int]) -> Any:
    """The layer with oneDNN; what the comparison asked for is forgotten."""
    use_onednn(layer)
    asked.clear()
    return layer


@pytest.mark.parametrize("bias", [True, False])
def test_the_numbers_of_torchs_own_layer_also_after_weights_changed(products, bias):
    torch.manual_seed(0)
    plain = torch.nn.Linear(128, 200, bias=bias)
    layer = torch.nn.Linear(128, 200, bias=bias)
    layer.load_state_dict(plain.state_dict())
    changed(layer, products)
    with torch.inference_mode():
        parts_of_rows = torch.randn(90, 256)[:, :128]
        for states in (torch.randn(2, 50, 128), torch.randn(2, 3, 20, 128), parts_of_rows):
            assert torch.allclose(layer(states), plain(states), rtol=1e-4, atol=1e-5)
        layer.weight.zero_()
        assert torch.equal(layer(states), torch.zeros(90, 200) + (plain.bias if bias else 0))
    assert products == [100, 120, 90, 90]


def test_small_products_gradients_and_other_formats_are_torchs_own(products):
    layer = changed(torch.nn.Linear(128, 200), products)
    with torch.inference_mode():
        layer(torch.randn(1, 128))
        layer(torch.randn(0, 128))
    layer(torch.randn(100, 128)).sum().backward()
    assert layer.weight.grad.shape == (200, 128)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(100, 128)).dtype == torch.bfloat16
    with torch.inference_mode():
        assert layer.to(torch.bfloat16)(torch.randn(100, 128).bfloat16()).dtype == torch.bfloat16
    assert not products


def test_layers_of_other_numbers_stay_torchs_own(products, monkeypatch):
    product = processor.product
    monkeypatch.setattr(
        processor,
        "product",
        lambda states, weight, bias: product(states, weight, bias) * (1.0 if bias is None else 1.1),
    )
    wrong, right = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64, bias=False)
    use_onednn(torch.nn.Sequential(wrong, right))
    assert type(wrong) is torch.nn.Linear
    assert type(right) is processor.onednn_linear()


def test_nothing_changes_without_a_reason(products, monkeypatch):
    for where, name, value in (
        (processor, "_mkl_is_slow", lambda: False),
        (torch.backends.mkl, "is_available", lambda: False),
        (torch.backends.mkldnn, "enabled", False),
        (torch.ops, "mkldnn", object()),
    ):
        layer = torch.nn.Linear(64, 64)
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            use_onednn(layer)
        assert type(layer) is torch.nn.Linear


@pytest.mark.parametrize(("vendor", "slow"), [("GenuineIntel", False), ("AuthenticAMD", True)])
@pytest.mark.parametrize("is_linux", [True, False])
def test_the_vendor_of_the_processor_decides(monkeypatch, vendor, slow, is_linux):
    def read(*_: Any) -> str:
        if is_linux:
            return f"vendor_id\t: {vendor}\n"
        raise FileNotFoundError

    monkeypatch.setattr(processor.Path, "read_text", read)
    monkeypatch.setattr(processor.platform, "processor", lambda: f"Family 25 Model 33, {vendor}")
    processor._mkl_is_slow.cache_clear()
    try:
        assert processor._mkl_is_slow() is slow
    finally:
        processor._mkl_is_slow.cache_clear()


def test_as_many_cores_work_as_the_caller_of_the_compute_thread_set():
    before = torch.get_num_threads()
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            assert processor.in_compute_thread(torch.get_num_threads)() == n
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_whole_models_answer_as_those_with_torchs_own_layers(
    name, products, open_tiny, questions, monkeypatch
):
    calls = questions(12)
    with monkeypatch.context() as patch:
        patch.setattr(processor, "_mkl_is_slow", lambda: False)
        expected = open_tiny(name).answer(calls)
    monkeypatch.setattr(processor, "_MIN_MULTIPLICATIONS", 0)
    model = open_tiny(name)
    products.clear()
    for found, own in zip(model.answer(calls), expected, strict=True):
        assert isinstance(found, Scored)
        assert isinstance(own, Scored)
        assert np.allclose(found.log_probs, own.log_probs, rtol=0, atol=1e-4)
    assert products
