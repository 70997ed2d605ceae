"""What is trained on: originals and copies, documents that stay whole, folds, held-out names."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks.noise import NoiseResources, mention_key
from medstress.core.clusters import clusters_of
from medstress.core.errors import MedstressError, UsageError
from medstress.core.sentences import TaggedText
from medstress.experiment.arms import make_attacks
from medstress.experiment.config import Attack as AttackTable
from medstress.training.train import (
    Kind,
    TrainingData,
    plan_training,
    split_into_folds,
    split_off,
    training_lines,
)


def noisy(*names, **more):
    tables = [AttackTable.model_validate({"name": name, "scope": "all"}) for name in names]
    return Kind(name="noisy", attacks=tuple(make_attacks(tables, Path())), **more)


def data_of(items):
    return TrainingData(train=tuple(items), stream="toy", noise=NoiseResources())


def test_the_originals_come_first_and_every_one_has_a_copy(sentences):
    data = data_of(sentences)
    assert data.items_by_epoch(Kind(name="original"), 0)(3) is data.train
    items = data.items_by_epoch(noisy("swap_noise"), 0)(0)
    assert list(items[:60]) == sentences
    copies = items[60:]
    assert [copy.labels for copy in copies] == [item.labels for item in sentences]
    assert sum(a.tokens != b.tokens for a, b in zip(copies, sentences, strict=True)) > 50


def test_one_copy_serves_all_epochs_unless_it_is_redrawn(sentences):
    data, kind = data_of(sentences), noisy("swap_noise")
    of = data.items_by_epoch(kind, 0)
    assert of(0) is of(1)
    redrawn = data.items_by_epoch(replace(kind, is_redrawn=True), 0)
    first, second = redrawn(0), redrawn(1)
    assert first[:60] == second[:60]
    assert first[60:] != second[60:]
    assert redrawn(0) == first  # what a resumed epoch is trained on
    assert data.items_by_epoch(kind, 1)(0)[60:] != of(0)[60:]


def test_of_several_attacks_each_perturbs_a_part(sentences):
    mixed = noisy("swap_noise", "keyboard_noise")
    copies = data_of(sentences).items_by_epoch(mixed, 0)(0)[60:]
    letters = [
        sorted("".join(copy.tokens)) == sorted("".join(item.tokens))
        for copy, item in zip(copies, sentences, strict=True)
    ]
    assert 15 < sum(letters) < 45  # swapping keeps the letters, the keyboard does not


def test_dev_data_take_whole_documents(sentences):
    items = [replace(s, metadata={"document": f"d{n // 6}"}) for n, s in enumerate(sentences)]
    clusters = clusters_of(items)
    train, dev = split_off(items, 0.2, clusters)
    assert (len(train), len(dev)) == (48, 12)
    assert not {clusters[item.id] for item in train} & {clusters[item.id] for item in dev}
    assert split_off(items, 0.0, clusters) == (tuple(items), ())
    with pytest.raises(UsageError, match="would leave one part empty"):
        split_off(items[:3], 0.1, clusters)


# Cross-validation -------------------------------------------------------------------------------


@given(
    documents=st.lists(st.integers(0, 8), min_size=9, max_size=40),
    n_folds=st.integers(2, 5),
    seed=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_folds_hold_every_item_once_and_part_no_document(documents, n_folds, seed):
    items = [
        TaggedText(id=str(n), tokens=("x",), labels=("O",), metadata={"document": f"d{document}"})
        for n, document in enumerate(documents)
    ]
    n_documents = len(set(documents))
    if n_documents < n_folds:
        with pytest.raises(UsageError, match=f"there are {n_documents} documents"):
            split_into_folds(clusters_of(items), n_folds, seed)
        return
    folds = split_into_folds(clusters_of(items), n_folds, seed)
    assert sorted(name for fold in folds for name in fold) == sorted(item.id for item in items)
    held = [{items[int(name)].metadata["document"] for name in fold} for fold in folds]
    assert sum(map(len, held)) == n_documents
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert split_into_folds(clusters_of(items[::-1]), n_folds, seed) == folds


def linked(pairs):
    """Twenty pairs; the second text of each third one is the first of the next."""
    made = pairs[:20]
    for n in range(0, 20, 3):
        made[n] = replace(made[n], text_b=made[n + 1].text_a)
    return made


def table_of(pairs):
    lines = [f"{p.id}\t{p.text_a}\t{p.text_b}\t{p.score}" for p in pairs]
    return "\n".join(["id\ttext_a\ttext_b\tscore", *lines])


def texts(items):
    return {text for item in items for text in (item.text_a, item.text_b)}


def test_nothing_of_a_tested_pair_is_trained_on_or_chooses_the_epoch(workplace, experiment, pairs):
    (workplace / "all.tsv").write_text(table_of(linked(pairs)))
    experiment["dataset"] = [{"name": "pairs", "path": "all.tsv"}]
    del experiment["train"]["data"]
    experiment["train"] |= {"folds": 4, "seeds": [0, 1], "dev": 0.25, "encoder": "bi_encoder"}
    experiment["train"] |= {"untrained": True}
    plan = plan_training(experiment)
    assert len(plan.models) == 1 + 2 * 2 * 4
    items = plan.prepared.datasets[0].questions
    splits = set()
    for model in plan.models[1:]:
        data = plan.data_of(model)
        assert data.tested is not None
        splits.add((model.seed, data.tested))
        tested = [item for item in items if item.id in data.tested]
        assert not texts(tested) & texts((*data.train, *data.dev))
        assert not texts(data.train) & texts(data.dev)
        assert len(data.train) + len(data.dev) + len(tested) == 20
    assert len({tested for _, tested in splits}) > 4  # another seed splits anew


def test_pairs_attacked_that_share_a_sentence_with_those_trained_on_are_counted(
    workplace, experiment, pairs
):
    rows = linked(pairs)
    (workplace / "tested.tsv").write_text(table_of([rows[0], rows[19]]))
    (workplace / "trained.tsv").write_text(table_of(rows[1:19]))
    experiment["dataset"] = [{"name": "pairs", "path": "tested.tsv"}]
    experiment["train"] |= {"data": {"path": "trained.tsv"}}
    expected = "2 of 2 attacked pairs share a sentence with the data trained on"
    assert plan_training(experiment).cautions[0] == expected


# Arms beside adversarial training ---------------------------------------------------------------

NAMES = (
    "aspirin acid\nwarfarin acid\nmorphine relief\nnaproxen relief\nsevere naproxen\ndaily pain\n"
)
LISTED = """concept,name
1,aspirin
1,severe salicylate
1,daily salicylate
2,warfarin
2,daily coumarin
3,morphine
3,severe opiate
"""


@pytest.fixture
def synonyms(workplace, experiment):
    (workplace / "names.txt").write_text(NAMES)
    (workplace / "listed.csv").write_text(LISTED)
    experiment["attack"] = [
        {"name": "synonym", "mode": "related", "synonyms": "listed.csv", "vocabulary": "names.txt"},
        {"name": "swap_noise", "scope": "all"},
    ]
    experiment["train"] |= {
        "epochs": 1,
        "seeds": [0, 1, 2],
        "twice": True,
        "adversarial": [{"attack": "synonym"}, {"attack": "synonym", "held_out_names": True}],
    }
    return experiment


def gold_in(items):
    return {mention_key(i.tokens[e.start : e.end]) for i in items for e in i.entities}


@pytest.mark.parametrize("choice", ["fixed", "drawn"])
def test_held_out_names_meet_in_nothing_that_is_trained_on(
    synonyms, workplace, sentences, as_iob, choice
):
    """Neither in the originals, nor where the copy leaves a mention as it is, nor on dev data."""
    named = [("severe", "salicylate"), ("Daily", "Coumarin"), ("aspirin", "acid")]
    planted = [
        TaggedText(id=f"x{n}", tokens=("for", *name), labels=("O", "B-Chemical", "I-Chemical"))
        for n, name in enumerate(named * 12)
    ]
    (workplace / "train.iob").write_text(as_iob([*sentences, *planted]))
    synonyms["attack"][0]["choice"] = choice
    plan = plan_training(synonyms)
    (table,) = plan.prepared.groups[0].resources.noise.replacements.values()
    most = 1 if choice == "fixed" else None
    given = {mention_key(name) for names in table.values() for name in names[:most]}
    models = {model.name: model for model in plan.models}
    plain, held = (models[f"synonym{more}-0"] for more in ("", ", held-out names"))
    items = plan.items_of(plain)(0)
    assert gold_in(items[: len(items) // 2]) & given  # the hard case is there
    assert gold_in(items[len(items) // 2 :]) & given
    for part in (plan.items_of(held)(0), plan.data_of(held).dev_items(held.kind, 0)):
        assert part
        assert not gold_in(part) & given
    sizes = [len(data.train) + len(data.dev) for data in map(plan.data_of, (plain, held))]
    (kind,) = (kind for kind in plan.kinds if kind.has_held_out_names)
    told = plan.record(kind)
    assert told.names_met == {"synonym": 0.0}
    assert told.n_left_out is not None
    assert sizes == [96, 96 - told.n_left_out]
    assert told.n_left_out >= 12


def test_names_met_counts_the_originals_too(synonyms, workplace, as_iob):
    """The new name of aspirin is put into no copy, as nobody is given aspirin: it stands there."""
    known = TaggedText(
        id="x", tokens=("severe", "salicylate", "daily"), labels=("B-Chemical", "I-Chemical", "O")
    )
    other = TaggedText(id="y", tokens=("for", "morphine"), labels=("O", "B-Chemical"))
    asked = TaggedText(id="z", tokens=("aspirin", "daily"), labels=("B-Chemical", "O"))
    (workplace / "train.iob").write_text(as_iob([known, other] * 10))
    synonyms["train"]["dev"] = 0
    (workplace / "test.iob").write_text(as_iob([asked]))
    plan = plan_training(synonyms)
    met = {kind.name: plan.record(kind).names_met for kind in plan.kinds}
    assert met["synonym"] == {"synonym": 1.0}
    assert met["synonym, held-out names"] == {"synonym": 0.0}
    (workplace / "train.iob").write_text(as_iob([known] * 10))
    with pytest.raises(MedstressError, match="has no training data left, since all 10"):
        plan_training(synonyms)


CLAIMED = [
    *[(f"aspirin {word}", f"daily {word}") for word in ("one", "two", "three", "four")],
    ("warfarin five", "relief"),
    ("patients six", "naproxen"),
    ("patients seven", "acetylsalicylic acid"),
]
CONCEPTS = """concept,name
1,aspirin
1,acetylsalicylic acid
2,warfarin
2,coumadin
3,naproxen
3,naprosyn
"""


@pytest.fixture
def folded(workplace, synonyms):
    """Pairs in folds; aspirin's new name is known to every model, warfarin's to none tested."""
    rows = [f"{n}\t{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(CLAIMED)]
    (workplace / "pairs.tsv").write_text("\n".join(["id\ttext_a\ttext_b\tscore", *rows]))
    (workplace / "concepts.csv").write_text(CONCEPTS)
    synonyms["dataset"] = [{"name": "pairs", "path": "pairs.tsv"}]
    synonyms["attack"][0] = {"name": "synonym", "synonyms": "concepts.csv"}
    del synonyms["train"]["data"]
    synonyms["train"] |= {"folds": 3, "dev": 0}
    return synonyms


def test_with_folds_each_model_counts_what_it_is_tested_on(folded):
    plan = plan_training(folded)
    kinds = {kind.name: kind for kind in plan.kinds}
    assert plan.record(kinds["synonym"]).names_met == {"synonym": pytest.approx(4 / 5)}
    held_out = kinds["synonym, held-out names"]
    assert plan.record(held_out).names_met == {"synonym": 0.0}
    new = {"aspirin": "acetylsalicylic acid", "warfarin": "coumadin"}
    for model in (model for model in plan.models if model.kind == held_out):
        tested = plan.data_of(model).tested
        assert tested is not None
        read = " ".join(f"{i.text_a} {i.text_b}" for i in plan.items_of(model)(0))
        for n in tested:
            assert new.get(CLAIMED[int(n)][0].split()[0], "nowhere") not in read


def test_original_twice_reads_two_plain_copies_and_as_many_steps(synonyms):
    del synonyms["train"]["patience"]
    plan = plan_training(synonyms)
    assert plan.table.patience == 0  # no kind stops early
    models = {model.name: model for model in plan.models}
    once, twice, copied = (
        plan.items_of(models[f"{name}-0"])(0) for name in ("original", "original twice", "synonym")
    )
    assert list(twice) == [*once, *once]
    assert len(twice) == len(copied)
    dev = [
        plan.data_of(m).dev_items(m.kind, 0)
        for m in (models["original-0"], models["original twice-0"])
    ]
    assert dev[0] == dev[1]
    synonyms["train"]["patience"] = 3
    with pytest.raises(MedstressError, match="patience must be 0"):
        plan_training(synonyms)


def test_what_a_reader_should_know_is_said(synonyms):
    plan = plan_training(synonyms)
    assert plan.cautions == ()
    lines = " ".join(training_lines(plan))
    assert "the least gain that 3 training seeds and 25 sentences" in lines
    assert "original twice: 3 models, " in lines
    assert "held-out names: " in lines
    synonyms["train"] |= {"seeds": [0, 1], "twice": False}
    synonyms["attack"][0]["embedding"] = synonyms["train"]["model"]
    plan = plan_training(synonyms)
    told = " ".join(plan.cautions)
    assert "2 training seeds: intervals say nothing of other seeds" in told
    assert "twice = true" in told
    assert "which is the model under attack" in told
    assert list(plan.least_gains()) == []
    synonyms["train"]["adversarial"] = [{"attack": "swap_noise", "held_out_names": True}]
    with pytest.raises(MedstressError, match="held_out_names works with synonym attacks only"):
        plan_training(synonyms)
