"""Arms beside adversarial training: the originals twice, and names that the test does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.attacks.noise import mention_key
from medstress.cli.app import medstress_cli
from medstress.core.errors import MedstressError
from medstress.core.sentences import TaggedText
from medstress.experiment.dry_run import dry_run_remarks
from medstress.experiment.plan.manifest import SOURCES, surrogates_of
from medstress.training.plan import plan_training, training_lines

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
def synonyms(workplace: Path, experiment: dict[str, Any]) -> dict[str, Any]:
    (workplace / "names.txt").write_text(NAMES)
    (workplace / "listed.csv").write_text(LISTED)
    experiment["attack"] = [
        {
            "name": "synonym",
            "mode": "related",
            "synonyms": "listed.csv",
            "vocabulary": "names.txt",
        },
        {"name": "swap_noise", "scope": "all"},
    ]
    experiment["train"] |= {
        "epochs": 1,
        "seeds": [0, 1, 2],
        "twice": True,
        "adversarial": [
            {"attack": "synonym"},
            {"attack": "synonym", "held_out_names": True},
        ],
    }
    return experiment


def copies(plan: Any, name: str) -> set[str]:
    """The names that the copy of a kind has in the place of entities."""
    (model,) = (m for m in plan.models if m.name == f"{name}-0")
    items = plan.items_of(model)(0)
    return {
        " ".join(item.tokens[e.start : e.end]).lower()
        for item in items[len(items) // 2 :]
        for e in item.entities
    }


def test_held_out_names_are_none_that_the_test_is_given(synonyms: dict[str, Any]) -> None:
    plan = plan_training(synonyms)
    attacked = plan.prepared.groups[0].resources
    (table,) = attacked.replacements.values()
    given = {" ".join(names[0]) for names in table.values()}
    assert "severe salicylate" in given
    assert copies(plan, "synonym") & given
    held_out = copies(plan, "synonym, held-out names")
    assert not held_out & given
    assert "daily salicylate" in held_out  # the next listed name
    # Of mentions without a further name the copy has the mention itself.
    assert held_out - {"aspirin", "warfarin", "morphine", "naproxen", "salicylic acid"}


def iob(items: list[TaggedText]) -> str:
    """In the layout of an IOB file."""
    blocks = ("\n".join(map("\t".join, zip(i.tokens, i.labels, strict=True))) for i in items)
    return "\n\n".join(blocks) + "\n"


def gold_in(items: Any) -> set[str]:
    return {mention_key(i.tokens[e.start : e.end]) for i in items for e in i.entities}


@pytest.mark.parametrize("choice", ["fixed", "drawn"])
def test_held_out_names_meet_in_nothing_that_is_trained_on(
    synonyms: dict[str, Any], workplace: Path, sentences: list[TaggedText], choice: str
) -> None:
    """Neither in the originals, nor where the copy leaves a mention as it is, nor on dev data."""
    named = [("severe", "salicylate"), ("Daily", "Coumarin"), ("aspirin", "acid")]
    planted = [
        TaggedText(id=f"x{n}", tokens=("for", *name), labels=("O", "B-Chemical", "I-Chemical"))
        for n, name in enumerate(named * 12)
    ]
    (workplace / "train.iob").write_text(iob([*sentences, *planted]))
    synonyms["attack"][0]["choice"] = choice
    plan = plan_training(synonyms)
    (table,) = plan.prepared.groups[0].resources.replacements.values()
    most = 1 if choice == "fixed" else None
    given = {mention_key(name) for names in table.values() for name in names[:most]}
    models = {model.name: model for model in plan.models}
    plain, held = (models[f"synonym{more}-0"] for more in ("", ", held-out names"))
    items = plan.items_of(plain)(0)
    assert gold_in(items[: len(items) // 2]) & given  # the hard case is there
    for part in (plan.items_of(held)(0), plan.dev_of(held)):
        assert part
        assert not gold_in(part) & given
    sizes = [len(data.train) + len(data.dev) for data in map(plan.data_of, (plain, held))]
    (kind,) = {model.kind for model in plan.models if model.kind.has_held_out_names}
    told = plan.names_met(kind)
    assert told["names_met"] == {"synonym": 0.0}
    assert sizes == [96, told["n_offered"] - told["n_left_out"]]
    assert told["n_left_out"] >= 12
    assert any(
        f"held-out names: {told['n_left_out']} of 96 items are left out" in line
        for line in training_lines(plan)
    )


def test_names_met_counts_the_originals_too(synonyms: dict[str, Any], workplace: Path) -> None:
    """The new name of aspirin is put into no copy, as nobody is given aspirin: it stands there."""
    known = TaggedText(
        id="x", tokens=("severe", "salicylate", "daily"), labels=("B-Chemical", "I-Chemical", "O")
    )
    other = TaggedText(id="y", tokens=("for", "morphine"), labels=("O", "B-Chemical"))
    asked = TaggedText(id="z", tokens=("aspirin", "daily"), labels=("B-Chemical", "O"))
    (workplace / "train.iob").write_text(iob([known, other] * 10))
    synonyms["train"]["dev"] = 0
    (workplace / "test.iob").write_text(iob([asked]))
    plan = plan_training(synonyms)
    met = {m.kind.name: plan.names_met(m.kind).get("names_met") for m in plan.models}
    assert met["synonym"] == {"synonym": 1.0}
    assert met["synonym, held-out names"] == {"synonym": 0.0}
    (workplace / "train.iob").write_text(iob([known] * 10))
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
def folded(workplace: Path, synonyms: dict[str, Any]) -> dict[str, Any]:
    """Pairs in folds; aspirin's new name is known to every model, warfarin's to none tested."""
    rows = [f"{n}\t{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(CLAIMED)]
    (workplace / "pairs.tsv").write_text("\n".join(["id\ttext_a\ttext_b\tscore", *rows]))
    (workplace / "concepts.csv").write_text(CONCEPTS)
    synonyms["dataset"] = [{"name": "pairs", "path": "pairs.tsv"}]
    synonyms["attack"][0] = {"name": "synonym", "synonyms": "concepts.csv"}
    del synonyms["train"]["data"]
    synonyms["train"] |= {"folds": 3, "dev": 0}
    return synonyms


def test_with_folds_each_model_counts_what_it_is_tested_on(folded: dict[str, Any]) -> None:
    plan = plan_training(folded)
    kinds = {model.kind.name: model.kind for model in plan.models}
    assert plan.names_met(kinds["synonym"])["names_met"] == {"synonym": pytest.approx(4 / 5)}
    held_out = kinds["synonym, held-out names"]
    assert plan.names_met(held_out)["names_met"] == {"synonym": 0.0}
    new = {"aspirin": "acetylsalicylic acid", "warfarin": "coumadin"}
    for model in (model for model in plan.models if model.kind == held_out):
        tested = plan.data_of(model).tested
        assert tested is not None
        read = " ".join(f"{i.text_a} {i.text_b}" for i in plan.items_of(model)(0))
        for n in tested:
            assert new.get(CLAIMED[int(n)][0].split()[0], "nowhere") not in read


@pytest.mark.parametrize(("side", "n"), [("first", 5), ("second", 2), ("random", 7)])
def test_coverage_is_of_the_text_that_is_perturbed(
    folded: dict[str, Any], side: str, n: int
) -> None:
    folded["attack"][0]["side"] = side
    (row,) = surrogates_of(plan_training(folded).prepared)
    assert (row["n_mentions"], row["n_listed"], row["n_unchanged"]) == (n, n, 0)


@pytest.mark.release
def test_both_numbers_are_told_with_how_many_names_meet(
    synonyms: dict[str, Any], workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ms.train(synonyms, out="out").run
    training = run.summary()["training"]
    met = {kind["name"]: kind["names_met"]["synonym"] for kind in training["adversarial"]}
    assert met == {"synonym": 1.0, "synonym, held-out names": 0.0}
    rows = {(row["model"], row["against"], row["attack"]): row for row in training["rows"]}
    kinds = ("synonym", "synonym, held-out names")
    assert set(rows) == {
        (model, against, attack)
        for model, against in (
            *((kind, other) for kind in kinds for other in ("original", "original twice")),
            ("original twice", "original"),
        )
        for attack in ("synonym", "swap_noise")
    }
    assert {row["n_seeds"] for row in rows.values()} == {3}
    over = rows["synonym", "original twice", "synonym"]
    twice = rows["original twice", "original", "synonym"]
    assert over["attacked"]["value"] == twice["trained_attacked"]["value"]
    assert not twice["trained_on"]
    assert medstress_cli(["summary", "out", "--wide"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "held-out names: .00 of the mentions that synonym replaces" in out
    (row,) = run.manifest()["surrogates"]
    assert row["n_mentions"] == sum(row[f"n_{source}"] for source in SOURCES) == 25
    assert row["n_listed"] > 0


def test_original_twice_reads_two_plain_copies_and_as_many_steps(synonyms: dict[str, Any]) -> None:
    plan = plan_training(synonyms)
    models = {model.name: model for model in plan.models}
    once, twice, copied = (
        plan.items_of(models[f"{name}-0"])(0) for name in ("original", "original twice", "synonym")
    )
    assert list(twice) == [*once, *once]
    assert len(twice) == len(copied)
    assert plan.dev_of(models["original twice-0"]) == plan.dev_of(models["original-0"])


def test_beside_original_twice_no_kind_stops_on_its_own(synonyms: dict[str, Any]) -> None:
    del synonyms["train"]["patience"]
    plan = plan_training(synonyms)
    assert {plan.schedule(model).patience for model in plan.models} == {0}
    assert any("no training stops early (patience = 0)" in line for line in training_lines(plan))
    synonyms["train"]["patience"] = 3
    with pytest.raises(MedstressError, match="with patience = 3 each may stop early"):
        plan_training(synonyms)
    synonyms["train"] |= {"twice": False}
    assert plan_training(synonyms).table.patience == 3
    del synonyms["train"]["patience"]
    assert plan_training(synonyms).table.patience == 2


def test_what_a_reader_should_know_is_said(synonyms: dict[str, Any], workplace: Path) -> None:
    assert plan_training(synonyms).cautions == ()
    synonyms["train"] |= {"seeds": [0, 1], "twice": False}
    synonyms["attack"][0]["embedding"] = synonyms["train"]["model"]
    told = " ".join(plan_training(synonyms).cautions)
    assert "2 training seeds: intervals say nothing of other seeds" in told
    assert "twice = true" in told
    assert "which is the model under attack" in told


def test_held_out_names_are_for_synonyms(synonyms: dict[str, Any]) -> None:
    synonyms["train"]["adversarial"] = [{"attack": "swap_noise", "held_out_names": True}]
    with pytest.raises(
        MedstressError, match="held_out_names works with synonym attacks only, got swap_noise"
    ):
        plan_training(synonyms)


def test_samples_are_of_whole_documents(workplace: Path) -> None:
    from medstress.core.sentences import TaggedText
    from medstress.datasets.source import draw_documents

    items = [
        TaggedText(id=f"{n}", tokens=("a",), labels=("O",), metadata={"document": f"d{n // 3}"})
        for n in range(30)
    ]
    two, five = draw_documents(items, 2), draw_documents(items, 5)
    assert (len(two), len(five)) == (6, 15)
    assert {item.id for item in two} < {item.id for item in five}
    assert draw_documents(items, 5, 1) != five
    assert draw_documents(items, None) == tuple(items)


def test_a_dry_run_says_where_names_come_from_and_how_many_meet(
    synonyms: dict[str, Any],
) -> None:
    told = list(training_lines(plan_training(synonyms)))
    assert "original twice: 3 models, 96 items an epoch" in " ".join(told)
    assert any("Synonym: 1.00 of the mentions that synonym replaces" in line for line in told)
    assert any("held-out names: .00 of the mentions" in line for line in told)
    lines = list(dry_run_remarks(plan_training(synonyms).prepared))
    assert any("(listed names (listed.csv), else the nearest by ngram): of 25" in x for x in lines)
