"""Help, wrong command lines, `list` and `doctor`."""

import pytest

from medstress.cli.app import COMMANDS
from medstress.cli.parser import KINDS
from medstress.tasks.prompt_sets import load_prompts
from medstress.version import __version__


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(medstress, command):
    told = medstress(command, "--help")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"usage: medstress {command} ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "unknown command 'rum'; did you mean 'run'?"),
        (["frobnicate"], "unknown command 'frobnicate'"),
        (["merge", "a", "--out=--"], "argument --out: expected one argument, got '--'"),
        (["run"], "run: expected EXPERIMENT.toml, or --data FILE --model NAME"),
        (["run", "--data", "a.csv", "--budget", "few"], "argument --budget: invalid int value"),
        (["run", "a.toml", "--out"], "argument --out: expected one argument"),
        (["summary"], "the following arguments are required: DIR"),
        (["export", "a", "--table", "trails", "--to", "x.csv"], "argument --table: invalid choice"),
        (["list", "cats"], "argument KIND: invalid choice: 'cats'"),
        (["list", "prompts", "qstabb"], "list prompts qstabb: no prompt has this name"),
        (["list", "prompts", "--to", "x"], "--to needs the name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_is_one_sentence_and_exit_2(medstress, arguments, sentence):
    told = medstress(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"medstress: {sentence}")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_with_one_line_each(medstress, kind):
    told = medstress("list", kind)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines
    for line in lines:
        name, _, summary = line.partition("  ")
        assert name.strip()
        assert len(summary.strip()) > 10
    names = [line.split("  ")[0] for line in lines]
    assert len(set(names)) == len(names)


def test_the_words_of_prompts_are_shown_and_written_to_a_folder_that_can_be_used(
    medstress, tmp_path
):
    shown = medstress("list", "prompts", "patient_characteristics")
    assert (shown.code, shown.err) == (0, "")
    folder = tmp_path / "mine"
    assert medstress("list", "prompts", "patient_characteristics", "--to", str(folder)).code == 0
    for file in folder.iterdir():
        assert f"--- {file.name}" in shown.out
        assert file.read_text().splitlines()[-1] in shown.out
    assert load_prompts(str(folder)).hash == load_prompts("patient_characteristics").hash
    again = medstress("list", "prompts", "patient_characteristics", "--to", str(folder))
    assert (again.code, "it exists already" in again.err) == (2, True)
    assert "{question}" in medstress("list", "prompts", "question").out


def test_the_doctor_names_versions_parts_devices_and_the_disk(medstress, monkeypatch, tmp_path):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    told = medstress("doctor")
    assert (told.code, told.err) == (0, "")
    for word in (__version__, "python", "polars", "local models", "devices: cpu", "GB free"):
        assert word in told.out


def test_a_package_of_medstress_that_is_gone_is_no_bug(medstress, monkeypatch):
    def fails(_):
        raise ModuleNotFoundError("No module named 'polars'", name="polars")

    monkeypatch.setattr("medstress.cli.doctor.doctor_cli", fails)
    monkeypatch.setattr("medstress.files.extras.lacking_of", lambda _: ["polars is missing"])
    told = medstress("doctor")
    assert (told.code, told.err) == (
        2,
        "medstress: medstress is installed only in part (polars is missing); complete it with: "
        "pip install medstress\n",
    )
