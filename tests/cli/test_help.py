"""Help, wrong command lines, `list` and `doctor`."""

import pytest

from medstress.cli.app import program
from medstress.cli.machine import KINDS
from medstress.version import __version__

COMMANDS = (
    *("demo", "check", "run", "summary", "report", "view", "case", "compare", "tune", "train"),
    *("test", "explain", "perturb", "export", "figures", "review", "verify", "merge", "cache"),
    *("list", "doctor"),
)
"""Those of INTERFACE 1, in its order."""


def test_commands_are_those_of_the_interface_each_with_a_help_that_fits_a_screen(medstress):
    assert tuple(program().commands) == COMMANDS
    whole = medstress("--help")
    assert (whole.code, whole.err) == (0, "")
    assert medstress().out == whole.out
    assert whole.out.index("Start:") < whole.out.index("\n  run ") < whole.out.index("Machine:")
    for command in COMMANDS:
        told = medstress(command, "--help")
        assert (told.code, told.err) == (0, "")
        assert told.out.startswith(f"Usage: medstress {command} ")
        assert f"\n  {command} " in whole.out
        assert told.out.count("\n") < 60


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "unknown command 'rum'; did you mean 'run'?"),
        (["-x"], "no such option '-x'"),
        (["--"], "missing command"),
        (["run", "a.toml", "--out", "--fresh"], "--out: expected a value, got '--fresh'"),
        (["run"], "run: expected EXPERIMENT.toml, or --data FILE --model NAME"),
        (["run", "--data", "a.csv", "--budget", "few"], "run: --budget few: expected a valid"),
        (["run", "a.toml", "--out"], "run: option '--out' requires an argument"),
        (["run", "a.toml", "--fre"], "run: no such option '--fre'; did you mean '--fresh'?"),
        (["run", "a.toml", "--to", "b.toml"], "--to goes with --dry-run"),
        (["run", "a.toml", "--junit", "no/b.xml"], "--junit no/b.xml: there is no such folder"),
        (["run", "--data", "q.jsonl"], "run: "),
        (["run", "x.toml", "--model", "mock"], "run: "),
        (["check", "a.csv", "--limit", "0"], "check: --limit 0: expected 1 or more"),
        (["summary"], "summary: missing argument 'DIR'"),
        (["summary", "a", "b"], "summary: got unexpected extra argument"),
        (["summary", "a", "--wide", "--json"], "--json: not allowed with --wide"),
        (["export", "a", "--table", "trails", "--to", "x.csv"], "export: --table 'trails': exp"),
        (["list", "cats"], "list: THING 'cats': expected one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_is_one_sentence_and_exit_2(medstress, arguments, sentence):
    told = medstress(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"medstress: {sentence}")
    assert told.err.count("\n") == 1


def test_every_kind_is_listed_with_one_line_each(medstress):
    whole = medstress("list").out.splitlines()
    for kind in KINDS:
        assert any(line.startswith(f"{kind} ") for line in whole)
        told = medstress("list", kind)
        assert (told.code, told.err) == (0, "")
        lines = [line.partition("  ") for line in told.out.splitlines()]
        assert len({name for name, _, _ in lines}) == len(lines) > 1
        assert all(name.strip() and len(summary.strip()) > 10 for name, _, summary in lines)


def test_the_doctor_names_versions_parts_devices_and_the_disk(medstress, monkeypatch, tmp_path):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    told = medstress("doctor")
    assert (told.code, told.err) == (0, "")
    for word in (__version__, "python", "polars", "local models", "devices: cpu", "GB free"):
        assert word in told.out
