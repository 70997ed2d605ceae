"""Experiments of every kind, frozen elsewhere: cut into shards they say what they say at once."""

from __future__ import annotations

import pytest

from frozen.capture import medstress, n_asked, working_in, write_files
from frozen.experiments import CASES
from medstress.audit.verify import verify_folder

_CUT = ("medfuzz",)
"""Cut in every test run; the other kinds before a release."""
_NOT_CUT = ("tuning", "trained", "failing")
"""Made by other commands, or by several calls with other limits."""
_KINDS = [
    pytest.param(case, id=case.name, marks=() if case.name in _CUT else pytest.mark.release)
    for case in CASES
    if case.name not in _NOT_CUT
    and any(not callable(step) and "run" in step for step in case.steps)
]


@pytest.mark.parametrize("case", _KINDS)
def test_a_kind_of_experiment_is_cut_and_merged(tmp_path, same, case):
    write_files(case, tmp_path)
    with working_in(tmp_path):
        run = ("run", "e.toml", "--out", "run", "--quiet")
        at_once = medstress(*run)
        n = n_asked(tmp_path)
        (tmp_path / "run").rename("at once")
        for number in (1, 2, 3):
            shard = ("run", "e.toml", "--shard", f"{number}/3", "--out", f"{number}", "--quiet")
            assert medstress(*shard)[0] == 0
        assert medstress("merge", "3", "1", "2", "--out", "run", "--quiet")[0] == 0
        assert medstress(*run)[0] == at_once[0]
        assert n_asked(tmp_path) == 2 * n
        same(tmp_path / "at once", tmp_path / "run", reports=True)
        assert verify_folder(tmp_path / "run").holds
