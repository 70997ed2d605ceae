"""`medstress check`: what it says of data with planted answers, and the command it ends with."""

import json
import shlex

import pytest

import medstress as ms
from medstress.experiment.first import Choices, check_data

WORDS = ("one", "two", "three", "four")
IOB = "Aspirin\tB-Chemical\nreverses\tO\nhypertension\tB-Disease\n\nPatients\tO\nimproved\tO\n"
PAIRS = [
    {"id": "1", "text_a": "Aspirin helps.", "text_b": "Ibuprofen helps.", "score": 2},
    {"id": "2", "text_a": "We do so.", "text_b": "As we do.", "score": 1},
]


def question(name, options=WORDS, stem="Which one is right?", **more):
    return {"id": name, "question": stem, "options": list(options), "answer_idx": "A", **more}


QUESTIONS = [
    question("attackable", ("warfarin", "aspirin 81 mg", "ibuprofen", "one")),
    question("again", ("rest", "ibuprofen", "two", "three")),
    question("key-only", ("aspirin", "one", "two", "three")),
    question("text-only", stem="Who takes aspirin in the morning?"),
    question("nowhere"),
    question("diseases", ("rest", "asthma", "malaria", "cholera")),
    question("passage", stem="How many?", passage="There is one. Later there was one more."),
]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(name, rows):
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return written


@pytest.fixture
def checked(write):
    """What a check finds in a file with these rows."""

    def check(rows, *overrides, name="data.jsonl"):
        return check_data(Choices(data=write(name, rows), model=""), overrides)

    return check


def attackable(found):
    return {(one.attack, one.group): one.n for one in found.attackable}


def reasons(found, attack, group):
    (one,) = (e for e in found.attackable if (e.attack, e.group) == (attack, group))
    return [(reason.n, reason.text, reason.example) for reason in one.reasons]


def test_it_counts_what_is_attackable_and_says_why_the_rest_is_not(checked):
    found = checked(QUESTIONS)
    assert attackable(found) == {
        ("entity_substitution", "drugs"): 2,
        ("entity_substitution", "diseases"): 1,
        ("swap_noise", "all"): 6,
        ("synonym", "all"): 1,
        ("passage_swap", "all"): 1,
        ("passage_distractor", "all"): 0,
        ("passage_none", "all"): 1,
        ("medfuzz", "all"): 7,
    }
    lacks = "no wrong option mentions an entity of type drugs"
    assert reasons(found, "entity_substitution", "drugs") == [
        (3, f"{lacks}, nor does its text", "nowhere"),
        (1, f"{lacks}, only the key does", "key-only"),
        (1, f"{lacks}, only its text does", "text-only"),
    ]
    unchanged = (1, "nothing in it can be changed like that", "passage")
    assert reasons(found, "swap_noise", "all") == [unchanged]
    assert reasons(found, "passage_none", "all") == [(6, "it has no passage", "attackable")]


def test_a_run_attacks_what_the_check_calls_attackable(checked, medstress):
    found = checked(QUESTIONS)
    run = ("run", "--data", "data.jsonl", "--model", "mock", "--out", "run", "--quiet")
    assert medstress(*run, "--set", "experiment.controls=false").code == 0
    summary = json.loads(medstress("summary", "run", "--json").out)
    ran = {row["group"]: row["n_items"] - row["n_not_attackable"] for row in summary["results"]}
    named = {group: n for (attack, group), n in attackable(found).items() if group != "all"}
    assert ran == named


def test_a_sample_is_said_to_be_one(checked, medstress):
    found = checked(QUESTIONS, "dataset.limit=3")
    part = found.data.part
    assert (len(part.all_items), len(part.questions), len(found.first)) == (7, 3, 3)
    assert {one.n_items for one in found.attackable} == {3}
    names = [row["id"] for row in QUESTIONS]
    shown = [names.index(item.id) for item in found.first]
    assert shown == sorted(shown)
    assert "a random sample of 3 is checked" in medstress("check", "data.jsonl", "--limit", "3").out


def test_rows_that_cannot_be_read_are_counted_by_reason(checked, medstress):
    bad = [question(f"bad{n}", answer_idx="X") for n in range(2)] + [question("nowhere")]
    found = checked([*QUESTIONS, *bad])
    assert (len(found.data.part.all_items), found.n_skipped) == (7, 3)
    places = [(one.n, one.example.split(": ")[0]) for one in found.skipped]
    assert [(n, place.rpartition("/")[2]) for n, place in places] == [
        (2, "data.jsonl, line 8"),
        (1, "data.jsonl, line 10"),
    ]
    assert medstress("check", "data.jsonl").code == 2
    assert medstress("check", "data.jsonl", "--set", "dataset.on_bad_row=skip").code == 0


