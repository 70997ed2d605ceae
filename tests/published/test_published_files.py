"""Aggregates of the published files, where they are present; no row of them stands here."""

import json
import re

import polars
import pytest

from medstress.datasets.named import load_medmcqa, load_medqa
from medstress.datasets.source import DatasetOptions, draw
from medstress.entities.drug_names import shipped_drug_names

DRUGS = set(
    re.findall(
        r"T\d+",
        "T103 T104 T109 T114 T116 T120 T121 T122 T123 T125 T126 T127 T129 T130 T131 T192 T195 T196 "
        "T197 T200",
    )
)
DISEASES = set(re.findall(r"T\d+", "T019 T020 T033 T037 T046 T047 T048 T049 T050 T184 T190 T191"))


@pytest.fixture
def medmcqa_files(published):
    return DatasetOptions(
        path=published("qa/medmcqa_train_leaner_typed.parquet"),
        annotations=published("qa/medmcqa_train_leaner_choices_annotation.json"),
    )


def mentions_in_distractors(item, types):
    return any(m.field != item.key and m.type in types for m in item.mentions)


def test_medmcqa_holds_3877_items_whose_types_reproduce_the_published_flags(medmcqa_files):
    loaded = load_medmcqa(medmcqa_files)
    keys = [m for item in loaded.questions for m in item.mentions if m.field == item.key]
    assert len(loaded.questions) == len(keys) == 3877
    assert sum(len(item.mentions) for item in loaded.questions) - len(keys) == 11663
    assert len({item.metadata["subject_name"] for item in loaded.questions}) == 21
    assert loaded.skipped == ()
    items = loaded.questions
    drugs = [mentions_in_distractors(item, DRUGS) for item in items]
    diseases = [mentions_in_distractors(item, DISEASES) for item in items]
    pairs = list(zip(drugs, diseases, strict=True))
    assert (sum(drugs), sum(diseases)) == (2647, 1228)
    assert (pairs.count((True, True)), pairs.count((False, False))) == (6, 8)
    flags = polars.read_parquet(medmcqa_files.path, columns=["Drugs?", "Diseases?"])
    assert flags.rows() == pairs
    # A sample is nested, and in the order of the file.
    places = {item.id: place for place, item in enumerate(items)}
    small, large = ([places[item.id] for item in draw(items, n)] for n in (100, 200))
    assert set(small) < set(large)
    assert large == sorted(large)


def test_all_1850_medqa_train_records_fit_their_annotations(published):
    loaded = load_medqa(
        DatasetOptions(
            path=published("qa/medqa_train_part.jsonl"),
            annotations=published("qa/medqa_usmle_train_choices_annotation.json"),
            split="train",
        )
    )
    items = loaded.questions
    assert len(items) == 1850
    assert sum(len(item.mentions) for item in items) == 12509
    assert sum(mentions_in_distractors(item, DRUGS) for item in items) == 858
    assert sum(mentions_in_distractors(item, DISEASES) for item in items) == 922


@pytest.mark.parametrize(
    ("name", "n_items"), [("medqa_dev.jsonl", 1272), ("medqa_test_first.jsonl", 637)]
)
def test_the_other_medqa_files_are_read_whole(published, name, n_items):
    loaded = load_medqa(DatasetOptions(path=published(f"qa/{name}")))
    assert len(loaded.questions) == n_items
    assert all(len(item.options) == 4 for item in loaded.questions)


def test_what_becomes_generic_in_medqa_are_brands_and_no_words(published):
    """What `brand_generic` finds."""
    lines = published("qa/medqa_dev.jsonl").read_text("utf-8").splitlines()[:300]
    texts = [json.loads(line)["question"] for line in lines]
    assert sum("\nToday" in text or ". Today" in text for text in texts) > 1
    names = shipped_drug_names()
    found = {text[one.start : one.end] for text in texts for one in names.brands_in(text)}
    assert found == {"Tylenol"}
