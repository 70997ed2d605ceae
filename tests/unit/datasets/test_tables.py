"""Files of rows: encodings, separators, quotation marks, Excel sheets, saved folders."""

import datetime
import json
from io import BytesIO

import openpyxl
import polars
import pytest

from medstress.core import registry
from medstress.core.errors import MedstressError
from medstress.datasets.source import DatasetOptions
from medstress.datasets.tables.reading import read_table

HEAD = "question,A,B,C,D,answer"
ROW = "Which é?,w,x,y,z,B"


@pytest.fixture
def write(tmp_path):
    def written(content, name="q.csv"):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        path.write_bytes(data)
        return path

    return written


def read(path, source=None, **options):
    source = source or path.suffix[1:]
    return registry.load("datasets", source)(DatasetOptions(path=path, **options))


def refusal(path, source=None, **options):
    with pytest.raises(MedstressError) as caught:
        read(path, source, **options)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(str(path))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["q.csv", "q.tsv", "q.jsonl", "q.json"])
def test_a_byte_order_mark_tells_the_encoding(write, encoding, name):
    row = dict(zip(HEAD.split(","), ROW.split(","), strict=True))
    text = {
        "q.csv": f"{HEAD}\n{ROW}\n",
        "q.tsv": f"{HEAD}\n{ROW}\n".replace(",", "\t"),
        "q.jsonl": json.dumps(row, ensure_ascii=False) + "\n",
        "q.json": json.dumps([row], ensure_ascii=False),
    }[name]
    path = write(text.encode(encoding), name)
    loaded = read(path, "jsonl" if "json" in name else None)
    assert loaded.questions[0].stem == "Which é?"
    assert ("(UTF-" in loaded.understood) == (encoding in ("utf-16", "utf-32"))


def test_another_encoding_is_named_with_line_byte_and_key(write):
    path = write(f"{HEAD}\n{ROW}\n".encode("cp1252"))
    assert refusal(path) == (
        ", line 2: expected UTF-8 text, got the byte 0xe9; save the file as UTF-8, or give its "
        'encoding, such as encoding = "cp1252" (Windows, Western Europe)'
    )
    assert read(path, encoding="cp1252").questions[0].stem == "Which é?"
    assert "utf-16-le" in refusal(write(f"{HEAD}\n{ROW}\n".encode("utf-16-le")))
    assert refusal(path, encoding="klingon").startswith("encoding: expected a name such as")
    assert "expected ascii text, got the byte 0xe9" in refusal(path, encoding="ascii")


@pytest.mark.parametrize(("separator", "told"), [(";", "semicolons"), ("\t", "tabs")])
def test_a_csv_file_may_be_separated_otherwise(write, separator, told):
    text = f"{HEAD}\n{ROW}\n".replace(",", separator).replace("é", "é, with a comma")
    loaded = read(write(text))
    assert f"(separated by {told})" in loaded.understood
    assert loaded.questions[0].stem == "Which é, with a comma?"
    stated = read(write(f"sep={separator}\n{text}"))
    assert stated.questions == loaded.questions


def test_quotation_marks_hold_separators_line_ends_and_marks(write):
    text = f'{HEAD}\n"He said ""no"",\nthen coughed. Why?","w, w",x,y,z,A\n\n,,,,,\n{ROW}\n'
    first, second = read(write(text.replace("\n", "\r\n"))).questions
    assert first.question == 'He said "no",\r\nthen coughed. Why?'
    assert (first.options[0], second.key) == ("w, w", "B")


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_quotation_mark_that_never_closes_takes_no_good_rows_along(write, policy):
    path = write(f'{HEAD}\n{ROW}\nTwo?,"w,x,y,z,B\n{ROW}\n{ROW}\n')
    assert refusal(path, on_bad_row=policy) == (
        ", line 3: expected every quotation mark to be closed, got one that is not; close it, or "
        "write it twice inside a text"
    )


