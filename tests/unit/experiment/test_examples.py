"""Where few-shot examples come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medstress.core.errors import UsageError
from medstress.experiment.config import Victim
from medstress.experiment.models import draw_examples


def write(folder: Path, n: int = 8) -> None:
    rows = [
        {"id": f"r{i}", "stem": f"Which is number {i}?", "options": ["a", "b"], "answer": "A"}
        for i in range(n)
    ]
    text = "".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "id": "again"}])
    (folder / "pool.jsonl").write_text(text, "utf-8")


def drawn(folder: Path, **given: Any) -> list[str]:
    table = Victim(backend="mock", **given)
    return [question.id for question in draw_examples(table, folder, "v")]


def test_two_more_than_asked_for_are_drawn_by_seed(tmp_path: Path) -> None:
    write(tmp_path)
    first = drawn(tmp_path, shots=3, shots_from="pool.jsonl")
    assert len(first) == 5
    assert drawn(tmp_path, shots=3, shots_from="table:pool.jsonl") == first
    seeds = {tuple(drawn(tmp_path, shots=3, shots_from="pool.jsonl", shots_seed=s)) for s in (1, 2)}
    assert len({tuple(first), *seeds}) > 1
    assert "again" not in drawn(tmp_path, shots=6, shots_from="pool.jsonl")
    assert len(drawn(tmp_path, shots=2, shots_from="sample")) == 4
    assert drawn(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"shots": 2}, "shots and shots_from go together"),
        ({"shots_from": "sample"}, "shots and shots_from go together"),
        ({"shots": 7, "shots_from": "pool.jsonl"}, "'pool.jsonl'"),
        ({"shots": 1, "shots_from": "pool.txt"}, "shots_from = 'pool.txt'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, given: Any, where: str, said) -> None:
    write(tmp_path)
    with pytest.raises(UsageError) as caught:
        drawn(tmp_path, **given)
    said(str(caught.value), where)
