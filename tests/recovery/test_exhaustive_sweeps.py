"""Every name against a few items: the table and the picture show what was planted."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.analyses.coverage import BINS, NAMES, Names
from medstress.analyses.run import Run as Read
from medstress.api.run import Run, run
from medstress.core.items import Question
from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from rows import rows_of

N_NAMES = 230
BEYOND = 0.72
PLANTED = f'''
"""Errs on a name farther than {BEYOND} from the key; a hash says how far apart two texts are."""

import hashlib

from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.testing import planted

ITEMS = load(DatasetOptions()).questions


def how_far(key, name):
    digest = hashlib.sha256((key + "|" + name.lower()).encode()).digest()
    return 0.01 + int.from_bytes(digest[:6], "big") / 2**48


def distance(anchor, names):
    return [how_far(anchor, name) for name in names]


def errs(item, options):
    changed = [new for new, old in zip(options, item.options) if new != old]
    return any(how_far(item.key_text, name) > {BEYOND} for name in changed)


answer = planted(ITEMS, errs)
'''


ITEMS = {item.id: item for item in load(DatasetOptions()).questions}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "planted.py").write_text(PLANTED, encoding="utf-8")
    return tmp_path


def names(chosen: Question | None = None) -> list[str]:
    """Invented names; with a question, its key, a variant of it and an option as well."""
    found = [f"{a}{b}{c}ol" for a in "bdfgklmnprst" for b in "aeio" for c in "xzvwj"][:N_NAMES]
    if chosen is not None:
        other = next(text for text in chosen.options if text != chosen.key_text)
        found += [chosen.key_text.lower(), f"{chosen.key_text.lower()} sodium", other.lower()]
    return found


def how_far(key: str, name: str) -> float:
    """The planted distance, computed once more."""
    digest = hashlib.sha256(f"{key}|{name}".encode()).digest()
    return 0.01 + int.from_bytes(digest[:6], "big") / 2**48


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))


def experiment(folder: Path, vocabulary: list[str], limit: int, **attack: Any) -> dict[str, Any]:
    (folder / "names.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    return {
        "experiment": {"controls": False, "name": "every-name", "seeds": [0]},
        "dataset": [{"name": "sample"}],
        "entities": [
            {
                "type": "drugs", "vocabulary": str(folder / "names.txt"), "limit": limit,
                "embedding": "ngram",
                "distance": f"{folder}/planted.py:distance",
            }
        ],
        "victim": [{"backend": "python", "name": "v", "target": f"{folder}/planted.py:answer"}],
        "attack": [{"name": "entity_substitution", "sampler": "exhaustive", **attack}],
    }  # fmt: skip


def expected(item: Question, vocabulary: list[str]) -> tuple[list[float], list[float]]:
    """Share of each class, nearest first, and the distances of its names."""
    far = np.sort([how_far(item.key_text, name) for name in vocabulary])
    return [float((part > BEYOND).mean()) for part in np.array_split(far, BINS)], far.tolist()


def names_of(found: Run) -> Names:
    """What was tried, and what succeeded."""
    result = Read.open(found.folder).of(NAMES)
    assert result is not None
    return result


def test_classes_items_and_picture_are_what_was_planted(folder: Path) -> None:
    found = run(experiment(folder, names(), 4), out=folder / "run")
    (row,) = names_of(found).sweeps
    assert (row.n_items, row.n_asked) == (4, 4 * N_NAMES)
    planted = {item.item_id: expected(ITEMS[item.item_id], names()) for item in row.items}
    assert len(planted) == 4
    for item in row.items:
        shares, far = planted[item.item_id]
        assert item.success == shares
        assert (item.distances[0], item.distances[-1]) == (far[0], far[-1])
    assert row.n_wrong == sum(h > BEYOND for _, far in planted.values() for h in far)
    over_items = np.mean([shares for shares, _ in planted.values()], axis=0)
    assert [each.success.value for each in row.classes] == pytest.approx(over_items)
    assert (over_items[:10] == 0).all()
    assert (over_items[-3:] == 1).all()

    figures = folder / "figures"
    found.figures(figures, formats=["svg", "png"], paper="xian2025")
    assert (figures / "sweeps.png").read_bytes().startswith(b"\x89PNG")
    lines = list(csv.DictReader((figures / "sweeps.csv").read_text("utf-8").splitlines()))
    assert len(lines) == BINS * (1 + 4)
    for line in lines:
        shares = planted[line["item"]][0] if line["item"] else over_items
        assert float(line["value"]) == pytest.approx(shares[int(line["class"]) - 1])
    said = (figures / "index.md").read_text("utf-8")
    assert f"4 items, {row.n_wrong} of {4 * N_NAMES} questions answered wrong" in said
    assert f"{N_NAMES} of the {N_NAMES} of the vocabulary (100.0 %)" in said
    # One span of each item was asked, with every name; no other names but these are allowed.
    (coverage,) = names_of(found).coverage
    assert (coverage.n_tried, coverage.n_spans_asked) == (4 * N_NAMES, 4)
    assert coverage.share_of_asked.value == 1
    assert coverage.n_allowed == coverage.n_spans * N_NAMES


@pytest.mark.release
def test_coverage_is_one_less_what_was_excluded(folder: Path) -> None:
    plain = run(experiment(folder, names(), 1), out=folder / "plain")
    chosen = ITEMS[next(row.item_id for row in rows_of(plain) if row.n_asked)]
    vocabulary = names(chosen)
    found = run(experiment(folder, vocabulary, 1), out=folder / "run")
    (trial,) = [trial for trial in Read.open(found.folder).trials if trial.queries.asked]
    assert trial.item.id == chosen.id
    assert trial.excluded is not None
    assert sum(trial.excluded.values()) == 3
    result = names_of(found)
    (coverage,) = result.coverage
    assert coverage.is_exact
    assert (coverage.n_tried, coverage.n_names) == (N_NAMES, len(vocabulary))
    assert coverage.n_allowed == coverage.n_spans * (len(vocabulary) - 3)
    assert coverage.share_of_asked.value == 1
    (sweep,) = result.sweeps
    assert [each.success.value for each in sweep.classes] == expected(chosen, names())[0]
    figures = folder / "figures"
    found.figures(figures, formats=["svg"], paper="xian2025")
    assert "no interval is drawn" in (figures / "index.md").read_text("utf-8")


@pytest.mark.release
def test_probes_of_saliency_are_no_names_of_the_sweep(folder: Path) -> None:
    """Deletions are asked first; counted as names they would shift every class."""
    scores = PLANTED + (
        "\nletters = answer\n"
        "def answer(prompts):\n"
        "    return [{'scores': {x: 0.7 if x == each['answer'] else 0.1 for x in 'ABCD'}}\n"
        "            for each in letters(prompts)]\n"
    )
    (folder / "planted.py").write_text(scores, encoding="utf-8")
    found = run(experiment(folder, names(), 2, victim_span="saliency"), out=folder / "run")
    (row,) = names_of(found).sweeps
    assert row.n_asked == row.n_items * N_NAMES
    for item in row.items:
        assert item.success == expected(ITEMS[item.item_id], names())[0]
