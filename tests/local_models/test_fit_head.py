"""scripts/fit_head.py: fits exactly the attacked items, by seed, and what it saves is a victim."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.api.run import run
from medstress.running.prepare import prepare

torch = pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

SCRIPT = Path(__file__).parents[2] / "scripts" / "fit_head.py"
EXPERIMENT = """
[experiment]
controls = false
name = "fit"
seeds = [0]
[[dataset]]
name = "sample"
limit = 14
[[entities]]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[[victim]]
name = "head"
backend = "transformers"
model = "fitted"
answer_by = "head"
prompt = "question"
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 4
"""


def tiny(seed: int) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(seed)
    alphabet = ["<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", " "]
    inner = Tokenizer(models.WordLevel({c: i for i, c in enumerate(alphabet)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="</s>",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    config = transformers.BertConfig(
        vocab_size=len(alphabet),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=4,
        pad_token_id=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMultipleChoice(config), tokenizer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # So small a model is slowed down by threads, much so where other work shares the cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    spec = importlib.util.spec_from_file_location("fit_head", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fit_head", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "new_model", tiny)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return module


def fit(script: ModuleType, folder: Path, name: str, *more: str) -> int:
    arguments = ["fit_head", "--experiment", str(folder / "e.toml"), "--out", str(folder / name)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [*arguments, *more])
        return int(script.main())


@pytest.mark.release
def test_a_fitted_head_is_a_victim_that_is_right_on_the_fitted_items(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(script, tmp_path, "fitted", "--epochs", "60", "--lr", "3e-3", "--batch", "4") == 0
    told = capsys.readouterr().out
    assert told.count("epoch ") == 60
    assert "accuracy after fitting: 1.000" in told
    note = (tmp_path / "fitted" / "README.md").read_text()
    assert "**fitted to the attacked items themselves**" in note
    assert "| after fitting | 1.0000 |" in note
    (row,) = run(tmp_path / "e.toml", tmp_path / "run").summary()["results"]
    assert row["accuracy"]["value"] == 1.0
    assert row["n_eligible"] == len(script.attacked_items(prepare(tmp_path / "e.toml")))
    assert row["n_failed"] == 0
    assert f"{row['n_eligible']} items" in told


def test_the_seed_alone_decides(script: ModuleType, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        fit(script, tmp_path, name, "--epochs", "1", "--limit", "5", "--seed", seed)
    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert one == same
    assert one != other


def test_a_folder_that_holds_something_and_a_listing_prompt_are_refused(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(script, tmp_path, ".") == 2
    assert "expected a new or an empty folder" in capsys.readouterr().err
    assert fit(script, tmp_path, "new", "--prompt", "qstab") == 2
    assert "prompt 'qstab': expected a plain template" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
