"""Packed weights give the numbers of the plain ones, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from medstress.backends.shared_prefix import packed_weights  # noqa: E402
from medstress.backends.shared_prefix.packed_weights import packed_forwards  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="torch is built without MKL here"
)

_ROWS = (1, 2, 3, 5, 8, 13, 31, 64, 68, 129, 255, 511, 512, 513, 700)


def _layers(*sizes: tuple[int, int], bias: bool) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(*size, bias=bias) for size in sizes)).eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(64, 96), (576, 192), (192, 1000)])
def test_the_numbers_of_plain_weights(size: tuple[int, int], bias: bool) -> None:
    model = _layers(size, bias=bias)
    with torch.inference_mode():
        ((layer, forward),) = packed_forwards(model)
        for n_rows in _ROWS:
            states = torch.randn(1, n_rows, size[0])
            expected = layer(states)
            assert forward(states).shape == expected.shape
            assert torch.allclose(forward(states), expected, rtol=1e-4, atol=1e-5)
        # Neither no row at all, nor rows that are parts of longer ones.
        assert forward(torch.randn(1, 0, size[0])).shape == (1, 0, size[1])
        wide = torch.randn(9, 2 * size[0])[:, : size[0]]
        assert torch.allclose(forward(wide), layer(wide), rtol=1e-4, atol=1e-5)


def test_few_rows_read_the_copy_and_many_the_layer() -> None:
    model = _layers((64, 80), bias=True)
    with torch.inference_mode():
        ((layer, forward),) = packed_forwards(model)
        few, many = torch.randn(512, 64), torch.randn(513, 64)
        expected = layer(few)
        layer.weight.zero_()
        assert torch.allclose(forward(few), expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(forward(many), layer.bias.expand(513, 80))


def test_none_where_they_need_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _layers((64, 80), (80, 64), bias=False)
    monkeypatch.setattr(packed_weights, "MOST_BYTES", 2 * 64 * 80 * 4)
    with torch.inference_mode():
        assert len(packed_forwards(model)) == 2
        monkeypatch.setattr(packed_weights, "MOST_BYTES", 2 * 64 * 80 * 4 - 1)
        assert packed_forwards(model) == []


@pytest.mark.parametrize("error", [RuntimeError("can't allocate memory"), MemoryError()])
def test_none_where_there_is_no_memory(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> Any:
        raise error

    monkeypatch.setattr(packed_weights, "_packed", fails)
    assert packed_forwards(_layers((64, 80), bias=False)) == []


def test_none_where_the_numbers_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # The second layer is of the same shape, but has a bias.
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64))
    packed = packed_weights._packed

    def wrong(layer: Any) -> Any:
        forward = packed(layer)
        off = 1.0 if layer.bias is None else 1.001
        return lambda states: forward(states) * (off if states.shape[1] == 7 else 1.0)

    monkeypatch.setattr(packed_weights, "_packed", wrong)
    with torch.inference_mode():
        assert packed_forwards(model) == []


class _Other(torch.nn.Linear):  # type: ignore[misc, name-defined]
    """May compute anything."""


def _hooked() -> Any:
    """A layer whose forward somebody has replaced, as accelerate does."""
    layer = torch.nn.Linear(64, 64)
    layer.forward = layer.forward
    return layer


@pytest.mark.parametrize(
    "layer",
    [
        _Other(64, 64),
        torch.nn.Embedding(64, 64),
        _hooked(),
        torch.nn.Linear(64, 64, dtype=torch.bfloat16),
        torch.nn.Linear(64, 64, device="meta"),
        # Copies of narrow layers are larger than these.
        torch.nn.Linear(63, 64),
        torch.nn.Linear(64, 8),
    ],
)
def test_layers_of_another_kind_stay_as_they_are(layer: Any) -> None:
    with torch.inference_mode():
        plain = torch.nn.Linear(64, 64)
        found = packed_forwards(torch.nn.Sequential(layer, plain))
    assert [one for one, _ in found] == [plain]
