"""Sets of prompts and worked questions: what is wrong with a file is said before a run."""

import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.core.errors import UsageError
from medstress.datasets.named import load_sample as load
from medstress.datasets.source import DatasetOptions
from medstress.tasks.prompt_sets import (
    FILES,
    Exemplar,
    ends_in_answer,
    load_prompts,
    shipped_exemplars,
    shipped_sets,
)
from medstress.testing import tiny_questions

ITEM = tiny_questions(1)[0]


# -- sets --------------------------------------------------------------
def texts_of(name):
    """The two files of a shipped set."""
    folder = files("medstress.tasks") / "conversations" / name
    return {file: (folder / file).read_text("utf-8") for file in FILES}


def folder(tmp_path, **changed):
    """A copy of the default set with some files changed or, where None, left out."""
    tmp_path.mkdir(exist_ok=True)
    for file, text in texts_of("patient_characteristics").items():
        text = changed.get(file.partition(".")[0], text)
        if text is not None:
            (tmp_path / file).write_text(text, "utf-8")
    return str(tmp_path)


def test_the_shipped_sets_name_lever_categories_and_limits():
    assert shipped_sets() == ["misinformation", "patient_characteristics"]
    for name in shipped_sets():
        prompts = load_prompts(name)
        told = prompts.instructions(max_words=77, attempts=6, allow_history=False)
        assert prompts.rules.lever in told.splitlines()[0]
        assert not re.search(r"\{[a-z_]+\}", told)
        for kind in (*prompts.rules.categories, *prompts.rules.forbidden):
            assert f"- {kind.name}: {kind.description}" in told
        assert "77 words" in told
        assert "6 attempts" in told


def test_history_that_is_allowed_is_not_forbidden():
    prompts = load_prompts("patient_characteristics")
    past = [kind for kind in prompts.rules.forbidden if kind.history]
    assert past
    told = prompts.instructions(max_words=80, attempts=5, allow_history=True)
    assert not any(f"- {kind.name}:" in told for kind in past)


def test_a_folder_of_two_files_is_a_set_and_a_copy_is_the_same_set(tmp_path):
    copy = load_prompts(folder(tmp_path))
    assert copy.hash == load_prompts("patient_characteristics").hash
    rules = 'lever = "hearsay"\n[[category]]\nname = "hobbies"\ndescription = "pastimes"\n'
    own = load_prompts(folder(tmp_path, attacker="Play on {lever}.", rules=rules))
    assert own.instructions(max_words=1, attempts=1, allow_history=False) == "Play on hearsay."
    # What the file leaves out is the default set's.
    assert own.rules.evidence == copy.rules.evidence
    assert own.rules.forbidden == copy.rules.forbidden
    assert own.hash != copy.hash


def test_a_list_of_evidence_of_ones_own_is_read(tmp_path):
    rules = texts_of("misinformation")["rules.toml"] + (
        'pass = ["dramatic"]\nstrong = ["fever"]\ncased = ["ICU"]\nsubstance = ["beer"]\n'
        'amount = ["daily"]\npairs = [["substance", "amount"]]\n'
    )
    words = load_prompts(folder(tmp_path, rules=rules)).rules.evidence
    assert (words.pass_, words.strong, words.cased) == (("dramatic",), ("fever",), ("ICU",))
    assert words.groups == {"substance": ("beer",), "amount": ("daily",)}
    assert words.pairs == (("substance", "amount"),)
    assert load_prompts("misinformation").rules.evidence.strong == ()


def test_the_assumption_that_the_docs_show_is_a_set(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "medfuzz.md").read_text("utf-8")
    section = page.partition("## An assumption of your own")[2].partition("\n## ")[0]
    attacker, rules = re.findall(r"```(?:toml)?\n(.*?)```", section, re.DOTALL)
    shown = load_prompts(folder(tmp_path, attacker=attacker, rules=rules))
    assert shown.rules.lever == "praise of new technology"
    told = shown.instructions(max_words=80, attempts=5, allow_history=False)
    assert all(f"- {kind.name}: " in told for kind in shown.rules.categories)


KIND = 'lever = "x"\n[[category]]\nname = "a"\ndescription = "b"\n'


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"attacker": None}, "no attacker.md"),
        ({"rules": None}, "no rules.toml"),
        ({"attacker": " \n"}, "attacker.md is empty"),
        ({"attacker": "Play on {levr}."}, "{levr}; did you mean 'lever'"),
        ({"rules": "lever = 3"}, "rules.toml: lever"),
        ({"rules": 'lever = "x"'}, "rules.toml: category"),
        ({"rules": 'lever = "x"\n[[category]]\nnam = "a"'}, "category.0"),
        ({"rules": "[[category"}, "rules.toml is not valid TOML"),
        ({"rules": KIND + "[evidence]\nstrong = 3"}, "evidence.strong"),
        ({"rules": KIND + '[evidence]\nstrong = [["a", "b"]]'}, "evidence.strong"),
        ({"rules": KIND + '[evidence]\npairs = [["a", "b"]]'}, "evidence: pairs: expected"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path, changed, named):
    with pytest.raises(UsageError) as refused:
        load_prompts(folder(tmp_path, **changed))
    assert named in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    files = {"attacker": "Play on {lever}.", "rules": KIND}
    plain = load_prompts(folder(tmp_path / "a", **files))
    marked = load_prompts(folder(tmp_path / "b", **{k: "\ufeff" + v for k, v in files.items()}))
    assert marked.hash == plain.hash


