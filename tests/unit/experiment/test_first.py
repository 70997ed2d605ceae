"""The experiment that a few values stand for: its text, its victim, its attack, its refusals."""

from __future__ import annotations

import json
import tomllib

import pytest

from medstress.core import registry
from medstress.core.errors import DataError, UsageError
from medstress.core.reading import parse_toml
from medstress.experiment import data
from medstress.experiment import first as module
from medstress.experiment.config import Dataset
from medstress.experiment.first import Choices, compose, read_data
from medstress.experiment.reading import check_experiment

QUESTION = {"question": "Which drug?", "options": ["aspirin", "ibuprofen"], "answer_idx": 0}
PAIRS = "text_a\ttext_b\tscore\na b\tc d\t1.0\na c\tc d\t2.0\n"
SERVER = {"model": "org/big", "base_url": "http://127.0.0.1:9/v1"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with data of every kind, and models that nobody opens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(module, "_lacks_minilm", module._lacks_minilm.__wrapped__)
    rows = [{"id": str(i), **QUESTION} for i in range(3)]
    write_rows(tmp_path / "q.jsonl", rows)
    write_rows(tmp_path / "passages.jsonl", [{**row, "passage": "Aspirin."} for row in rows])
    (tmp_path / "t.iob").write_text("Aspirin\tB-Chemical\nhelps\tO\n", "utf-8")
    (tmp_path / "p.tsv").write_text(PAIRS, "utf-8")
    (tmp_path / "own.py").write_text("def answer(prompts):\n    return prompts\n", "utf-8")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    for name, architecture in (
        ("causal", "LlamaForCausalLM"),
        ("head", "BertForMultipleChoice"),
        ("classifier", "BertForSequenceClassification"),
    ):
        (tmp_path / name).mkdir()
        config = json.dumps({"architectures": [architecture]})
        (tmp_path / name / "config.json").write_text(config, "utf-8")
    return tmp_path


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


AS = {"p.tsv": ["dataset.name=pairs"]}
"""Data whose ending does not say what they are -> the override that does."""


def first(data="q.jsonl", model="mock", **given):
    return compose(Choices(data=data, model=model, **given), AS.get(data, ()))


def tables(source, data="q.jsonl"):
    raw = parse_toml(source.text, "first")
    for override in AS.get(data, ()):
        raw["dataset"][0]["name"] = override.partition("=")[2]
    return check_experiment(raw)


@pytest.mark.parametrize("data", ["q.jsonl", "passages.jsonl", "t.iob", "p.tsv"])
def test_each_kind_of_data_gets_an_attack_that_takes_it(data):
    checked = tables(first(data), data)
    is_questions = data in ("q.jsonl", "passages.jsonl")
    wanted = "entity_substitution" if is_questions else "swap_noise"
    assert checked.attack[0].name == wanted
    assert [table.type for table in checked.entities] == (
        ["drugs", "diseases"] if is_questions else []
    )
    assert all(table.recogniser == "gazetteer" for table in checked.entities)


@pytest.mark.parametrize(
    ("data", "given", "expected"),
    [
        ("q.jsonl", {"model": "mock"}, ("mock", None, "qstab")),
        ("q.jsonl", {"model": "mock", "attack": "discrete_zoo"}, ("mock", "letter", "qstab")),
        ("q.jsonl", {"model": "own.py:answer"}, ("python", None, "qstab")),
        ("q.jsonl", {"model": "causal"}, ("transformers", "letter", "qstab")),
        ("q.jsonl", {"model": "head"}, ("transformers", "head", "question")),
        ("q.jsonl", {"model": "smollm2"}, ("transformers", "text", "cloze")),
        ("q.jsonl", {"model": "owner/name"}, ("transformers", "letter", "qstab")),
        ("q.jsonl", SERVER, ("openai", "generate", "chat")),
        ("q.jsonl", {**SERVER, "attack": "discrete_zoo"}, ("openai", "letter", "chat")),
        ("passages.jsonl", {"model": "causal"}, ("transformers", "letter", "open_book")),
        ("passages.jsonl", {"model": "smollm2"}, ("transformers", "text", "open_book_cloze")),
        ("passages.jsonl", SERVER, ("openai", "generate", "open_book_chat")),
        ("t.iob", {"model": "owner/name"}, ("transformers", None, "qstab")),
        ("p.tsv", {"model": "causal"}, ("sentence_transformers", None, "qstab")),
    ],
)
def test_a_name_becomes_the_back_end_and_the_way_to_answer_that_fit(data, given, expected):
    (victim,) = tables(first(data, **given), data).victim
    assert (victim.backend, victim.answer_by, victim.prompt) == expected


def test_a_gguf_file_goes_to_llama_cpp_or_else_to_transformers(monkeypatch):

    monkeypatch.setattr(module, "find_spec", lambda name: name == "transformers" or None)
    assert tables(first(model="m.gguf")).victim[0].backend == "transformers"
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    table = tables(first(model="m.gguf")).victim[0]
    assert (table.backend, table.answer_by, table.name) == ("llama_cpp", "letter", "m")


def test_without_torch_the_embedding_is_ngram_and_that_is_said(monkeypatch):
    assert {table.embedding for table in tables(first()).entities} == {"minilm"}
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "torch" else 1)
    source = first()
    assert {table["embedding"] for table in tomllib.loads(source.text)["entities"]} == {"ngram"}
    assert "pip install 'medstress[minilm]'" in source.remark


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"sampler": "pdws", "n": -20, "budget": 8}),
        ({"budget": 3}, {"sampler": "pdws", "n": -20, "budget": 3}),
        ({"attack": "swap_noise"}, {"budget": 1}),
        ({"attack": "swap_noise", "budget": 4}, {"budget": 4, "search": "greedy"}),
        ({"attack": "medfuzz", "budget": 2, **SERVER}, {"attempts": 2}),
    ],
)
def test_the_budget_is_the_parameter_that_the_attack_has(given, expected):
    assert tables(first(**given)).attack[0].parameters == expected


