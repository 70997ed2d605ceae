"""Every name against a few items: what was tried of what may be put in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.analyses.coverage import NAMES
from medstress.analyses.run import Run as Read
from medstress.api.run import Run, run
from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions

PLANTED = '''
"""Errs on names that end in -xol."""

from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.testing import planted

ITEMS = load(DatasetOptions()).questions


def errs(item, options):
    changed = [new for new, old in zip(options, item.options) if new != old]
    return any(name.lower().endswith("xol") for name in changed)


answer = planted(ITEMS, errs)
'''
ITEMS = {item.id: item for item in load(DatasetOptions()).questions}
NAMES_OF_NOTHING = [f"{a}{b}{c}ol" for a in "bdfgklmn" for b in "aeio" for c in "xzvwj"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "planted.py").write_text(PLANTED, encoding="utf-8")


def swept(folder: Path, names: list[str], limit: int, out: str) -> Run:
    (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
    drugs = {"type": "drugs", "vocabulary": str(folder / "names.txt"), "limit": limit}
    tables: dict[str, Any] = {
        "experiment": {"controls": False, "name": "every-name", "seeds": [0]},
        "dataset": [{"name": "sample"}],
        "entities": [{**drugs, "embedding": "ngram"}],
        "victim": [{"backend": "python", "name": "v", "target": f"{folder}/planted.py:answer"}],
        "attack": [{"name": "entity_substitution", "sampler": "exhaustive"}],
    }
    return run(tables, out=folder / out)


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
    assert [float(line["value"]) for line in lines] == pytest.approx(over_items)
    assert sum(int(line["hits"]) for line in lines) == row.n_wrong
    assert sum(int(line["n"]) for line in lines) == 4 * N_NAMES
    assert len(lines) == BINS
    # One span of each item was asked, with every name; no other names but these are allowed.
    (coverage,) = names_of(found).coverage
    assert (coverage.n_tried, coverage.n_spans_asked) == (4 * N_NAMES, 4)
    assert coverage.share_of_asked.value == 1
    assert coverage.n_allowed == coverage.n_spans * N_NAMES
