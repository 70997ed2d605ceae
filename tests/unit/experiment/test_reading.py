"""Experiment files: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from medstress import recipes
from medstress.core.errors import UsageError, flags_are_said
from medstress.experiment.arms import make_attacks
from medstress.experiment.config import Experiment, labels_of
from medstress.experiment.reading import Source, check_experiment, resolve, written

LINES = """[experiment]
name = "x"
seeds = [0, 1]
[[dataset]]
name = "sample"
[[entities]]
type = "drugs"
vocabulary = "drugs"
[[victim]]
backend = "mock"
[[attack]]
name = "entity_substitution"
sampler = "random"
"""
# Lines:  1 [experiment]  4 [[dataset]]  6 [[entities]]  9 [[victim]]  11 [[attack]]
END = {"experiment": 3, "dataset": 5, "entities": 8, "victim": 10, "attack": 13}


def with_line(table: str, line: str) -> str:
    """The file with one more line at the end of a table."""
    lines = LINES.splitlines()
    lines.insert(END[table], line)
    return "\n".join(lines)


def read(folder: Path, text: str, *overrides: str) -> Experiment:
    (folder / "e.toml").write_text(text, "utf-8")
    return resolve(folder / "e.toml", overrides)[0]


def refusal(folder: Path, text: str, *overrides: str) -> str:
    with flags_are_said(), pytest.raises(UsageError) as caught:
        make_attacks(read(folder, text, *overrides).attack)
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "line", "sentence"),
    [
        ("experiment", "sedes = [1]", "line 4: unknown key 'sedes'; did you mean 'seeds'?"),
        ("attack", "bugdet = 4", "line 14: entity_substitution: unknown key 'bugdet'; did you"),
        ("experiment", "max_failed = -1", "line 4: max_failed = -1"),
        ("experiment", "controls = []", "line 4"),
        ("dataset", "limit = 2.0", "line 6"),
        ("dataset", 'on_bad_row = "ignore"', "line 6"),
        ("entities", 'recogniser = "spacy"', "line 6"),
        ("entities", 'distance = "mondoo"', "line 9: distance = 'mondoo'"),
        ("victim", 'parser = "exakt"', "line 11: parser = 'exakt'"),
        ("victim", "price_in = 1.0", "line 9"),
        ("victim", 'wrap = ["majorty"]', "line 11: wrap = ['majorty']: 0: Input tag 'majorty'"),
        ("victim", '[victim.prompt]\nsampel = "chat"', "line 9: prompt: no [[dataset]] is called"),
        ("victim", "prompt = {sample = 3}", "line 11: prompt = {'sample': 3}: expected a text"),
        ("attack", "budget = 0", "line 14"),
        *(
            (table, f'{key} = "so\\u202efar"', f"line {END[table] + 1}: {key} = 'so\\u202efar'")
            for table, key in (("dataset", "label"), ("entities", "name"), ("victim", "name"))
        ),
        (
            "dataset",
            'label = "two\\nlines"',
            "line 6: label = 'two\\nlines': expected a name whose",
        ),
        ("attack", 'label = "a\\u001b[2J"', "line 14"),
    ],
)
def test_a_key_or_value_that_is_wrong_is_named_with_its_line(
    tmp_path: Path, table: str, line: str, sentence: str, said
) -> None:
    said(refusal(tmp_path, with_line(table, line)), f"e.toml, {sentence}")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"random"', '"exhaustive"\nbudget = 8', "line 13: entity_substitution"),
        ('"entity_substitution"', '"entity_substitutoin"', "line 12"),
        ("[0, 1]", "[0, 1, 0]", "line 3"),
        ("[0, 1]", '[0, "1"]', "line 3"),
        ('"x"', '"a b"', "line 2"),
        ('name = "x"\n', "", "line 1"),
        ('vocabulary = "drugs"\n', "", "line 6"),
        ("[[attack]]", "[[atack]]", "unknown table 'atack'; did you mean 'attack'"),
        ("[[attack]]", "[zzz]\n[[attack]]", "line 11: unknown table 'zzz'"),
        ("[[attack]]", "[[victim]]\nuse = false\n[[attack]]\nlabel = 3", "line 14"),
        ('backend = "mock"', 'backend = "mock"\nuse = false', "every [[victim]] entry has use"),
        ('sampler = "random"', 'sampler = "pdws"', "needs its exponent, e.g. n = -20"),
        ('sampler = "random"', 'sampler = "nearest"\nn = 1', "'nearest' takes no n"),
        ('sampler = "random"', "n = 1\nbudget = 1001", "budget: expected at most 1000, got 1001"),
        ('sampler = "random"', "n = []", "line 13: entity_substitution: n = []"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, old: str, new: str, where: str, said
) -> None:
    said(refusal(tmp_path, LINES.replace(old, new, 1)), where)


@pytest.mark.parametrize(
    "text", ["attack = 3\n", "dataset = ['sample']\n", "", "[experiment", "a = 1\na = 2\n"]
)
def test_what_is_no_experiment_is_refused(tmp_path: Path, text: str, said) -> None:
    said(refusal(tmp_path, text), "e.toml")


def test_wrappers_are_read_with_what_they_leave_out(tmp_path: Path) -> None:
    line = 'wrap = ["shuffled_options", {name = "majority", k = 3}]'
    (victim,) = read(tmp_path, with_line("victim", line)).victim
    assert [entry["name"] for entry in victim.wrap] == ["shuffled_options", "majority"]
    assert victim.wrap[0] == {"name": "shuffled_options", "n": None, "aggregate": "mean"}


FUZZ = (
    LINES.partition("[[attack]]")[0]
    + '[[attack]]\nname = "medfuzz"\n[role.attacker]\nbackend = "mock"\n'
)


def test_roles_have_defaults_of_their_own_and_need_no_groups(tmp_path: Path) -> None:
    text = re.sub(r"\[\[entities\]\](.|\n)*?(?=\[)", "", FUZZ)
    made = read(tmp_path, text, "role.attacker.temperature=0.5")
    assert made.entities == ()
    assert made.role is not None
    assert made.role.attacker is not None
    assert (made.role.attacker.temperature, made.role.attacker.max_new_tokens) == (0.5, 1024)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (FUZZ + 'answer_by = "letter"\n', "line 15: unknown key 'answer_by'"),
        (FUZZ + "temprature = 0.5\n", "unknown key 'temprature'; did you mean 'temperature'?"),
        (FUZZ + 'temperature = "x"\n', "temperature = 'x': expected a number"),
        (FUZZ.replace("role.attacker", "role.atacker"), "'atacker'; did you mean 'attacker'?"),
    ],
)
def test_what_no_role_has_is_refused(tmp_path: Path, text: str, sentence: str, said) -> None:
    said(refusal(tmp_path, text), "e.toml, line ", sentence)


SECOND = '[[attack]]\nname = "entity_substitution"\nsampler = "random"\n'


def labels(folder: Path, text: str) -> list[str]:
    return [part.label for part in make_attacks(read(folder, text).attack)]


def test_entries_of_one_name_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    text = LINES.replace('sampler = "random"', "n = [-20, 0.5]")
    assert labels(tmp_path, text) == ["entity_substitution n=-20", "entity_substitution n=0.5"]
    assert labels(tmp_path, text + 'label = "grid"\n') == ["grid n=-20", "grid n=0.5"]
    text = LINES + SECOND.replace("random", "pdws") + "n = 3\n"
    expected = ["entity_substitution sampler=random", "entity_substitution sampler=pdws n=3"]
    assert labels(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LINES + SECOND, "entity_substitution"),
        (LINES + 'label = "mine"\n' + SECOND + 'budget = 2\nlabel = "mine"\n', "mine"),
        (LINES.replace('sampler = "random"', "n = [1, 1]"), "entity_substitution"),
    ],
)
def test_two_equal_attacks_are_refused(tmp_path: Path, text: str, name: str) -> None:
    assert f"two [[attack]] entries are both called {name!r}" in refusal(tmp_path, text)


def test_a_label_that_a_table_of_prompts_makes_shows_it(tmp_path: Path) -> None:
    text = with_line("victim", 'prompt = {sample = "medmcqa", default = "qstab"}')
    text += '\n[[victim]]\nbackend = "mock"\n'
    assert labels_of(read(tmp_path, text).victim) == [
        "mock prompt=sample: medmcqa, default: qstab",
        "mock prompt=qstab",
    ]


def test_entries_that_are_switched_off_are_left_out_and_not_even_checked(tmp_path: Path) -> None:
    text = LINES + '[[attack]]\nname = "of_tomorrow"\nturns = 3\nuse = false\n'
    text += '[[dataset]]\nname = "medmcqa"\npath = "x"\nuse = false\n'
    text = text.replace('"mock"\n', '"mock"\nprompt = {medmcqa = "medmcqa", default = "qstab"}\n')
    made = read(tmp_path, text)
    assert [attack.name for attack in made.attack] == ["entity_substitution"]
    assert made.victim[0].prompt == {"medmcqa": "medmcqa", "default": "qstab"}
    assert "unknown attack" in refusal(tmp_path, text, "attack.of_tomorrow.use=true")


def test_the_line_is_that_of_the_entry(tmp_path: Path) -> None:
    text = LINES.replace("[[attack]]", '[[attack]]\nname = "off"\nuse = false\n[[attack]]')
    text += SECOND.replace("random", "nearest") + "bugdet = 3\n"
    assert refusal(tmp_path, text).startswith(
        "e.toml, line 20: entity_substitution: unknown key 'bugdet'"
    )


def test_a_single_table_stands_for_an_array_of_one(tmp_path: Path) -> None:
    assert len(read(tmp_path, LINES.replace("[[", "[").replace("]]", "]")).entities) == 1


@pytest.mark.parametrize(
    ("overrides", "budgets"),
    [
        (["attack.budget=4"], [4, 4]),
        (["attack.budget = 4", "attack.budget=5"], [5, 5]),
        (["attack.second.one.budget=4"], [None, 4]),
        (["attack.second.one.use=false"], [None]),
    ],
)
def test_overrides_set_every_entry_or_the_one_that_is_named(
    tmp_path: Path, overrides: list[str], budgets: list[int | None]
) -> None:
    made = read(tmp_path, LINES + SECOND + 'label = "second.one"\n', *overrides).attack
    assert [table.parameters.get("budget") for table in made] == budgets


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("attack.budget", "--set attack.budget: expected table.key=value"),
        ("budget=4", "--set budget=4: expected table.key=value"),
        ("atack.budget=4", "--set atack.budget=4: unknown table 'atack'; did you mean 'attack'?"),
        ("attack.entity.budget=4", "no [[attack]] entry is called 'entity'"),
        ("attack.bugdet=4", "--set attack.bugdet: entity_substitution: unknown key 'bugdet'"),
        ("attack.goal=Z", "--set attack.goal: entity_substitution: goal = 'Z': expected"),
        ("dataset.limit=two", "--set dataset.limit: limit = 'two': expected a whole number"),
        (
            "experiment.controls=no",
            "--set experiment.controls: controls = 'no': expected true or false or a list",
        ),
        ("victim.use=false", "every [[victim]] entry has use = false"),
        ("require.max_high=0.1", "there is no [[require]] entry to change"),
    ],
)
def test_an_override_that_cannot_be_applied_is_refused(
    tmp_path: Path, override: str, sentence: str, said
) -> None:
    said(refusal(tmp_path, LINES, override), sentence)


def test_a_dict_is_checked_like_a_file() -> None:
    tables: dict[str, Any] = tomllib.loads(LINES)
    tables["experiment"]["sedes"] = [1]
    with pytest.raises(UsageError) as caught:
        check_experiment(tables)
    expected = "experiment, [experiment]: unknown key 'sedes'; did you mean 'seeds'?"
    assert str(caught.value) == expected


@pytest.mark.parametrize("name", recipes.names())
def test_what_is_written_of_a_recipe_is_read_as_the_same_experiment(
    name: str, tmp_path: Path
) -> None:
    overrides = ["experiment.cache=\"an 'odd' # one\"", 'dataset.label="back\\\\slash and é"']
    made = resolve(Path(name), overrides, needs=())[0]
    given = {"experiment": recipes.text_of(name), "overrides": overrides}
    text = written(made, Path.cwd(), tmp_path / "e.toml", given=given)
    source = Source(text=text, name="e.toml", base=tmp_path)
    assert resolve(source, needs=())[0] == made
    assert text.count("use = false") == given["experiment"].count("\nuse = false")
    unchanged = {**given, "overrides": []}
    assert written(made, Path.cwd(), given=unchanged) == given["experiment"]
