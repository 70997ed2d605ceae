"""The scripts and files in examples/ do what their first lines say."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from medstress.cli.app import medstress_cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Load = Callable[[Path], ModuleType]


@pytest.mark.release
def test_a_function_that_knows_nothing_is_called_a_guesser(workplace, load, capsys):
    load(EXAMPLES / "attack_my_function.py").main("run")
    out = capsys.readouterr().out
    assert "is not above chance" in out
    assert "near: 11 of 11 flipped" in out
    assert (workplace / "run" / "report.html").stat().st_size > 10_000


def test_one_question_is_attacked_and_shown(workplace, load, capsys):
    load(EXAMPLES / "attack_one.py").main()
    out = capsys.readouterr().out
    assert out.startswith("verdict: flipped")
    assert "answer: A -> D" in out
    assert "mab\n" in out


def test_the_experiment_file_runs_over_the_own_questions(workplace, capsys):
    few = ("--set", "experiment.seeds=[0]", "--out", "run")
    assert medstress_cli(["run", str(EXAMPLES / "experiment.toml"), *few]) == 0
    out = capsys.readouterr().out
    assert "diseases" in out
    assert medstress_cli(["report", "run"]) == 0
