"""A finished run in Python and in a notebook: tables, a case, data frames, progress."""

import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import polars
import pytest

import medstress as ms
from medstress.api import notebook as notebooks
from rows import rows_of


def text_of(page):
    """What a page shows."""
    parser, parts = HTMLParser(), []
    parser.handle_data = parts.append
    parser.feed(page)
    return "".join(parts)


@pytest.fixture(scope="module")
def run(workbench, tmp_path_factory):
    """A run of two attacks, made once."""
    made = workbench.Bench(tmp_path_factory.mktemp("run"))
    made.tables["attack"] = [made.attack("random"), made.attack("nearest")]
    made.tables["experiment"]["seeds"] = [0]
    return ms.Run(made.finished().out)


def test_open_finds_a_run_and_refuses_what_is_none(run, tmp_path, said):
    assert ms.open(run.folder).summary() == run.summary()
    for call, word in ((run.table, "tirals"), (run.case, "zzz")):
        with pytest.raises(ms.UsageError) as error:
            call(word)
        said(str(error.value), word)
    with pytest.raises(ms.StoreError) as error:
        ms.open(tmp_path / "nowhere")
    said(str(error.value), "nowhere")
    assert "nowhere" in text_of(ms.Run(tmp_path / "nowhere")._repr_html_())
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.sqlite").write_bytes(b"SQLite format 3\0" + b"\1" * 4000)
    with pytest.raises(ms.StoreError):
        ms.open(tmp_path / "broken")
    assert "broken" in text_of(ms.Run(tmp_path / "broken")._repr_html_())


