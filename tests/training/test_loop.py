"""Training learns, stops early, and goes on after a kill as if there had been none."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from late import torch
from medstress.core.errors import StoreError, UsageError
from medstress.entities import processor
from medstress.entities.encoders import TransformerEncoder
from medstress.experiment.config import Train
from medstress.training.learners import PairScorer, Tagger, batches, find_start, fit

HOW = {"model": "m", "epochs": 12, "batch_size": 8, "learning_rate": 5e-3, "patience": 0}


class Killed(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


def tagger(encoder, seed=0):
    start = find_start(str(encoder), "cpu", Path.cwd())
    return Tagger(start, ["Chemical"], seed, 64)


def train(learner, items, folder, *, dev=(), seed=0, note=lambda _: None, **changes):
    table = Train(**{**HOW, **changes})
    return fit(learner, lambda _: items, dev, table, seed, folder, note, every_seconds=0)


def weights(learner):
    state = learner.model.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


def test_the_loss_falls_and_f1_rises_to_one(encoder, sentences, tmp_path):
    learner = tagger(encoder)
    assert learner.score(sentences) < 0.5
    curve = train(learner, sentences[:45], tmp_path, dev=sentences[45:])
    assert [point["epoch"] for point in curve] == list(range(1, 13))
    assert curve[-1]["loss"] < curve[0]["loss"] / 10
    assert max(point["score"] for point in curve) == 1.0
    assert learner.score(sentences[45:]) == 1.0


@pytest.mark.parametrize(
    ("key", "value", "lost"),
    [("num_hidden_layers", 2, "encoder.layer.1"), ("vocab_size", 9, "embeddings.word_embeddings")],
)
def test_an_encoder_that_lacks_weights_is_refused(encoder, tmp_path, key, value, lost):
    folder = shutil.copytree(encoder, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text()) | {key: value}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=rf"lack the weights bert\.{lost}"):
        tagger(folder)


@pytest.mark.parametrize("is_bi", [False, pytest.param(True, marks=pytest.mark.release)])
def test_pairs_are_learnt(is_bi, encoder, pairs, tmp_path):
    learner = PairScorer(find_start(str(encoder), "cpu", Path.cwd()), is_bi, 0, 64)
    curve = train(learner, pairs[:30], tmp_path, dev=pairs[30:], epochs=24, learning_rate=2e-3)
    assert curve[-1]["loss"] < curve[0]["loss"] / 2
    assert learner.score(pairs[30:]) > 0.9


@pytest.mark.parametrize(
    "moments",
    [(3, 4, 6), *(pytest.param((n,), marks=pytest.mark.kills) for n in (1, 6, 7, 12, 13))],
)
def test_a_training_killed_again_and_again_ends_with_the_weights_of_an_unbroken_one(
    encoder, sentences, tmp_path, moments
):
    """In the first and the last step of an epoch, and within one, of six steps each."""
    given = {"dev": sentences[40:], "epochs": 3}
    whole = tagger(encoder)
    curve = train(whole, sentences[:48], tmp_path / "whole", **given)
    for killed_after in moments:
        steps = 0

        def killing(_, last=killed_after):
            nonlocal steps
            steps += 1
            if steps == last:
                raise Killed

        # Another process opens the model anew; what it draws meanwhile must not matter.
        with pytest.raises(Killed):
            train(tagger(encoder), sentences[:48], tmp_path / "broken", note=killing, **given)
    resumed = tagger(encoder)
    again = train(resumed, sentences[:48], tmp_path / "broken", **given)
    assert weights(resumed) == weights(whole)
    assert [(p["loss"], p["score"]) for p in again] == [(p["loss"], p["score"]) for p in curve]


def test_a_finished_training_is_read_back_and_a_damaged_checkpoint_refused(
    encoder, sentences, tmp_path
):
    whole, resumed = tagger(encoder), tagger(encoder)
    for learner in (whole, resumed):
        train(learner, sentences, tmp_path, epochs=2)
    assert weights(resumed) == weights(whole)
    (checkpoint,) = tmp_path.iterdir()
    checkpoint.write_bytes(b"cut")
    with pytest.raises(StoreError, match=r"cannot be read .* to train this model from the beg"):
        train(tagger(encoder), sentences, tmp_path, epochs=2)


def test_the_seed_decides_the_weights(encoder, sentences, tmp_path):
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        learner = tagger(encoder, seed)
        train(learner, sentences, tmp_path / name, epochs=1, seed=seed)
        found.append(weights(learner))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_batches_hold_every_example_once_are_of_similar_length_and_depend_on_the_seed():
    texts = ["x" * random.Random(n).randint(1, 60) for n in range(400)]
    grouped, again = (list(batches(texts, 8, random.Random(0))) for _ in range(2))
    assert grouped == again
    assert sorted(text for batch in grouped for text in batch) == sorted(texts)
    assert {len(batch) for batch in grouped} == {8}

    def padding(parts):
        return sum(max(map(len, part)) * len(part) - sum(map(len, part)) for part in parts)

    assert padding(grouped) < padding([texts[i : i + 8] for i in range(0, 400, 8)]) / 4


@pytest.mark.release
def test_training_stops_where_the_score_no_longer_rises_and_keeps_the_best(
    encoder, sentences, tmp_path
):
    learner = tagger(encoder)
    curve = train(learner, sentences[:48], tmp_path, dev=sentences[48:], patience=2, epochs=40)
    scores = [point["score"] for point in curve]
    best = scores.index(max(scores))
    assert len(curve) == best + 3 < 40
    assert learner.score(sentences[48:]) == max(scores)


def test_bfloat16_learns_as_well_and_leaves_weights_in_float32(encoder, sentences, tmp_path):
    learner = tagger(encoder)
    curve = train(learner, sentences, tmp_path, epochs=3, dtype="bfloat16")
    assert curve[-1]["loss"] < curve[0]["loss"]
    assert {str(p.dtype) for p in learner.model.parameters()} == {"torch.float32"}


def test_encoders_and_models_that_are_trained_multiply_with_onednn_where_mkl_is_slow(
    encoder, monkeypatch
):
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("torch is built without MKL or oneDNN here")
    plain = TransformerEncoder(encoder, "mean").encode(["aspirin", "aspirin for pain"])
    monkeypatch.setattr(processor, "_mkl_is_slow", lambda: True)
    monkeypatch.setattr(processor, "_MIN_MULTIPLICATIONS", 0)
    changed = TransformerEncoder(encoder, "mean")
    assert np.allclose(changed.encode(["aspirin", "aspirin for pain"]), plain, atol=1e-5)
    for model in (changed._model, tagger(encoder).model):
        assert any(type(one) is processor.onednn_linear() for one in model.modules())