def test_an_attacker_is_the_victims_own_model():
    role = tables(first(**SERVER, attack="medfuzz", api_key_env="KEY")).role.attacker
    assert (role.model, role.base_url, role.api_key_env) == (*SERVER.values(), "KEY")
    assert "attacks itself" in first(**SERVER, attack="medfuzz").remark


def test_a_role_given_by_an_override_is_not_written():
    over = ["role.attacker.backend=openai"]
    choices = Choices(data="q.jsonl", model="mock", attack="medfuzz")
    source = compose(choices, over)
    assert "role" not in tomllib.loads(source.text)
    assert source.remark == ""


def test_a_name_with_odd_characters_is_written_so_that_it_is_read(here):
    odd = 'a "b" \\ é #.jsonl'
    (here / odd).write_bytes((here / "q.jsonl").read_bytes())
    checked = tables(first(odd))
    assert checked.dataset[0].path == odd
    assert checked.experiment.name == "a-b-mock"


def test_a_run_is_called_after_the_victim_as_it_is_renamed():
    given = Choices(data="q.jsonl", model="own.py:answer")
    assert compose(given).name == "q-own.py-answer.toml"
    assert compose(given, ["victim.name=mine"]).name == "q-mine.toml"


def test_columns_and_answer_base_go_into_the_file(monkeypatch):
    part = read_data(Choices(data="q.jsonl", model="mock")).part
    monkeypatch.setattr(module, "load_datasets", lambda *_: [part])
    columns = {"question": "the stem", "options": ("opa", "opb")}
    (table,) = tables(first(columns=columns, answer_base=1)).dataset
    assert (table.columns, table.answer_base) == (columns, 1)