def test_ragged_rows_and_nul_bytes_are_bad_rows(write):
    path = write(
        f'{HEAD}\n{ROW}\nTwo?,w,x\nThree?,w,x,y,z,B,v\nFour?,w,x,y\0,z,B\n"a"b,c\n{ROW},,\n'
    )
    assert refusal(path) == (
        ", line 3: expected 6 fields as in the header, got 3; put quotation marks around a text "
        "that holds the separator"
    )
    loaded = read(path, on_bad_row="skip")
    assert len(loaded.questions) == 2
    places = [sentence.removeprefix(f"{path}, ").partition(":")[0] for sentence in loaded.skipped]
    assert places == ["line 3", "line 4", "line 5", "line 6"]
    assert "NUL" in loaded.skipped[2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected at least one row, got an empty file"),
        (f"{HEAD}\n", "expected at least one row, got none"),
        ("question,A,A,answer\nWhich?,x,y,A\n", "got 'A' twice; rename one"),
    ],
)
def test_a_table_without_rows_or_with_a_column_twice_is_refused(write, text, why):
    assert why in refusal(write(text))


def test_tsv_has_no_quotation_marks_unless_all_of_it_fits_them(write):
    head = HEAD.replace(",", "\t")
    loaded = read(write(f'{head}\n"Which" is it?\tw\t"x"\ty\tz\tB\n', "q.tsv"))
    assert loaded.questions[0].stem == '"Which" is it?'
    quoted = read(write(f'{head}\n"Which\tis ""it""?"\tw\t"x"\ty\tz\tB\n', "q.tsv"))
    assert (quoted.questions[0].stem, quoted.questions[0].key_text) == ('Which\tis "it"?', "x")
    wrapped = f'{head}\n"Which\nis it?"\tw\tx\ty\tz\tB\n'
    assert read(write(wrapped, "q.tsv")).questions[0].stem == "Which\nis it?"
    broken = write(wrapped + '"Who" is it?\tw\tx\ty\tz\tB\n', "q.tsv")
    assert refusal(broken, on_bad_row="skip").startswith(
        ", line 2: expected 6 fields as in the header, got 1 and a quotation mark that closes on"
    )


def book(*rows, merge=None, formats=(), sheets=()):
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Questions"
    for row in rows:
        sheet.append(list(row))
    if merge:
        sheet.merge_cells(merge)
    for cell, number_format in formats:
        sheet[cell].number_format = number_format
    for title in sheets:
        workbook.create_sheet(title).append(["x"])
    stream = BytesIO()
    workbook.save(stream)
    return stream.getvalue()


GOOD = ["Which?", "w", 2, "y", "z", "B"]


def test_an_excel_sheet_is_read_with_its_numbers_as_texts_of_options(write):
    path = write(book([], HEAD.split(","), [], GOOD, [None] * 6, GOOD), "q.xlsx")
    loaded = read(path)
    assert [item.key_text for item in loaded.questions] == ["2", "2"]
    assert loaded.understood.startswith("q.xlsx: 2 questions; ")


def test_several_sheets_need_the_key(write):
    path = write(book(HEAD.split(","), GOOD, sheets=["Notes"]), "q.xlsx")
    assert refusal(path) == (
        ": expected one sheet with content, got 2 ('Questions', 'Notes'); choose one with sheet = "
        '"Questions"'
    )
    assert "(sheet 'Questions')" in read(path, sheet="Questions").understood
    assert "did you mean 'Questions'?" in refusal(path, sheet="Question")


@pytest.mark.parametrize(
    ("row", "more", "why"),
    [
        (["Q?", "w", "=1+1", "y", "z", "B"], {}, "cell C3: expected a value, got the formula =1+1"),
        (["Q?", "w", 0.5, "y", "z", "B"], {"formats": [("C3", "0%")]}, "shown as a percentage"),
        (["Q?", "w", datetime.date(2024, 1, 2), "y", "z", "B"], {}, "spreadsheets turn some texts"),
        (["Q?", "w", "x", "y", "z", "B"], {"merge": "A3:B3"}, "got the merged cells A3:B3"),
        (["Q?", "w", "x", "y", "z", "B", "v"], {}, "expected 6 cells as in the header, got more"),
    ],
)
def test_a_cell_that_does_not_hold_what_it_shows_makes_a_bad_row(write, row, more, why):
    path = write(book(HEAD.split(","), GOOD, row, GOOD, **more), "q.xlsx")
    said = refusal(path)
    assert said.startswith(", row 3: ")
    assert why in said
    loaded = read(path, on_bad_row="skip")
    assert (len(loaded.questions), len(loaded.skipped)) == (2, 1)


