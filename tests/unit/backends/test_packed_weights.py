"""Packed weights give the numbers of the plain ones, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from medstress.backends import packed_weights  # noqa: E402
from medstress.backends.packed_weights import packed_forwards  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="torch is built without MKL here"
)

_ROWS = (1, 2, 3, 5, 8, 13, 31, 64, 68, 129, 255, 511, 512, 513, 700)


def _layers(*sizes: tuple[int, int], bias: bool) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(*size, bias=bias) for size in sizes)).eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(48, 32), (576, 192), (192, 1000), (7, 3)])
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


def test_the_layers_own_forward_where_there_are_many_rows() -> None:
    model = _layers((8, 4), bias=True)
    asked: list[int] = []
    own = model[0].forward

    def watched(states: Any) -> Any:
        asked.append(len(states))
        return own(states)

    model[0].forward = watched
    with torch.inference_mode():
        ((_, forward),) = packed_forwards(model)
        asked.clear()
        forward(torch.randn(512, 8))
        forward(torch.randn(513, 8))
    assert asked == [513]


def test_none_where_they_need_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _layers((8, 4), (4, 8), bias=False)
    monkeypatch.setattr(packed_weights, "MOST_BYTES", 2 * 8 * 4 * 4)
    with torch.inference_mode():
        assert len(packed_forwards(model)) == 2
        monkeypatch.setattr(packed_weights, "MOST_BYTES", 2 * 8 * 4 * 4 - 1)
        assert packed_forwards(model) == []


def test_none_where_the_numbers_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _layers((8, 4), bias=False)
    packed = packed_weights._packed

    def wrong(layer: Any) -> Any:
        forward = packed(layer)
        return lambda states: forward(states) * (1.001 if states.shape[1] == 7 else 1.0)

    monkeypatch.setattr(packed_weights, "_packed", wrong)
    with torch.inference_mode():
        assert packed_forwards(model) == []


def test_only_layers_that_are_plain_linear_ones() -> None:
    class Other(torch.nn.Linear):  # type: ignore[misc, name-defined]
        """May compute anything."""

    with torch.inference_mode():
        assert packed_forwards(torch.nn.Sequential(Other(8, 4), torch.nn.Embedding(3, 8))) == []
