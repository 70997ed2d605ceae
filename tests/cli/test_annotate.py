"""`medstress annotate`: what it writes, that it is read back, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pytest

import medstress as ms

FILE = """
[experiment]
name = "annotated"
[[dataset]]
name = "jsonl"
path = "rows.jsonl"
[[entities]]
type = "drugs"
vocabulary = "drugs"
recogniser = "gazetteer"
[[entities]]
type = "diseases"
vocabulary = "diseases"
recogniser = "gazetteer"
"""

ROWS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "question": "A boy with asthma takes ibuprofen. Which drug comes next?",
        "options": ["gout", "Aspirin and codeine", "Lipitor"],
        "answer_idx": "A",
        "year": 2024,
        "source": {"book": "mine", "page": None},
    },
    {"id": 7, "stem": "Which?", "options": ["aspirin", "rest", "gout", "sleep"], "answer": "B"},
    {"id": "q3", "stem": "Which?", "options": ["asthma", "rest"], "answer": "A", "year": None},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8")
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_written_is_read_back_as_the_same_items(medstress, folder, form):
    to = folder / f"out.{form}"
    told = medstress("annotate", "e.toml", "--to", to)
    assert (told.code, told.err) == (0, "")
    assert told.out == (
        f"drugs: 2 of 3 questions\ndiseases: 1 of 3 questions\n3 rows, 9 mentions: {to}\n"
    )
    items = ms.load_dataset(form, to)
    given = ms.load_dataset("jsonl", folder / "rows.jsonl")
    for read, original in zip(items, given, strict=True):
        assert (read.id, read.context, read.stem) == (original.id, original.context, original.stem)
        assert (read.options, read.key) == (original.options, original.key)
    found = [
        (m.field, items[0].text_of(m.field)[m.start : m.end], m.type) for m in items[0].mentions
    ]
    assert found == [
        ("A", "gout", "diseases"),
        ("B", "Aspirin", "drugs"),
        ("B", "codeine", "drugs"),
        ("C", "Lipitor", "drugs"),
        ("context", "asthma", "diseases"),
        ("context", "ibuprofen", "drugs"),
    ]
    assert [item.metadata["groups"] for item in items] == [["drugs"], ["drugs", "diseases"], []]
    assert items[0].metadata["group_options"] == {"drugs": ["B", "C"], "diseases": []}
    assert items[0].metadata["year"] == 2024
    again = folder / f"again.{form}"
    overrides = [
        f'dataset.name="{form}"',
        f'dataset.path="out.{form}"',
        'entities.recogniser="given"',
    ]
    flags = [flag for override in overrides for flag in ("--set", override)]
    assert medstress("annotate", "e.toml", "--to", again, *flags).code == 0
    assert [item.hash for item in ms.load_dataset(form, again)] == [item.hash for item in items]


def test_both_forms_hold_the_same_items(medstress, folder):
    for form in ("jsonl", "parquet"):
        assert medstress("annotate", "e.toml", "--to", f"out.{form}").code == 0
    hashes = [
        [item.hash for item in ms.load_dataset(form, folder / f"out.{form}")]
        for form in ("jsonl", "parquet")
    ]
    assert hashes[0] == hashes[1]


def test_other_tools_read_plain_columns(medstress, folder):
    assert medstress("annotate", "e.toml", "--to", "out.parquet").code == 0
    frame = polars.read_parquet(folder / "out.parquet")
    drugs = frame.filter(polars.col("groups").list.contains("drugs"))
    assert drugs["id"].to_list() == ["q1", "7"]
    assert frame["mentions"].list.len().to_list() == [6, 2, 1]
    rows = [json.loads(line) for line in self_written(medstress, folder)]
    assert list(rows[0])[:6] == ["id", "context", "stem", "options", "answer_idx", "mentions"]
    assert rows[1]["options"] == {"A": "aspirin", "B": "rest", "C": "gout", "D": "sleep"}


def self_written(medstress, folder: Path) -> list[str]:
    assert medstress("annotate", "e.toml", "--to", "out.jsonl").code == 0
    return (folder / "out.jsonl").read_text("utf-8").splitlines()


def test_an_annotated_set_is_attacked_with_its_mentions_as_given(medstress, folder, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(folder / "cache"))
    assert medstress("annotate", "e.toml", "--to", "out.jsonl").code == 0
    experiment = {
        "experiment": {"name": "x", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": "out.jsonl"},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
    }
    (row,) = ms.run(experiment, out="run").summary()["results"]
    assert (row["n_items"], row["n_not_attackable"]) == (3, 1)


def test_data_sets_are_told_apart_in_one_file(medstress, folder):
    other = {**ROWS[1], "id": "other"}
    (folder / "more.jsonl").write_text(json.dumps(other) + "\n", encoding="utf-8")
    text = FILE.replace(
        "[[entities]]",
        '[[dataset]]\nname = "jsonl"\npath = "more.jsonl"\nlabel = "more"\n[[entities]]',
        1,
    )
    (folder / "e.toml").write_text(text.replace('path = "rows', 'label = "rows"\npath = "rows'))
    rows = [json.loads(line) for line in self_written(medstress, folder)]
    assert [row["dataset"] for row in rows] == ["rows", "rows", "rows", "more"]


def test_a_file_of_a_run_may_be_annotated_and_its_victims_are_still_checked(medstress, folder):
    (folder / "e.toml").write_text(FILE + "[[victim]]\nbackend = 7\n", encoding="utf-8")
    told = medstress("annotate", "e.toml", "--to", "out.jsonl")
    assert told.code == 2
    assert "backend = 7" in told.err


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        (None, ["--to", "out.csv"], "--to out.csv: the name must end in .jsonl or .parquet"),
        (None, ["--to", "rows.jsonl"], "--to rows.jsonl: this is also an input file; give another"),
        (None, ["--to", "no/out.jsonl"], "cannot write no/out.jsonl"),
        (None, ["--to", "o.jsonl", "--limit", "0"], "--limit: expected at least 1, got 0"),
        (("[[dataset]]", "[[datasets]]"), ["--to", "o.jsonl"], "e.toml, line 4: unknown table"),
        (
            (
                'name = "jsonl"\npath = "rows.jsonl"',
                'name = "jsonl"\npath = "rows.jsonl"\n'
                '[[dataset]]\nname = "jsonl"\npath = "rows.jsonl"\nlabel = "b"',
            ),
            ["--to", "o.jsonl"],
            "datasets 'jsonl' and 'b' both have an item 'q1', and ids must be "
            "unique in a file; annotate them one by one",
        ),
        (
            ('recogniser = "gazetteer"', 'recogniser = "given"'),
            ["--to", "o.jsonl"],
            "dataset 'jsonl' has no mentions, but recogniser = 'given' needs them",
        ),
    ],
)
def test_a_refusal_is_one_sentence(medstress, folder, change, arguments, sentence):
    text = FILE if change is None else FILE.replace(*change)
    (folder / "e.toml").write_text(text, encoding="utf-8")
    told = medstress("annotate", "e.toml", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"medstress: {sentence}")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("values", [(1, {"a": 1}), (1, "one"), ([1], "one"), (True, 3)])
def test_fields_of_several_kinds_are_refused_as_parquet_and_written_as_jsonl(
    medstress, folder, values
):
    rows = [{**row, "year": value} for row, value in zip(ROWS, values, strict=False)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = medstress("annotate", "e.toml", "--to", "out.parquet")
    assert told.code == 2
    assert told.err.startswith("medstress: --to out.parquet: ")
    assert told.err.rstrip().endswith("; write .jsonl, or leave the field out")
    assert not (folder / "out.parquet").exists()
    assert medstress("annotate", "e.toml", "--to", "out.jsonl").code == 0


@pytest.mark.parametrize("table", ["victim", "attack"])
def test_a_run_still_needs_victims_and_attacks(medstress, folder, table, said):
    other = {
        "victim": '[[attack]]\nname = "entity_substitution"\nsampler = "random"\n',
        "attack": '[[victim]]\nbackend = "mock"\n',
    }
    (folder / "e.toml").write_text(FILE + other[table], encoding="utf-8")
    told = medstress("run", "e.toml")
    assert (told.code, told.out) == (2, "")
    said(told.err)
