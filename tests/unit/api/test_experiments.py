"""Experiments built in Python: the classes of the file, with the same keys, checks and errors."""

import linecache
import sys
import tomllib
from pathlib import Path

import numpy as np
import pydantic
import pytest

import medstress as ms
from medstress.attacks.protocol import make_attack
from medstress.core import registry
from medstress.experiment.config import attack_keys, function_keys, given_keys
from medstress.experiment.reading import check_experiment, resolve, written

GROUP = ms.Entities(type="drugs", vocabulary="drugs", embedding="ngram")


def always_a(prompts):
    """A victim."""
    return ["A"] * len(prompts)


class Model:
    """A victim that is an object."""

    def answer(self, prompts):
        """Answer."""
        return ["B"] * len(prompts)


def _sampled(**given):
    return ms.Experiment(name="x", dataset=ms.Dataset(name="sample"), **given)


def _full():
    return ms.Experiment(
        name="full",
        dataset=[ms.Dataset(name="table", path=Path("q.jsonl"), columns={"question": 'the "q"'})],
        entities=ms.Entities(type=("T121", "T109"), vocabulary="drugs", embedding="ngram"),
        victim=[always_a, ms.Victim(backend="mock", name='the "m" \\')],
        attack=[
            ms.EntitySubstitution(sampler="pdws", n=-20, budget=4),
            ms.Attack(name="swap_noise"),
        ],
        role={"attacker": ms.Role(backend="mock"), "judge": {"backend": "mock"}},
        require={"metric": "asr", "max_high": 0.5},
        slices=ms.Slices(by=("subject",)),
        seeds=(0, 1),
        max_usd=np.float64(2.5),
        controls=False,
    )


def test_an_experiment_from_python_is_the_one_that_its_file_gives():
    made = _full()
    assert check_experiment(tomllib.loads(written(made, Path()))) == made
    assert made.experiment.seeds == (0, 1)
    assert made.experiment.max_usd == 2.5
    assert made.dataset[0].path == "q.jsonl"
    assert made.victim[0].target == f"{__name__}:always_a"
    assert made.attack[0].attacks[0] == ms.EntitySubstitution(n=-20, budget=4)
    assert made.role.judge.backend == "mock"


def test_a_written_file_elsewhere_finds_the_same_files_and_keeps_the_names(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "data", there):
        folder.mkdir(parents=True)
    (here / "data" / "q.jsonl").write_text("{}")
    (here / "m.py").write_text("")
    made = ms.Experiment(
        name="x",
        dataset=ms.Dataset(name="table", path="data/q.jsonl", limit=9),
        victim=ms.Victim(backend="python", target="m.py:f"),
    )
    text = written(made, here, there / "e.toml", limit=4)
    moved = check_experiment(tomllib.loads(text), needs=())
    assert (there / moved.dataset[0].path).resolve() == here / "data" / "q.jsonl"
    assert (moved.dataset[0].limit, moved.dataset[0].label) == (4, "q")
    assert (moved.victim[0].target, moved.victim[0].name) == ("../here/m.py:f", "m.py:f")
    assert check_experiment(tomllib.loads(written(made, here, here / "e.toml")), needs=()) == made


