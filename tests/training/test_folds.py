"""Cross-validation: every item is tested once for each seed, by a model that has not seen it."""

import json

import pytest

import medstress as ms
from medstress.core.errors import MedstressError
from medstress.training.train import plan_training, training_costs


@pytest.fixture
def crossed(workplace, experiment, pairs):
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


@pytest.mark.release
def test_attacks_on_held_out_pairs_are_pooled_over_the_folds(workplace, crossed):
    run = ms.train(crossed, out="out").run
    summary = run.summary()
    rows = {(row["victim"], row["attack"]): row for row in summary["results"]}
    assert {victim for victim, _ in rows} == {"untrained", "original-0", "swap_noise-0"}
    for row in rows.values():
        assert row["n_items"] == row["n_trials"] == row["pearson"]["n"] == 20
        assert row["pearson_after"]["low"] <= row["pearson_after"]["value"]
    training = json.loads((workplace / "out" / "training.json").read_text())
    assert training["folds"] == 4
    notes = run.manifest()["training"]
    assert (notes["n_train"], notes["n_dev"]) == (15, 0)
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
    page = run.report()
    assert "Cross-validated in 4 folds" in page


def test_each_pair_is_answered_by_the_model_of_its_fold(workplace, crossed):
    from medstress.experiment.prepare import opened_victims

    plan = plan_training(crossed)
    assert training_costs(plan).total.queries == {"clean": 60, "attacks": 120}
    ms.train(crossed, out="out")
    models = [model for model in plan.models if model.name == "original-0"]
    stage = plan.stage(models, workplace / "out" / "models", {m.label: {} for m in models})
    found = {}
    with opened_victims(stage, lambda _: None):
        hashes = {v.backend.identity.hash: v.label for v in stage.victims}
        assert len(hashes) == 4
        for trial in stage.trials():
            assert trial.victim.label == "original-0"
            label = hashes[trial.victim.backend.identity.hash]
            found.setdefault(label, set()).add(trial.item.id)
    assert found == {model.label: set(plan.data_of(model).tested or ()) for model in models}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"folds": 21},
            "folds = 21: there are 20 documents (pairs that share a sentence are one); give more "
            "data, or fewer folds",
        ),
        ({"data": {"path": "x.tsv"}}, "with folds the attacked data are the training data"),
        ({"encoder": "cross_encoder"}, "untrained = true is for sentence pairs with encoder"),
        (
            {"adversarial": [{"attack": "swap_noise", "label": "untrained"}]},
            "two models would be called 'untrained'",
        ),
    ],
)
def test_what_cannot_be_cross_validated_is_refused_in_one_sentence(crossed, changes, sentence):
    crossed["train"] |= changes
    with pytest.raises(MedstressError) as refused:
        ms.train(crossed, out="out")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
