"""Files that would fill the memory are refused in seconds, saying the limit."""

from __future__ import annotations

import json
import os
import zipfile

import polars
import pytest

from medstress.core import reading as bounded
from medstress.core import tables
from medstress.core.errors import DataError, MedstressError
from medstress.core.tables import read_table
from medstress.datasets.guess import guess_dataset
from medstress.datasets.questions import load
from medstress.datasets.sentences import load_iob
from medstress.datasets.source import DatasetOptions
from medstress.datasets.standoff import load_brat, load_pubtator

HEADER = ["id", "question", "A", "B", "answer"]
SHEET = "xl/worksheets/sheet1.xml"
NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
GIGABYTE = 1 << 30


def workbook(path, **cells):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(HEADER)
    book.active.append(["1", "What?", "x", "y", "A"])
    for place, value in cells.items():
        book.active[place] = value
    book.save(path)


def with_sheet(path, begin, piece, n, end):
    """A workbook whose sheet is `begin`, `piece` n times, `end`."""
    workbook(path)
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist() if name != SHEET}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, data in parts.items():
            book.writestr(name, data)
        with book.open(SHEET, "w", force_zip64=True) as stream:
            stream.write(begin)
            for _ in range(n):
                stream.write(piece)
            stream.write(end)


BEGIN = f'<worksheet xmlns="{NAMESPACE}"><sheetData>'.encode()
END = b"</sheetData></worksheet>"


def corner(path):
    workbook(path, XFD1048576="x")


def spaces(path):
    with_sheet(path, BEGIN, b" " * (1 << 20), 160, END)


def merged(path):
    area = b'</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells></worksheet>'
    with_sheet(path, BEGIN, b"", 0, area)


def rows(path, n=30_000_000):
    polars.select(question=polars.repeat("What?", n)).write_parquet(path)


def fewer_rows(path):
    rows(path, 600_000)


def long_lists(path):
    frame = polars.select(
        question=polars.lit("What?"), options=polars.repeat("x", 12_000_000).implode()
    )
    frame.write_parquet(path)


def categories(path):
    texts = polars.repeat("w" * 10_000_000, 100, dtype=polars.String)
    polars.select(question=texts.cast(polars.Categorical)).write_parquet(path)


def long_text(path):
    polars.select(question=polars.repeat("a " * 600_000, 4)).write_parquet(path)


def equal_texts(path):
    polars.select(question=polars.repeat("a " * 50_000, 2_000)).write_parquet(path)


def long_options(path):
    frame = polars.select(options=polars.repeat("x", 250_000).implode(), answer=polars.lit("A"))
    frame.with_columns(question=polars.lit("What?")).write_parquet(path)


def names(path):
    path.write_text(json.dumps({f"name {i}": i for i in range(40_000)}), encoding="utf-8")


def other_names(path):
    texts = (json.dumps({f"name {i} {n}": i for i in range(300)}) for n in range(4))
    path.write_text("\n".join(texts), encoding="utf-8")


def columns(path):
    names = ",".join(f"x{i}" for i in range(40_000))
    path.write_text(f"{names}\n{names}\n", encoding="utf-8")


def lines(path):
    path.write_bytes(b"\n" * 6_000_000)


def sparse(path):
    with path.open("wb") as stream:
        stream.write(b'{"id":"')
        stream.truncate(2 * GIGABYTE)


def one_line(path):
    path.write_bytes(b'{"id":"' + b"w" * (20 << 20))


def lists(path):
    path.write_bytes(b"[" + b"[]," * 6_000_000 + b"[]]")


FILES = [
    ("q.xlsx", corner, "500,000 cells in sheet 'Sheet', got 17,179,869,184"),
    pytest.param("q.xlsx", spaces, "134,217,728 bytes once unpacked", marks=pytest.mark.release),
    ("q.xlsx", merged, "cells and texts, got 17,179,869,184"),
    pytest.param("q.parquet", rows, "500,000 rows, got 30,000,000", marks=pytest.mark.release),
    ("q.parquet", fewer_rows, "500,000 rows, got 600,000"),
    ("q.parquet", long_lists, "10,000,000 values, got 12,000,000"),
    ("q.parquet", categories, "268,435,456 bytes of text, got 1,000,000,000"),
    ("q.parquet", long_text, "row 1: field 'question': expected at most 1,000,000 characters"),
    ("q.parquet", equal_texts, r"at most 1,\d\d\d,\d00 characters in \d,\d\d\d bytes, got 200,0"),
    ("q.parquet", long_options, "row 1: field 'options': expected 2 to 10 options, got 250,000"),
    ("q.jsonl", names, "line 1: expected at most 1,000 columns, got 40,000"),
    ("q.jsonl", other_names, "1,000 columns, got 1,200"),
    ("q.csv", columns, "1,000 columns, got 40,000"),
    ("q.csv", lines, "5,000,000 lines, got 6,000,000"),
    ("q.jsonl", sparse, "268,435,456 bytes, got 2,147,483,648"),
    ("q.jsonl", one_line, "lines of at most 16,777,216 bytes"),
    ("q.json", lists, "10,000,000 values"),
]


