"""Damaged files, models and plug-ins end a command with exit 2 and one true sentence.

Structure that is wrong in thousands of other ways is the fuzzer's (tests/fuzz); here are the
defects that once escaped, each by name.
"""

import gzip
import json
import pickle
import shutil
import sqlite3
import struct
import time
import tracemalloc
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest


def refused(told, *parts: str) -> str:
    """The sentence, which is one, names what it is about and promises nothing untrue."""
    assert told.code == 2, told.err
    assert told.err.startswith("medstress: ")
    assert told.err.count("\n") == 1
    for part in parts:
        assert part in told.err
    for untrue in ("bug of medstress", "nothing stored is lost", "Traceback"):
        assert untrue not in told.err
    return told.err


def pages_of(db: sqlite3.Connection, table: str) -> tuple[int, int]:
    """Where a table begins, in bytes, and the size of a page."""
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    return (root - 1) * size, size


@pytest.mark.parametrize(
    ("command", "table"), [("summary", "items"), ("export", "exchanges"), ("report", "answers")]
)
def test_sqlite_errors_while_rows_are_read_name_the_file(
    finished, medstress, tmp_path, command, table
):
    folder = Path(shutil.copytree(finished.out, tmp_path / "given"))
    path = folder / "run.sqlite"
    with closing(sqlite3.connect(path)) as db:
        start, size = pages_of(db, table)
    content = bytearray(path.read_bytes())
    content[start : start + size] = b"\x0d" + b"\xff" * (size - 1)
    path.write_bytes(content)
    arguments = {
        "report": ["--out", tmp_path / "report.html"],
        "export": ["--table", "trials", "--to", tmp_path / "rows.jsonl"],
    }.get(command, [])
    refused(medstress(command, folder, *arguments), str(path))
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("re*.html"))


@pytest.fixture
def refused_run(bench, medstress):
    """Run the bench's experiment, with keys of a local model, and expect a refusal."""

    def run(*parts, **model):
        if model:
            local = {"name": "v", "backend": "transformers", "answer_by": "letter"}
            bench.tables["victim"] = [local | model]
        return refused(medstress("run", bench.write(), "--out", bench.out, "--quiet"), *parts)

    return run


@pytest.mark.skipif(not find_spec("gguf"), reason="the package gguf is not installed")
def test_a_truncated_gguf_is_named(refused_run, tmp_path):
    whole = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 20) + b"general.architecture"
    for kept in (3, 60):
        (tmp_path / "cut.gguf").write_bytes((whole + struct.pack("<IQ", 8, 5) + b"llama")[:kept])
        refused_run("cut.gguf", model="cut.gguf")


class Dropper:
    """A pickle that leaves a file where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return Path.touch, (self.place,)


def write_tokenizer(folder: Path) -> None:
    """One that knows one word."""
    from tokenizers import Tokenizer, models

    words = models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]")
    Tokenizer(words).save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


@pytest.mark.models
def test_a_refused_pickle_is_one_sentence_and_is_not_executed(refused_run, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 16}
    told = {"model_type": "gpt2", "bos_token_id": 0, "eos_token_id": 0, **sizes}
    (model / "config.json").write_text(json.dumps(told))
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Dropper(tmp_path / "executed")))
    write_tokenizer(model)
    refused_run("'model'", "weights", model="model")
    assert not (tmp_path / "executed").exists()


@pytest.mark.models
@pytest.mark.parametrize("key", ["embedding", "victim"])
def test_code_that_comes_with_a_model_is_not_run_and_nobody_is_asked(
    bench, refused_run, tmp_path, monkeypatch, key
):
    model = tmp_path / "model"
    model.mkdir()
    own = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    own["AutoModelForCausalLM"] = own["AutoModel"]
    (model / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": own}))
    (model / "own.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    (model / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    write_tokenizer(model)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody was asked"))
    if key == "embedding":
        bench.tables["entities"][0]["embedding"] = "model"
    refused_run("custom code", **({"model": "model"} if key == "victim" else {}))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(("table", "column"), [("manifest", "value"), ("verdicts", "result")])
def test_json_nested_without_measure_within_a_folder_is_one_sentence(
    finished, medstress, workbench, tmp_path, table, column
):
    folder = Path(shutil.copytree(finished.out, tmp_path / "given"))
    with workbench.forged(folder) as db:  # else nothing is interpreted
        deep = "[" * 100_000 + "]" * 100_000
        db.execute(f"UPDATE {table} SET {column} = ?", (deep,))
    refused(medstress("summary", folder), "run.sqlite")
    told = medstress("export", folder, "--table", "trials", "--to", tmp_path / "rows.csv")
    refused(told, "run.sqlite")


def seconds_of(work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def test_texts_that_took_quadratic_time_are_read_in_seconds():
    from medstress.core.text import cut_word, edit_distance, sentence_spans
    from medstress.report.text import mark_changes

    word = "a" * 40_000
    assert seconds_of(lambda: [cut_word(word, i, i + 3) for i in range(400)]) < 2
    text, places = "Aspirin helps a lot. " * 8_000, [(21 * i, 21 * i + 7) for i in range(8_000)]
    assert seconds_of(lambda: sentence_spans(text, places)) < 2
    assert seconds_of(lambda: edit_distance("ab" * 500_000, "ba" * 500_000 + "c")) < 5
    old = " ".join(f"{i % 2}x" for i in range(490))
    new = " ".join(f"{i % 2}x" if i % 3 else f"{i}y" for i in range(490))
    assert seconds_of(lambda: mark_changes(old, new)) < 3


def test_a_key_of_thousands_of_tables_is_refused_in_seconds(medstress, tmp_path):
    path = tmp_path / "dotted.toml"
    path.write_text("a." * 60_000 + "a=1")
    assert seconds_of(lambda: refused(medstress("run", path), "dotted.toml", "dots")) < 5


def test_a_row_nested_too_deep_is_named_and_nothing_is_begun(bench, refused_run, tmp_path):
    path = tmp_path / "items.jsonl"
    first, *rest = path.read_text().splitlines()
    for depth in (150, 900):
        deep = first[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}"
        path.write_text("\n".join([deep, *rest]))
        refused_run("items.jsonl", "line 1")
    assert not bench.out.exists()


@pytest.mark.parametrize("how", ["damaged", "bomb"])
def test_packed_names_that_are_damaged_or_without_measure_are_refused(
    bench, refused_run, tmp_path, how
):
    packed = bytearray(gzip.compress(b"name\n" + b"aspirin\n" * 20_000_000, 1))
    if how == "damaged":
        packed[30:60] = bytes(255 - byte for byte in packed[30:60])
    (tmp_path / "names.csv.gz").write_bytes(packed)
    bench.tables["entities"][0]["vocabulary"] = "names.csv.gz"
    tracemalloc.start()
    refused_run("names.csv.gz")
    assert tracemalloc.get_traced_memory()[1] < 300 << 20
    tracemalloc.stop()
