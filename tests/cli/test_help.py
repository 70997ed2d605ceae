"""Help, wrong command lines, `list` and `doctor`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from medstress.cli import doctor
from medstress.cli.app import COMMANDS
from medstress.cli.parser import KINDS
from medstress.tasks.prompt_sets import load_prompts
from medstress.version import __version__


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(medstress, command):
    told = medstress(command, "--help")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"usage: medstress {command} ")


def test_without_arguments_the_help_is_shown(medstress):
    told = medstress()
    assert (told.code, told.err) == (0, "")
    assert told.out == medstress("--help").out
    assert all(f"\n    {command} " in told.out for command in COMMANDS)


def test_the_version_is_one_line_on_stdout(medstress):
    told = medstress("--version")
    assert (told.code, told.out, told.err) == (0, f"medstress {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "unknown command 'rum'; did you mean 'run'?"),
        (["exprot"], "unknown command 'exprot'; did you mean 'export'?"),
        (["frobnicate"], "unknown command 'frobnicate'"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["merge", "a", "--out=--"], "argument --out: expected one argument, got '--'"),
        (["run"], "run: expected EXPERIMENT.toml, or --data FILE --model NAME"),
        (["run", "--data", "a.csv", "--budget", "few"], "argument --budget: invalid int value"),
        (["run", "--answer-base", "2"], "argument --answer-base: invalid choice: 2"),
        (["run", "a.toml", "--fre"], "unrecognized arguments: --fre"),
        (["run", "a.toml", "--limit", "few"], "argument --limit: invalid int value: 'few'"),
        (["run", "a.toml", "--out"], "argument --out: expected one argument"),
        (["summary"], "the following arguments are required: DIR"),
        (["summary", "a", "b"], "unrecognized arguments: b"),
        (["export", "a"], "the following arguments are required: --table, --to"),
        (["export", "a", "--table", "trails", "--to", "x.csv"], "argument --table: invalid choice"),
        (["list"], "the following arguments are required: KIND"),
        (["list", "cats"], "argument KIND: invalid choice: 'cats'"),
        (["list", "prompts", "qstabb"], "list prompts qstabb: no prompt has this name"),
        (["list", "attacks", "medfuzz"], "list attacks medfuzz: only prompts can be shown by name"),
        (["list", "prompts", "--to", "x"], "--to needs the name"),
        (["doctor", "--please"], "unrecognized arguments: --please"),
        (["demo", "--quite"], "unrecognized arguments: --quite"),
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


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("samplers", {"random", "pdws", "nearest", "farthest", "exhaustive"}),
        ("backends", {"transformers", "openai", "python", "mock", "scripted"}),
        ("parsers", {"final_statement", "exact", "first_four", "single_character"}),
        ("text_scores", {"sum", "per_token", "unconditional"}),
        ("wrappers", {"shuffled_options", "majority", "instructed"}),
        ("datasets", {"sample", "jsonl", "parquet", "medqa", "medmcqa"}),
        ("prompts", {"qstab", "medmcqa", "chat", "cloze"}),
        ("attacks", {"entity_substitution"}),
        ("embeddings", {"minilm", "ngram"}),
        ("vocabularies", {"drugs", "diseases"}),
        ("recognisers", {"given", "gazetteer", "spacy"}),
        ("recipes", {"xian2025-table1", "xian2025-figure4", "xian2024-table2"}),
    ],
)
def test_what_the_interface_names_is_listed(medstress, kind, names):
    found = {line.split("  ")[0] for line in medstress("list", kind).out.splitlines()}
    assert names <= found


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


def test_the_doctor_names_what_is_too_old_or_only_half_there(medstress, monkeypatch, tmp_path):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    lacking = {"spacy": ["spacy is 3.6.0, not >=3.7"], "": ["polars is missing"]}
    monkeypatch.setattr(doctor, "lacking_of", lambda extra: lacking.get(extra, []))
    monkeypatch.setattr(doctor, "requirements", lambda extra: {"a": extra, "b": extra})
    monkeypatch.setattr(doctor, "version", lambda _: "21.2.4")
    monkeypatch.setattr(doctor, "TESTED", ("Plan 9",))
    told = medstress("doctor").out.splitlines()
    assert (
        "recogniser spacy: spacy is 3.6.0, not >=3.7; install with: pip install 'medstress[spacy]'"
        in told
    )
    warned = [line for line in told if line.startswith("! ")]
    assert [line.rpartition(": ")[2] for line in warned[1:]] == [
        "python -m pip install --upgrade pip",
        "pip install medstress",
    ]
    assert "is not tested, only Plan 9" in warned[0]


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


def test_the_doctor_lists_every_extra_that_is_for_users():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    extras = declared["project"]["optional-dependencies"].keys()
    assert {extra for _, extra in doctor.EXTRAS} == extras


def test_the_doctor_names_damaged_packages(medstress, monkeypatch, tmp_path):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "damaged_of", lambda extra: ["thing"] if extra == "xlsx" else [])
    monkeypatch.setattr(doctor, "requirements", lambda extra: {"a": extra})
    monkeypatch.setattr(doctor, "lacking_of", lambda extra: [])
    told = medstress("doctor").out
    mends = "mend it with: pip install --force-reinstall thing"
    assert f"Excel files: files of thing are missing or damaged; {mends}\n" in told


def test_a_run_with_a_version_that_is_not_allowed_says_so(medstress, monkeypatch):
    told = "numpy is 1.26.4, medstress needs >=2.0"
    monkeypatch.setattr("medstress.cli.commands.lacking_of", lambda _: [told])
    said = medstress("run", "nowhere.toml")
    assert said.err.startswith(f"medstress: {told}; mend it with: pip install medstress\n")
