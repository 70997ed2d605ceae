"""`medstress check --to`: what it writes, that it is read back, and what it refuses."""

import json
from typing import Any

import pytest

import medstress as ms
from medstress.experiment import check_data

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
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_what_is_written_is_read_back_as_the_same_items(medstress, folder):
    form = "jsonl"
    to = folder / f"out.{form}"
    told = medstress("check", "rows.jsonl", "--to", to)
    assert (told.code, told.err) == (0, "")
    assert f"\n3 rows, 9 mentions: {to}\n" in told.out
    assert told.out.splitlines()[-1] == (
        f"next: medstress run --data {to} --model NAME --set entities.recogniser=given"
    )
    items = ms.load_dataset("table", to)
    given = ms.load_dataset("table", folder / "rows.jsonl")
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
    assert items[0].metadata["year"] == 2024
    again = folder / f"again.{form}"
    given = ("--set", 'entities.recogniser="given"')
    assert medstress("check", to, "--to", again, *given).code == 0
    assert [item.hash for item in ms.load_dataset("table", again)] == [item.hash for item in items]


def test_an_annotated_set_is_attacked_with_its_mentions_as_given(medstress, folder, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(folder / "cache"))
    assert medstress("check", "rows.jsonl", "--to", "out.jsonl").code == 0
    experiment = {
        "experiment": {"name": "x", "seeds": [0]},
        "dataset": {"name": "table", "path": "out.jsonl"},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
    }
    (row,) = ms.run(experiment, out="run").summary()["results"]
    assert (row["n_items"], row["n_not_attackable"]) == (3, 1)


def test_all_rows_are_written_though_a_sample_is_checked(medstress, folder, monkeypatch):
    monkeypatch.setattr(check_data, "MOST", 2)
    told = medstress("check", "rows.jsonl", "--to", "out.jsonl")
    assert "a random sample of 2 is checked" in told.out
    assert len((folder / "out.jsonl").read_text("utf-8").splitlines()) == 3
    assert medstress("check", "rows.jsonl", "--to", "two.jsonl", "--limit", "2").code == 0
    assert len((folder / "two.jsonl").read_text("utf-8").splitlines()) == 2


def test_rows_that_cannot_be_read_write_nothing_unless_they_are_left_out(medstress, folder, said):
    with (folder / "rows.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "bad", "stem": "Which?", "options": ["a"], "answer": "Z"}\n')
    told = medstress("check", "rows.jsonl", "--to", "out.jsonl")
    assert told.code == 2
    assert told.err.count("\n") == 1
    said(told.err, "1 row", "nothing was written", "line 4")
    skip = "dataset.on_bad_row=skip"
    assert told.next == "medstress check rows.jsonl --to out.jsonl"
    assert not (folder / "out.jsonl").exists()
    assert medstress("check", "rows.jsonl", "--to", "out.jsonl", "--set", skip).code == 0
    assert len((folder / "out.jsonl").read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--to", "out.csv"], "--to out.csv: the name must end in .jsonl"),
        (["--to", "rows.jsonl"], "--to rows.jsonl: this is also an input file; give another"),
        (["--to", "no/out.jsonl"], "cannot write no/out.jsonl"),
        (["--to", "o.jsonl", "--limit", "0"], "--limit 0: expected 1 or more"),
        (["--to", "o.jsonl", "--set", "entities.recognizer=given"], "unknown key 'recognizer'"),
        (
            ["--to", "o.jsonl", "--set", "entities.recogniser=given"],
            "dataset 'rows' has no mentions, but recogniser = 'given' needs them",
        ),
    ],
)
def test_a_refusal_is_one_sentence(medstress, folder, arguments, sentence):
    told = medstress("check", "rows.jsonl", *arguments)
    assert (told.code, told.out) == (2, "")
    assert sentence in told.err
    assert told.err.count("\n") == 1
