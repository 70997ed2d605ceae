"""`medstress perturb`: what it writes, that it is read back, and what it refuses."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from medstress.cli.app import medstress_cli
from medstress.core.clusters import clusters_of
from medstress.datasets import questions
from medstress.datasets.sentences import load_iob, load_pairs
from medstress.datasets.source import DatasetOptions

IOB = "Aspirin\tB-Chemical\nreversed\tO\nhypertension\tO\n\nPatients\tO\nimproved\tO\n\n" * 3
FILE = """
[experiment]
controls = false
name = "noise"
seeds = [0]
[[dataset]]
name = "iob"
path = "gold.tsv"
[[attack]]
name = "swap_noise"
scope = "all"
"""
QUESTIONS = """
[experiment]
controls = false
name = "draws"
seeds = [0]
[[dataset]]
name = "sample"
limit = 4
[[entities]]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8")
    (tmp_path / "q.toml").write_text(QUESTIONS, encoding="utf-8")
    (tmp_path / "gold.tsv").write_text(IOB, encoding="utf-8")
    return tmp_path


def perturb(*arguments: str) -> int:
    return medstress_cli(["perturb", *arguments, "--quiet"])


def test_a_perturbed_file_holds_all_seeds_and_is_read_back_with_the_same_labels(folder, capsys):
    assert perturb("e.toml", "--to", "out.jsonl", "--set", "experiment.seeds=[0, 1]") == 0
    assert "12 rows, " in capsys.readouterr().out
    read = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(read) == len({row["id"] for row in read}) == 12
    assert {(row["attack"], row["seed"]) for row in read} == {("swap_noise", 0), ("swap_noise", 1)}
    texts = (folder / name for name in ("gold.tsv", "out.jsonl"))
    gold, new = (load_iob(DatasetOptions(path=path)).items for path in texts)
    assert {item.labels for item in new} == {item.labels for item in gold}
    assert {item.tokens for item in new}.isdisjoint(item.tokens for item in gold)


def test_pairs_keep_their_scores_and_one_text(folder):
    (folder / "gold.tsv").write_text("text_a\ttext_b\tscore\nPatients improved.\tNone died.\t1.5\n")
    changes = ["--set", 'dataset.name="pairs"', "--set", 'attack.side="second"']
    assert perturb("e.toml", "--to", "out.jsonl", *changes) == 0
    (pair,) = load_pairs(DatasetOptions(path=folder / "out.jsonl")).items
    assert (pair.text_a, pair.score) == ("Patients improved.", 1.5)
    assert sorted(pair.text_b) == sorted("None died.")


def test_the_names_that_a_substitution_draws_are_questions(folder):
    assert perturb("q.toml", "--to", "draws.jsonl") == 0
    loaded = questions.load(DatasetOptions(path=folder / "draws.jsonl"))
    by_item: dict[str, set[tuple[str, ...]]] = {}
    for item in loaded.items:
        by_item.setdefault(item.metadata["original_id"], set()).add(item.options)
        assert len(item.metadata["edits"]) == 1
    assert all(len(options) == 3 for options in by_item.values())


def units(path: Path) -> list[list[str]]:
    """The tokens of each unit, sorted; sentences here begin with names of their own."""
    items, found = load_iob(DatasetOptions(path=path)).items, defaultdict(list)
    names = clusters_of(items)
    for item in items:
        found[names[item.id]].append(" ".join(sorted("".join(item.tokens))))
    return sorted(sorted(texts) for texts in found.values())


def test_what_is_written_has_the_units_of_what_was_read(folder):
    sentences = [f"{name}\tO\nreversed\tO\n\n" for name in ("Abcd", "Efgh", "Ijkl", "Mnop", "Qrst")]
    first, second, third, fourth, fifth = sentences
    mark = "-DOCSTART-\tO\n\n"
    text = first + second + mark + third + fourth + mark + fifth
    (folder / "gold.tsv").write_text(text, encoding="utf-8")
    assert perturb("e.toml", "--to", "out.jsonl") == 0
    new = units(folder / "out.jsonl")
    assert [len(unit) for unit in new] == [1, 1, 2, 1]
    assert new == units(folder / "gold.tsv")


SEARCH = ("--set", "attack.search=greedy", "--set", "attack.budget=4")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--to", "gold.jsonl", "--set", "dataset.path=gold.jsonl"], "this is also an input file"),
        (["--to", "no/out.jsonl"], "cannot write"),
        (
            ["--to", "o.jsonl", "--set", "attack.search=greedy", "--set", "attack.budget=4"],
            "search",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_sentence(folder, capsys, arguments, says):
    assert perturb("e.toml", *arguments) == 2
    told = capsys.readouterr().err
    assert (says in told, told.count("\n")) == (True, 1)