def test_questions_left_out_for_a_figure_are_not_called_unreadable(checked, medstress):
    figure = question("figure", stem="Refer to the ECG shown below. Which one is right?")
    found = checked([*QUESTIONS, figure], "dataset.on_bad_row=skip")
    assert (len(found.data.part.all_items), found.n_skipped) == (7, 0)
    asked = ["run", "--data", "data.jsonl", "--model", "mock", "--dry-run", "--entities", "drugs"]
    for command in (["check", "data.jsonl"], asked):
        told = medstress(*command, "--set", "dataset.on_bad_row=skip")
        said = told.out + told.err
        assert "1 of 8 questions need a figure (first: line 8, words about one)" in said
        assert "cannot be read" not in said
        assert "bad row" not in said


@pytest.mark.parametrize(
    ("rows", "name", "flags", "kind"),
    [
        (IOB, "data.iob", [], "tagged texts"),
        (PAIRS, "p.jsonl", ["dataset.name=pairs"], "sentence pairs"),
    ],
)
def test_other_kinds_are_attacked_by_noise(checked, rows, name, flags, kind):
    found = checked(rows, *flags, name=name)
    assert found.data.kind.name == kind
    assert attackable(found) == {("swap_noise", "all"): 1, ("synonym", "all"): 1}


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        (QUESTIONS, []),
        (QUESTIONS[:5], ["--entities", "drugs"]),
        (QUESTIONS[2:5], ["--attack", "swap_noise"]),
        ([question("q", stem="How?"), QUESTIONS[6]], ["--attack", "passage_swap"]),
    ],
)
def test_it_ends_with_a_command_that_runs(medstress, write, rows, asked):
    told = medstress("check", write("my data.jsonl", rows))
    _, _, command = told.out.splitlines()[-1].partition("next: ")
    program, *arguments = shlex.split(command)
    assert (program, arguments[:5]) == (
        "medstress",
        ["run", "--data", "my data.jsonl", "--model", "NAME"],
    )
    assert arguments[5:] == asked
    arguments[4] = "mock"
    assert medstress(*arguments, "--dry-run", "--set", "experiment.seeds=[0]").code == 0


NAMED = [
    {
        "id": "q1",
        "question": "A boy with asthma takes ibuprofen. Which drug comes next?",
        "options": ["gout", "Aspirin and codeine", "Lipitor"],
        "answer_idx": "A",
        "year": 2024,
    },
    {"id": 7, "stem": "Which?", "options": ["aspirin", "rest", "gout", "sleep"], "answer": "B"},
]


def test_questions_are_written_with_their_mentions_and_read_back_as_the_same_items(
    medstress, write, tmp_path
):
    told = medstress("check", write("rows.jsonl", NAMED), "--to", "out.jsonl")
    assert (told.code, told.err) == (0, "")
    following = "next: medstress run --data out.jsonl --model NAME --set entities.recogniser=given"
    assert told.out.splitlines()[-1] == following
    items = ms.load_dataset("table", tmp_path / "out.jsonl")
    given = ms.load_dataset("table", tmp_path / "rows.jsonl")
    for read, original in zip(items, given, strict=True):
        assert (read.id, read.stem, read.options, read.key) == (
            *(original.id, original.stem, original.options, original.key),
        )
    mentions = [
        (m.field, items[0].text_of(m.field)[m.start : m.end], m.type) for m in items[0].mentions
    ]
    assert mentions == [
        ("A", "gout", "diseases"),
        ("B", "Aspirin", "drugs"),
        ("B", "codeine", "drugs"),
        ("C", "Lipitor", "drugs"),
        ("context", "asthma", "diseases"),
        ("context", "ibuprofen", "drugs"),
    ]
    assert items[0].metadata["year"] == 2024


def test_nothing_is_written_where_a_row_cannot_be_read(medstress, write, tmp_path):
    bad = {"id": "bad", "stem": "Which?", "options": ["a"], "answer": "Z"}
    told = medstress("check", write("rows.jsonl", [*NAMED, bad]), "--to", "out.jsonl")
    assert (told.code, (tmp_path / "out.jsonl").exists()) == (2, False)
    skip = ("--set", "dataset.on_bad_row=skip")
    assert medstress("check", "rows.jsonl", "--to", "out.jsonl", *skip).code == 0
    assert len((tmp_path / "out.jsonl").read_text("utf-8").splitlines()) == 2
    told = medstress("check", "rows.jsonl", "--to", "rows.jsonl", *skip)
    assert (told.code, "input file" in told.err) == (2, True)
