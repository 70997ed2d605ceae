"""Experiments built in Python: the same keys, checks and errors as in a file."""

import inspect
import linecache
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars
import pydantic
import pytest

import medstress as ms
from medstress.api import tables
from medstress.api.given import attack_keys, function_keys, plain
from medstress.api.wording import said_in_python
from medstress.attacks.protocol import make_attack
from medstress.core import registry
from medstress.experiment.file import config
from medstress.experiment.file.reading import check_experiment
from medstress.experiment.first import toml_text
from medstress.experiment.prepare import resolve

TABLES = (
    *(ms.Analysis, ms.Attack, ms.Dataset, ms.Entities, ms.Require, ms.Role),
    *(ms.Significance, ms.Slices, ms.Train, ms.Tune, ms.Victim),
)


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
        dataset=[ms.Dataset(name="table", path=Path("q.jsonl"), columns={"question": "stem"})],
        entities=ms.Entities(type=("T121", "T109"), vocabulary="drugs", embedding="ngram"),
        victim=[always_a, ms.Victim(backend="mock", name='the "m"\n')],
        attack=[
            ms.attacks.EntitySubstitution(sampler="pdws", n=-20, budget=4),
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
    assert isinstance(made, config.Experiment)
    again = check_experiment(tomllib.loads(toml_text(plain(made))))
    assert again.model_dump() == made.model_dump()
    assert made.experiment.seeds == (0, 1)
    assert made.experiment.max_usd == 2.5
    assert made.dataset[0].path == "q.jsonl"
    assert made.victim[0].target == f"{__name__}:always_a"
    assert made.attack[0].attacks[0] == ms.attacks.EntitySubstitution(n=-20, budget=4)
    assert made.role.judge.backend == "mock"


def test_signatures_show_types_without_limits():
    for made in (*TABLES, ms.Experiment):
        assert "FieldInfo" not in str(inspect.signature(made))
        assert "MinLen" not in str(inspect.signature(made))
    assert "limit: Optional[int] = None" in str(inspect.signature(ms.Dataset))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("cannot write x; give another --to", "cannot write x; give another `to`"),
        ("--entities: expected drugs, got 'x'", "entities: expected drugs, got 'x'"),
        ("with --out, or away with --fresh", "with `out`, or away with fresh=True"),
        ("--set 'x': expected a.b=c", 'overrides=["x"]: expected a.b=c'),
        ("(--set experiment.max_usd=...) or", '(overrides=["experiment.max_usd=..."]) or'),
        ("for a first run --data q.csv --model NAME", "for a first run data=q.csv model=NAME"),
        ("--columns FIELD=COLUMN, or", "columns={FIELD: COLUMN}, or"),
        ("type: medstress run x.toml --out DIR", "type: medstress run x.toml --out DIR"),
        ("run it again; medstress run --fresh", "run it again; medstress run --fresh"),
        ("a--b and -- c", "a--b and -- c"),
    ],
)
def test_python_speaks_of_arguments_where_the_command_line_has_flags(message, said):
    assert said_in_python(message) == said


def test_a_refused_run_speaks_of_arguments(tmp_path):
    with pytest.raises(ms.UsageError, match=r"^overrides=\[\"x\"\]: expected"):
        ms.run(data="sample", model="mock", out=tmp_path / "r", overrides=["x"])


def test_the_arguments_are_the_tables_and_the_keys_of_the_first_one():
    given = set(inspect.signature(ms.Experiment).parameters)
    wanted = set(config.Experiment.model_fields) | set(config.ExperimentTable.model_fields)
    assert given == wanted


