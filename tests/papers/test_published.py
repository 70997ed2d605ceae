"""The papers' numbers, and where they may stand beside ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medstress.papers.arms import VictimFacts
from medstress.papers.published import find, victim_name

XL = VictimFacts(
    label="xl", name="xl", model="google/flan-t5-xl", backend="transformers", parameters=None,
    group=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "Flan-T5-xl"),
        ({"model": "models/Flan-T5-XL/"}, "Flan-T5-xl"),
        ({"model": None, "name": "flan_t5_xl", "backend": "python"}, "Flan-T5-xl"),
        ({"model": "nlpie/Llama2-MedTuned-13b"}, "LM2-Medtuned-13B"),
        ({"model": "johnsnowlabs/JSL-MedLlama-3-8B-v2.0"}, "JSL-MedLM3-8Bv2"),
        ({"model": "google/flan-t5-xl-finetuned"}, None),
        # A stand-in that is only called like a published victim.
        ({"name": "Flan-T5-xl", "model": "smollm2"}, None),
        ({"name": "Flan-T5-xl", "backend": "mock"}, None),
        ({"name": None, "model": None}, None),
    ],
)
def test_a_victim_is_published_by_its_model_else_by_its_name(changes, name):
    assert victim_name(replace(XL, **changes)) == name


def test_table_1_is_as_printed():
    line = find("xian2025", XL, "medmcqa", "diseases")
    assert line.accuracy == 0.261
    assert line.asr == {"random": 0.238, "near": 0.257, "far": 0.318}
    assert line.accuracy_after == {}


def test_the_relative_change_of_the_first_version_follows_from_its_accuracies():
    line = find("xian2024", XL, "medqa", "drugs")
    assert line.accuracy_after["random"] == 0.285
    assert line.asr["random"] == pytest.approx((0.318 - 0.285) / 0.318)


@pytest.mark.parametrize("dataset", ["sample", "jsonl", ""])
def test_other_questions_have_no_published_numbers(dataset):
    assert find("xian2025", XL, dataset, "drugs") is None


def test_gpt_35_was_asked_about_one_data_set_only():
    victim = replace(XL, model=None, name="GPT-3.5", backend="python")
    assert find("xian2025", victim, "medqa", "drugs") is not None
    assert find("xian2025", victim, "medmcqa", "drugs") is None
