"""Encoders are opened with linear layers that multiply with oneDNN, for names and for training."""

import numpy as np
import pytest

from medstress.entities import processor
from medstress.entities.encoders import TransformerEncoder
from medstress.training.learners import find_start, open_model

torch = pytest.importorskip("torch", reason="needs the extra transformers")
pytestmark = pytest.mark.skipif(
    not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()),
    reason="torch is built without MKL or oneDNN here",
)


@pytest.fixture
def everywhere(monkeypatch):
    """As on a processor on which MKL is slow, for the smallest products too."""
    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(processor, "_MIN_MULTIPLICATIONS", 0)


def _uses_onednn(model):
    return any(type(one) is processor.onednn_linear() for one in model.modules())


def test_vectors_of_names_are_those_of_torchs_own_layers(encoder, everywhere, monkeypatch):
    changed = TransformerEncoder(encoder, "mean")
    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: False)
    own = TransformerEncoder(encoder, "mean")
    assert (_uses_onednn(changed._model), _uses_onednn(own._model)) == (True, False)
    texts = ["aspirin", "aspirin for pain"]
    assert np.allclose(changed.encode(texts), own.encode(texts), atol=1e-5)


def test_a_model_that_is_trained_has_them_too(encoder, everywhere):
    start = find_start(str(encoder), "cpu", encoder)
    model, tokenizer = open_model(start, "AutoModelForTokenClassification", seed=0, num_labels=3)
    assert _uses_onednn(model)
    model(**tokenizer("aspirin", return_tensors="pt")).logits.sum().backward()
    assert model.classifier.weight.grad is not None
