"""Every name against a few items: what was tried of what may be put in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.analyses.coverage import NAMES, Coverage
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


def coverage(done: Run) -> Coverage:
    names = Read.open(done.folder).of(NAMES)
    assert names is not None
    (row,) = names.coverage
    return row


@pytest.mark.release
def test_one_span_of_every_item_is_asked_with_every_name_that_is_not_excluded(
    tmp_path: Path,
) -> None:
    n = len(NAMES_OF_NOTHING)
    row = coverage(swept(tmp_path, NAMES_OF_NOTHING, 4, "plain"))
    assert (row.n_items, row.n_tried, row.n_spans_asked) == (4, 4 * n, 4)
    assert row.n_allowed == row.n_spans * n
    one = swept(tmp_path, NAMES_OF_NOTHING, 1, "one")
    item_id = next(t.item.id for t in Read.open(one.folder).trials if t.queries.asked)
    item = ITEMS[item_id]
    other = next(text for text in item.options if text != item.key_text)
    excluded = [item.key_text.lower(), f"{item.key_text.lower()} sodium", other.lower()]
    row = coverage(swept(tmp_path, [*NAMES_OF_NOTHING, *excluded], 1, "excluded"))
    assert (row.n_tried, row.n_names) == (n, n + 3)
    assert row.n_allowed == row.n_spans * n
    assert row.share_of_asked.value == 1
