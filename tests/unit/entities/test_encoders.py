import json
from types import SimpleNamespace

import numpy as np
import pytest

from medstress.core.errors import UsageError
from medstress.entities.encoders import TransformerEncoder, read_folder


def folder_with(folder, *kinds: str, pooling: dict | None = None, model: str = ""):
    places = {"Transformer": model, "Pooling": "1_Pooling"}
    modules = [
        {"idx": i, "path": places.get(kind, kind), "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling or {}))
    return folder


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_tokens": True, "word_embedding_dimension": 384}, "mean"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
        ({"pooling_mode": "cls", "include_prompt": True}, "cls"),
        ({"pooling_mode": "mean", "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_the_pooling_of_the_folder_is_honoured(tmp_path, settings, pooling):
    folder = folder_with(tmp_path, "Transformer", "Pooling", "Normalize", pooling=settings)
    assert read_folder(folder).pooling == pooling


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"pooling_mode_max_tokens": True}, "max_tokens"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls and mean"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
    ],
)
def test_a_pooling_that_is_not_built_is_refused(tmp_path, settings, shown, said):
    found = read_folder(folder_with(tmp_path, "Transformer", "Pooling", pooling=settings))
    with pytest.raises(UsageError) as error:
        _ = found.pooling
    said(str(error.value), "embedding")


def test_a_module_that_transformers_alone_cannot_compute_is_refused(tmp_path, said):
    with pytest.raises(UsageError) as error:
        read_folder(folder_with(tmp_path, "Transformer", "Pooling", "Dense"))
    said(str(error.value), "embedding", "'Dense'")


def test_length_case_and_place_of_the_model_are_read(tmp_path):
    folder = folder_with(tmp_path, "Transformer", "Pooling", model="0_Transformer")
    (folder / "0_Transformer").mkdir()
    settings = {"max_seq_length": 64, "do_lower_case": True}
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text(json.dumps(settings))
    found = read_folder(folder)
    assert (found.model, found.max_tokens, found.lower_case) == (folder / "0_Transformer", 64, True)


@pytest.mark.parametrize("file", ["1_Pooling/config.json", "sentence_bert_config.json"])
def test_settings_that_are_no_object_are_refused(tmp_path, file, said):
    folder = folder_with(tmp_path, "Transformer", "Pooling")
    (folder / file).write_text("[1]")
    with pytest.raises(UsageError) as error:
        read_folder(folder)
    said(str(error.value), "embedding", file)


def test_a_model_whose_vectors_are_not_finite_is_refused(tmp_path, said):
    class Damaged(TransformerEncoder):
        def __init__(self) -> None:
            self._folder = tmp_path
            self._model = SimpleNamespace(config=SimpleNamespace(hidden_size=2))

        def _batch(self, texts):
            return np.array([[np.nan, 1.0] if text == "gout" else [0.0, 1.0] for text in texts])

    assert Damaged().encode(["asthma"]).tolist() == [[0.0, 1.0]]
    with pytest.raises(UsageError) as error:
        Damaged().encode(["asthma", "gout"])
    said(str(error.value), "embedding", str(tmp_path), "'gout'")
