"""Cross-validation: every item is tested once for each seed, by a model that has not seen it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import medstress as ms
from medstress.errors import MedstressError, UsageError
from medstress.experiment.rows import trial_rows
from medstress.store.reader import RunReader
from medstress.training import train as flow
from medstress.training.data import parted
from medstress.training.plan import plan_training


@pytest.fixture
def crossed(workplace: Path, experiment: dict[str, Any], pairs: Any) -> dict[str, Any]:
    """A cross-validation of twenty pairs in four folds, with one adversarial kind."""
    lines = [f"{p.id}\t{p.text_a}\t{p.text_b}\t{p.score}" for p in pairs[:20]]
    (workplace / "all.tsv").write_text("\n".join(["id\ttext_a\ttext_b\tscore", *lines]))
    experiment["dataset"] = [{"name": "pairs", "path": "all.tsv"}]
    del experiment["train"]["data"]
    experiment["train"] |= {
        "folds": 4,
        "dev": 0,
        "epochs": 3,
        "encoder": "bi_encoder",
        "untrained": True,
    }
    return experiment


@given(
    documents=st.lists(st.integers(0, 8), min_size=9, max_size=40),
    n_folds=st.integers(2, 5),
    seed=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_folds_hold_every_item_once_and_part_no_document(
    documents: list[int], n_folds: int, seed: int
) -> None:
    from medstress.sentences import TaggedText

    items = [
        TaggedText(id=str(n), tokens=("x",), labels=("O",), metadata={"document": f"d{document}"})
        for n, document in enumerate(documents)
    ]
    n_documents = len(set(documents))
    if n_documents < n_folds:
        with pytest.raises(UsageError, match=f"there are {n_documents} documents"):
            parted(items, n_folds, seed)
        return
    folds = parted(items, n_folds, seed)
    assert sorted(name for fold in folds for name in fold) == sorted(item.id for item in items)
    held = [{items[int(name)].metadata["document"] for name in fold} for fold in folds]
    assert sum(map(len, held)) == n_documents
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert parted(items[::-1], n_folds, seed) == folds


def test_another_seed_parts_the_data_anew(pairs: Any) -> None:
    assert parted(pairs, 5, 0) != parted(pairs, 5, 1)
    assert [len(fold) for fold in parted(pairs, 5, 0)] == [8] * 5


def test_no_model_is_trained_on_what_it_is_asked_about(crossed: dict[str, Any]) -> None:
    crossed["train"] |= {"seeds": [0, 1], "dev": 0.25}
    plan = plan_training(crossed)
    assert len(plan.models) == 1 + 2 * 2 * 4
    everything = {item.id for item in plan.prepared.datasets[0].questions}
    for model in plan.models[1:]:
        data = plan.data_of(model)
        seen = {item.id for item in (*data.train, *data.dev)}
        assert data.tested is not None
        assert seen == everything - data.tested
        assert len(data.tested) == 5


def test_attacks_on_held_out_pairs_are_pooled_over_the_folds(
    workplace: Path, crossed: dict[str, Any]
) -> None:
    run = ms.train(crossed, out="out").run
    summary = run.summary()
    rows = {(row["victim"], row["attack"]): row for row in summary["pooled"]}
    assert {victim for victim, _ in rows} == {"untrained", "original-0", "swap_noise-0"}
    for row in rows.values():
        assert row["n_items"] == row["n_trials"] == row["pearson"]["n"] == 20
        assert row["pearson_after"]["low"] <= row["pearson_after"]["value"]
    training = json.loads((workplace / "out" / "training.json").read_text())
    assert training["folds"] == 4
    assert (training["n_train"], training["n_dev"]) == (15, 0)
    (clean,) = {row["clean"]["value"] for row in training["rows"]}
    assert clean == rows["original-0", "swap_noise"]["pearson"]["value"]
    folds = [model["fold"] for model in training["models"] if model["victim"] == "original-0"]
    assert folds == [1, 2, 3, 4]
    scores = {(row["model"], row["attack"]): row for row in training["scores"]}
    assert scores["original", "swap_noise"]["clean"]["value"] == pytest.approx(clean)
    assert (
        scores["untrained", "swap_noise"]["attacked"]["value"]
        == rows["untrained", "swap_noise"]["pearson_after"]["value"]
    )
    alone = scores["untrained", "swap_noise"]
    for name in ("pearson", "spearman_after", "pearson_drop"):
        assert alone[name] == rows["untrained", "swap_noise"][name]
    page = run.report()
    assert "original-0, fold 4" in page
    assert "Cross-validated in 4 folds" in page


def test_each_pair_is_answered_by_the_model_of_its_fold(
    workplace: Path, crossed: dict[str, Any]
) -> None:
    from medstress.experiment.run import opened_victims

    plan = plan_training(crossed)
    ms.train(crossed, out="out")
    models = [model for model in plan.models if model.name == "original-0"]
    stage = plan.stage(models, workplace / "out" / "models", {m.label: {} for m in models})
    found: dict[str, set[str]] = {}
    with opened_victims(stage, lambda _: None):
        hashes = {v.backend.identity.hash: v.label for v in stage.victims}
        assert len(hashes) == 4
        for trial in stage.trials():
            assert trial.victim.label == "original-0"
            label = hashes[trial.victim.backend.identity.hash]
            found.setdefault(label, set()).add(trial.item.id)
    assert found == {model.label: set(plan.data_of(model).tested or ()) for model in models}


def test_a_second_time_nothing_is_trained_and_more_seeds_join(
    workplace: Path, crossed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ms.train(crossed, out="out").run.summary()
    with monkeypatch.context() as patched:
        patched.setattr(flow, "fit", None)
        again = ms.train(crossed, out="out").run.summary()
    assert again["pooled"] == first["pooled"]
    crossed["train"]["seeds"] = [0, 1]
    more = ms.train(crossed, out="out").run.summary()
    assert {row["victim"] for row in more["pooled"]} >= {"original-1", "swap_noise-1"}
    known = [row for row in more["pooled"] if row["victim"] == "original-0"]
    assert known == [row for row in first["pooled"] if row["victim"] == "original-0"]


def test_tagged_texts_are_cross_validated_and_rows_are_read_back(
    workplace: Path, experiment: dict[str, Any]
) -> None:
    del experiment["train"]["data"]
    experiment["dataset"] = [{"name": "iob", "path": "train.iob"}]
    experiment["train"] |= {"folds": 2, "epochs": 12, "dev": 0, "adversarial": []}
    run = ms.train(experiment, out="out").run
    (first, second) = run.summary()["pooled"]
    assert first["n_items"] == second["n_items"] == 60
    reader = RunReader(run.folder)
    rows = trial_rows(reader)
    reader.close()
    assert any(row.verdict == "flipped" for row in rows)
    assert {row.victim for row in rows} == {"original-0"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"folds": 1}, "folds = 1: input should be greater than or equal to 2"),
        ({"folds": 21}, "folds = 21: there are 20 documents; give more data, or fewer folds"),
        ({"dev": {"split": "dev"}}, "with folds the dev data are a share of those trained on"),
        ({"data": {"path": "x.tsv"}}, "with folds the data attacked are trained on"),
        ({"encoder": "cross_encoder"}, "untrained = true is for sentence pairs with encoder"),
        (
            {"adversarial": [{"attack": "swap_noise", "label": "untrained"}]},
            "two models would be called 'untrained'",
        ),
    ],
)
def test_what_cannot_be_cross_validated_is_refused_in_one_sentence(
    crossed: dict[str, Any], changes: dict[str, Any], sentence: str
) -> None:
    crossed["train"] |= changes
    with pytest.raises(MedstressError) as refused:
        ms.train(crossed, out="out")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_without_folds_takes_none(workplace: Path, crossed: dict[str, Any]) -> None:
    crossed["train"] |= {"epochs": 1, "adversarial": [], "untrained": False}
    ms.train(crossed, out="out")
    crossed["train"]["folds"] = 5
    with pytest.raises(MedstressError, match="'original-0, fold 1' that was trained on other data"):
        ms.train(crossed, out="out")


def test_the_dry_run_says_what_the_folds_would_be(crossed: dict[str, Any]) -> None:
    from medstress.training.plan import training_costs

    plan = plan_training(crossed)
    lines = list(training_costs(plan))
    assert lines[0] == "untrained: the model as it comes"
    assert lines[1].startswith("original: 4 models, 15 items an epoch, about 2 steps")
    assert "  baseline 60, perturbed 120, flip checks 0" in lines