def test_the_default_is_offered_first_and_controls_are_not():
    with pytest.raises(UsageError) as error:
        first(attack="zzz")
    offered = str(error.value).partition("choose one of ")[2].split(", ")
    assert offered[0] == "entity_substitution"
    assert {"no_op", "repeat", "attacked", "passage_swap"}.isdisjoint(offered)


REFUSED = [
    ({"data": "q.jsnol"}, "'q.jsonl'"),
    ({"model": " "}, "model"),
    ({"model": "own.py"}, "own.py:answer"),
    ({"model": "own.py:anwser"}, "'own.py:answer'"),
    ({"model": "onw.py:answer"}, "'own.py:answer'"),
    ({"model": "mm.gguf"}, "'m.gguf'"),
    ({"model": "./causl"}, "model"),
    ({"model": "llama3:8b"}, "base_url"),
    ({"model": "q.jsonl"}, "model"),
    ({"model": "org/big", "base_url": "127.0.0.1"}, "http"),
    ({"model": "org/big", "api_key_env": "KEY"}, "base_url"),
    ({"data": "t.iob", **SERVER}, "tagged texts"),
    ({"data": "p.tsv", "model": "smollm2"}, "sentence"),
    ({"entities": ("drug",)}, "'drugs'"),
    ({"entities": ()}, "entities"),
    ({"attack": "swap_noise", "entities": ("drugs",)}, "entities"),
    ({"attack": "swap_nois"}, "'swap_noise'"),
    ({"attack": "attacked"}, "attacked"),
    ({"attack": "passage_swap"}, "passage"),
    ({"data": "t.iob", "attack": "discrete_zoo"}, "tagged texts"),
    ({"attack": "medfuzz"}, "role.attacker"),
    ({"budget": 0}, "budget"),
    ({"attack": "passage_other", "data": "passages.jsonl", "budget": 2}, "budget"),
]


@pytest.mark.parametrize(("given", "word"), REFUSED, ids=str)
def test_a_value_that_does_not_fit_is_refused_with_what_does(given, word, said):
    with pytest.raises(UsageError) as error:
        first(**{"data": "q.jsonl", "model": "mock", **given})
    said(str(error.value), word)


def test_rows_that_are_not_clear_name_the_flag_that_settles_them(monkeypatch):
    def unclear(*_):
        raise DataError("q.jsonl: give answer_base = 0 or 1")

    monkeypatch.setattr(module, "load_datasets", unclear)
    with pytest.raises(DataError, match=r"answer_base=0 or 1\)$"):
        first()
    with pytest.raises(DataError, match=r"answer_base = 0 or 1$"):
        first(answer_base=0)


def test_a_hub_model_is_looked_up_in_the_cache_alone(here, monkeypatch):
    cached = here / "hub" / "models--owner--name"
    (cached / "snapshots" / "abc").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc", "utf-8")
    config = json.dumps({"architectures": ["BertForMultipleChoice"]})
    (cached / "snapshots" / "abc" / "config.json").write_text(config, "utf-8")
    import huggingface_hub.file_download as hub

    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(here / "hub"))
    assert tables(first(model="owner/name")).victim[0].answer_by == "head"
    assert 'model = "owner/other"' in first(model="owner/other").text


def test_a_file_that_was_looked_at_is_not_read_again_unless_it_changed(tmp_path, monkeypatch):
    path = tmp_path / "q.csv"
    path.write_text("question,A,B,answer\nWhy?,a,b,A\n")
    tables = [Dataset(name="table", path=str(path))]
    load, reads = registry.load, []

    def counted(kind, name):
        reads.append(name)
        return load(kind, name)

    monkeypatch.setattr(registry, "load", counted)
    first, second = (data.load_datasets(tables, tmp_path, None)[0] for _ in range(2))
    assert (first.questions, len(reads)) == (second.questions, 1)
    data.load_datasets(tables, tmp_path, None)
    path.write_text("question,A,B,answer\nWhy not?,a,b,B\n")
    assert data.load_datasets(tables, tmp_path, None)[0].questions[0].stem == "Why not?"
    assert len(reads) == 3