@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.__name__)
def test_editors_see_the_keys_of_every_table(made):
    keys = set(inspect.signature(made).parameters)
    (base,) = [each for each in made.__bases__ if each is not tables._Given]
    assert set(base.model_fields) <= keys


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ms.Dataset(name="table", pth="x"), "'pth'.*'path'"),
        (lambda: ms.Dataset(path="x"), "'name'"),
        (lambda: ms.Entities(type="drugs", vocabulry="drugs"), "vocabul"),
        (lambda: ms.Dataset(name="table", path=3), "path = 3"),
        (lambda: ms.Victim(backend="mock", target="f.py:f"), "target"),
        (lambda: ms.Attack(name="entity_substitution", smpler="x"), "'smpler'.*'sampler'"),
        (lambda: ms.Attack(name="entity_substitutio", sampler="x"), "'entity_substitution'"),
        (lambda: ms.Attack(name="entity_substitution", sampler="nerest"), "nerest"),
        (lambda: ms.Role(backend="mock", temprature=1.0), "'temprature'.*'temperature'"),
        (lambda: _sampled(seeds=[0, 0]), "seeds"),
        (lambda: _sampled(seeds="zero"), "seeds"),
        (lambda: _sampled(victim={"backend": "mock", "mdel": "x"}), "'mdel'.*'model'"),
        (lambda: _sampled(attack=3), "attack"),
        (lambda: _sampled(role={"atacker": {"backend": "mock"}}), "atacker"),
        (lambda: ms.Experiment(name="x", dataset=[]), "dataset"),
        (lambda: ms.Experiment(dataset={"name": "sample"}), "name"),
        (lambda: ms.Experiment(nam="x"), "'nam'; did you mean 'name'"),
        (lambda: ms.Experiment(name="x"), r"\[\[dataset\]\] is missing"),
        (lambda: _sampled(role={"attacker": 3}), r"role.attacker.*expected a table.*got 3"),
        (lambda: _sampled(slices={"by": "subject"}), "by = 'subject': expected a list"),
        (lambda: ms.Experiment(name="a b", dataset={"name": "table"}), "'a b': expected letters"),
        (lambda: ms.Dataset(name="table", columns={"question": 5}), r"columns\.question = 5"),
    ],
)
def test_what_is_wrong_is_a_usage_error_that_names_the_key(make, words):
    with pytest.raises(ms.UsageError, match=words):
        make()


def test_no_error_of_the_checking_library_is_the_cause_that_users_see():
    with pytest.raises(ms.MedstressError) as error:
        ms.Dataset(name=3)
    assert not isinstance(error.value, pydantic.ValidationError)
    assert error.value.__suppress_context__


def test_a_notebook_shows_the_users_own_line_and_the_sentence():
    with pytest.raises(ms.UsageError) as error:
        ms.Dataset(name="table", pth="x")
    shown = error.value._render_traceback_()
    assert shown[-1] == f"UsageError: {error.value}"
    assert any('ms.Dataset(name="table", pth="x")' in line for line in shown)
    assert not any("check_table" in line for line in shown)


def test_the_public_errors_are_one_family():
    family = (ms.UsageError, ms.DataError, ms.StoreError, ms.BackendError)
    assert all(issubclass(each, ms.MedstressError) for each in family)


@pytest.mark.parametrize("name", sorted(registry.ATTACKS))
def test_an_attack_is_made_again_from_its_keys(name):
    try:
        attack = make_attack(name, {})
    except ms.UsageError:
        attack = make_attack(name, {"n": -20})
    keys = attack_keys(attack)
    again = make_attack(keys.pop("name"), keys)
    assert again == attack
    assert len(keys) <= 1  # no default is repeated


@pytest.mark.parametrize(
    "keys",
    [
        {"sampler": "exhaustive"},
        {"sampler": "nearest", "max_edit_distance": 3},
        {"sampler": "random", "choices": "as_released"},
        {"n": -3, "budget": 2, "continue_on_invalid": True},
    ],
)
def test_keys_are_those_that_differ_from_the_defaults(keys):
    found = attack_keys(ms.attacks.EntitySubstitution(**keys))
    assert found == {"name": "entity_substitution", **keys}


def test_an_attack_made_inside_a_function_is_refused(said):
    class Hidden(ms.attacks.EntitySubstitution):
        def spec(self):
            return {**super().spec(), "name": "hidden"}

    with pytest.raises(ms.UsageError) as error:
        attack_keys(Hidden(sampler="nearest"))
    said(str(error.value), "hidden")
    assert "hidden" not in registry.ATTACKS


def test_an_attack_under_the_name_of_another_is_refused(said):
    class Other(ms.attacks.EntitySubstitution):
        pass

    with pytest.raises(ms.UsageError) as error:
        attack_keys(Other(sampler="nearest"))
    said(str(error.value), "entity_substitution")


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
    assert keys["target"] == "__main__:planted"
    assert keys["name"] == "planted"
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
    with pytest.raises(ms.UsageError) as error:
        ms.Victim.of(model)
    said(str(error.value), "Model")
    monkeypatch.setattr(sys.modules["__main__"], "planted_model", model, raising=False)
    with pytest.raises(ms.UsageError) as error:
        ms.Victim.of(model)
    said(str(error.value), "planted_model", "version")
    made = ms.Victim.of(model, version="1", batch_size=4)
    assert (made.target, made.version, made.batch_size) == ("__main__:planted_model", "1", 4)