def test_cells_merged_over_rows_are_bad_rows_each(write):
    path = write(book(HEAD.split(","), GOOD, GOOD, GOOD, merge="A3:A4"), "q.xlsx")
    assert len(read(path, on_bad_row="skip").skipped) == 2
    assert "row 1: expected one value" in refusal(
        write(book(HEAD.split(","), GOOD, merge="B1:C1"), "p.xlsx")
    )


@pytest.mark.parametrize("size", [0, 5, 2000])
def test_a_file_that_is_no_workbook_is_refused(write, size):
    data = book(HEAD.split(","), GOOD)[:size]
    assert ": expected an Excel file (.xlsx), but reading it fails" in refusal(
        write(data, "q.xlsx")
    )


def saved(folder, columns, features=None):
    """Write a folder as `datasets` does."""
    folder.mkdir(parents=True)
    name = "data-00000-of-00001.arrow"
    polars.DataFrame(columns).write_ipc_stream(folder / name)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return folder


MMLU = {"question": ["One?", "Two?"], "choices": [["w", "x", "y", "z"]] * 2, "answer": [1, 2]}
LETTERS = {"answer": {"names": list("ABCD"), "_type": "ClassLabel"}}


def test_a_saved_folder_is_read_with_the_names_of_its_class_labels(tmp_path):
    loaded = read(saved(tmp_path / "mmlu", MMLU, LETTERS), "hub")
    assert [item.key for item in loaded.questions] == ["B", "C"]
    assert "answers in 'answer' as letters" in loaded.understood
    with pytest.raises(MedstressError, match="answer_base"):
        read(saved(tmp_path / "unnamed", MMLU), "hub")
    assert read(tmp_path / "unnamed", "hub", answer_base=0).questions[0].key == "B"


def test_a_saved_folder_with_splits_needs_the_key(tmp_path):
    for split in ("train", "test"):
        saved(tmp_path / "all" / split, MMLU, LETTERS)
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert refusal(tmp_path / "all", "hub", split="tset") == (
        ": expected split = one of train, test, got 'tset'; did you mean 'test'?"
    )
    assert len(read(tmp_path / "all", "hub", split="test").questions) == 2


def test_saved_tags_are_read_as_such(tmp_path):
    tags = {"ner_tags": {"feature": {"names": ["O", "B-Drug"], "_type": "ClassLabel"}}}
    tokens = {"tokens": [["Aspirin", "helps"]], "ner_tags": [[1, 0]]}
    (item,) = read(saved(tmp_path / "tokens", tokens, tags), "hub").items
    assert item.labels == ("B-Drug", "O")


def test_a_saved_folder_without_its_files_or_that_leads_elsewhere_is_refused(tmp_path):
    folder = saved(tmp_path / "mmlu", MMLU)
    (tmp_path / "outside.arrow").write_bytes((folder / "data-00000-of-00001.arrow").read_bytes())
    (folder / "state.json").write_text('{"_data_files": [{"filename": "../outside.arrow"}]}')
    with pytest.raises(MedstressError, match="copy the whole folder"):
        read_table(folder)
    (folder / "data-00000-of-00001.arrow").write_bytes(b"ARROW1 not really")
    (folder / "state.json").write_text("{}")
    with pytest.raises(MedstressError, match="expected an Arrow stream"):
        read_table(folder)


