"""Other people's questions: usual forms are recognised, what fits in two ways is refused."""

import json

import polars
import pytest

from medstress.core import registry
from medstress.core.errors import MedstressError
from medstress.datasets.source import DatasetOptions

HEAD = "question,A,B,C,D,answer"


@pytest.fixture
def read(tmp_path):
    """Write rows, or text as it is, and read them by the source of the ending."""

    def load(content, name="q.csv", source=None, **options):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif path.suffix == ".parquet":
            polars.DataFrame(content, infer_schema_length=None).write_parquet(path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        source = source or {"json": "jsonl"}.get(path.suffix[1:], path.suffix[1:])
        return registry.load("datasets", source)(DatasetOptions(path=path, **options))

    return load


@pytest.fixture
def refusal(read, tmp_path):
    def refused(content, name="q.csv", **options):
        with pytest.raises(MedstressError) as caught:
            read(content, name, **options)
        said = str(caught.value)
        assert "\n" not in said
        assert said.startswith(str(tmp_path / name))
        return said.removeprefix(str(tmp_path / name))

    return refused


def table(*answers, options="w,x,y,z", head=HEAD):
    return "\n".join([head, *(f"Case {n}?,{options},{a}" for n, a in enumerate(answers))]) + "\n"


def keys(loaded):
    return "".join(item.key for item in loaded.questions)


@pytest.mark.parametrize(
    ("answers", "key", "told"),
    [
        (["B", "D"], "BD", "letters"),
        (["b", "(D)", "C.", "[a]", "Option B"], "BDCAB", "letters"),
        (["B. x", "D) z"], "BD", "letters"),
        (["0", "3", "0", "1"], "ADAB", "numbers from 0"),
        (["1", "2", "3", "0"], "BCDA", "numbers from 0 (0 only in line 5)"),
        (["1", "4", "2.0"], "ADB", "numbers from 1"),
        (["x", "Z ", "w"], "BDA", "texts of options"),
    ],
)
def test_answers_are_letters_numbers_from_0_or_1_or_texts(read, answers, key, told):
    loaded = read(table(*answers))
    assert keys(loaded) == key
    assert loaded.understood == (
        f"q.csv: {len(answers)} questions; question in 'question', options in the columns 'A' to "
        f"'D', answers in 'answer' as {told}, ids from the content"
    )
    assert loaded.skipped == ()
    assert loaded.questions[0].options == ("w", "x", "y", "z")


def test_answers_that_never_say_0_nor_the_last_number_need_answer_base(read, refusal):
    text = table("1", "3", "2")
    assert refusal(text) == (
        ": field 'answer': expected answers that show whether numbers count from 0 or from 1, got "
        "1 to 3 for 4 options (1 in line 2), which both fit; give answer_base = 0 or "
        "answer_base = 1"
    )
    assert "answer_base" in refusal(text, on_bad_row="skip")
    assert keys(read(text, answer_base=1)) == "ACB"
    assert keys(read(text, answer_base=0)) == "BDC"


def test_a_column_that_says_0_and_the_number_after_the_last_is_no_base(read, refusal):
    text = table("0", "4", "2")
    said = refusal(text, on_bad_row="skip")
    assert "got 0 in line 2 and 4 of 4 options in line 3" in said
    assert said.endswith("give answer_base = 0 or answer_base = 1")
    loaded = read(text, answer_base=0, on_bad_row="skip")
    assert (keys(loaded), len(loaded.skipped)) == ("AC", 1)


def test_options_that_are_numbers_make_an_answer_ambiguous(read, refusal):
    text = "\n".join([HEAD, "One?,2,3,4,5,3", "Two?,1,2,3,4,2", ""])
    said = refusal(text)
    assert "the text '3' in line 2, which fits as one of the texts" in said
    assert 'columns = {answer_text = "answer"}' in said
    assert "answer_base = 0 or answer_base = 1 if it is a number" in said
    assert keys(read(text, columns={"answer_text": "answer"})) == "BB"
    assert keys(read(text, answer_base=1)) == "CB"
    assert keys(read(text, answer_base=0)) == "DC"


def test_numbers_that_are_no_positions_are_texts_and_both_readings_may_say_the_same(read):
    assert keys(read(table("1", "4", options="1,2,3,4"))) == "AD"
    text = "\n".join([HEAD, "One?,10,20,30,40,30", "Two?,15,25,35,45,15", ""])
    assert keys(read(text)) == "CA"


def test_an_option_called_like_another_options_letter_makes_a_letter_ambiguous(read, refusal):
    text = "\n".join([HEAD, "One?,O,A,B,AB,A", "Two?,O,A,B,AB,B", ""])
    said = refusal(text)
    assert "letters" in said
    assert 'answer_text = "answer"' in said
    assert 'answer_idx = "answer"' in said
    assert keys(read(text, columns={"answer_idx": "answer"})) == "AB"
    assert keys(read(text, columns={"answer_text": "answer"})) == "BC"


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("E", "expected one of the letters A, B, C, D"),
        ("7", "expected one of the letters"),
        ("", "expected the right option, got nothing"),
        ("aspirin", "expected one of the letters"),
    ],
)
def test_an_answer_outside_the_options_is_a_bad_row(read, refusal, bad, expected):
    text = table("B", "A", bad, "D")
    said = refusal(text)
    assert said.startswith(f", line 4: field 'answer': {expected}")
    assert said.endswith('on_bad_row = "skip"')
    loaded = read(text, on_bad_row="skip")
    assert (keys(loaded), len(loaded.skipped)) == ("BAD", 1)


