"""A checker judges the successes of a finished run; its words count only with measured errors."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.api.run import Run
from medstress.checking.checkers import NamePair, UnansweredError
from medstress.checking.successes import check_successes
from medstress.cli.app import medstress_cli
from medstress.core.evidence import word_of
from medstress.core.outcomes import Verdict
from medstress.core.validity import CHECKER
from medstress.stats.estimates import wilson

Said = Callable[..., None]
CHECK = """
def check(a, b):
    return None if b.startswith("abi") else b.endswith("olol")


def other(a, b):
    return True
"""


@pytest.fixture(scope="module")
def finished(workbench: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a criterion that a checker has to vouch for."""
    made = workbench.Bench(tmp_path_factory.mktemp("checked"))
    require = {"metric": "asr_valid", "vouched_by": "checker", "max_high": 1.0}
    made.tables["require"] = [{**require, "where": {"attack": "random"}}]
    made.tables["experiment"] |= {"seeds": [0, 1, 2]}
    made.tables["attack"] = [made.attack("random"), made.attack("farthest")]
    (made.root / "checker.py").write_text(CHECK, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 3  # nothing vouches yet
    return Path(made.root)


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(finished)
    monkeypatch.setenv("MEDSTRESS_CACHE", str(finished / "cache"))
    return Path(shutil.copytree(finished / "run", tmp_path / "run"))


def measured(
    path: Path,
    same: tuple[int, int],
    different: tuple[int, int],
    checker: str = "checker.py:check",
    type_: str = "drugs",
) -> str:
    """A file as `medstress checker --json` prints it: (right, of) among names of either kind."""
    rates = {"sensitivity": wilson(*same).as_json(), "specificity": wilson(*different).as_json()}
    row = {"n_pairs": 1, **rates, "design_effects": [1.0, 1.0]}
    rows = [{"by": "all", "name": "", **row}, {"by": "type", "name": type_, **row}]
    path.write_text(json.dumps({"format": 1, "checker": checker, "rows": rows}), "utf-8")
    return str(path)


def judge(folder: Path, *flags: str, checker: str = "checker.py:check") -> int:
    return medstress_cli(["checker", "--run", str(folder), "--checker", checker, "--quiet", *flags])


def rows_of(folder: Path) -> dict[str, Any]:
    return {row["attack"]: row for row in Run(folder).summary()["pooled"]}


def test_a_measured_checker_meets_a_criterion_by_the_corrected_rate(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows_of(folder)["random"]
    root = Run(folder).summary()["root"]
    assert judge(folder) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "and 10 of each are needed (or errors measured on labelled pairs" in told
    row = rows_of(folder)["random"]
    assert row["asr_valid"] is None
    # Its word is evidence and no more: it narrows no bound and refutes nothing.
    assert (
        row["asr_valid_bounds"]
        == before["asr_valid_bounds"]
        == [0, row["asr"]["value"], row["asr"]["value"]]
    )
    assert judge(folder, "--measured", measured(tmp_path / "m.json", (90, 100), (95, 100))) == 0
    assert "0 pairs asked now" in capsys.readouterr().out
    successes = [
        each
        for each in Run(folder).rows()
        if each.verdict is Verdict.FLIPPED and each.attack == "random"
    ]
    words = [word_of(each.evidence, CHECKER) for each in successes]
    for each, (looked, valid) in zip(successes, words, strict=True):
        name = str(each.replacement)
        expected = None if name.startswith("abi") else not name.endswith("olol")
        assert (looked, valid) == (True, expected)
    placed = [valid for _, valid in words if valid is not None]
    row = rows_of(folder)["random"]
    valid = row["asr_valid"]
    assert (valid["vouched_by"], valid["n_labels"]) == ("checker", len(placed))
    assert valid["n_unlabelled"] == len(successes) - len(placed)
    v = min(1, (sum(placed) / len(placed) + 0.9 - 1) / (0.95 + 0.9 - 1))
    assert valid["value"] == pytest.approx(row["asr"]["value"] * v)
    assert "which passed the attack's filter" in valid["assumes"]
    assert medstress_cli(["summary", str(folder)]) == 0  # the criterion is met
    out = " ".join(capsys.readouterr().out.split())
    assert "The criterion is met" in out
    rates = "sensitivity .950 of 100, specificity .900 of 100"
    assert valid["corrected_by"].startswith(rates)
    assert "; note: " in out
    assert f"; the checker's words are corrected ({valid['corrected_by']}), assuming" in out
    assert Run(folder).summary()["root"] != root
    assert medstress_cli(["verify", str(folder)]) == 0


def test_the_tables_that_an_attack_excluded_by_judge_none_of_its_successes(
    folder: Path, capsys: pytest.CaptureFixture[str], said: Said
) -> None:
    for checker, flags in (("rules", ()), ("combined", ("--embedding", "ngram"))):
        assert judge(folder, *flags, checker=checker) == 2
        said(capsys.readouterr().err, "cannot be corrected by the same table")
    assert all(not word_of(row.evidence, CHECKER)[0] for row in Run(folder).rows())


@pytest.mark.parametrize(
    ("same", "different", "why"),
    [
        ((50, 100), (50, 100), "add up to 1 or less on the pairs of type 'drugs'"),
        ((0, 0), (95, 100), "that are different and 0 that mean the same where it was measured"),
        ((4, 4), (5, 5), "5 pairs of type 'drugs' that are different and 4 that mean the same"),
    ],
)
def test_a_checker_that_tells_nothing_gives_bounds(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    same: tuple[int, int],
    different: tuple[int, int],
    why: str,
) -> None:
    assert judge(folder, "--measured", measured(tmp_path / "m.json", same, different)) == 0
    assert why in " ".join(capsys.readouterr().out.split())
    row = rows_of(folder)["random"]
    assert (row["asr_valid"], row["asr_valid_bounds"][0]) == (None, 0)
    assert why in row["validity"]["why"]
    assert medstress_cli(["summary", str(folder)]) == 3


def test_pairs_of_another_type_vouch_for_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = measured(tmp_path / "m.json", (99, 100), (99, 100), type_="diseases")
    assert judge(folder, "--measured", path) == 0
    assert "pairs of other types or of none say nothing" in " ".join(
        capsys.readouterr().out.split()
    )
    assert rows_of(folder)["random"]["asr_valid"] is None
    assert medstress_cli(["summary", str(folder)]) == 3


def test_files_that_measure_something_else_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], said: Said
) -> None:
    path = tmp_path / "m.json"
    measured(path, (9, 10), (9, 10), "judge x")
    assert judge(folder, "--measured", str(path)) == 2
    said(capsys.readouterr().err, "'judge x'", "'checker.py:check'")
    for text in ("[]", '{"rows": []}', '{"format": 1, "checker": "checker.py:check", "rows": []}'):
        path.write_text(text, "utf-8")
        assert judge(folder, "--measured", str(path)) == 2
        said(capsys.readouterr().err, "--measured", "expected what")
    measured(path, (9, 10), (9, 10))
    path.write_text(path.read_text().replace('"value": 0.9', '"value": 1.9'), "utf-8")
    assert judge(folder, "--measured", str(path)) == 2
    said(capsys.readouterr().err, "without sound rates")
    assert medstress_cli(["checker", "--run", str(folder), "pairs.jsonl"]) == 2
    said(capsys.readouterr().err, "got both")
    assert medstress_cli(["checker", "--measured", str(path), "pairs.jsonl"]) == 2
    said(capsys.readouterr().err, "--measured is for --run DIR")


