"""Whole models whose linear layers multiply with oneDNN answer as those with torch's own."""

from typing import Any

import numpy as np
import pytest

from medstress.core.calls import Scored
from medstress.entities import processor

torch = pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")
pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()),
    reason="torch is built without MKL or oneDNN here",
)


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