def test_a_function_without_a_name_is_refused(said):
    with pytest.raises(ms.UsageError) as error:
        ms.Victim.of(lambda prompts: prompts)
    said(str(error.value), "def")


def test_a_function_of_a_module_is_identified_by_its_file():
    assert function_keys(always_a)["version"] is None
    assert function_keys(Model)["target"] == f"{__name__}:Model"


def test_run_takes_an_experiment_or_what_stands_for_it_but_not_both(said):
    with pytest.raises(ms.UsageError) as error:
        ms.run(_sampled(), data="questions.csv")
    said(str(error.value), "data")
    with pytest.raises(ms.UsageError) as error:
        ms.run(data="questions.csv")
    said(str(error.value), "model")
    with pytest.raises(ms.UsageError) as error:
        ms.run(data="sample", model=always_a, base_url="http://127.0.0.1:1/v1")
    said(str(error.value), "base_url")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ms.open(3), "3"),
        (lambda: ms.compare(3, "b"), "3"),
        (lambda: ms.run(_sampled(), limit="four"), "limit"),
        (lambda: ms.run(data="sample", model=always_a, budget="four"), "budget"),
        (lambda: ms.run(3), "3"),
        (lambda: ms.run(data="sample", model=3), "model"),
        (lambda: ms.run(data=[{"question": "?"}], model=always_a), "data"),
        (
            lambda: ms.run(data=polars.DataFrame({"question": ["?"]}), model=always_a),
            "write_parquet",
        ),
        (lambda: ms.run(data="", model=always_a), "data"),
        (lambda: ms.run({1: 2}), "'1'"),
        (lambda: ms.run(data="sample", model=always_a, entities=5), "entities"),
        (lambda: ms.run(data="sample", model=always_a, entities=["drugs", 5]), "entities"),
        (lambda: ms.run(data="sample", model=always_a, entities=()), "entities"),
        (
            lambda: ms.run(data="sample", model=always_a, attack="swap_noise", entities=GROUP),
            "entities",
        ),
        (lambda: ms.run(data="sample", model=always_a, attack=5), "attack"),
        (lambda: ms.run(data="sample", model=always_a, attack=[]), "attack"),
        (lambda: ms.run(data="sample", model=always_a, columns=5), "columns"),
        (lambda: ms.run(data={"name": "sample"}, model=always_a, answer_base=1), "answer_base"),
        (lambda: ms.run(_sampled(), overrides=[3]), "overrides"),
        (lambda: ms.run(_sampled(), watcher=3), "watcher"),
        (lambda: ms.run(_sampled(), out=5), "out"),
        (lambda: ms.Run("x").case(5), "case_id"),
        (lambda: ms.Run("x").table(5), "name"),
        (lambda: ms.Run("x").figures(5), "out"),
        (lambda: ms.Run("x").report(to=5), "to"),
        (lambda: ms.load_dataset(5), "name"),
        (lambda: ms.load_dataset("sample", limit="x"), "limit"),
        (lambda: ms.attack_one(None, always_a, 5, entities="drugs"), "question"),
        (lambda: ms.Victim.of(5), "function"),
    ],
)
def test_a_value_of_another_type_is_a_usage_error(call, word, said):
    with pytest.raises(ms.UsageError) as error:
        call()
    said(str(error.value), word)


def test_an_attack_of_one_item_takes_the_typed_tables(said):
    (question, *_) = ms.load_dataset("sample")
    attack = ms.Attack(name="entity_substitution", sampler="nearest")
    for victim in (always_a, Model, Model(), ms.Victim(backend="mock")):
        row = ms.attack_one(question, victim, attack, entities=GROUP)
        assert row["attack"] == "entity_substitution"
    with pytest.raises(ms.UsageError) as error:
        ms.attack_one(question, always_a, attack, entities="drug")
    said(str(error.value), "'drugs'")


def test_overrides_change_typed_tables_as_they_change_a_file():
    attack = ms.Attack(name="entity_substitution", sampler="nearest", budget=2)
    tables = {"dataset": ms.Dataset(name="sample"), "victim": ms.Victim(backend="mock")}
    groups = ms.Entities(type="drugs", vocabulary="drugs", embedding="ngram")
    given = ms.Experiment(name="typed", entities=groups, attack=attack, **tables)
    changed, told, _ = resolve(given, ["attack.budget=5", "experiment.seeds=[7]"])
    assert changed.attack[0].attacks[0].budget == 5
    assert changed.experiment.seeds == (7,)
    assert told["attack"][0]["budget"] == 2
    assert resolve(given)[0] is given