class Paid:
    """A judge of two pairs at a time that notes what it is asked, and stops the process."""

    name, has_tables, chunk, hash = "paid", False, 2, "paid"

    def __init__(self, log: Path, stop: Callable[[NamePair], None] | None = None) -> None:
        self.log, self.stop = log, stop

    def check(self, pairs: Sequence[NamePair]) -> list[bool | None]:
        with self.log.open("a") as stream:
            stream.writelines(json.dumps(pair) + "\n" for pair in pairs)
        if self.stop is not None and len(self.asked) >= 6:
            self.stop(pairs[0])
        return [False for _ in pairs]

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


def test_what_was_paid_for_is_stored_before_the_next_batch_even_if_the_process_is_killed(
    folder: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    child = os.fork()
    if not child:
        check_successes(
            folder, Paid(log, lambda _: os.kill(os.getpid(), signal.SIGKILL)), None, str
        )
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    judge_ = Paid(log)
    assert len(judge_.asked) == 6
    check_successes(folder, judge_, None, str)
    asked = judge_.asked
    # The batch in flight is asked again; the two before it are not.
    assert asked[4:6] == asked[6:8]
    assert len(set(asked)) == len(asked) - 2
    n = len(asked)
    check_successes(folder, judge_, None, str)
    assert len(judge_.asked) == n
    assert medstress_cli(["verify", str(folder)]) == 0


def test_a_checker_that_places_nothing_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(folder, "--model", "mock", checker="judge") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "it places none of them, so it tells nothing of their validity" in out
    assert rows_of(folder)["random"]["asr_valid"] is None


def test_what_a_judge_said_beside_a_failed_call_is_kept(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"

    def fail(pair: NamePair) -> None:
        raise UnansweredError("judge x: 503", {pair: False})

    with pytest.raises(UnansweredError):
        check_successes(folder, Paid(log, fail), None, str)
    judge_ = Paid(log)
    check_successes(folder, judge_, None, str)
    assert judge_.asked[5] == judge_.asked[6]
    assert len(set(judge_.asked)) == len(judge_.asked) - 1
