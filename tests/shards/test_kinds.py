"""The goldens' experiments: cut into shards they say what they say unsharded."""

import pytest

from goldens import GOLDENS, medstress, n_asked, written_to
from medstress.experiment.verify import verify_folder

_CUT = ("medfuzz",)
"""Cut in every test run; the other kinds before a release."""
_KINDS = [
    pytest.param(name, marks=() if name in _CUT else pytest.mark.release)
    for name in GOLDENS
    if name not in ("killed", "shards")
]


@pytest.mark.parametrize("name", _KINDS)
def test_a_kind_of_experiment_is_cut_and_merged(tmp_path, same, name):
    with written_to(tmp_path, GOLDENS[name]):
        run = ("run", "e.toml", "--out", "run", "--quiet")
        unsharded = medstress(*run)
        n = n_asked(tmp_path)
        (tmp_path / "run").rename("unsharded")
        for number in (1, 2, 3):
            shard = ("run", "e.toml", "--shard", f"{number}/3", "--out", f"{number}", "--quiet")
            assert medstress(*shard)[0] == 0
        assert medstress("merge", "3", "1", "2", "--out", "run", "--quiet")[0] == 0
        assert medstress(*run)[0] == unsharded[0]
        assert n_asked(tmp_path) == 2 * n
        same(tmp_path / "unsharded", tmp_path / "run", reports=True)
        assert verify_folder(tmp_path / "run").holds