def test_names_that_are_made_of_a_path_are_not_moved(tmp_path):
    (tmp_path / "m.py").write_text("")
    made = ms.Experiment(
        name="m.py",
        dataset=ms.Dataset(name="sample"),
        victim=ms.Victim(backend="python", target="m.py:f", name="m.py:f"),
        require=ms.Require(metric="asr", max_high=0.5, where={"victim": "m.py:f"}),
    )
    text = written(made, tmp_path, tmp_path / "sub" / "e.toml")
    moved = check_experiment(tomllib.loads(text), needs=())
    assert (moved.victim[0].target, moved.victim[0].name) == ("../m.py:f", "m.py:f")
    assert moved.experiment.name == "m.py"
    assert moved.require[0].where == {"victim": "m.py:f"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ms.Dataset(name="table", pth="x"), "ms.Dataset: .*'pth'.*'path'"),
        (lambda: ms.Dataset(path="x"), "'name'"),
        (lambda: ms.Victim(backend="mock", target="f.py:f"), "target"),
        (lambda: _sampled(victim={"backend": "mock", "mdel": "x"}), "victim: .*'mdel'.*'model'"),
        (lambda: _sampled(attack=3), "attack"),
        (lambda: _sampled(role={"atacker": {"backend": "mock"}}), "atacker"),
        (lambda: ms.Experiment(dataset={"name": "sample"}), "'name' is missing"),
        (lambda: ms.Experiment(nam="x", dataset={"name": "sample"}), "'nam'; did you mean 'name'"),
        (lambda: _sampled(role={"attacker": 3}), "role.attacker.*expected a table.*got 3"),
        (lambda: _sampled(slices={"by": "subject"}), "by = 'subject': expected a list"),
        (lambda: ms.Dataset(name="table", columns={"question": 5}), r"columns\.question = 5"),
        (
            lambda: ms.Dataset(name="table", columns={"questoin": "q"}),
            "ms.Dataset: columns: unknown field 'questoin'; did you mean 'question'",
        ),
        (lambda: ms.Dataset(name="pairs", columns={"text_aa": "q"}), "did you mean 'text_a'"),
        (
            lambda: ms.Require(metric="asrr", max_high=0.5),
            "ms.Require: metric = 'asrr': .*did you mean 'asr'",
        ),
        (lambda: ms.Require(metric="f1_aftr", min_low=0.5), "did you mean 'f1_after'"),
        (lambda: ms.Victim(target=lambda prompts: prompts), "def"),
        (lambda: ms.Victim(target=Model()), "Model"),
    ],
)
def test_what_is_wrong_is_a_usage_error_that_names_the_key(make, words):
    with pytest.raises(ms.UsageError, match=words) as error:
        make()
    assert not isinstance(error.value.__cause__, pydantic.ValidationError)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_load_dataset_takes_the_keys_that_its_messages_advise(tmp_path):
    path = tmp_path / "q.csv"
    path.write_bytes("question,A,B,answer\nMénière?,x,y,A\nWhy?,x,y,Z\n".encode("cp1252"))
    with pytest.raises(ms.DataError, match='encoding = "cp1252"'):
        ms.load_dataset(path)
    with pytest.raises(ms.DataError, match="line 3"):
        ms.load_dataset(path, encoding="cp1252")
    with pytest.warns(UserWarning, match="line 3"):
        (one,) = ms.load_dataset(path, encoding="cp1252", on_bad_row="skip")
    assert one.question == "Ménière?"
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for number in range(2):
        sheet = book.create_sheet(f"part {number}")
        sheet.append(["question", "A", "B", "answer"])
        sheet.append([f"Why {number}?", "x", "y", "A"])
    book.save(path := tmp_path / "q.xlsx")
    with pytest.raises(ms.MedstressError, match="sheet"):
        ms.load_dataset(path)
    assert ms.load_dataset(path, sheet="part 1")[0].question == "Why 1?"


def test_a_metric_of_a_plug_ins_kind_is_left_to_the_run(monkeypatch):
    monkeypatch.setattr(registry, "installed", lambda _: ["nli"])
    assert ms.Require(metric="macro_f1", min_low=0.5).metric == "macro_f1"


def test_a_notebook_shows_the_users_own_line_and_the_sentence():
    with pytest.raises(ms.UsageError) as error:
        ms.Dataset(name="table", pth="x")
    shown = error.value._render_traceback_()
    assert shown[-1] == f"UsageError: {error.value}"
    assert any('ms.Dataset(name="table", pth="x")' in line for line in shown)
    assert not any("super().__init__" in line for line in shown)


@pytest.mark.parametrize("name", sorted(registry.ATTACKS))
def test_an_attack_is_made_again_from_its_keys(name):
    try:
        attack = make_attack(name, {})
    except ms.UsageError:
        attack = make_attack(name, {"n": -20})
    keys = attack_keys(attack)
    assert make_attack(keys.pop("name"), keys) == attack


@pytest.mark.parametrize(
    "keys",
    [
        {"sampler": "exhaustive"},
        {"sampler": "nearest", "max_edit_distance": 3},
        {"sampler": "random", "choices": "as_released"},
        {"n": -3, "budget": 2, "continue_on_invalid": True},
    ],
)
def test_an_attack_object_is_the_attack_of_its_table(keys):
    attack = ms.EntitySubstitution(**keys)
    assert ms.Attack.model_validate(attack).attacks == (attack,)


def test_an_attack_whose_class_cannot_be_found_again_is_refused(said):
    class Hidden(ms.EntitySubstitution):
        def spec(self):
            return {**super().spec(), "name": "hidden"}

    class Other(ms.EntitySubstitution):
        pass

    for kind, word in ((Hidden, "hidden"), (Other, "entity_substitution")):
        with pytest.raises(ms.UsageError) as error:
            attack_keys(kind(sampler="nearest"))
        said(str(error.value), word)
    assert "hidden" not in registry.ATTACKS


def _cell(text, name, monkeypatch):
    """Define a function as a cell of a notebook does: in `__main__`, without a file."""
    cell = f"<cell {len(text)} {name}>"
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    main = sys.modules["__main__"]
    space = {"__name__": "__main__"}
    exec(compile(text, cell, "exec"), space)
    monkeypatch.setattr(main, name, space[name], raising=False)
    return space[name]