def test_results_are_the_pooled_rows(run):
    frame = run.results()
    assert isinstance(frame, polars.DataFrame)
    for told, row in zip(frame.to_dicts(), run.summary()["results"], strict=True):
        assert told["attack"] == row["attack"]
        assert told["n_items"] == row["n_items"]
        for end, name in (
            ("value", "asr"),
            ("n", "asr_n"),
            ("hits", "asr_hits"),
            ("low", "asr_low"),
        ):
            assert told[name] == row["asr"][end]
        assert told["queries_asked"] == row["queries"]["asked"]
    assert run.table("items").height == 12


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook was told to show, one entry a drawing."""
    drawn = []
    place = SimpleNamespace(update=drawn.append)
    shown = SimpleNamespace(HTML=str, display=lambda *_, **__: place)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(notebooks, "in_notebook", lambda: True)
    return drawn


def test_a_notebook_sees_a_bar_that_ends_with_all_trials(bench, notebook):
    bench.tables["attack"] = [bench.attack("random")]
    bench.tables["experiment"]["controls"] = ["no_op"]
    run = ms.run(bench.write(), bench.out)
    n = len(rows_of(run))
    assert f"{n} of {n} trials" in notebook[-1]
    assert 'value="1.0000"' in notebook[-1]
    assert any("careful" in each for each in notebook)
    rows = [row for row in rows_of(run) if row.arm == "attack"]
    flipped, held = (sum(row.verdict == each for row in rows) for each in ("flipped", "held"))
    assert f"lost {flipped} of {flipped + held}" in notebook[-1]
    notebook.clear()
    ms.run(bench.write(), bench.out, quiet=True)
    assert notebook == []


def test_data_and_a_function_are_an_experiment(bench, monkeypatch):
    monkeypatch.chdir(bench.root)
    # An attack that draws no names needs neither a gazetteer nor vectors.
    given = {"data": "items.jsonl", "model": always_a, "attack": "no_op", "limit": 4}
    run = ms.run(**given)
    assert run.folder.parts[0] == "runs"
    assert "always_a" in run.folder.name
    rows = [row for row in rows_of(run) if row.arm == "attack"]
    assert {row.victim for row in rows} == {"always_a"}
    assert all(row.answer_before in ("A", None) for row in rows)
    before = run.trials()["trial_id"].to_list()
    again = ms.run(**given)
    assert again.trials()["trial_id"].to_list() == before


def always_a(prompts):
    """A victim."""
    return ["A"] * len(prompts)


class Always:
    """A victim that is a class."""

    def answer(self, prompts):
        """Answer."""
        return ["A"] * len(prompts)


HERE = sys.modules[__name__]


@pytest.fixture
def group(monkeypatch, tmp_path):
    """A few names; the victims of this file are found, also after runs that forgot its module."""
    monkeypatch.setitem(sys.modules, __name__, HERE)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"{a}{b}" for a in "abcdefgh" for b in ("statin", "mab", "olol")))
    return ms.Entities(type="drugs", vocabulary=str(names), embedding="ngram")


NEAREST = ms.EntitySubstitution(sampler="nearest", budget=1)
ROWS = [
    {"id": str(i), "question": f"Which {i}?", "A": "aspirin", "B": "ibuprofen", "answer": "B"}
    for i in range(3)
]
FAR = ms.Attack(name="entity_substitution", label="far", n=20, budget=1)


@pytest.mark.parametrize(
    ("given", "attacks", "victim"),
    [
        (
            {"data": ms.Dataset(name="sample", limit=3), "attack": ["swap_noise", NEAREST, FAR]},
            {"swap_noise", "far", "entity_substitution sampler=nearest"},
            "Always",
        ),
        ({"data": ROWS, "attack": "swap_noise"}, {"swap_noise"}, "mock"),
        ({"data": polars.DataFrame(ROWS), "attack": "swap_noise"}, {"swap_noise"}, "mock"),
    ],
)
def test_names_objects_and_typed_tables_mix_in_one_call(tmp_path, group, given, attacks, victim):
    model = {"Always": Always, "mock": ms.Victim(backend="mock", name="mock")}[victim]
    needs = {} if given["attack"] == "swap_noise" else {"entities": group}
    controls = ["experiment.controls=false"]
    run = ms.run(model=model, out=tmp_path / "run", overrides=controls, **needs, **given)
    manifest = run.manifest()
    assert (set(manifest["attacks"]), set(manifest["victims"])) == (attacks, {victim})


def test_what_is_wrong_in_rows_is_said_of_the_rows(tmp_path):
    rows = [*ROWS, {**ROWS[0], "id": "z", "answer": "Z", "answer_idx": "Z"}]
    for data in (rows, polars.DataFrame(rows, strict=False)):
        with pytest.raises(ms.DataError) as error:
            ms.run(data=data, model=Always, out=tmp_path / "run")
        assert str(error.value).startswith(f"data, row {len(rows)}: field 'answer")


def test_a_dict_may_hold_typed_tables_attacks_and_functions(tmp_path, group):
    run = ms.run(
        {
            "experiment": {"name": "mixed", "controls": False},
            "dataset": [ms.Dataset(name="sample", limit=3)],
            "entities": group,
            "victim": {"backend": "python", "target": always_a, "batch_size": 2},
            "attack": NEAREST,
            "require": ms.Require(metric="asr", max_high=0.01),
        },
        out=tmp_path / "run",
    )
    assert run.manifest()["config"]["victim"][0]["batch_size"] == 2
    (criterion,) = run.summary()["requirements"]
    assert criterion["met"] is False
    assert str(run).count(criterion["reason"]) == 1


def broken(prompts):
    """A victim that is never there."""
    raise RuntimeError("it is not loaded")


def generating(prompts):
    """A victim that forgets its list."""
    yield from prompts


def test_a_run_whose_trials_failed_says_so_and_how_to_repeat_them(tmp_path, group):
    run = ms.run(data="sample", limit=3, model=broken, entities=group, out=tmp_path / "run")
    for shown in (str(run), text_of(run._repr_html_())):
        assert "trials failed" in shown
        assert "retry_failed=True" in shown
        assert "it is not loaded" in shown


def test_what_stops_a_run_before_its_first_answer_speaks_of_no_stored_ones(tmp_path, group, said):
    given = {"data": "sample", "limit": 3, "entities": group}
    with pytest.raises(ms.UsageError) as error:
        ms.run(model=generating, out=tmp_path / "run", **given)
    said(str(error.value), "run again")
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run", ""):
        with pytest.raises(ms.MedstressError) as error:
            ms.run(model=always_a, out=out, **given)
        assert "committed" not in str(error.value)
    assert (tmp_path / "file").read_text() == "mine"
