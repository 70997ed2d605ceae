"""A run by related names that an earlier version began goes on with the names it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.core.errors import StoreError

VICTIM = """
def tag(sentences):
    return [["B-Chemical" if word == "aspirin" else "O" for word in s] for s in sentences]
"""
IOB = "aspirin\tB-Chemical\nhelps\tO\n\nHTN\tB-Chemical\nhurts\tO\n"


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "v.py").write_text(VICTIM)
    (tmp_path / "data.iob").write_text(IOB)
    (tmp_path / "names.txt").write_text("aspirin sulfate\nHTNX\n")
    return {
        "experiment": {"name": "old", "controls": True},
        "dataset": {"name": "iob", "path": "data.iob"},
        "victim": {"backend": "python", "target": "v.py:tag"},
        "attack": [
            {
                "name": "synonym",
                "mode": "related",
                "vocabulary": "names.txt",
                "names": "nearest",
                "embedding": "ngram",
            }
        ],
    }


def test_the_nearest_names_of_a_folder_stay(experiment: dict[str, Any]) -> None:
    first = ms.run(experiment, out="out")
    manifest = first.manifest()
    assert len(manifest["attacks"]) == 2
    assert all("'names'" not in str(spec) for spec in manifest["attacks"].values())
    del experiment["attack"][0]["names"]
    again = ms.run(experiment, out="out")
    assert again.manifest()["fingerprint"] == manifest["fingerprint"]
    assert again.summary()["pooled"] == first.summary()["pooled"]
    assert again.summary()["surrogates"][0]["surrogate"] == "the nearest by ngram"


@pytest.mark.parametrize(
    "change", [{"names": "listed_first"}, {"embedding": "other.vec", "names": "nearest"}]
)
def test_other_names_that_the_file_asks_for_are_another_attack(
    experiment: dict[str, Any], change: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "other.vec").write_text("aspirin 1 0\nsulfate 0 1\nhtnx 1 1\n")
    ms.run(experiment, out="out")
    experiment["attack"][0] |= change
    with pytest.raises(StoreError, match="attack 'synonym' changed"):
        ms.run(experiment, out="out")


def test_a_new_run_begins_with_listed_names(experiment: dict[str, Any]) -> None:
    del experiment["attack"][0]["names"]
    (row,) = ms.run(experiment, out="out").summary()["surrogates"]
    assert row == {
        "dataset": "iob",
        "attack": "synonym",
        "surrogate": "listed names (default), else the nearest by ngram",
        "n_mentions": 2,
        "n_listed": 1,
        "n_nearest": 0,
        "n_unchanged": 1,
    }