def test_a_function_of_a_cell_is_identified_by_its_text(monkeypatch):
    first = "def planted(prompts):\n    return ['A' for _ in prompts]\n"
    keys = function_keys(_cell(first, "planted", monkeypatch))
    assert (keys["target"], keys["name"]) == ("__main__:planted", "planted")
    again = function_keys(_cell(first, "planted", monkeypatch))
    changed = function_keys(_cell(first.replace("'A'", "'B'"), "planted", monkeypatch))
    assert keys == again
    assert keys["version"] != changed["version"]


def test_a_class_of_a_cell_is_identified_by_its_text(monkeypatch, said):
    first = (
        "class Planted:\n    def answer(self, prompts):\n        return ['A' for _ in prompts]\n"
    )
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    keys = function_keys(_cell(first, "Planted", monkeypatch))
    assert keys["target"] == "__main__:Planted"
    assert keys == function_keys(_cell(f"{first}\nother = 1\n", "Planted", monkeypatch))
    changed = function_keys(_cell(first.replace("'A'", "'B'"), "Planted", monkeypatch))
    assert keys["version"] != changed["version"]
    linecache.clearcache()
    with pytest.raises(ms.UsageError) as error:
        function_keys(sys.modules["__main__"].Planted)
    said(str(error.value), "version")


def test_an_object_needs_a_name_and_a_version(monkeypatch, said):
    model = Model()
    monkeypatch.setattr(sys.modules["__main__"], "planted_model", model, raising=False)
    with pytest.raises(ms.UsageError) as error:
        ms.Victim(target=model)
    said(str(error.value), "planted_model", "version")
    made = ms.Victim(target=model, version="1", batch_size=4)
    assert (made.target, made.version, made.batch_size) == ("__main__:planted_model", "1", 4)


def test_a_function_of_a_module_is_identified_by_its_file():
    assert function_keys(always_a)["version"] is None
    assert function_keys(Model)["target"] == f"{__name__}:Model"


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ms.run(_sampled(), data="questions.csv"), "data"),
        (lambda: ms.run(data="questions.csv"), "model"),
        (lambda: ms.run(data="sample", model=always_a, base_url="http://x/v1"), "base_url"),
        (lambda: ms.compare(3, "b"), "3"),
        (lambda: ms.run(_sampled(), limit="four"), "limit"),
        (lambda: ms.run(_sampled(), seeds=[1]), "experiment.seeds=[1]"),
        (lambda: ms.run(data="sample", model=3), "model"),
        (lambda: ms.run(data=[3], model=always_a), "data"),
        (lambda: ms.run(data=[{"question": "?"}], model=always_a), "options"),
        (lambda: ms.run(data="", model=always_a), "data"),
        (lambda: ms.run({1: 2}), "unknown table '1'"),
        (lambda: ms.run(data="sample", model=always_a, entities=5), "entities"),
        (lambda: ms.run(data="sample", model=always_a, entities=()), "entities"),
        (
            lambda: ms.run(data="sample", model=always_a, attack="swap_noise", entities=GROUP),
            "entities",
        ),
        (lambda: ms.run(data={"name": "sample"}, model=always_a, answer_base=1), "answer_base"),
        (lambda: ms.Run("x").case(5), "case_id"),
        (lambda: ms.load_dataset(5), "name"),
        (lambda: ms.attack_one(None, always_a, 5), "question"),
    ],
)
def test_what_a_function_cannot_take_is_a_usage_error(call, word, said):
    with pytest.raises(ms.MedstressError) as error:
        call()
    said(str(error.value), word)


def test_overrides_change_typed_tables_as_they_change_a_file():
    attack = ms.Attack(name="entity_substitution", sampler="nearest", budget=2)
    tables = {"dataset": ms.Dataset(name="sample"), "victim": ms.Victim(backend="mock")}
    given = ms.Experiment(name="x", entities=GROUP, attack=attack, **tables)
    changed, text, _ = resolve(given, ["attack.budget=5", "experiment.seeds=[7]"])
    assert changed.attack[0].attacks[0].budget == 5
    assert changed.experiment.seeds == (7,)
    assert tomllib.loads(text) == given_keys(given)
    assert resolve(given)[0] == given


def test_a_victim_that_an_override_renames_is_renamed_everywhere():
    given = _sampled(
        victim=ms.Victim(backend="mock", prompt={"sample": "chat", "default": "qstab"}),
        attack=ms.EntitySubstitution(sampler="nearest"),
        require=ms.Require(metric="asr", max_high=0.5, where={"victim": "mock"}),
    )
    changed = resolve(given, ["victim.name=mine", "dataset.label=all"])[0]
    assert changed.victim[0].called == "mine"
    assert changed.require[0].where == {"victim": "mine"}
    assert changed.victim[0].prompt == {"all": "chat", "default": "qstab"}