def test_forms_are_decided_for_the_file_and_never_for_a_row(refusal):
    assert refusal(table("B", "y")).startswith(
        ": field 'answer': expected letters, numbers or texts of options in most rows"
    )


@pytest.mark.parametrize(
    "head",
    [
        "A,B,C,D",
        "a,b,c,d",
        "opa,opb,opc,opd",
        "option_a,option_b,option_c,option_d",
        "Option A,Option B,Option C,Option D",
        "option_1,option_2,option_3,option_4",
        "choice1,choice2,choice3,choice4",
        "ending0,ending1,ending2,ending3",
    ],
)
def test_options_in_columns_of_their_own(read, head):
    loaded = read(table("C", "A", head=f"Question,{head},Correct Answer"))
    assert keys(loaded) == "CA"
    assert loaded.questions[0].options == ("w", "x", "y", "z")


def test_a_column_of_options_may_be_named_as_the_answer(read):
    text = table("opb", "opd", head="question,opa,opb,opc,opd,answer")
    assert keys(read(text)) == "BD"


def test_an_option_that_is_empty_at_the_end_is_none_and_one_in_the_middle_is_missed(read, refusal):
    head = "question,A,B,C,D,E,answer\n"
    loaded = read(head + "One?,v,w,x,y,,A\nTwo?,v,w,x,y,z,E\n")
    assert [len(item.options) for item in loaded.questions] == [4, 5]
    said = refusal(head + "One?,v,w,x,y,,A\nTwo?,v,,x,y,z,E\n")
    assert said == ", line 3: field 'B': expected an option, got nothing; fill the gap"


@pytest.mark.parametrize(
    "cell",
    [
        '"[""x"", ""y"", ""z""]"',
        "\"['x', 'y', 'z']\"",
        '"{""A"": ""x"", ""B"": ""y"", ""C"": ""z""}"',
        "\"{'a': 'x', 'b': 'y', 'c': 'z'}\"",
        "x|y|z",
        "x; y; z",
        "A. x|B. y|C. z",
    ],
)
def test_options_in_one_cell(read, cell):
    loaded = read(f"question,options,answer\nWhich?,{cell},C\n")
    assert (loaded.questions[0].options, loaded.questions[0].key) == (("x", "y", "z"), "C")


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("x;1|y;2|z;3", "vertical bars and semicolons"),
        ('"x, y, z"', "texts divided by | or ;"),
        ("\"['x' 'y' 'z']\"", "as numpy prints arrays"),
        ('"[""x"", ""y"""', "a list written as JSON"),
    ],
)
def test_options_in_one_cell_that_could_be_divided_in_two_ways_are_refused(refusal, cell, why):
    assert why in refusal(f"question,options,answer\nWhich?,{cell},C\n")


