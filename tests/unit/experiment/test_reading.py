"""Experiment files that are refused, and the exact sentence each is refused with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from medstress.core.errors import UsageError
from medstress.experiment.file.config import Experiment, ExperimentTable, victim_labels
from medstress.experiment.file.reading import check_experiment, read_experiment
from medstress.experiment.plan.parts import make_attacks

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
    return read_experiment(folder / "e.toml", overrides)


def refusal(folder: Path, text: str, *overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        make_attacks(read(folder, text, *overrides).attack)
    return str(caught.value)


def test_the_file_these_tests_start_from_is_fine(tmp_path: Path) -> None:
    experiment = read(tmp_path, LINES)
    assert experiment.experiment.seeds == (0, 1)
    assert experiment.attack[0].parameters == {"sampler": "random"}


@pytest.mark.parametrize(
    ("table", "line", "sentence"),
    [
        ("experiment", "sedes = [1]", "line 4: unknown key 'sedes'; did you mean 'seeds'?"),
        (
            "experiment",
            "zzz = 1",
            f"line 4: unknown key 'zzz' (known: {', '.join(sorted(ExperimentTable.model_fields))})",
        ),
        ("dataset", "limt = 3", "line 6: unknown key 'limt'; did you mean 'limit'?"),
        ("entities", "poling = 'cls'", "line 9: unknown key 'poling'; did you mean 'pooling'?"),
        ("victim", "modle = 'x'", "line 11: unknown key 'modle'; did you mean 'model'?"),
        (
            "attack",
            "bugdet = 4",
            "line 14: unknown key 'bugdet' of entity_substitution; did you mean 'budget'?",
        ),
        (
            "attack",
            "zzz = 4",
            "line 14: unknown key 'zzz' of entity_substitution (known: budget, "
            "choices, continue_on_invalid, field, goal, max_edit_distance, n, "
            "sampler, unreadable_is_success, variants, victim_span)",
        ),
    ],
)
def test_an_unknown_key_is_named_with_its_line(
    tmp_path: Path, table: str, line: str, sentence: str
) -> None:
    assert refusal(tmp_path, with_line(table, line)) == f"e.toml, {sentence}"


@pytest.mark.parametrize(
    ("table", "line", "where"),
    [
        ("experiment", "max_failed = -1", "line 4"),
        ("experiment", "max_queries = 0", "line 4"),
        ("experiment", 'flip_check = "yes"', "line 4"),
        ("dataset", "limit = 2.0", "line 6"),
        ("dataset", 'limit = "2"', "line 6"),
        ("dataset", "path = 3", "line 6"),
        ("dataset", 'on_bad_row = "ignore"', "line 6"),
        ("entities", 'embedding = ""', "line 9"),
        ("dataset", 'label = ""', "line 6"),
        ("attack", 'label = ""', "line 14"),
        ("entities", 'name = ""', "line 9"),
        ("victim", 'name = ""', "line 11"),
        ("entities", 'pooling = "max"', "line 9"),
        ("victim", 'parser = "exakt"', "line 11"),
        ("victim", "temperature = -0.5", "line 11"),
        ("victim", "batch_size = 0", "line 11"),
        ("experiment", "max_usd = 0", "line 4"),
        ("victim", "price_in = 1.0", "line 9"),
        ("attack", "label = 3", "line 14"),
        ("attack", 'use = "no"', "line 14"),
    ],
)
def test_a_wrong_type_or_value_is_named_with_its_line(
    tmp_path: Path, table: str, line: str, where: str, said
) -> None:
    said(refusal(tmp_path, with_line(table, line)), where)


@pytest.mark.parametrize(
    ("table", "line", "where"),
    [("experiment", 'controls = "all"', "line 4"), ("entities", 'recogniser = "spacy"', "line 6")],
)
def test_what_is_not_built_yet_is_refused(
    tmp_path: Path, table: str, line: str, where: str, said
) -> None:
    said(refusal(tmp_path, with_line(table, line)), where)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"random"', '"exhaustive"\nbudget = 8', "line 13: entity_substitution"),
        ('"entity_substitution"', '"entity_substitutoin"', "line 12"),
        ('type = "drugs"', 'type = "drug"', "line 7"),
        ("[0, 1]", "[0, 1, 0]", "line 3"),
        ("[0, 1]", '[0, "1"]', "line 3"),
        ("[0, 1]", "7", "line 3"),
        ("[0, 1]", "[]", "line 3"),
        ('"x"', '"a b"', "line 2"),
        ('name = "x"\n', "", "line 1"),
        ('vocabulary = "drugs"\n', "", "line 6"),
        ('type = "drugs"', "type = 3", "line 7"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(
    tmp_path: Path, old: str, new: str, where: str, said
) -> None:
    said(refusal(tmp_path, LINES.replace(old, new, 1)), where)


def test_a_word_that_names_no_distance_is_refused_with_its_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, with_line("entities", 'distance = "mondoo"')) == (
        "e.toml, line 9: distance = 'mondoo': expected one of cosine, euclidean, mondo, mesh, "
        "\"module:function\" or \"file.py:function\", got 'mondoo'; did you mean 'mondo'?"
    )


@pytest.mark.parametrize("distance", ["euclidean", "mondo", "mesh", "mine.py:h"])
def test_every_distance_of_the_interface_may_be_written(tmp_path: Path, distance: str) -> None:
    experiment = read(tmp_path, with_line("entities", f'distance = "{distance}"'))
    assert experiment.entities[0].distance == distance


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ('goal = "B"', "goal", "B"),
        ('victim_span = "saliency"', "victim_span", "saliency"),
        ("continue_on_invalid = true", "continue_on_invalid", True),
        ('choices = "as_released"', "choices", "as_released"),
        ("max_edit_distance = {tokens = 3}", "max_edit_distance", {"tokens": 3}),
    ],
)
def test_keys_of_an_attack_are_handed_on_as_written(
    tmp_path: Path, line: str, key: str, value: object
) -> None:
    experiment = read(tmp_path, with_line("attack", line))
    assert experiment.attack[0].parameters == {"sampler": "random", key: value}


def test_controls_are_off_unless_they_are_wanted(tmp_path: Path) -> None:
    assert not read(tmp_path, with_line("experiment", "flip_check = true")).experiment.controls
    assert read(tmp_path, with_line("experiment", "controls = true")).experiment.controls


def test_wrappers_are_read_with_what_they_leave_out(tmp_path: Path) -> None:
    line = 'wrap = ["shuffled_options", {name = "majority", k = 3}]'
    (victim,) = read(tmp_path, with_line("victim", line)).victim
    assert [entry["name"] for entry in victim.wrap] == ["shuffled_options", "majority"]
    assert victim.wrap[0] == {"name": "shuffled_options", "n": None, "aggregate": "mean"}
    assert read(tmp_path, with_line("victim", "wrap = []")).victim[0].wrap == ()


def test_a_wrapper_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, with_line("victim", 'wrap = ["majorty"]')) == (
        "e.toml, line 11: wrap = ['majorty']: unknown wrapper 'majorty'; did you mean 'majority'?"
    )


FUZZ = (
    LINES.partition("[[attack]]")[0]
    + '[[attack]]\nname = "medfuzz"\n[role.attacker]\nbackend = "mock"\n'
)


def test_attacks_that_draw_no_names_need_no_entity_groups(tmp_path: Path) -> None:
    text = re.sub(r"\[\[entities\]\](.|\n)*?(?=\[)", "", FUZZ)
    found = read(tmp_path, text)
    assert found.entities == ()
    assert found.role is not None
    assert found.role.attacker is not None
    assert (found.role.attacker.temperature, found.role.attacker.max_new_tokens) == (1.0, 1024)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('answer_by = "letter"', "the key 'answer_by' is for victims; a role always writes text"),
        ("temprature = 0.5", "unknown key 'temprature'; did you mean 'temperature'?"),
        ('temperature = "x"', "temperature = 'x': input should be a valid number"),
    ],
)
def test_a_key_that_no_role_has_is_refused_with_its_line(
    tmp_path: Path, line: str, sentence: str
) -> None:
    told = refusal(tmp_path, f"{FUZZ}{line}\n")
    assert told.startswith("e.toml, line ")
    assert told.endswith(sentence)


def test_a_role_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    told = refusal(tmp_path, FUZZ.replace("role.attacker", "role.atacker"))
    assert "'atacker'; did you mean 'attacker'?" in told


def test_a_key_of_a_role_can_be_set_from_the_command_line(tmp_path: Path) -> None:
    found = read(tmp_path, FUZZ, "role.attacker.temperature=0.5")
    assert found.role is not None
    assert found.role.attacker is not None
    assert found.role.attacker.temperature == 0.5


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (LINES + "[[atack]]\nname = 'x'\n", "e.toml, line 14"),
        (LINES + "[zzz]\n", "e.toml, line 14"),
        ("attack = 3\n", "e.toml"),
        ("dataset = ['sample']\n", "e.toml"),
        (LINES.partition("[[attack]]")[0], "e.toml"),
        (LINES.partition("[[dataset]]")[0], "e.toml"),
        ("", "e.toml"),
        (with_line("victim", "use = false"), "e.toml, line 9"),
    ],
)
def test_tables_are_checked(tmp_path: Path, text: str, where: str, said) -> None:
    said(refusal(tmp_path, text), where)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            'sampler = "pdws"',
            "entity_substitution: sampler 'pdws' needs its exponent, e.g. n = -20; "
            "`medstress tune` chooses it by itself",
        ),
        (
            "",
            "entity_substitution: sampler 'pdws' needs its exponent, e.g. n = -20; "
            "`medstress tune` chooses it by itself",
        ),
        ('sampler = "pwds"\nn = 1', "or 'exhaustive', got 'pwds'; did you mean 'pdws'?"),
        ('sampler = "nearest"\nn = 1', "entity_substitution: sampler 'nearest' takes no n"),
        ("n = 1\nbudget = 0", "entity_substitution: budget: expected at least 1, got 0"),
        ("n = 1\nbudget = 1001", "entity_substitution: budget: expected at most 1000, got 1001"),
        ("n = [1, 300]", "entity_substitution: n: expected at most 200, got 300"),
    ],
)
def test_parameters_of_an_attack_are_checked_before_anything_runs(
    tmp_path: Path, lines: str, sentence: str
) -> None:
    text = LINES.replace('sampler = "random"', lines)
    assert refusal(tmp_path, text).endswith(sentence)


SECOND = '[[attack]]\nname = "entity_substitution"\nsampler = "random"\n'
SAME = "two [[attack]] entries are both called {!r}: remove one, or give them different labels"


def test_two_equal_attacks_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, LINES + SECOND) == SAME.format("entity_substitution")


def test_two_equal_labels_are_refused(tmp_path: Path) -> None:
    text = LINES + 'label = "mine"\n' + SECOND + 'budget = 2\nlabel = "mine"\n'
    assert refusal(tmp_path, text) == SAME.format("mine")


def test_an_exponent_listed_twice_is_refused(tmp_path: Path) -> None:
    text = LINES.replace('sampler = "random"', "n = [1, 1]")
    assert refusal(tmp_path, text) == SAME.format("entity_substitution")


def labels(folder: Path, text: str) -> list[str]:
    return [part.label for part in make_attacks(read(folder, text).attack)]


def test_each_exponent_of_a_list_is_an_attack_of_its_own(tmp_path: Path) -> None:
    text = LINES.replace('sampler = "random"', "n = [-20, 0.5]")
    assert labels(tmp_path, text) == ["entity_substitution n=-20", "entity_substitution n=0.5"]
    assert labels(tmp_path, text + 'label = "grid"\n') == ["grid n=-20", "grid n=0.5"]


def test_entries_of_one_name_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    text = LINES + SECOND.replace("random", "pdws") + "n = 3\n"
    expected = ["entity_substitution sampler=random", "entity_substitution sampler=pdws n=3"]
    assert labels(tmp_path, text) == expected


def test_entries_that_are_switched_off_are_left_out(tmp_path: Path) -> None:
    text = with_line("attack", "use = false\nlabel = 'first'") + "\n" + SECOND
    experiment = read(tmp_path, text)
    assert [table.label for table in experiment.attack] == [None]


def test_a_single_table_stands_for_an_array_of_one(tmp_path: Path) -> None:
    text = LINES.replace("[[", "[").replace("]]", "]")
    assert len(read(tmp_path, text).entities) == 1


def test_the_line_is_that_of_the_entry(tmp_path: Path) -> None:
    text = LINES + SECOND.replace("random", "nearest") + "bugdet = 3\n"
    assert refusal(tmp_path, text).startswith("e.toml, line 17: unknown key 'bugdet'")


class TestSet:
    """--set."""

    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("attack.budget=4", {"budget": 4}),
            ("attack.budget = 4", {"budget": 4}),
            ('attack.sampler="nearest"', {"sampler": "nearest"}),
            ("attack.sampler=nearest", {"sampler": "nearest"}),
            ("attack.entity_substitution.budget=4", {"budget": 4}),
        ],
    )
    def test_a_value_is_set(self, tmp_path: Path, override: str, expected: dict[str, Any]) -> None:
        experiment = read(tmp_path, LINES, override)
        assert experiment.attack[0].parameters == {"sampler": "random"} | expected

    def test_all_entries_or_the_one_named_or_labelled_are_set(self, tmp_path: Path) -> None:
        text = LINES + SECOND + 'label = "second.one"\n'
        every = read(tmp_path, text, "attack.budget=4").attack
        assert [table.parameters["budget"] for table in every] == [4, 4]
        one = read(tmp_path, text, "attack.second.one.budget=4").attack
        assert [table.parameters.get("budget") for table in one] == [None, 4]

    def test_lists_and_tables_are_toml(self, tmp_path: Path) -> None:
        experiment = read(tmp_path, LINES, "experiment.seeds=[4, 5]", "dataset.use=true")
        assert experiment.experiment.seeds == (4, 5)

    def test_a_later_override_wins(self, tmp_path: Path) -> None:
        experiment = read(tmp_path, LINES, "attack.budget=4", "attack.budget=5")
        assert experiment.attack[0].parameters["budget"] == 5

    def test_an_entry_can_be_switched_off(self, tmp_path: Path) -> None:
        text = LINES + SECOND + 'label = "b"\n'
        assert len(read(tmp_path, text, "attack.b.use=false").attack) == 1

    @pytest.mark.parametrize(
        ("override", "sentence"),
        [
            (
                "attack.budget",
                "--set 'attack.budget': expected table.key=value or table.NAME.key=value, e.g. "
                "attack.budget=4",
            ),
            (
                "budget=4",
                "--set 'budget=4': expected table.key=value or table.NAME.key=value, e.g. "
                "attack.budget=4",
            ),
            (
                "atack.budget=4",
                "--set 'atack.budget=4': unknown table 'atack'; did you mean 'attack'?",
            ),
            (
                "attack.entity_substitutoin.budget=4",
                "--set 'attack.entity_substitutoin.budget=4': no [[attack]] entry is called "
                "'entity_substitutoin'; did you mean 'entity_substitution'? (there are: "
                "entity_substitution)",
            ),
            (
                "attack.bugdet=4",
                "--set attack.bugdet: unknown key 'bugdet' of entity_substitution; did you mean "
                "'budget'?",
            ),
            (
                "attack.goal=Z",
                "--set attack.goal: entity_substitution: goal: expected 'untargeted', "
                "'replaced' or an option letter from A to J, got 'Z'",
            ),
            (
                "dataset.limit=two",
                "--set dataset.limit: limit = 'two': input should be a valid integer",
            ),
            ("victim.use=false", "e.toml, line 9: every [[victim]] entry has use = false"),
        ],
    )
    def test_an_override_that_cannot_be_applied_is_refused(
        self, tmp_path: Path, override: str, sentence: str
    ) -> None:
        assert refusal(tmp_path, LINES, override) == sentence


@pytest.mark.parametrize("content", [b"[experiment", b"name = \xff", b"a = 1\na = 2\n"])
def test_what_is_not_toml_is_refused(tmp_path: Path, content: bytes, said) -> None:
    path = tmp_path / "e.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    said(str(caught.value), "e.toml")


def test_a_dict_is_checked_like_a_file(said) -> None:
    with pytest.raises(UsageError) as caught:
        check_experiment({"experiment": {"name": "x", "sedes": [1]}})
    said(str(caught.value), "experiment")
    with pytest.raises(UsageError) as caught:
        check_experiment(
            {
                "experiment": {"name": "x", "sedes": [1]},
                "dataset": {"name": "sample"},
                "entities": {"type": "drugs", "vocabulary": "drugs"},
                "victim": {"backend": "mock"},
                "attack": {"name": "entity_substitution", "sampler": "random"},
            }
        )
    expected = "experiment, [experiment]: unknown key 'sedes'; did you mean 'seeds'?"
    assert str(caught.value) == expected


def test_an_entry_that_is_switched_off_may_wait_for_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(LINES + '\n[[attack]]\nname = "of_tomorrow"\nturns = 3\nuse = false\n')
    assert [attack.name for attack in read_experiment(path).attack] == ["entity_substitution"]
    told = refusal(tmp_path, path.read_text(), "attack.of_tomorrow.use=true")
    assert "unknown attack 'of_tomorrow'" in told


def test_the_experiment_of_the_real_run_is_read() -> None:
    found = read_experiment(Path(__file__).parents[3] / "studies" / "xian-medmcqa" / "medmcqa.toml")
    assert [victim.answer_by for victim in found.victim] == ["head", "text", "letter"]
    assert {group.limit for group in found.entities} == {500}


class TestKnownGaps:
    """Files that should be refused, or refused better; see the reasons."""

    @pytest.mark.parametrize(
        "line", ['victim_span = "nearst"', 'variants = "marc"', 'choices = "as_publishd"']
    )
    def test_a_misspelt_value_of_a_fixed_key_is_refused(self, tmp_path: Path, line: str) -> None:
        assert "line 14" in refusal(tmp_path, with_line("attack", line))

    def test_the_line_is_right_behind_an_entry_that_is_switched_off(self, tmp_path: Path) -> None:
        text = with_line("attack", "use = false") + "\n" + SECOND + "bugdet = 3\n"
        assert refusal(tmp_path, text).startswith("e.toml, line 18: unknown key 'bugdet'")

    def test_an_empty_list_of_exponents_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path, LINES.replace('sampler = "random"', "n = []"))

    def test_a_second_experiment_table_is_refused(self, tmp_path: Path) -> None:
        text = LINES.replace("[experiment]", "[[experiment]]")
        refusal(tmp_path, text + '[[experiment]]\nname = "y"\n')

    def test_an_empty_array_for_the_experiment_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path, "experiment = []\n" + LINES.partition("[[dataset]]")[2])

    def test_an_override_of_what_is_no_table_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path, "attack = 3\n", "attack.budget=4")

    def test_a_parameter_of_an_attack_is_refused_with_its_line(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, with_line("attack", "budget = 0")).startswith("e.toml, line 14: ")

    def test_overrides_apply_to_a_dict(self) -> None:
        from medstress.experiment.prepare import prepare

        experiment = {
            "experiment": {"name": "x"},
            "dataset": {"name": "sample"},
            "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
            "victim": {"backend": "mock"},
            "attack": {"name": "entity_substitution", "sampler": "random"},
        }
        prepared = prepare(experiment, overrides=["attack.budget=3"])
        assert prepared.attacks[0].attack.budget == 3


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        (
            '{sampel = "medmcqa"}',
            "e.toml, line 11: prompt: no [[dataset]] is called 'sampel'; did you mean 'sample'? "
            "(there are: sample; default stands for all others)",
        ),
        (
            '{defualt = "medmcqa"}',
            "e.toml, line 11: prompt: no [[dataset]] is called 'defualt'; did you mean 'default'? "
            "(there are: sample; default stands for all others)",
        ),
        (
            "{sample = 3}",
            "e.toml, line 11: prompt = {'sample': 3}: input should be a valid string",
        ),
        ("3", "e.toml, line 11: prompt = 3: input should be a valid string"),
        ("{}", "e.toml, line 11: prompt = {}: input should be a valid string"),
    ],
)
def test_a_table_of_prompts_names_data_sets_of_the_file(
    tmp_path: Path, prompt: str, sentence: str
) -> None:
    said = refusal(tmp_path, with_line("victim", f"prompt = {prompt}"))
    assert said.partition("e.toml")[1:] == sentence.partition("e.toml")[1:]


def test_a_data_set_that_is_switched_off_may_have_a_prompt(tmp_path: Path) -> None:
    text = with_line("victim", 'prompt = {medmcqa = "medmcqa", default = "qstab"}')
    text += '\n[[dataset]]\nname = "medmcqa"\npath = "x"\nuse = false\n'
    assert read(tmp_path, text).victim[0].prompt == {"medmcqa": "medmcqa", "default": "qstab"}
    override = 'victim.prompt={sample = "untagged"}'
    assert read(tmp_path, text, override).victim[0].prompt == {"sample": "untagged"}
    assert read(tmp_path, LINES).victim[0].prompt == "qstab"


def test_a_label_that_a_table_of_prompts_makes_shows_it(tmp_path: Path) -> None:
    text = with_line("victim", 'prompt = {sample = "medmcqa", default = "qstab"}')
    text += '\n[[victim]]\nbackend = "mock"\n'
    assert victim_labels(read(tmp_path, text).victim) == [
        "mock prompt=sample: medmcqa, default: qstab",
        "mock prompt=qstab",
    ]
