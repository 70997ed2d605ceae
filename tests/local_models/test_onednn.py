"""Linear layers that multiply with oneDNN give the numbers of torch's own, in whole models too."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from medstress.core.calls import Scored  # noqa: E402
from medstress.entities import processor  # noqa: E402
from medstress.entities.processor import use_onednn  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()),
    reason="torch is built without MKL or oneDNN here",
)


@pytest.fixture
def products(monkeypatch):
    """Pretend that MKL is slow here; the rows of each product that oneDNN was asked for."""
    asked: list[int] = []
    product = processor.product

    def counted(states: Any, weight: Any, bias: Any) -> Any:
        asked.append(states.numel() // states.shape[-1])
        return product(states, weight, bias)

    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(processor, "product", counted)
    return asked


def _changed(layer: Any, asked: list[int]) -> Any:
    """The layer with oneDNN; what the comparison asked for is forgotten."""
    use_onednn(layer)
    asked.clear()
    return layer


@pytest.mark.parametrize("bias", [True, False])
def test_the_numbers_of_torchs_own_layer(products, bias):
    torch.manual_seed(0)
    plain = torch.nn.Linear(128, 200, bias=bias)
    layer = torch.nn.Linear(128, 200, bias=bias)
    layer.load_state_dict(plain.state_dict())
    _changed(layer, products)
    with torch.inference_mode():
        for shape in ((2, 50, 128), (700, 128), (2, 3, 20, 128)):
            states = torch.randn(*shape)
            assert torch.allclose(layer(states), plain(states), rtol=1e-4, atol=1e-5)
        # Rows that are parts of longer ones.
        wide = torch.randn(90, 256)[:, :128]
        assert torch.allclose(layer(wide), plain(wide), rtol=1e-4, atol=1e-5)
    assert products == [100, 700, 120, 90]


def test_small_products_gradients_and_other_formats_are_torchs_own(products):
    layer = _changed(torch.nn.Linear(128, 200), products)
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


def test_weights_that_change_are_read_anew(products):
    layer = _changed(torch.nn.Linear(128, 200, bias=False), products)
    states = torch.randn(100, 128)
    with torch.inference_mode():
        assert layer(states).abs().sum() > 0
        layer.weight.zero_()
        assert layer(states).abs().sum() == 0
    assert products == [100, 100]


def test_layers_of_other_numbers_stay_torchs_own(
    products: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (processor, "_mkl_is_slow", lambda: False),
        (torch.backends.mkl, "is_available", lambda: False),
        (torch.backends.mkldnn, "enabled", False),
        (torch.ops, "mkldnn", object()),
    ],
    ids=["MKL is fast", "no MKL", "oneDNN switched off", "no such product"],
)
def test_nothing_changes_without_a_reason(products, monkeypatch, where, name, value):
    monkeypatch.setattr(where, name, value)
    layer = torch.nn.Linear(64, 64)
    use_onednn(layer)
    assert type(layer) is torch.nn.Linear


@pytest.mark.parametrize(
    ("told", "slow"),
    [
        ("vendor_id\t: GenuineIntel\n", False),
        ("vendor_id\t: AuthenticAMD\n", True),
        ("AMD64 Family 25 Model 33 Stepping 2, AuthenticAMD", True),
    ],
)
@pytest.mark.parametrize("is_linux", [True, False])
def test_the_vendor_of_the_processor_decides(monkeypatch, told, slow, is_linux):
    def read(*_: Any) -> str:
        if is_linux:
            return told
        raise FileNotFoundError

    monkeypatch.setattr(processor.Path, "read_text", read)
    monkeypatch.setattr(processor.platform, "processor", lambda: told)
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
def test_answers_are_those_of_torchs_own_layers(name, open_tiny, questions, monkeypatch):
    calls, asked = questions(12), list[int]()
    product = processor.product

    def counted(states: Any, weight: Any, bias: Any) -> Any:
        asked.append(1)
        return product(states, weight, bias)

    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: False)
    expected = open_tiny(name).answer(calls)
    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(processor, "_MIN_MULTIPLICATIONS", 0)
    changed = open_tiny(name)
    monkeypatch.setattr(processor, "product", counted)
    for found, own in zip(changed.answer(calls), expected, strict=True):
        assert isinstance(found, Scored)
        assert isinstance(own, Scored)
        assert np.allclose(found.log_probs, own.log_probs, rtol=0, atol=1e-4)
    assert asked
