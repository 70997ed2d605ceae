"""What a tagger returns otherwise than the data have it: one sentence each, and how it counts."""

from __future__ import annotations

import json

import pytest

IOB = """Aspirin\tB-Drug
helps\tO
many\tO

Patients\tO
took\tO
folic\tB-Drug
acid\tI-Drug

No\tO
fever\tO
"""
TAGGERS = """
MARKS = {"aspirin": "B-Drug", "folic": "B-Drug", "acid": "I-Drug"}

def marked(sentences, marks):
    return [[marks.get(word.lower(), "O") for word in words] for words in sentences]

def right(sentences):
    return marked(sentences, MARKS)

def short(sentences):
    return [labels[:-1] for labels in right(sentences)]

def other(sentences):
    return marked(sentences, {word: mark[:2] + "CHEM" for word, mark in MARKS.items()})

def more(sentences):
    return marked(sentences, MARKS | {"patients": "B-Human", "fever": "B-Sign"})

def inside(sentences):
    return marked(sentences, MARKS | {"aspirin": "I-Drug"})

def silent(sentences):
    return marked(sentences, {})

def bare(sentences):
    return marked(sentences, {word: mark[0] for word, mark in MARKS.items()})
"""


@pytest.fixture
def asked(medstress, tmp_path, monkeypatch):
    """Run swap noise on a tagger: the command's answer, the row and the warnings by rule."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taggers.py").write_text(TAGGERS)

    def run(name, data=IOB, *more):
        (tmp_path / "data.iob").write_text(data)
        words = ["--data", "data.iob", "--model", f"taggers.py:{name}", "--attack", "swap_noise"]
        told = medstress("run", *words, "--out", "run", "--quiet", *more)
        if told.code:
            return told, {}, {}
        summary = json.loads(medstress("summary", "run", "--json").out)
        (row,) = [row for row in summary["results"] if "control_of" not in row]
        return told, row, {one["rule"]: one["sentence"] for one in summary["warnings"]}

    return run


def test_labels_of_the_wrong_number_stop_the_run_and_name_the_sentence(asked):
    told, _, _ = asked("short")
    assert told.code == 2
    assert "returned 2 labels for the 3 words of 'Aspirin helps many'; expected one per" in told.err


@pytest.mark.parametrize(
    ("name", "counted", "rule", "words"),
    [
        ("right", (1.0, 1.0, 1.0), None, ""),
        ("bare", (1.0, 1.0, 1.0), None, ""),
        ("other", (None, 0.0, 0.0), "other_types", "Nothing of Drug is marked: if it calls them"),
        ("more", (1.0, 1.0, 1.0), "other_types", "2 entities of the types Human and Sign, which"),
        ("inside", (1.0, 1.0, 1.0), "no_beginning", "begins 1 of 2 entities with I-, after O or"),
        ("silent", (None, 0.0, 0.0), "no_marks", "marks nothing at all in the clean data"),
    ],
)
def test_other_types_bad_sequences_and_nothing_at_all_are_told_and_counted(
    asked, name, counted, rule, words
):
    told, row, warnings = asked(name)
    assert told.code == 0, told.err
    assert tuple(row[score]["value"] for score in ("precision", "recall", "f1")) == counted
    ours = {"other_types", "no_beginning", "no_marks"} & set(warnings)
    assert ours == ({rule} if rule else set())
    assert words in warnings.get(rule, "")
    assert "up to 2.2 times too narrow" in warnings["data_note"]  # no sentence names its document
    if name == "inside":
        assert row["f1_seqeval_strict"]["value"] == pytest.approx(2 / 3)
    if name == "other":
        translated = asked(name, IOB, "--fresh", "--set", "victim.labels={CHEM='Drug'}")
        assert translated[1]["f1"]["value"] == 1.0


def test_marks_without_a_type_need_data_of_one_type(asked):
    told, _, _ = asked("bare", IOB.replace("fever\tO", "fever\tB-Sign"))
    assert told.code == 2
    assert "marks 'B' without a type, and the data have the types Drug, Sign: keep one" in told.err
    told, row, _ = asked("bare", IOB.replace("-Drug", ""), "--fresh", "--set", "dataset.tag=Drug")
    assert (told.code, row["f1"]["value"]) == (0, 1.0)
