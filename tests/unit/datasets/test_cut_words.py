"""Mentions that begin or end inside a word: refused in rows, left out of published files."""

import json

import pytest

import medstress as ms
from medstress.core.errors import DataError
from medstress.core.items import Mention, Question
from medstress.core.text import cut_word
from medstress.datasets import medmcqa, medqa
from medstress.datasets.questions import load_jsonl
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import DatasetOptions
from medstress.entities.recognisers import Found, recognise


@pytest.mark.parametrize(
    ("text", "span", "word"),
    [
        ("Ranitidine", (0, 3), "Ranitidine"),
        ("Take ranitidine daily", (8, 15), "ranitidine"),
        ("vitamin B12", (0, 9), "vitamin B12"),
        ("vitamin B12", (8, 9), "B12"),
        ("alpha1 blocker", (0, 5), "alpha1"),
        ("10mg", (2, 4), "10mg"),
        ("TNFα inhibitor", (0, 3), "TNFα"),
        ("Кетопрофен", (0, 4), "Кетопрофен"),
        ("caffe\u0301", (0, 5), "caffe\u0301"),  # the accent is a character of its own
    ],
)
def test_a_span_that_cuts_a_word_is_told_with_the_word(text, span, word):
    assert cut_word(text, *span) == word


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("Ranitidine", (0, 10)),
        ("vitamin B12", (0, 11)),
        ("vitamin B12", (8, 11)),
        ("beta-blocker", (0, 4)),
        ("beta-blocker", (5, 12)),
        ("α-tocopherol", (2, 12)),
        ("Crohn's disease", (0, 5)),
        ("Crohn’s disease", (0, 5)),
        ("Addison-Krankheit", (0, 7)),
        ("aspirin/codeine", (0, 7)),
        ("CD4+", (0, 3)),
        ("3,4-methylenedioxy", (0, 1)),
        ("naïve", (0, 5)),
        ("阿司匹林片", (0, 4)),
        ("服用aspirin每日", (2, 9)),
        ("アスピリンを", (0, 5)),
        ("아스피린을", (0, 4)),
        ("ยาแอสไพริน", (2, 10)),
        ("האספירין", (1, 8)),
    ],
)
def test_a_span_of_whole_words_cuts_none_in_any_script(text, span):
    assert cut_word(text, *span) is None


def drug_row(**mention):
    return {
        "id": "q1",
        "question": "Which?",
        "options": ["Cimetidine", "Ranitidine"],
        "answer_idx": "A",
        "mentions": [{"field": "B", "start": 0, "end": 3, "type": "T121", **mention}],
    }


SENTENCE = (
    "item 'q1', field 'mentions': expected whole words, got 'Ran' at [0, 3) of B, which cuts "
    "'Ranitidine'; correct start or end"
)


def test_a_row_whose_mention_ends_inside_a_word_is_refused_with_line_and_word(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(drug_row()) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load_jsonl(DatasetOptions(path=path))
    assert str(caught.value) == f"{path}, line 1: {SENTENCE}"


def test_one_question_from_python_is_refused_alike():
    item = Question(
        id="q1",
        stem="Which?",
        options=("Cimetidine", "Ranitidine"),
        key="A",
        mentions=(Mention(field="B", start=0, end=3, type="T121"),),
    )
    with pytest.raises(DataError) as caught:
        ms.attack_one(
            item,
            lambda prompts: ["A"] * len(prompts),
            ms.attacks.EntitySubstitution(sampler="nearest", budget=2),
            entities={"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        )
    assert str(caught.value) == SENTENCE


def test_a_published_file_loads_without_the_spans_that_cut_a_word(tmp_path):
    row = {k: v for k, v in drug_row().items() if k != "mentions"} | {"train_index": 0}
    path, spans = tmp_path / "rows.jsonl", tmp_path / "spans.json"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    entry = {"text": ["Ran", "Ranitidine"], "labels": ["", "T121"], "boundaries": [[0, 3], [0, 10]]}
    spans.write_text(json.dumps([{"B": entry}]), encoding="utf-8")
    loaded = medqa.load(DatasetOptions(path=path, annotations=spans))
    (item,) = loaded.questions
    assert [(m.start, m.end) for m in item.mentions] == [(0, 10)]
    assert loaded.notes == (
        f"{spans}: skipped spans that cut a word: 1; the first word is 'Ranitidine'",
    )


def test_a_recognisers_findings_inside_a_word_are_left_out():
    class Pieces:
        def find(self, texts):
            return [
                [Found(start=1, end=3, type="drugs"), Found(start=4, end=8, type="drugs")]
                if text == "5mg drug"
                else []
                for text in texts
            ]

    item = question_from_row({**drug_row(end=10), "options": ["x", "5mg drug"], "mentions": []})
    (found,) = recognise([item], Pieces(), frozenset({"drugs"}))
    assert [(m.start, m.end) for m in found.mentions] == [(4, 8)]


@pytest.mark.release
def test_no_span_of_the_published_files_cuts_a_word(published):
    qa = [
        medqa.load(
            DatasetOptions(
                path=published("qa/medqa_train_part.jsonl"),
                annotations=published("qa/medqa_usmle_train_choices_annotation.json"),
            )
        ),
        medmcqa.load(
            DatasetOptions(
                path=published("qa/medmcqa_train_leaner_typed.parquet"),
                annotations=published("qa/medmcqa_train_leaner_choices_annotation.json"),
            )
        ),
    ]
    assert [loaded.notes for loaded in qa] == [(), ()]
    assert [len(loaded.questions) for loaded in qa] == [1850, 3877]