@pytest.mark.parametrize(("name", "make", "limit"), FILES, ids=lambda x: getattr(x, "__name__", ""))
def test_a_table_that_would_fill_the_memory_is_refused_with_its_limit(tmp_path, name, make, limit):
    path = tmp_path / name
    make(path)
    with pytest.raises(DataError, match=limit):
        load(DatasetOptions(path=path))


@pytest.mark.parametrize(("name", "load"), [("t.conll", load_iob), ("t.pubtator", load_pubtator)])
def test_files_of_tokens_and_annotations_have_limits_too(tmp_path, name, load):
    lines(tmp_path / name)
    with pytest.raises(DataError, match="5,000,000 lines"):
        load(DatasetOptions(path=tmp_path / name))


@pytest.mark.parametrize("depth", [101, 100_000])
@pytest.mark.parametrize("name", ["q.json", "q.jsonl"])
def test_deep_nesting_is_one_sentence(tmp_path, name, depth):
    (tmp_path / name).write_text('{"a":' * depth + "1" + "}" * depth, encoding="utf-8")
    try:
        error = read_table(tmp_path / name).rows[0][1]  # a bad row, where each line is one
    except DataError as refusal:
        error = refusal
    assert "nested" in str(error) or "recursion" in str(error)


@pytest.mark.parametrize("what", ["text", "annotations", "folder", "pipe"])
def test_a_brat_folder_is_read_without_links_and_pipes(tmp_path, what):
    (tmp_path / "secret.txt").write_text("SECRET", encoding="utf-8")
    (tmp_path / "secret.ann").write_text("", encoding="utf-8")
    folder = tmp_path / "brat"
    folder.mkdir()
    (folder / "a.txt").write_text("Fever here.", encoding="utf-8")
    (folder / "a.ann").write_text("T1\tSign 0 5\tFever\n", encoding="utf-8")
    if what == "folder":
        (folder / "more").symlink_to(tmp_path, target_is_directory=True)
        loaded = load_brat(DatasetOptions(path=folder))
        assert [item.tokens[0] for item in loaded.items] == ["Fever"]
        return
    (folder / "b.txt").write_text("Cough.", encoding="utf-8")
    (folder / "b.ann").write_text("", encoding="utf-8")
    place = folder / ("b.ann" if what == "annotations" else "b.txt")
    place.unlink()
    if what == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / f"secret{place.suffix}")
    with pytest.raises(MedstressError, match=rf"{place.name}: expected a file, got"):
        load_brat(DatasetOptions(path=folder))
    loaded = load_brat(DatasetOptions(path=folder, on_bad_row="skip"))
    assert "SECRET" not in " ".join(token for item in loaded.items for token in item.tokens)
    assert len(loaded.skipped) == 1


def test_rows_within_the_limits_are_read(tmp_path, monkeypatch):
    path = tmp_path / "q.csv"
    path.write_text("id,question\n" + "1,a\n" * 9, encoding="utf-8")
    monkeypatch.setattr(bounded, "MAX_ROWS", 10)
    monkeypatch.setattr(bounded, "MAX_CELLS", 20)
    assert len(read_table(path).rows) == 9
    for name, limit in (("MAX_ROWS", 9), ("MAX_CELLS", 19)):
        with monkeypatch.context() as patch:
            patch.setattr(bounded, name, limit)
            with pytest.raises(DataError, match=f"at most {limit} "):
                read_table(path)


def test_a_sentence_names_a_part_of_many_columns(tmp_path):
    row = {f"name {i}": i for i in range(900)}
    (tmp_path / "q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(DataError, match=r"name 0, .*name 99, .*…; name") as refusal:
        load(DatasetOptions(path=tmp_path / "q.jsonl"))
    assert len(str(refusal.value)) < 1_500


def test_cells_of_a_sheet_are_counted_whatever_its_head_says(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_SHEET", 20_000)
    path = tmp_path / "q.xlsx"
    with_sheet(path, BEGIN, b"<row>" + b"<c/>" * 1_000 + b"</row>", 24, END)
    with pytest.raises(DataError, match="20,000 cells in sheet"):
        guess_dataset(str(path))


def test_a_row_with_many_names_is_read_in_linear_time(tmp_path):
    row = {"id": "1", "question": "What?", "options": ["a", "b"], "answer": "A"}
    names = {f"name {i}": i for i in range(16_000)}
    text = json.dumps({**row, **names})[:-1] + ', "name 15999": 0}'
    (tmp_path / "q.jsonl").write_text(text, encoding="utf-8")
    error = read_table(tmp_path / "q.jsonl").rows[0][1]
    assert "'name 15999' twice" in str(error)
