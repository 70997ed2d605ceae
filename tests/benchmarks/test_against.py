"""How other tools are counted beside ours, and what the page says of them."""

from __future__ import annotations

import argparse
import ast
import doctest
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Script = Callable[[str], ModuleType]

EXAMPLES = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"


def line(tool: str, dataset: str = "medqa", **more: Any) -> dict[str, Any]:
    return {
        "tool": tool,
        "version": "1.2",
        "dataset": dataset,
        "queries": 100,
        "queries_per_second": 10.0,
        "tokens_forwarded": 5_000,
        "tokens_unique": 4_000,
        "tokens_of_all_prompts": 20_000,
        "letters_agree": 100,
        "apart": 0.0,
        "lines_of_code": 24,
        "threads": 2,
        **more,
    }


@pytest.mark.parametrize("name", ["against_lines", "against_timed", "bench"])
def test_examples_in_the_scripts_hold(script: Script, name: str) -> None:
    found = doctest.testmod(script(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_lines_with_several_statements_texts_or_brackets_count_once_each(script: Script) -> None:
    n_lines = script("against_lines").n_lines
    code = (
        '"""Doc."""\n\nimport a; import b\n\n\ndef f():\n    """Doc\n    of two lines.\n    """\n'
        '    # why\n    return g(\n        "one",\n\n        2,  # two\n    )\n\n\n'
        'X = """a\nb\n"""\n'
    )
    # import, def, return with its arguments and bracket (4), and the text that is no docstring (3)
    assert n_lines(code, True) == 9


def test_the_examples_can_be_read_and_are_counted(script: Script) -> None:
    tools = script("against_lines").TOOLS
    assert {file for tool in tools.values() for file in tool.files} == {
        path.name for path in EXAMPLES.iterdir() if path.is_file()
    }
    for path in EXAMPLES.glob("*.py"):
        ast.parse(path.read_text("utf-8"))
    tomllib.loads((EXAMPLES / "medstress.toml").read_text("utf-8"))
    assert all(10 < tool.lines < 80 for tool in tools.values())
    assert tools["textattack"].lines > tools["hf"].lines > tools["lm_eval"].lines


def test_letters_agree_prompt_by_prompt_and_rates_are_of_what_was_asked(script: Script) -> None:
    beside = script("against_lines").beside
    ours = {
        "medqa": {
            "letters": {"p": "A", "q": "B", "r": "C"},
            "scores": {"p": {"A": -0.5, "B": -1.5}, "q": {"A": -1.25, "B": -1.0}},
            "tokens_unique": 9,
            "tokens_of_all_prompts": 30,
        }
    }
    told = {"dataset": "medqa", "version": "3", "seconds": 4.0, "tokens_forwarded": 40}
    (found,) = beside([{**told, "letters": {"p": "A", "q": None}}], ours, "hf", 2)
    assert (found["queries"], found["letters_agree"]) == (2, 1)
    assert (found["queries_per_second"], found["apart"]) == (0.5, 0.0)
    (close,) = beside([{**told, "letters": {"p": "A", "q": "A"}}], ours, "hf", 2)
    assert (close["letters_agree"], close["apart"]) == (1, 0.25)
    assert (found["tokens_forwarded"], found["tokens_unique"]) == (40, 9)
    (absent,) = beside([{"could_not": "no interpreter"}], ours, "hf", 2)
    assert absent == {"tool": "hf", "could_not": "no interpreter"}


def test_the_page_says_who_is_ahead_and_what_could_not_be_had(script: Script) -> None:
    told = script("bench_against").against(
        [
            line("medstress"),
            line("medstress", "medmcqa"),
            line("llama_cpp", queries_per_second=40.0, letters_agree=97),
            line("lm_eval", lines_of_code=17, tokens_forwarded=26_000, queries_per_second=1.0),
            line("lm_eval", "medmcqa", lines_of_code=17, queries_per_second=2.0),
            {"tool": "textattack", "could_not": "no interpreter"},
        ]
    )
    assert (
        "| llama.cpp's server 1.2 | MedQA | 100 | 40.0 | 0.25 | 5,000 | 1.25 | 97 of 100 |" in told
    )
    assert "| lm-evaluation-harness 1.2 | MedQA | 100 | 1.0 | 10.0 | 26,000 | 6.5 |" in told
    ahead = [one for one in told.splitlines() if one.startswith("* Ahead of us: ")]
    assert ahead == [
        "* Ahead of us: llama.cpp's server answers more queries a second on MedQA: 40 against our "
        "10.",
        "* Ahead of us: lm-evaluation-harness asks its user for fewer lines: 17 against our 24.",
    ]
    assert "* TextAttack could not be had: no interpreter." in told


def test_where_none_is_ahead_the_page_says_so(script: Script) -> None:
    told = script("bench_against").against([line("medstress"), line("hf", lines_of_code=25)])
    assert "* Ahead of us: none, in queries a second, tokens or lines." in told


def test_tools_that_were_measured_are_kept_and_absent_ones_told(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    against, ran = script("against"), []

    def run_tool(python: str, told: Any, work: Path) -> list[dict[str, Any]]:
        ran.append(told["tool"])
        if told["tool"] == "lm_eval" and ran.count("lm_eval") == 1:
            return [{"could_not": "it ended with 1: no such module"}]
        line = {"dataset": "medqa", "version": "1", "seconds": 2.0, "tokens_forwarded": 8}
        needed = {"tokens_unique": 5, "tokens_of_all_prompts": 9}
        return [{**line, **needed, "letters": {"p": "A", "q": "B"}, "scores": {}}]

    monkeypatch.setattr(against, "run_tool", run_tool)
    monkeypatch.setattr(against, "model_folder", lambda *_: tmp_path / "model")
    monkeypatch.setattr(against, "gguf_of", lambda _: "m.gguf")
    monkeypatch.setattr(against, "find_spec", lambda _: None)
    plain = dict.fromkeys(("batch_size", "dtype", "answer_by", "early_stop", "model"), "x")
    given = argparse.Namespace(
        **plain, data=tmp_path, items=2, budget=8, datasets=["medqa"], threads=1
    )
    given.lm_eval, given.textattack = "lm/bin/python", None
    first = {one["tool"]: one for one in against.measured(given, tmp_path)}
    assert ran == ["medstress", "hf", "lm_eval"]
    assert first["hf"]["letters_agree"] == 2
    assert first["lm_eval"]["could_not"] == "it ended with 1: no such module"
    assert "MEDSTRESS_TEXTATTACK_PYTHON" in first["textattack"]["could_not"]
    assert first["llama_cpp"]["could_not"] == "xllamacpp is not installed: pip install xllamacpp"
    again = {one["tool"]: one for one in against.measured(given, tmp_path)}
    assert ran == ["medstress", "hf", "lm_eval", "lm_eval"]
    assert again["lm_eval"]["queries_per_second"] == 1.0
    # Another set: all are asked anew.
    given.items = 3
    list(against.measured(given, tmp_path))
    assert ran[4:] == ["medstress", "hf", "lm_eval"]


def test_an_interpreter_that_fails_is_told_with_its_last_line(
    script: Script, tmp_path: Path
) -> None:
    told = {"tool": "textattack", "threads": 1, "sets": {}}
    against = script("against")
    (absent,) = against.run_tool(str(tmp_path / "none"), told, tmp_path)
    assert absent["could_not"] == "its interpreter does not start: No such file or directory"
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ModuleNotFoundError: textattack' >&2\nexit 1\n", "utf-8")
    python.chmod(0o755)
    (failed,) = against.run_tool(str(python), told, tmp_path)
    assert failed["could_not"] == "it ended with 1: ModuleNotFoundError: textattack"
