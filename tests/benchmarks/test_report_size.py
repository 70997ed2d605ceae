"""Reports of large runs: a made-up run opens as a run, and its report says what it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from medstress.report.cases.building import cases_of
from medstress.report.cases.embedding import embed
from medstress.results.load import open_run

Script = Callable[[str], ModuleType]


def test_a_planted_run_has_the_trials_and_successes_asked_for(
    script: Script, tmp_path: Path
) -> None:
    made = script("report_size")
    with open_run(made.plant(tmp_path, 240, 60, 0.4)) as run:
        cases = cases_of(run)
        assert len(cases.trials) == 240
        assert 60 < sum(row.verdict == "flipped" for row in cases.trials) < 130
        assert all(row.n_asked == row.n_paid + row.n_cached for row in cases.trials)
        held = embed(cases, "salt")
        won = next(row for row in held.trials if row.verdict == "flipped" and row.n_asked > 1)
        assert [each.answer for each in cases.record(won).tried] == ["A"] * (won.n_asked - 1)
    assert held.notes == ("All 240 trials of the run.",)
    assert re.search(r'"texts":\["', held.script)
    # Texts that cases share stand once: 20 questions of 60 words, not 240.
    assert len(held.script) < 240 * 600