def test_options_in_two_places_have_to_be_the_same(read, refusal):
    head = "question,A,B,options,answer\n"
    assert keys(read(head + "Which?,x,y,x|y,B\n")) == "B"
    assert 'columns = {options = "options"}' in refusal(head + "Which?,x,y,x|z,B\n")


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ("prompt,query,A,B,answer", 'columns = {question = "query"}'),
        ("context,question,A,B,answer", 'columns = {passage = "context"}'),
        ("prompt,note,A,B,richtig", 'columns = {answer = "..."}'),
        ("note,remark,A,B,answer", 'columns = {question = "..."}'),
        ("question,note,x1,x2,answer", 'columns = {options = ["...", "..."]}'),
        ("question,note,A,C,answer", 'columns = {options = ["...", "..."]}'),
        ("question,note,A,a,answer", 'columns = {options = ["...", "..."]}'),
    ],
)
def test_columns_that_are_missing_or_fit_twice_name_the_key(refusal, head, key):
    assert key in refusal(f"{head}\nOne.,Two?,x,y,A\n")


def test_columns_says_what_is_what(read, refusal):
    text = "frage,o1x,o2x,r,vortext\nWhich?,x,y,B,He smokes.\n"
    columns = {"stem": "frage", "options": ["o1x", "o2x"], "answer": "r", "context": "vortext"}
    loaded = read(text, columns=columns)
    (item,) = loaded.questions
    assert (item.context, item.stem, item.options) == ("He smokes.", "Which?", ("x", "y"))
    assert (item.key, item.metadata) == ("B", {})
    assert "context in 'vortext', question in 'frage'" in loaded.understood
    assert "answers in 'r'" in loaded.understood
    passage = read(text, columns={**columns, "stem": "frage", "context": "vortext"})
    assert passage.questions == loaded.questions
    said = refusal(text, columns={**columns, "answer": "right"})
    assert said == ", line 2: columns: expected the field 'right', got frage, o1x, o2x, r, vortext"


def test_two_columns_of_answers_have_to_agree(read, refusal):
    head = "question,A,B,C,D,answer,answer_index,label\n"
    rows = [f"Case {n}?,w,x,y,z,{'ABCD'[n % 4]},{n % 4},9\n" for n in range(8)]
    loaded = read(head + "".join(rows))
    assert keys(loaded) == "ABCDABCD"
    assert loaded.questions[0].metadata == {"label": "9"}
    rows[5] = "Case 5?,w,x,y,z,B,2,9\n"
    assert refusal(head + "".join(rows)).startswith(
        ", line 7: field 'answer_index': expected option B as in 'answer', got the text '2'"
    )
    shuffled = [f"Case {n}?,w,x,y,z,{'ABCD'[n % 4]},{(n + 2) % 4},9\n" for n in range(8)]
    assert 'columns = {answer = "answer"}' in refusal(head + "".join(shuffled))


def test_ids_from_the_content_survive_another_order_and_stay_apart(read):
    first = read(table("A", "B", "A"))
    lines = table("A", "B", "A").splitlines()
    again = read("\n".join([lines[0], *reversed(lines[1:])]))
    ids = [item.id for item in first.questions]
    assert len(set(ids)) == 3
    assert [item.id for item in again.questions] == ids[::-1]
    twice = read("\n".join([*lines, lines[1], ""]))
    assert [item.id for item in twice.questions] == [*ids, f"{ids[0]}-2"]
    assert twice.notes == (
        "q.csv: questions that stand in more than one row: 1; each row is an item of its own",
    )


