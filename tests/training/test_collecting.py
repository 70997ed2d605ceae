"""A trained run becomes a small file for the page of the Araujo tables."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import medstress as ms

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ATTACKS = ("synonym", "keyboard_noise", "swap_noise", "non_entity_noise")


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, which imports its neighbours by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module("araujo_collect")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.mark.release
def test_a_run_of_entities_is_collected_without_a_word_of_the_data(
    workplace: Path,
    experiment: dict[str, Any],
    collect: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment["experiment"]["name"] = "araujo2020-table2"
    experiment["train"] |= {"adversarial": [], "seeds": [0, 1], "epochs": 6}
    experiment["attack"] = [
        {"name": "synonym"},
        {"name": "keyboard_noise", "scope": "all"},
        {"name": "swap_noise", "scope": "all"},
        {"name": "non_entity_noise", "scope": "all"},
    ]
    summary = ms.train(experiment, out="runs/mine").run.summary()
    out = ["--to", "results", "--page", "docs/araujo.md"]
    monkeypatch.setattr(sys, "argv", ["araujo_collect.py", "runs/none", "runs/mine", *out])
    assert collect.main() == 2
    assert "there is no run in runs/none" in capsys.readouterr().err
    found = json.loads(Path("results/table2-chem.json").read_text("utf-8"))
    assert {row["attack"] for row in found["scores"]} == set(ATTACKS)
    assert {row["victim"] for row in found["single"]} == {"original-0", "original-1"}
    for row in summary["results"]:
        (same,) = (
            each
            for each in found["single"]
            if (each["victim"], each["attack"]) == (row["victim"], row["attack"])
        )
        assert same["f1_after"] == row["f1_after"]
        assert same["recall_relaxed"] == row["recall_relaxed"]
    (swapped,) = (row for row in found["scores"] if row["attack"] == "swap_noise")
    assert swapped["n_seeds"] == 2
    assert swapped["f1_net_drop"]["value"] is not None
    (lost,) = (
        row
        for row in found["effects"]
        if (row["effect"], row["attack"]) == ("share_lost", "swap_noise")
    )
    assert lost["value"] == pytest.approx(1 - swapped["f1_after"]["value"] / swapped["f1"]["value"])
    assert found["facts"]["n_items"] == found["facts"]["n_entities"] == 25
    assert found["command"] == "medstress train araujo2020-table2"
    assert [len(model["curve"]) for model in found["models"]] == [6, 6]
    written = [*Path("results").iterdir(), *Path("docs").rglob("*.*")]
    assert len(written) == 3
    for file in written:
        text = file.read_text("utf-8")
        assert not [word for word in ("aspirin", "naproxen", "morphine") if word in text]
        assert str(workplace) not in text
    assert "| Table 2, chemicals | original (seeds 0, 1) | 48 | 25 |" in Path(
        "docs/araujo.md"
    ).read_text("utf-8")


@pytest.mark.release
def test_a_run_of_folds_is_collected_with_the_overlap_of_its_pairs(
    workplace: Path, experiment: dict[str, Any], collect: ModuleType, pairs: Any
) -> None:
    lines = [f"{p.id}\t{p.text_a}\t{p.text_b}\t{p.score}" for p in pairs[:20]]
    (workplace / "all.tsv").write_text("\n".join(["id\ttext_a\ttext_b\tscore", *lines]))
    experiment["experiment"]["name"] = "araujo2020-table6"
    experiment["dataset"] = [{"name": "pairs", "path": "all.tsv"}]
    experiment["attack"] = [{"name": name} for name in ATTACKS[:3]]
    del experiment["train"]["data"]
    experiment["train"] |= {
        "folds": 2,
        "dev": 0,
        "epochs": 2,
        "encoder": "bi_encoder",
        "untrained": True,
        "adversarial": [{"attack": "synonym"}],
    }
    run = ms.train(experiment, out="out").run
    found = collect.collected(workplace / "out")
    assert (found["table"], found["data"]) == ("table6", "biosses-folds")
    effects = {(row["effect"], row["model"], row["attack"]): row for row in found["effects"]}
    for kind in ("original", "untrained"):
        (row,) = (
            each
            for each in found["scores"]
            if (each["model"], each["attack"]) == (kind, "keyboard_noise")
        )
        assert row["pearson"]["n"] == 20
        assert effects["share_lost", kind, "keyboard_noise"]["value"] == pytest.approx(
            1 - row["pearson_after"]["value"] / row["pearson"]["value"]
        )
    assert effects["overlap_gain", "", "synonym"]["n"] == 20
    assert ("words_of_sentence", "original", "synonym") not in effects
    assert len(found["comparison"]) == len(run.summary()["training"]["rows"]) == 3
