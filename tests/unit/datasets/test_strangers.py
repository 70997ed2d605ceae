"""What strangers' files hold: each fault planted, each read right, counted and said, or refused."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import medstress as ms
from medstress.core.errors import DataError, UsageError
from medstress.datasets.source import Loaded

Read = Callable[..., Loaded]

OPTIONS = {"A": "Aspirin", "B": "Codeine", "C": "Allopurinol"}
Q = "A man has gout. Which drug lowers urate?"


def row(n: int = 0, **fields: Any) -> dict[str, Any]:
    good = {"id": f"q{n}", "question": Q, "options": OPTIONS, "answer": "C"}
    return {name: value for name, value in (good | fields).items() if value is not ...}


def only(loaded: Loaded) -> Any:
    (item,) = loaded.items
    return item


# -- options repeated in the question text

LISTS = {
    "inline": "\nAnswer Choices: (A) Aspirin (B) Codeine (C) Allopurinol",
    "lines": "\nA. Aspirin\nB. Codeine\nC. Allopurinol",
    "lines after a heading": "\n\nOptions:\nA) aspirin\nB) codeine\nC) allopurinol\n",
    "windows lines": "\r\nA: Aspirin\r\nB: Codeine\r\nC: Allopurinol\r\n",
    "numbers": " 1. Aspirin 2. Codeine 3. Allopurinol",
    "another order": " (A) Codeine (B) Allopurinol (C) Aspirin",
    "bullets": "\n- Aspirin\n- Codeine\n- Allopurinol",
    "bare lines": "\nAspirin\nCodeine\nAllopurinol",
    "commas after a heading": " Options: Aspirin, Codeine, Allopurinol",
    "a question after it": "\nA. Aspirin\nB. Codeine\nC. Allopurinol\nAnswer:",
    "one option more": "\nA. Aspirin\nB. Codeine\nC. Allopurinol\nD. Insulin",
    "markdown": "\n**A.** Aspirin\n**B.** Codeine\n**C.** Allopurinol",
    "braces": " {'A': 'Aspirin', 'B': 'Codeine', 'C': 'Allopurinol'}",
    "JSON": ' ["Aspirin", "Codeine", "Allopurinol"]',
    "Python": "\n['Aspirin', 'Codeine', 'Allopurinol']\n",
    "brackets": " [Aspirin, Codeine, Allopurinol]",
    "slashes": " (aspirin / codeine / allopurinol)",
    "roman lines": "\n(i) Aspirin\n(ii) Codeine\n(iii) Allopurinol",
    "tabs": "\nA\tAspirin\nB\tCodeine\nC\tAllopurinol",
    "a sentence behind": " Aspirin, codeine or allopurinol?",
    "line breaks of HTML": "<br>A: Aspirin<br/>B: Codeine<br>C: Allopurinol",
    "a list of HTML": "<ul><li>Aspirin</li><li>Codeine</li><li>Allopurinol</li></ul>",
    "wide marks": "\n（A）Aspirin\n（B）Codeine\n（C）Allopurinol",
    "circled numbers": " ① Aspirin ② Codeine ③ Allopurinol",
    "line breaks that were written": "\\nA. Aspirin\\nB. Codeine\\nC. Allopurinol",
    "bullets after a heading": "\n**Options:**\n- Aspirin\n- Codeine\n- Allopurinol",
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_the_options_is_cut_from_the_question_and_said(read: Read, name: str) -> None:
    loaded = read([row(question=Q + LISTS[name]), row(1)])
    assert [item.question for item in loaded.items] == [Q, Q]
    (note,) = [n for n in loaded.notes if "list" in n]
    assert "1 of 2 questions" in note


@pytest.mark.parametrize(
    "text",
    [
        "Which of these is true? I. Aspirin thins blood. II. Codeine does not.",
        "He takes aspirin and codeine. Which drug lowers urate?",
        "Is it aspirin, codeine or allopurinol that lowers urate?",
        "Vitamin A. Vitamin B. Which drug lowers urate?",
        "He took A. Aspirin was stopped. Which drug lowers urate?",
    ],
)
def test_a_question_that_only_names_drugs_is_left_alone(read: Read, text: str) -> None:
    loaded = read([row(question=text)])
    assert only(loaded).question == text
    assert not loaded.notes


@pytest.mark.parametrize(
    "other",
    [
        "\nA. Aspirin\nB. Codeine\nC. Insulin\nD. Warfarin",
        "\nA. Insulin\nB. Aspirin\nC. Codeine\nD. Allopurinol",
        "\nAspirin\nCodeine\nAllopurinol\nInsulin",
        "\n- Insulin\n- Aspirin\n- Codeine\n- Allopurinol",
        "\n- Aspirin\n- Codeine\n- Allopurinol\n- Insulin\nWhich one lowers it?",
        ' ["Aspirin", "Codeine", "Allopurinol", "Insulin"]',
        " Options: Aspirin, Codeine, Allopurinol, Insulin",
    ],
)
def test_a_list_of_other_options_is_refused(read: Read, other: str) -> None:
    with pytest.raises(DataError, match=r"line 1.*list"):
        read([row(question=Q + other)])


@pytest.mark.parametrize(
    "other",
    [
        ' ["Aspirin", "Codeine", "Insulin"]',
        ' ["Insulin", "Aspirin", "Codeine", "Allopurinol"]',
        " Choose from: Aspirin, Codeine, Allopurinol, Insulin.",
        " (aspirin / codeine / insulin)",
    ],
)
def test_a_list_of_other_options_is_never_half_cut(read: Read, other: str) -> None:
    assert only(read([row(question=Q + other)])).question == Q + other


def test_a_list_follows_a_text_that_names_an_option(read: Read) -> None:
    text = f"{Q} It is not aspirin."
    assert only(read([row(question=text + LISTS["lines"])])).question == text


def test_a_list_of_two_options_is_cut(read: Read) -> None:
    text = f'{Q} ["Aspirin", "Codeine"]'
    made = row(question=text, options=["Aspirin", "Codeine"], answer="A")
    assert only(read([made])).question == Q


def test_mentions_in_the_question_stay_where_they_are(read: Read) -> None:
    start = Q.index("gout")
    gout = {"field": "question", "start": start, "end": start + 4, "type": "diseases"}
    item = only(read([row(question=Q + LISTS["inline"], mentions=[gout])]))
    (mention,) = item.mentions
    assert item.text_of(mention.field)[mention.start : mention.end] == "gout"
    late = {**gout, "start": len(Q) + 21, "end": len(Q) + 28}
    with pytest.raises(DataError, match="mentions"):
        read([row(question=Q + LISTS["inline"], mentions=[late])])


# -- padding

PADDING = ["N/A", "n/a", "nan", "NaN", "-", "--", "", "null", None]


@pytest.mark.parametrize("empty", PADDING)
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_padding_is_dropped_and_counted(read: Read, empty: Any, form: str) -> None:
    texts = {**OPTIONS, "D": "Insulin", "E": empty}
    made = [row(options=texts), row(1, question="Why?", options={**texts, "E": "Warfarin"})]
    if form == "csv":
        made = [{**{k: v for k, v in r.items() if k != "options"}, **r["options"]} for r in made]
    loaded = read(made, form)
    assert [len(item.options) for item in loaded.items] == [4, 5]
    assert [item.key for item in loaded.items] == ["C", "C"]
    if empty:
        (note,) = [n for n in loaded.notes if "padding" in n]
        assert note.endswith("left out: 1")


def test_padding_that_is_the_answer_or_a_sign_stays(read: Read) -> None:
    item = only(read([row(options={**OPTIONS, "D": "N/A"}, answer="D")]))
    assert (item.options[3], item.key) == ("N/A", "D")
    item = only(read([row(options={"A": "++", "B": "+", "C": "-"}, answer="A")]))
    assert item.options == ("++", "+", "-")
    item = only(read([row(options={"A": "Yes", "B": "N/A"}, answer="A")]))
    assert item.options == ("Yes", "N/A")
    item = only(read([row(options={"A": "None", "B": "NA", "C": "Na"}, answer="A")]))
    assert item.options == ("None", "NA", "Na")


def test_padding_in_between_moves_key_and_mentions(read: Read) -> None:
    mention = {"field": "C", "start": 0, "end": 11, "type": "drugs"}
    options = {"A": "Aspirin", "B": "nan", "C": "Allopurinol"}
    item = only(read([row(options=options, mentions=[mention])]))
    assert (item.options, item.key) == (("Aspirin", "Allopurinol"), "B")
    assert [m.field for m in item.mentions] == ["B"]


# -- figures


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "img/1.png"},
        {"image_path": "1.png"},
        {"images": ["1.png"]},
        {"options": {"A": "A", "B": "B", "C": "C", "D": "D"}},
        {"question": "What is seen here (see Figure below)?"},
        {"question": "What does the arrow in the image below point at?"},
        {"question": "The ECG is shown in the figure. Which drug lowers urate?"},
        {"question": "Which drug lowers the crystals of the photomicrograph shown?"},
        {"question": "His skin is shown in Figure 2. Which drug lowers urate?"},
        {"question": "A photograph of the lesion is shown. Which drug lowers urate?"},
        {"question": "The image shows a rash. Which drug lowers urate?"},
        {"question": "Refer to the ECG shown below. Which drug lowers urate?"},
        {"question": "A chest X-ray is shown. Which drug lowers urate?"},
        {"question": "What does the peripheral smear given below hold?"},
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_a_question_that_needs_a_figure_is_counted(
    read: Read, fields: dict[str, Any], skip: bool
) -> None:
    made = [row(), row(1, **fields), row(2, question="Why?", image="")]
    loaded = read(made, on_bad_row="skip" if skip else "error")
    assert len(loaded.items) == (2 if skip else 3)
    assert not loaded.skipped
    (note,) = [n for n in loaded.notes if "figure" in n]
    assert note.startswith("1 of 3 questions need a figure")
    assert note.endswith("left out") == skip


@pytest.mark.parametrize(
    "question",
    [
        "Which figure of speech is it?",
        "An image of the joint has shown crystals. Which drug lowers urate?",
        "Which imaging study is best?",
        "A CT image showed a mass. Which drug lowers urate?",
        "He figures it out. Which drug lowers urate?",
        "An X-ray of the chest shows a mass above the diaphragm. Which drug lowers urate?",
        "Imaging showed a mass. An ECG has shown nothing. Which drug lowers urate?",
        "MRI is shown to be better than CT above the age of 40. Which drug lowers urate?",
        "Laboratory results are shown below. Which drug lowers urate?",
    ],
)
@pytest.mark.parametrize("image", ["", None, "nan", False, "No"])
def test_words_about_figures_are_none(read: Read, question: str, image: Any) -> None:
    assert not read([row(question=question, image=image)]).notes


# -- answers


@pytest.mark.parametrize(
    "answer", ["A,C", "A, B", "A and C", "A;C", ["A", "C"], "AC", "A & B", "Aspirin, Codeine"]
)
def test_several_right_answers_are_refused_by_row(read: Read, answer: Any) -> None:
    made = [row(n, question=f"{Q} {n}") for n in range(4)]
    made[2] = row(2, answer=answer)
    with pytest.raises(DataError, match=r"rows\.jsonl, line 3: field 'answer': .*right answers"):
        read(made)
    loaded = read(made, on_bad_row="skip")
    assert len(loaded.items) == 3
    assert len(loaded.skipped) == 1


def test_an_option_with_a_comma_is_one_answer(read: Read) -> None:
    options = {"A": "Aspirin, Codeine", "B": "Aspirin", "C": "Codeine"}
    made = [row(n, options=options, answer=options["ABC"[n]], question=f"{n}?") for n in range(3)]
    assert [item.key for item in read(made).items] == ["A", "B", "C"]


@pytest.mark.parametrize("answer", ["F", 9, "Warfarin", None, "", 1.5, True, {"a": 1}])
def test_an_answer_outside_the_options_names_line_and_field(read: Read, answer: Any) -> None:
    made = [row(n, question=f"{Q} {n}") for n in range(4)]
    made[1] = row(1, answer=answer)
    with pytest.raises(DataError, match=r"rows\.jsonl, line 2: field 'answer': "):
        read(made)


def test_a_column_that_is_mostly_broken_is_blamed_at_its_first_broken_cell(read: Read) -> None:
    answers = enumerate(["A", "vell", "brin"])
    made = [row(n, question=f"{n}?", answer=answer, answer_idx=None) for n, answer in answers]
    with pytest.raises(DataError, match=r"field 'answer': .*'vell' in line 2"):
        read(made)


# -- ids and duplicates


def test_questions_under_new_ids_are_counted(read: Read) -> None:
    shuffled = {"A": "Allopurinol", "B": "aspirin", "C": "Codeine"}
    made = [row(), row(1), row(2, options=shuffled, answer="A"), row(3, question="Why?")]
    loaded = read(made)
    assert len(loaded.items) == 4
    (note,) = [n for n in loaded.notes if "again" in n]
    assert note.startswith("2 of 4 questions")
    assert "'q1', which is 'q0'" in note


def test_an_id_twice_is_refused_and_ids_stay_as_they_are(read: Read) -> None:
    with pytest.raises(DataError, match=r"line 2: field 'id'.*line 1"):
        read([row(), row()])
    made = [row(id=name, question=f"{n}?") for n, name in enumerate(["007", "7", "é", "a b", "07"])]
    assert [item.id for item in read(made).items] == ["007", "7", "é", "a b", "07"]
    flat = [{**{k: v for k, v in r.items() if k != "options"}, **OPTIONS} for r in made]
    assert [item.id for item in read(flat, "csv").items] == ["007", "7", "é", "a b", "07"]
    with pytest.raises(DataError, match=r"line 2.*'id'"):
        read([row(), row(id=None)])


def test_ids_from_the_content_do_not_depend_on_the_order(read: Read) -> None:
    made = [row(id=..., question=f"{n}?") for n in range(5)]
    ids = {item.question: item.id for item in read(made).items}
    assert ids == {item.question: item.id for item in read(made[::-1]).items}
    assert len(set(ids.values())) == 5


# -- letters, marks, lines

GREEK, ASTRAL = "β-blocker of the α₁ receptor", "𝛽-lactam 🧪"
DECOMPOSED = unicodedata.normalize("NFD", "Naïve café Ménière")


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_texts_stay_as_they_are(read: Read, form: str) -> None:
    options = {"A": GREEK, "B": ASTRAL, "C": DECOMPOSED}
    made = [{"id": "1", "question": f"{ASTRAL} {DECOMPOSED}?", **options, "answer": "B"}]
    item = only(read(made, form))
    assert item.options == (GREEK, ASTRAL, DECOMPOSED)
    assert item.question == f"{ASTRAL} {DECOMPOSED}?"


def test_offsets_count_characters(read: Read) -> None:
    mention = {"field": "B", "start": 0, "end": 8, "type": "drugs"}
    options = {"A": "x", "B": f"{ASTRAL}", "C": "y"}
    item = only(read([row(options=options, mentions=[mention], answer="A")]))
    assert item.option("B")[0:8] == "𝛽-lactam"


TABLE = 'id,question,A,B,answer\n1,"Why,\nso, is it ""so""?",é,β,B\n2,How?,x,y,A\n'


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_line_ends(read: Read, code: str, end: str) -> None:
    loaded = read(TABLE.replace("\n", end).encode(code), "csv")
    first, second = loaded.items
    assert first.question.replace("\r\n", "\n") == 'Why,\nso, is it "so"?'
    assert (first.options, first.key, second.key) == (("é", "β"), "B", "A")
    lines = [json.dumps(row(n, question=f"{n} é?"), ensure_ascii=False) for n in range(2)]
    assert len(read(end.join(lines).encode(code), "jsonl").items) == 2
    assert len(read(f"[{f',{end}'.join(lines)}]".encode(code), "json").items) == 2


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "json"])
def test_latin_1_is_refused_with_the_key(read: Read, form: str) -> None:
    mark = "\t" if form == "tsv" else ","
    text = (
        mark.join(["question", "A", "B", "answer"]) + "\n" + mark.join(["Ménière?", "x", "y", "A"])
    )
    if form.startswith("json"):
        made = row(question="Ménière?")
        text = json.dumps(made if form == "jsonl" else [made], ensure_ascii=False)
    data = text.encode("latin-1")
    with pytest.raises(DataError, match=r'rows.*line \d.*encoding = "cp1252"'):
        read(data, form)
    assert "Ménière" in only(read(data, form, encoding="cp1252")).question
    with pytest.raises(UsageError, match="encoding"):
        read(data, form, encoding="latin-seven")


def test_other_letters_of_json_do_not_end_a_line(read: Read) -> None:
    made = row(question="One\u2028two\u0085three?")
    assert only(read(json.dumps(made, ensure_ascii=False))).question == made["question"]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_separators_of_csv(read: Read, mark: str) -> None:
    text = "question,A,B,answer\nWhy so?,x,y,A\n".replace(",", mark)
    assert only(read(text, "csv")).key == "A"
    assert only(read(f"sep={mark}\n{text}", "csv")).key == "A"


# -- broken files, named by line

BROKEN: dict[str, tuple[str, str | bytes, str]] = {
    "a field too many": ("csv", "question,A,B,answer\nWhy?,x,y,A\nWhy, so?,x,y,A\n", "line 3"),
    "a field too few": ("csv", "question,A,B,answer\nWhy?,x,A\n", "line 2"),
    "an open quotation mark": ("csv", 'question,A,B,answer\n"Why?,x,y,A\nWhy?,x,y,A\n', "line 2"),
    "options alone": ("csv", "a,b\nx,y\n", "got the columns a, b;"),
    "a column twice": ("csv", "question,A,A,answer\nWhy?,x,y,A\n", "'A' twice"),
    "a title above": ("csv", "My quiz,,,\nquestion,A,B,answer\nWhy?,x,y,A\n", "header"),
    "NUL": ("csv", "question,A,B,answer\nWh\0y?,x,y,A\n", "NUL"),
    "nothing": ("csv", "", "empty"),
    "a header alone": ("csv", "question,A,B,answer\n", "one row"),
    "JSON as CSV": ("csv", '{"question": "Why?"}\n', r"\.jsonl"),
    "CSV as JSONL": ("jsonl", "question,A,B,answer\nWhy?,x,y,A\n", r"line 1.*\.csv"),
    "broken JSON": ("jsonl", json.dumps(row()) + '\n{"id": 2,\n', "line 2"),
    "a name twice": ("jsonl", '{"id": 1, "id": 2, "question": "?"}\n', "line 1.*'id' twice"),
    "no objects": ("json", "[1, 2]", "object"),
    "half a pair": ("jsonl", '{"id": 1, "question": "\\ud800"}\n', "line 1.*surrogate"),
    "no parquet": ("parquet", b"PAR1 nothing", "parquet"),
    "no Excel file": ("xlsx", b"PK nothing", "Excel"),
    "an option twice": (
        "jsonl",
        json.dumps(row(options=["x", "x", "y"], answer="C")) + "\n",
        "line 1",
    ),
    "one option": ("jsonl", json.dumps(row(options=["x"], answer="A")) + "\n", "line 1.*options"),
    "eleven options": (
        "jsonl",
        json.dumps(row(options=[f"x{n}" for n in range(11)], answer="A")) + "\n",
        "line 1.*options",
    ),
    "no question": (
        "jsonl",
        "".join(json.dumps(row(n, question=t)) + "\n" for n, t in enumerate(["a?", "", "b?"])),
        "line 2: field 'question'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_by_line(read: Read, name: str) -> None:
    form, text, match = BROKEN[name]
    if form == "xlsx":
        pytest.importorskip("openpyxl")
    with pytest.raises(DataError, match=match) as caught:
        read(text, form)
    assert f"rows.{form}" in str(caught.value)
    assert "on_bad_row" not in str(caught.value)


def test_options_named_in_a_sentence_are_counted_and_a_list_behind_a_colon_is_cut(
    read: Read,
) -> None:
    loaded = read([row(1, question=f"{Q} Is it aspirin, codeine or allopurinol?"), row(2)])
    assert loaded.items[0].question.endswith("or allopurinol?")
    (note,) = [note for note in loaded.notes if "in a sentence" in note]
    assert note.startswith("1 of 2 questions name all options")
    listed = only(read([row(question=f"{Q} Choose from: Aspirin, Codeine, Allopurinol.")]))
    assert listed.question == f"{Q} Choose from:"


def test_a_question_again_with_another_right_answer_is_counted(read: Read) -> None:
    loaded = read([row(1), row(2, answer="A"), row(3)])
    assert any(note.startswith("1 of 3 questions are asked again with") for note in loaded.notes)
    assert any(note.startswith("1 of 3 questions are asked again under") for note in loaded.notes)


def test_entities_of_texts_are_no_questions_in_a_parquet_file_either(tmp_path):
    text, entities = "He received warfarin.", [{"start": 12, "end": 20, "label": "Drug"}]
    path = tmp_path / "s.parquet"
    pl.DataFrame([{"text": text, "entities": entities}]).write_parquet(path)
    with pytest.raises(DataError, match="spans of texts in 'entities'"):
        ms.load_dataset(path)


@pytest.mark.parametrize("flags", [{"prediction": "A", "gold": "B"}, {"is_A": "1", "is_B": "0"}])
def test_of_several_columns_that_may_be_the_answer_none_is_suggested(flags):
    asked = {"question": "Which one?", "A": "aspirin", "B": "heparin", **flags}
    with pytest.raises(DataError, match=r'columns = \{answer = "\.\.\."\}'):
        ms.load_dataset([{**asked, "question": f"Which one is it, {i}?"} for i in range(4)])


def test_an_answer_in_decomposed_letters_is_that_option():
    options = {"A": "M\u00e9ni\u00e8re", "B": "vertigo"}
    asked = {"question": "What is it?", **options, "answer": "Me\u0301nie\u0300re"}
    (item,) = ms.load_dataset([asked])
    assert item.key == "A"