PUBLIC = {
    "mmlu": (
        [
            {"question": "One?", "subject": "anatomy", "choices": list("wxyz"), "answer": 0},
            {"question": "Two?", "subject": "anatomy", "choices": list("wxyz"), "answer": 2},
        ],
        "AC",
        ("w", "x", "y", "z"),
        {"subject": "anatomy"},
    ),
    "arc": (
        [{"id": "q", "question": "One?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}}],
        "B",
        ("x", "y"),
        {},
    ),
    "arc, nested": (
        [
            {
                "id": "q",
                "question": {
                    "stem": "One?",
                    "choices": [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}],
                },
                "answerKey": "B",
            }
        ],
        "B",
        ("x", "y"),
        {},
    ),
    "medqa, five options": (
        [
            {
                "question": "One. Two?",
                "answer": "x",
                "options": dict(zip("ABCDE", "vwxyz", strict=True)),
                "meta_info": "step1",
                "answer_idx": "C",
            }
        ],
        "C",
        tuple("vwxyz"),
        {"meta_info": "step1"},
    ),
    "medqa, key and value": (
        [
            {
                "question": "One?",
                "answer": "y",
                "options": [{"key": "A", "value": "x"}, {"key": "B", "value": "y"}],
                "answer_idx": "B",
            }
        ],
        "B",
        ("x", "y"),
        {},
    ),
    "medqa, nested": (
        [
            {
                "id": "q",
                "data": {
                    "Question": "One?",
                    "Options": {"A": "x", "B": "y"},
                    "Correct Answer": "y",
                    "Correct Option": "B",
                },
                "subject_name": "s",
            }
        ],
        "B",
        ("x", "y"),
        {"subject_name": "s"},
    ),
    "medmcqa": (
        [
            {
                "id": f"q{cop}",
                "question": "One?",
                **dict(zip(("opa", "opb", "opc", "opd"), "wxyz", strict=True)),
                "cop": cop,
                "exp": "e",
                "choice_type": "single",
            }
            for cop in (0, 3)
        ],
        "AD",
        ("w", "x", "y", "z"),
        {"exp": "e", "choice_type": "single"},
    ),
    "mmlu-pro": (
        [
            {
                "question_id": 70,
                "question": "One?",
                "options": list("qrstuvwxyz"),
                "answer": "I",
                "answer_index": 8,
                "category": "health",
            }
        ],
        "I",
        tuple("qrstuvwxyz"),
        {"category": "health"},
    ),
    "headqa": (
        [
            {
                "qid": 1,
                "qtext": "One?",
                "ra": 2,
                "year": "2013",
                "answers": [{"aid": n, "atext": text} for n, text in enumerate("xyz", start=1)],
            }
        ],
        "B",
        ("x", "y", "z"),
        {"year": "2013"},
    ),
}
PUBLIC["arc"][0][0]["answerKey"] = "2"


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("file", ["q.jsonl", "q.parquet", "q.json"])
def test_published_data_sets_are_recognised(read, name, file):
    rows, key, options, metadata = PUBLIC[name]
    loaded = read(json.dumps(rows) if file == "q.json" else rows, file)
    assert (keys(loaded), loaded.questions[0].options) == (key, options)
    assert loaded.questions[0].metadata == metadata
    assert loaded.understood.startswith(f"{file}: {len(rows)} question")


def test_the_original_files_of_medmcqa_count_from_1_and_end_in_json(read):
    rows = [{**row, "cop": row["cop"] + 1} for row in PUBLIC["medmcqa"][0]]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert keys(read(text, "train.json")) == "AD"


def test_the_original_file_of_headqa_is_read_exam_by_exam(read):
    data = [{**PUBLIC["headqa"][0][0], "qid": "1", "ra": ra} for ra in ("1", "3")]
    exams = {f"exam{n}": {"name": "x", "data": [row]} for n, row in enumerate(data)}
    loaded = read(json.dumps({"version": "1.0", "exams": exams}), "train.json")
    assert [(item.id, item.key) for item in loaded.questions] == [
        ("exam0-1", "A"),
        ("exam1-1", "C"),
    ]


def test_the_documented_format_is_read_silently(read, row):
    loaded = read([row(), row(id="q2", answer_idx="C")], "q.jsonl")
    assert (loaded.understood, keys(loaded)) == ("", "AC")
    assert loaded.source_hash.startswith("blake2b")


@pytest.mark.parametrize(
    ("numbers", "more"),
    [((0, 2), ""), ((1, 2), " (no row has 0; answer_base = 1 if it counts from 1)")],
)
def test_numbers_of_the_documented_format_count_from_0_and_say_so(read, row, numbers, more):
    loaded = read([row(id=f"q{n}", answer_idx=n) for n in numbers], "q.jsonl")
    assert keys(loaded) == "".join("ABC"[n] for n in numbers)
    assert loaded.understood == (
        f"q.jsonl: 2 questions; the documented format, answer_idx counts from 0{more}"
    )


@pytest.mark.parametrize(
    ("options", "answer", "keyed"),
    [
        (["O", "A", "B", "AB"], "A", {"answer_idx": "A", "answer_text": "B"}),
        (["2", "3", "4", "1"], "3", {"answer_text": "B"}),
    ],
)
def test_an_answer_of_the_documented_format_that_fits_twice_is_refused(
    read, refusal, row, options, answer, keyed
):
    fine = [row(id=f"f{n}", answer_idx=..., answer="aspirin") for n in range(options[0] == "O")]
    rows = [*fine, row(options=options, answer_idx=..., answer=answer)]
    said = refusal(rows, "q.jsonl")
    assert f"got the text {answer!r} in line {len(rows)}, which fits as one of the" in said
    for name, key in keyed.items():
        assert f'columns = {{{name} = "answer"}}' in said
        assert keys(read(rows[-1:], "q.jsonl", columns={name: "answer"})) == key
    both = [*fine, row(options=options, answer_idx="B", answer=options[1])]
    assert keys(read(both, "q.jsonl")).endswith("B")


def test_one_row_whose_answer_is_a_letter_and_an_option_needs_a_second_column(read, refusal):
    text = table("A", "C", "D") + "Anti-B?,O,A,B,AB,A\n"
    assert 'columns = {answer_idx = "answer"}' in refusal(text)
    assert keys(read(text, columns={"answer_idx": "answer"})) == "ACDA"
    lines = text.replace("answer", "answer,answer_index").splitlines()
    numbered = [lines[0], *(f"{line},{'ABCD'.index(line[-1])}" for line in lines[1:])]
    assert keys(read("\n".join(numbered))) == "ACDA"


@pytest.mark.parametrize(
    ("weak", "values", "other"),
    [
        ("label", "0101", "ground_truth"),
        ("correct", "0110", "Right letter"),
        ("target", "ABAB", "Antwort"),
        ("key", "1234", "Right letter"),
    ],
)
def test_a_flag_or_number_of_a_row_is_no_answer_beside_a_column_that_fits(
    read, refusal, weak, values, other
):
    rows = "".join(
        f"Case {n}?,w,x,y,z,{good},{flag}\n"
        for n, (good, flag) in enumerate(zip("DCBA", values, strict=True))
    )
    text = f"question,A,B,C,D,{other},{weak}\n{rows}"
    said = refusal(text)
    assert f"got {weak!r} and {other!r}" in said
    assert f'columns = {{answer = "{other}"}}' in said
    assert keys(read(text, columns={"answer": other})) == "DCBA"


def test_a_weak_name_beside_answers_that_most_rows_lack_is_refused(refusal):
    text = table("A,0", ",1", ",0", ",1", head=HEAD + ",label")
    assert 'columns = {answer = "answer"}' in refusal(text)
    assert "got 'label' and 'answer'" in refusal(text)


def test_a_weak_name_is_the_answer_beside_what_fits_worse_or_says_the_same(read):
    head = "id,question,A,B,C,D,label,year,letter\n"
    rows = [f"{n},Case {n}?,w,x,y,z,{n},2024,{'ABCD'[n]}\n" for n in range(4)]
    assert keys(read(head + "".join(rows))) == "ABCD"


@pytest.mark.parametrize(
    ("answer", "key"), [("A", "aspirin"), ("B. codeine", "codeine"), ("codeine", "codeine")]
)
@pytest.mark.parametrize("marks", ["BAC", "ABC"])
def test_letters_before_the_options_say_which_is_which(read, answer, key, marks):
    texts = {"A": "aspirin", "B": "codeine", "C": "heparin"}
    rows = [
        {"question": f"{order}?", "choices": [f"{m}. {texts[m]}" for m in order], "answer": answer}
        for order in (marks, "CBA")
    ]
    loaded = read(rows, "q.jsonl")
    assert [item.key_text for item in loaded.questions] == [key, key]
    assert "without their letters" in loaded.understood


def test_letters_in_another_order_are_refused_where_they_cannot_be_read(refusal, row):
    mixed = ["B. codeine", "A. aspirin"]
    rows = [{"question": "One?", "choices": c, "answer": "A"} for c in (mixed, ["x", "y"])]
    assert 'write an object, such as {"A": "aspirin", ' in refusal(rows, "q.jsonl")
    said = refusal([row(), row(id="q2", options=mixed)], "q.jsonl")
    assert said.startswith(", line 2: field 'options': expected the letters before the options in")


PARTS = "He smokes a lot.,Which?,x,y,A\n"


@pytest.mark.parametrize(
    ("head", "row", "stem"),
    [
        ("vignette,question", PARTS, "question"),
        ("case,question", PARTS, "question"),
        ("scenario,question", PARTS, "question"),
        ("vignette,lead_in", PARTS, "lead_in"),
        ("Question,Text", "1,Which of these is it?,x,y,A\n", "Text"),
    ],
)
def test_a_question_in_two_columns_is_refused_as_two(read, refusal, head, row, stem):
    text = f"{head},A,B,answer\n{row}"
    context = head.split(",")[0]
    parts = {"context": context, "stem": stem}
    said = refusal(text)
    assert f'columns = {{question = "{stem}"}}' in said
    assert f'columns = {{context = "{context}", stem = "{stem}"}}' in said
    assert read(text, columns={"question": stem}).questions[0].context == ""
    assert read(text, columns=parts).questions[0].context == row.split(",")[0]


def test_a_name_of_a_row_beside_the_question_is_no_part_of_it(read):
    (item,) = read("question,case,A,B,answer\nWhich?,Case 7,x,y,A\n").questions
    assert item.metadata == {"case": "Case 7"}


@pytest.mark.parametrize("name", ["q.jsonl", "q.json"])
def test_an_object_that_has_a_name_twice_is_a_bad_row(read, refusal, name):
    rows = [
        '{"question": "One?", "options": {"A": "x", "B": "y", "A": "z"}, "answer": "A"}',
        '{"question": "Two?", "options": {"A": "x", "B": "y"}, "answer": "B"}',
    ]
    text = "\n".join(rows) if name == "q.jsonl" else f"[{', '.join(rows)}]"
    assert (
        refusal(text, name)[1:]
        .lstrip()
        .endswith(" 1: expected each name of an object once, got 'A' twice; rename one")
    )
    loaded = read(text, name, on_bad_row="skip")
    assert (keys(loaded), len(loaded.skipped)) == ("B", 1)
    twice = f'{{"1": {rows[1]}, "1": {rows[1]}}}'
    assert "got '1' twice" in refusal(twice, "p.json")


@pytest.mark.parametrize("nothing", ["", " ", None])
@pytest.mark.parametrize("key", [{}, {"id": "q"}])
def test_an_empty_option_at_the_end_of_an_object_is_none(read, refusal, nothing, key):
    options = {"A": "x", "B": "y", "C": nothing}
    rows = [{"question": "One?", "options": options, "answer": "B", **key}]
    assert read(rows, "q.jsonl").questions[0].options == ("x", "y")
    gap = [{**rows[0], "options": {"A": "x", "B": nothing, "C": "z"}}]
    assert "got A, C" in refusal(gap, "q.jsonl")


def test_positions_of_the_documented_format_that_count_from_1_are_refused(read, refusal, row):
    rows = [row(id=f"q{n}", answer_idx=n) for n in (1, 2, 3)]
    assert "give answer_base = 1" in refusal(rows, "q.jsonl", on_bad_row="skip")
    assert keys(read(rows, "q.jsonl", answer_base=1)) == "ABC"


def test_rows_of_another_shape_are_named_or_skipped_with_their_count(read, refusal):
    good = [{"question": f"Case {n}?", "choices": ["x", "y"], "answer": "B"} for n in range(20)]
    odd = [{"prompt": f"Case {n}?", "gold": 3, "z": 1} for n in range(5)]
    said = refusal([*good, *odd], "q.jsonl")
    assert said == (
        ", line 21: expected the fields of the other rows (question, choices, answer), got prompt, "
        'gold, z; fix the row, or leave such rows out with on_bad_row = "skip"'
    )
    loaded = read([*good, *odd], "q.jsonl", on_bad_row="skip")
    assert (len(loaded.questions), len(loaded.skipped)) == (20, 5)


def test_rows_of_another_source_name_it(refusal):
    rows = [{"premise": "It does.", "hypothesis": "Does it?", "score": 3}]
    assert refusal(rows, "q.jsonl").endswith('give name = "pairs"')


def test_a_file_of_another_format_says_how_to_name_it(refusal):
    assert refusal(table("A"), "q.jsonl").endswith(
        'for CSV rename the file to end in .csv and give name = "csv"'
    )
    assert refusal('{"id": 1}\n').endswith('give name = "jsonl"')


def test_mentions_stand_in_a_cell_as_json(read):
    mentions = json.dumps([{"field": "A", "start": 0, "end": 7, "type": "T109"}])
    cell = '"' + mentions.replace('"', '""') + '"'
    (item,) = read(f"question,A,B,answer,mentions\nWhich?,aspirin,y,B,{cell}\n").questions
    assert item.text_of("A")[item.mentions[0].start : item.mentions[0].end] == "aspirin"


def test_a_wrong_name_in_columns_is_refused(read, said):
    with pytest.raises(MedstressError) as caught:
        read(table("A"), columns={"questoin": "question"})
    said(str(caught.value), "'questoin'", "'question'")


TEXTS = ["w", "x", "y", "z"]


def arc(labels, answer):
    return {"choices": {"text": TEXTS, "label": list(labels)}, "answerKey": answer}


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([arc("1234", "2"), arc("ABCD", "C")], "BC"),
        ([arc("1234", "1"), *[arc("ABCD", "D")] * 3], "ADDD"),
        ([{"answers": {"aid": [1, 2, 3, 4], "atext": TEXTS}, "ra": n} for n in (2, 3)], "BC"),
        ([{"choices": TEXTS, "context": "", "answer": [text]} for text in "xz"], "BD"),
        ([{"choices": TEXTS, "answer": [n]} for n in (0, 3)], "AD"),
        ([{"options": {"i": "w", "ii": "x", "iii": "y"}, "answer": a} for a in ("iii", "I")], "CA"),
        ([{"options": [True, False], "answer": a} for a in (False, True)], "BA"),
        ([{"options": ["TRUE", "FALSE"], "answer": a} for a in (False, True)], "BA"),
    ],
)
def test_published_and_usual_forms_are_read(read, rows, key):
    rows = [{"question": f"Which {n}?", **row} for n, row in enumerate(rows)]
    assert keys(read(rows, "q.jsonl")) == key


