"""What a name on the command line stands for."""

import json
from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.datasets.guess import guess_dataset

CONTENT = {
    "q.csv": ("question,A,B,answer\nWhich?,x,y,A\n", "table"),
    "q.CSV": ("question,A,B,answer\nWhich?,x,y,A\n", "table"),
    "q.tsv": ("question\tA\tB\tanswer\nWhich?\tx\ty\tA\n", "table"),
    "tags.tsv": ("-DOCSTART-\tO\n\nAspirin\tB-Drug\nhelps\tO\n", "iob"),
    "tags.conll": ("Aspirin B-Drug\n", "iob"),
    "bare.tsv": ("Aspirin\tB\nhelps\tO\n", "iob"),
    "numbers.tsv": ("Aspirin\t1\nhelps\t0\n", "iob"),
    "a.txt": ("1|t|Aspirin\n1|a|It helps.\n", "pubtator"),
    "q.json": (json.dumps([{"question": "?", "choices": ["x", "y"]}]), "table"),
    "pairs.csv": ("text_a,text_b,score\na,b,3\n", "pairs"),
    "biosses.tsv": ("pair_id\tsentence1\tsentence2\tmean_score\n1\ta\tb\t3\n", "biosses"),
    "tokens.jsonl": ('{"tokens": ["a"], "ner_tags": ["O"]}\n', "iob"),
    "set.jsonl": ('{"id": "1", "attacked": [], "attack_set": "{}"}\n', "attacked"),
    "tags.txt": (",\tO\nAspirin\tB-Drug\n", "iob"),
    "words.txt": ("Answers\tO\nQuestion\tO\n", "iob"),
    "broken.jsonl": ("{\n", "table"),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_is_guessed_by_its_ending_and_its_columns(tmp_path, name):
    text, source = CONTENT[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert guess_dataset(str(path)) == {"name": source, "path": str(path)}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("a.ann", "brat"),
        ("train.tsv", "bc5cdr"),
        ("test.txt", "bc5cdr"),
        ("one.pubtator", "pubtator"),
    ],
)
def test_a_folder_is_guessed_by_its_files(tmp_path, file, source):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    text = {".tsv": "Aspirin\tB-Drug\n", ".txt": "1|t|A\n", ".pubtator": "1|t|A\n"}
    (tmp_path / file).write_text(text.get(Path(file).suffix, "{}"), encoding="utf-8")
    assert guess_dataset(str(tmp_path)) == {"name": source, "path": str(tmp_path)}


@pytest.mark.parametrize("given", ["nofile.csv", "nowhere/x.csv", "nowhere/"])
def test_what_is_missing_is_said_to_be_missing(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nofile.csv").symlink_to("gone.csv")  # a link to nothing is meant by no name
    with pytest.raises(UsageError, match=f"{given}: there is no [^;]*$"):
        guess_dataset(given)


def test_other_names_are_sources_and_data_sets_of_the_hub(tmp_path, said):
    assert guess_dataset("sample") == {"name": "sample"}
    assert guess_dataset("owner/name") == {"name": "hub", "hub": "owner/name"}
    (tmp_path / "questions.csv").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        guess_dataset(str(tmp_path / "question.csv"))
    said(str(caught.value), "questions.csv")


def test_a_path_with_an_unknown_ending_in_a_folder_that_is_here_is_no_name_of_the_hub(
    tmp_path, said, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "q.csv").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        guess_dataset("f/q.csvv")
    said(str(caught.value), "f/q.csv")


@pytest.mark.parametrize(
    ("name", "content", "mend"),
    [
        ("old.xls", "x", "save it as .xlsx or .csv"),
        ("noext", "x", "rename it to end in what it holds"),
        ("all/x.csv", "x", "such as"),
        ("q.txt", "question,A,B,answer\n", "rename it to q.csv"),
        ("q.txt", "Question\tA\tB\tAnswer\n", "rename it to q.tsv"),
        ("q.txt", '{"question": "?"}\n', "rename it to q.jsonl"),
        ("x.xml", "<collection><source></source></collection>", "the package bconv"),
        ("all/x.xml", "<collection><source></source></collection>", "the package bconv"),
        ("x.json", '{"documents": [{"passages": []}]}', "the package bconv"),
        *(
            ("x.jsonl", json.dumps({"text": "a", key: [span]}), "offsets_to_biluo_tags")
            for key in ("annotations", "entities", "spans")
            for span in ([0, 1, "Drug"], {"label": "Drug", "start": 0, "end": 1})
        ),
    ],
)
def test_a_file_that_no_source_reads_is_told_what_to_do_with(tmp_path, name, content, mend):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=mend):
        guess_dataset(str(path.parent if name.startswith("all/") else path))