def test_a_folder_of_files_is_read_by_split(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test-0.csv").write_text(f"{HEAD}\n{ROW}\n", encoding="utf-8")
    (tmp_path / "data" / "train-0.csv").write_text(f"{HEAD}\n{ROW}\n{ROW}\n", encoding="utf-8")
    assert len(read(tmp_path, "hub", split="test").questions) == 1
    assert "choose one with split" in refusal(tmp_path, "hub")


def test_the_parts_of_a_table_are_read_together(tmp_path):
    parts = [tmp_path / f"test-{n:05}-of-00002.csv" for n in range(2)]
    parts[0].write_text(f"{HEAD}\n{ROW}\n", encoding="utf-8")
    assert "copy that file too" in refusal(tmp_path, "hub")
    parts[1].write_text(f"{HEAD}\n{ROW.replace('é', 'a')}\nx\n", encoding="utf-8")
    assert "test-*-of-00002.csv, part 2, line 3: " in refusal(tmp_path, "hub")
    loaded = read(tmp_path, "hub", on_bad_row="skip")
    assert [item.stem for item in loaded.questions] == ["Which é?", "Which a?"]
    assert "2 files" in loaded.understood
    first = loaded.source_hash
    parts[1].write_text(f"{HEAD}\n{ROW}\n", encoding="utf-8")
    assert read(tmp_path, "hub").source_hash != first


def test_the_parts_of_pairs_are_read_together(tmp_path):
    for n in range(2):
        row = {"id": f"p{n}", "text_a": "One.", "text_b": f"Two {n}.", "score": n}
        polars.DataFrame([row]).write_parquet(tmp_path / f"{n:04}.parquet")
    assert [item.score for item in read(tmp_path, "hub").items] == [0, 1]


def test_a_cell_may_be_long(write):
    text = "word " * 60_000
    loaded = read(write(f'{HEAD}\n{ROW}\n"{text}",w,x,y,z,A\n'))
    assert loaded.questions[1].stem == text.strip()


TITLED = (["Exam 2024"], HEAD.split(","), GOOD)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.xlsx", book(*TITLED)),
        ("q.xlsx", book(TITLED[0], [], *TITLED[1:])),
        ("q.xlsx", book(*TITLED, merge="A1:F1")),
        ("q.csv", f"Exam 2024\n{HEAD}\n{ROW}\n"),
        ("q.csv", f"Exam 2024,,,,,\n{HEAD}\n{ROW}\n"),
        ("q.tsv", f"Exam 2024\n\n{HEAD}\n{ROW}\n".replace(",", "\t")),
    ],
)
def test_a_title_above_the_header_is_refused(write, name, content):
    said = refusal(write(content, name))
    assert "got 'Exam 2024' alone; delete what stands above the header" in said


@pytest.mark.parametrize("name", ["q.csv", "q.tsv", "q.xlsx"])
@pytest.mark.parametrize("options", [{}, {"columns": {"answer": "B"}}])
def test_a_table_without_a_header_loses_no_question(write, name, options):
    rows = [["Paget disease affects", "w", "x", "y", "z", "B"], ["Which?", "w", "x", "y", "z", "A"]]
    text = "\n".join(map(",".join, rows)).replace(",", "\t" if name == "q.tsv" else ",")
    said = refusal(write(book(*rows) if name == "q.xlsx" else text, name), **options)
    assert said.endswith("add a first row such as question,A,B,C,D,answer")


ROWS = [
    {"question": f"Which {n}?", "options": ["w", "x", "y"], "answer": key}
    for n, key in enumerate("AB")
]


@pytest.mark.parametrize(
    "by",
    [
        lambda name: [row[name] for row in ROWS],
        lambda name: {str(n): row[name] for n, row in enumerate(ROWS, start=3)},
    ],
)
def test_json_by_columns_is_read(write, by):
    path = write(json.dumps({name: by(name) for name in ROWS[0]}), "q.json")
    loaded = read(path, "jsonl")
    assert [(item.stem, item.key) for item in loaded.questions] == [
        ("Which 0?", "A"),
        ("Which 1?", "B"),
    ]