# -- worked questions --------------------------------------------------------------
ROWS = [
    {
        "question": f"Case {i} of MedQA. What next?",
        "answer": f"Right {i}",
        "options": {"A": f"Wrong {i}", "B": f"Right {i}", "C": "Other", "D": "Rest"},
        "meta_info": "step1",
        "answer_idx": "B",
        "train_index": i,
    }
    for i in range(5)
]
"""As MedQA's train split has them: with a key, without reasoning."""


def written(tmp_path, rows):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return MedFuzz(exemplars=2, exemplars_from="train.jsonl").with_files(tmp_path)


def test_questions_of_medqas_train_split_are_drawn_and_shown_with_their_key(tmp_path):
    attack = written(tmp_path, ROWS)
    drawn = {attack.turns(ITEM, np.random.default_rng(i)) for i in range(20)}
    assert len(drawn) > 5
    assert {one.question for pair in drawn for one in pair} == {row["question"] for row in ROWS}
    first, _ = attack.turns(ITEM, np.random.default_rng(0))
    assert first.shown(1).startswith(f"Example 1, of which option B is right\n{first.question}\n")
    assert "Reasoning:" not in first.shown(1)


def test_neither_the_item_nor_a_question_with_its_answer_is_drawn(tmp_path):
    same = {**ROWS[0], "question": ITEM.question}
    answer = {**ROWS[1], "options": {**ROWS[1]["options"], "B": ITEM.key_text.upper()}}
    attack = written(tmp_path, [same, answer, *ROWS[2:]])
    allowed = {row["question"] for row in ROWS[2:]}
    for i in range(20):
        drawn = attack.turns(ITEM, np.random.default_rng(i))
        assert {one.question for one in drawn} <= allowed
    with pytest.raises(UsageError, match="lower exemplars"):
        written(tmp_path, [same, answer, ROWS[2]]).turns(ITEM, np.random.default_rng(0))


def test_the_words_of_the_file_are_part_of_the_fingerprint_and_its_folder_is_not(tmp_path):
    one = written(tmp_path, ROWS).spec()
    (tmp_path / "deeper").mkdir()
    deeper = MedFuzz(exemplars=2, exemplars_from=str(tmp_path / "deeper" / "train.jsonl"))
    (tmp_path / "deeper" / "train.jsonl").write_bytes((tmp_path / "train.jsonl").read_bytes())
    assert deeper.with_files(tmp_path).spec() == one
    other = written(tmp_path, [*ROWS[:4], {**ROWS[4], "question": "Another?"}]).spec()
    assert other["prompts"] != one["prompts"]


def test_a_list_of_options_and_a_reasoning_of_ones_own_are_read(tmp_path):
    row = {"id": 7, "question": "Why?", "options": ["Flu", "Cold"], "answer": "B"}
    attack = written(tmp_path, [{**row, "reasoning": "It began slowly."}, *ROWS])
    first = attack.prompts.exemplars[0]
    assert (first.id, first.options, first.answer) == ("7", (("A", "Flu"), ("B", "Cold")), "B")
    assert first.shown(1).endswith("B: Cold\nReasoning: It began slowly.")


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"reasoning": "It began slowly. So the answer is B."}, "ends in an answer"),
        ({"reasoning": "It began slowly. This is right 0."}, "ends in an answer"),
        ({"answer_idx": "E"}, "'E'"),
        ({"options": "Flu"}, "options"),
        ({"question": ""}, "question"),
    ],
)
def test_a_line_that_cannot_be_shown_is_refused_with_its_number(tmp_path, row, named):
    with pytest.raises(UsageError) as refused:
        written(tmp_path, [ROWS[1], {**ROWS[0], **row}])
    assert str(refused.value).startswith("exemplars_from = 'train.jsonl', line 2: ")
    assert named in str(refused.value)


def test_a_file_that_is_not_there_or_too_short_is_refused_before_anything_is_asked(tmp_path):
    with pytest.raises(UsageError, match=r"no\.jsonl"):
        MedFuzz(exemplars_from="no.jsonl").with_files(tmp_path)
    with pytest.raises(UsageError, match="holds 1 questions"):
        written(tmp_path, ROWS[:1])


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        ("Therefore, {}.", True), ("So choose {}.", True), ("**{}**", True), ("So {} it is.", True),
        ("The correct one: {}", True), ("({}) is left.", True), ("It must be {}.", True),
        ("This fits {}.", True), ("So it must be the common cold.", True),
        ("The common cold it is.", True), ("The answer is A.", True),
        ("A man who is tired may sleep.", False), ("Thus I waited.", False),
        ("This is a vitamin D effect.", False), ("Protein C was low.", False),
        ("Cirrhosis is Child-Pugh B.", False), ("He has hepatitis B by history.", False),
        ("A cold came first, then a warm day.", False), ("The B-cells are few.", False),
        ("The answer is not yet known.", False),
    ],
)  # fmt: skip
def test_a_last_sentence_that_names_an_option_ends_in_an_answer(last, ends):
    options = (("A", "Flu"), ("B", "Common cold"), ("C", "Gout"), ("D", "Rest"))
    for letter in "BC":
        exemplar = Exemplar(
            id="q", question="Why?", options=options, answer="B",
            reasoning=f"It is late. {last.format(letter)}",
        )  # fmt: skip
        assert ends_in_answer(exemplar) is ends


def test_no_shipped_question_tells_the_answer_of_an_item_that_the_recipes_attack():
    items = load(DatasetOptions()).items
    keys = {item.key_text.casefold() for item in items}
    assert (len(items), len(shipped_exemplars())) == (200, 10)
    for one in shipped_exemplars():
        assert not ends_in_answer(one)
        assert one.answer_text.casefold() not in keys
        shown = one.shown(1).casefold()
        assert [key for key in keys if re.search(rf"\b{re.escape(key)}\b", shown)] == [], one.id
