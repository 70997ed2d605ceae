"""One run with a large budget holds the success rate at every smaller one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run

VICTIM = """
import hashlib
import re

def answer(prompts):
    return [one(prompt) for prompt in prompts]

def one(prompt):
    luck = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big") / 2**32
    right = "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]
    return right if luck > 0.04 else "ABCD"["BCDA".index(right)]
"""
LAST = ("mab", "tinib", "gliptin", "sartan", "olol", "pril", "azole")
SAMPLERS = [{"sampler": "random"}, {"n": -20.0}, {"sampler": "nearest"}]


@pytest.fixture
def attacked(bench: Any, tmp_path: Path) -> Any:
    """Run the bench's questions with a budget, out of 130 names."""
    names = [f"{a}{b}{c}" for a in "bdgklmn" for b in ("oxa", "ivi", "etra") for c in LAST]
    (tmp_path / "names.txt").write_text("\n".join(names[:130]), "utf-8")
    (tmp_path / "victim.py").write_text(VICTIM, "utf-8")

    def call(budget: int) -> Run:
        bench.tables["attack"] = [
            {"name": "entity_substitution", "budget": budget, **sampler} for sampler in SAMPLERS
        ]
        bench.tables["experiment"]["seeds"] = [0]
        return run(bench.write(), out=tmp_path / f"b{budget}")

    return call


def curves(found: Run) -> dict[str, list[dict[str, Any]]]:
    return {row["attack"]: row["asr_at"] for row in found.summary()["results"]}


@pytest.mark.release
def test_a_run_with_100_queries_holds_every_smaller_budget(attacked: Any) -> None:
    whole, short = attacked(100), attacked(8)
    assert set(curves(whole)) == set(curves(short))
    rows = whole.summary()["results"]
    for row in rows:
        points = row["asr_at"]
        assert [point["budget"] for point in points] == list(range(1, 101))
        values = [point["value"] for point in points]
        assert values == sorted(values)
        assert points[-1]["value"] == row["asr"]["value"]
        assert 0 < values[7] < values[-1], "the planted victim is weak, but not at once"
        assert points[:8] == curves(short)[row["attack"]]
