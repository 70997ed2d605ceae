"""Figure 1 of Araujo et al.: what is drawn, and which published numbers stand beside it."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.papers import noise_scores
from medstress.papers.arms import arms_of
from medstress.store.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.summary.summary import summarise_run

pytestmark = pytest.mark.release

VICTIM = """
def tags(sentences):
    return [["B-Chemical" if w in ("aspirin", "warfarin") else "O" for w in s] for s in sentences]

def overlap(pairs):
    return [len(set(zip(a, a[1:])) & set(zip(b, b[1:]))) / 20 for a, b in pairs]
"""
ATTACKS = [
    {"name": "swap_noise", "label": "swap_noise"},
    {"name": "case_noise", "label": "capitals"},
    {"name": "synonym"},
    {"name": "keyboard_noise"},
    {"name": "swap_noise", "label": "search", "search": "greedy", "budget": 3},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.py").write_text(VICTIM)
    names = ("aspirin", "warfarin", "naproxen")
    rows = (f"Took\tO\n{names[n % 3]}\tB-Chemical\nn{n}\tO\n" for n in range(12))
    (tmp_path / "chemicals.tsv").write_text("\n".join(rows))
    head = "pair_id\tsentence1\tsentence2\tmean_score\n"
    words = ("it", "pain")
    lines = (f"{n}\tpain fell {n} days\t{words[n % 2]} rose {n}\t{n % 5}\n" for n in range(12))
    (tmp_path / "biosses.tsv").write_text(head + "".join(lines))
    return tmp_path


def experiment(name: str, path: str, target: str) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "noise", "seeds": [0]},
        "dataset": [{"name": name, "path": path}],
        "victim": [{"name": "mine", "backend": "python", "target": f"v.py:{target}"}],
        "attack": ATTACKS,
    }


def drawn(run: str, out: str) -> list[dict[str, str]]:
    assert (
        medstress_cli(["figures", run, "--out", out, "--format", "svg", "--paper", "araujo2020"])
        == 0
    )
    assert Path(out, "noise-scores.svg").read_bytes().startswith(b"<?xml")
    return list(csv.DictReader(io.StringIO(Path(out, "noise-scores.csv").read_text())))


def test_scores_stand_beside_the_published_ones_of_the_same_entities(folder: Path) -> None:
    run = ms.run(experiment("bc5cdr", "chemicals.tsv", "tags"), out="run")
    rows = drawn("run", "figures")
    ours = {row["test"]: row for row in rows if row["source"] == "run"}
    assert set(ours) == {"original", "synonym", "keyboard_noise", "swap_noise", "capitals"}
    (swap,) = [row for row in run.summary()["pooled"] if row["attack"] == "swap_noise"]
    assert float(ours["swap_noise"]["value"]) == swap["f1_after"]["value"]
    assert float(ours["original"]["low"]) == swap["f1"]["low"]
    theirs = [row for row in rows if row["source"] != "run"]
    assert {row["victim"] for row in theirs} == {"BERT P+M (published)", "BERT P (published)"}
    assert {row["test"] for row in theirs} == {
        "original",
        "synonym",
        "keyboard_noise",
        "swap_noise",
    }
    found = {(row["victim"][:8], row["test"]): row["value"] for row in theirs}
    assert found["BERT P+M", "keyboard_noise"] == "0.578"
    assert "Araujo et al., 2020" in Path("figures/index.md").read_text()


def test_pairs_are_drawn_by_their_correlation(folder: Path) -> None:
    ms.run(experiment("biosses", "biosses.tsv", "overlap"), out="run")
    rows = drawn("run", "figures")
    assert {row["measure"] for row in rows} == {"pearson"}
    theirs = {(r["victim"], r["test"]): r["value"] for r in rows if r["source"] != "run"}
    assert theirs["BERT P (published)", "synonym"] == "0.869"


STRANGE = ("istractor", "chance", "andom sampling", "no attack succeeded", "PDWS", "DiscreteZOO")
"""What only questions have."""


@pytest.mark.parametrize(
    ("name", "path", "target"),
    [("bc5cdr", "chemicals.tsv", "tags"), ("biosses", "biosses.tsv", "overlap")],
)
def test_texts_and_pairs_have_their_own_tables_only(
    folder: Path, name: str, path: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = experiment(name, path, target)
    # A search long enough for the papers' second table and their curves.
    search = {"name": "swap_noise", "label": "search", "search": "greedy", "budget": 8}
    search |= {"max_change": 0.01} if name == "biosses" else {}
    run = ms.run({**spec, "attack": [*ATTACKS[:4], search]}, out="run")
    drawn("run", "figures")
    made = {file.name: file.read_text() for file in Path("figures").iterdir()}
    told = [capsys.readouterr(), *made.values()]
    assert {file.partition(".")[0] for file in made} == {
        "scores",
        "success",
        "noise-scores",
        "index",
        "figures",
    }
    assert [word for word in STRANGE if any(word in str(text) for text in told)] == []
    pooled = {row["attack"]: row for row in run.summary()["pooled"]}
    rows = list(csv.DictReader(io.StringIO(made["scores.csv"])))
    assert {row["attack"] for row in rows} == set(pooled)
    for row in rows:
        known = pooled[row["attack"]][row["quantity"]]
        assert [row[end] for end in ("value", "low", "high")] == [
            "" if known[end] is None else str(known[end]) for end in ("value", "low", "high")
        ]
    (last,) = [
        row
        for row in csv.DictReader(io.StringIO(made["success.csv"]))
        if (row["attack"], row["quantity"], row["budget"]) == ("search", "asr", "8")
    ]
    assert float(last["value"]) == pooled["search"]["asr"]["value"]


def test_several_types_have_a_table_of_their_own_and_found_clean_is_the_report_s_accuracy(
    folder: Path,
) -> None:
    lines = (f"Took\tO\naspirin\tB-Chemical\n{n}\tO\npain\tB-Disease\n" for n in range(9))
    (folder / "both.tsv").write_text("\n".join(lines))
    run = ms.run(experiment("iob", "both.tsv", "tags"), out="run")
    drawn("run", "figures")
    rows = list(csv.DictReader(io.StringIO(Path("figures/scores-by-type.csv").read_text())))
    found = {(r["attack"], r["type"], r["quantity"]): r["value"] for r in rows}
    assert found["swap_noise", "Chemical", "f1"] == "1.0"
    assert found["swap_noise", "Disease", "recall"] == "0.0"
    (row,) = [row for row in run.summary()["pooled"] if row["attack"] == "search"]
    known = [
        r["value"]
        for r in csv.DictReader(io.StringIO(Path("figures/success.csv").read_text()))
        if (r["attack"], r["quantity"]) == ("search", "accuracy")
    ]
    assert known == [str(row["accuracy"]["value"])] == ["0.5"]


def test_another_data_set_has_no_published_numbers(folder: Path) -> None:
    ms.run(experiment("iob", "chemicals.tsv", "tags"), out="run")
    assert {row["source"] for row in drawn("run", "figures")} == {"run"}


def test_models_trained_on_perturbed_copies_are_left_out(folder: Path) -> None:
    ms.run(experiment("bc5cdr", "chemicals.tsv", "tags"), out="run")
    reader = StoredRun(Path("run"))
    summary = summarise_run(reader)
    arms = arms_of(summary, trial_rows(reader), reader.manifest)
    reader.close()
    training = {
        "adversarial": [{"name": "swap_noise"}],
        "models": [{"victim": "mine", "model": "swap_noise"}],
    }
    assert len(noise_scores.panels_of(arms, None)) == 1
    assert noise_scores.panels_of(arms, training) == []
