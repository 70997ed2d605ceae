"""What is published for BlueBERT, whose weights are not to be had here, with a small encoder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import medstress as ms
from medstress import recipes
from medstress.core.sentences import SentencePair, TaggedText

SPLITS = {"train": slice(40), "devel": slice(40, 50), "test": slice(50, 60)}


@pytest.fixture
def data(workplace: Path, sentences: list[TaggedText], pairs: list[SentencePair]) -> Path:
    folder = workplace / "bc5cdr"
    folder.mkdir()
    for split, numbers in SPLITS.items():
        lines = [
            "\n".join(map("\t".join, zip(item.tokens, item.labels, strict=True)))
            for item in sentences[numbers]
        ]
        (folder / f"{split}.tsv").write_text("\n\n".join(lines) + "\n")
    rows = [f"{p.id}\t{p.text_a}\t{p.text_b}\t{p.score}" for p in pairs[:20]]
    head = "pair_id\tsentence1\tsentence2\tmean_score"
    (workplace / "biosses.tsv").write_text("\n".join([head, *rows]) + "\n")
    return workplace


def published(name: str) -> list[str]:
    """The settings that a recipe gives for BlueBERT."""
    said = recipes.text_of(name).partition("# BlueBERT")[2].partition("\n\n")[0]
    words = shlex.split(said.replace("\n#", " "))
    return [words[i + 1] for i, word in enumerate(words) if word == "--set"]


@pytest.mark.parametrize(
    "name", ["araujo2020-table4", pytest.param("araujo2020-table6", marks=pytest.mark.release)]
)
def test_the_published_recipe_trains_on_the_train_split_alone(
    name: str, data: Path, encoder: Path
) -> None:
    path = "biosses.tsv" if name.endswith("6") else "bc5cdr"
    settings = [
        *published(name),
        f"dataset.path={path}",
        f"train.model={encoder}",  # in the place of BlueBERT
        "train.epochs=2",
        "train.seeds=[0]",
        'train.adversarial=[{attack="swap_noise"}]',
        'attack.synonym.mode="strict"',
    ]
    run = ms.train(name, out="out", overrides=settings).run
    training, notes = run.summary()["training"], run.manifest()["training"]
    assert (notes["n_train"], notes["n_dev"]) == ((16 if path != "bc5cdr" else 40), 0)
    assert {row["against"] for row in training["rows"]} == {"original", "original twice"}
    assert all(model["curve"][-1]["score"] is None for model in notes["models"])