@pytest.mark.parametrize(
    ("row", "source", "words"),
    [
        (
            {"question": "Which?", **dict(zip(("opa", "opb"), "xy", strict=True)), "cop": -1},
            "jsonl",
            "field 'cop': expected the right options, got -1 in every row",
        ),
        (
            {"question": "Which?", **dict(zip(("opa", "opb"), "xy", strict=True))},
            "jsonl",
            "published without answers, take train or validation",
        ),
    ],
)
def test_a_split_without_answers_is_said_to_be_one(read, row, source, words):
    with pytest.raises(MedstressError) as caught:
        read([row, row], "q.jsonl", source=source)
    assert words in str(caught.value)


def test_numbers_for_true_and_false_are_settled_by_the_base_alone(read, refusal):
    text = "question,A,B,answer\nOne?,TRUE,FALSE,1\nTwo?,TRUE,FALSE,0\n"
    assert "which may be the number of an option, or 1 for TRUE" in refusal(text)
    assert keys(read(text, answer_base=0)) == "BA"
    assert keys(read(text.replace("TRUE,FALSE", "FALSE,TRUE"))) == "BA"


def test_a_column_spelt_nearly_like_the_answer_is_named_in_the_mend(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("question,A,B,C,answr\nWhich?,x,y,z,A\n", "utf-8")
    with pytest.raises(MedstressError, match=r'columns = \{answer = "answr"\}'):
        registry.load("datasets", "csv")(DatasetOptions(path=path))
