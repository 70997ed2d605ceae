"""Tables and figures of planted runs: every layout is drawn, and captions say what was counted."""

import csv
import io
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Point, Table
from medstress.core.arms import AttackRecord
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.report.figures import HEAD, INDEX, Made, make, weighed, write_figures
from medstress.report.papers import LAYOUTS
from medstress.report.papers.layout import PaperRun, Part, Tex
from medstress.report.papers.medfuzz2024 import DIGITISED
from medstress.report.text import csv_table
from medstress.stats.estimate import Estimate
from medstress.tasks.scores import OF_ATTACKABLE
from planted_trials import SWAP, arm, edit, inquiry, outcomes, planted_run, tagged, trial

MODEL = {"name": "xl", "model": "google/flan-t5-xl", "backend": "transformers", "parameters": 3e9}


def substitution(sampler: str, n: float | None = None, budget: int = 30, **more: Any) -> Any:
    params = {"name": "entity_substitution", "sampler": sampler, "n": n, "budget": budget}
    return {**params, "choices": "default", "variants": "exclude", **more}


def published(sampler: str, n: float | None = None) -> Any:
    return substitution(sampler, n, choices="as_published", variants="mark")


def zoo(m: int) -> Any:
    return {"name": "discrete_zoo", "candidates": m, "learning_rate": 1.0, "budget": 30}


ALL = {
    **{sampler: substitution(sampler) for sampler in ("random", "nearest", "farthest")},
    **{f"n={n:g}": substitution("pdws", n) for n in (-20.0, -10.0, -5.0, 5.0, 20.0)},
    "zoo 3": zoo(3),
    "zoo 10": zoo(10),
    "published random": published("random"),
    "published near": published("pdws", -20.0),
    "published far": published("pdws", 20.0),
}


SMALL = {"random": substitution("random", None, 3), "near": substitution("pdws", -20.0, 3)}


def outcome(i: int, params: Mapping[str, Any]) -> int | None:
    """The further n is from 0 the more succeeds; every third item holds."""
    n = params.get("n") or 0.0
    if i % 3 == 0:
        return None
    return 1 if i % 40 < abs(n) else 2 + i % 12


def named(one: Trial) -> Trial:
    if one.first is None:
        return one
    first = replace(one.first, edits=(edit(f"name {int(one.item.id[1:]) % 5}"),))
    return replace(one, first=first, pick=first)


def run_of(
    attacks: Mapping[str, Any] = ALL,
    *,
    groups: Mapping[str, str] | None = None,
    n: int = 60,
    model: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    of_groups = groups or {"drugs": "ngram"}
    trials = [
        one
        for group in of_groups
        for one in outcomes(attacks, outcome, n, 4, change=named, group=group)
    ]
    config = {
        "experiment": {"name": "planted"},
        "dataset": [{"name": "medmcqa"}],
        "entities": [{"type": "drugs", "embedding": name} for name in of_groups.values()],
        "victim": [{**MODEL, **(model or {}), "group": "generalist"}],
    }
    return planted_run(
        trials,
        config=config,
        datasets={"cases": {}},
        groups={group: {} for group in of_groups},
        **more,
    )


def made(run: Run, paper: str | None, *formats: str) -> tuple[dict[str, Made], dict[str, str]]:
    results = list(make(run, formats or ("svg",), paper))
    return (
        {one.name: one for one in results if one.files},
        {one.name: one.reason for one in results if not one.files},
    )


def table(one: Made) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(one.files[f"{one.name}.csv"].decode())))


def only(run: Run, *names: str, paper: str = "xian2025") -> dict[str, Table]:
    """Make the tables of some entries of a layout alone."""
    parts = parts_of(run, *names, paper=paper)
    return {part.name: part for part in parts if isinstance(part, Table)}


def parts_of(run: Run, *names: str, paper: str = "xian2025") -> list[Part]:
    shown = PaperRun(run)
    entries = (entry for entry in LAYOUTS[paper].entries if entry.name in names)
    return [part for entry in entries for part in entry.make(shown)]


def rows_in(one: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_table(one))))


@pytest.fixture(scope="module")
def every():
    return made(run_of(groups={"a": "minilm", "b": "ngram"}), "xian2025")


def test_every_layout_that_needs_no_further_questions_is_drawn(every):
    parts, skipped = every
    assert not skipped
    assert {entry.name for entry in LAYOUTS["xian2025"].entries} <= set(parts)
    assert {"table1-as-published", "table2-as-published", "table1-choices"} <= set(parts)
    for one in parts.values():
        assert any(name.startswith(one.name) for name in one.files)


def test_the_table_is_of_other_items_and_the_one_as_published_of_all():
    parts = only(run_of(), "table1")
    other, same = (parts[name] for name in ("table1", "table1-as-published"))
    assert {row["cases_accuracy_n"] for row in rows_in(other) if row["victim"] == "model"} == {"48"}
    assert any("numbers here are of the others" in note for note in other.notes)
    (row,) = [row for row in rows_in(same) if row["victim"] == "model"]
    assert (row["cases_accuracy_n"], row["cases_random_n"]) == ("60", "56")
    assert any("under the paper's rule, which leaves out" in note for note in same.notes)


@pytest.mark.parametrize(("grid", "words"), [((-20.0,), "do not"), ((-20.0, -5.0), "do so too")])
def test_published_lines_say_whether_ours_are_chosen_alike(grid, words):
    attacks = {"random": published("random"), "far": published("pdws", 20.0)}
    attacks |= {f"n={n:g}": published("pdws", n) for n in grid}
    parts = only(run_of(attacks), "table1")
    same = parts["table1-as-published"]
    (row,) = [row for row in rows_in(same) if row["victim"] == "published"]
    assert [row[f"cases_{name}"] for name in ("accuracy", "random", "near", "far")] == [
        "0.265",
        "0.143",
        "0.196",
        "0.151",
    ]
    (note,) = [note for note in same.notes if note.startswith("Published lines take the best n")]
    assert note.endswith(f"ours {words}.")
    assert any(n.endswith("ours do not.") for n in parts["table1"].notes)


def test_published_lines_are_named_where_they_are_shown_and_take_none_of_our_rules():
    tables = only(run_of(), "table1", "table2")
    rows = [row for row in rows_in(tables["table1"]) if row["victim"] == "published"]
    assert [(row["types"], row["rule"]) for row in rows] == [("drugs", "")]
    for name in ("table2", "table2-as-published"):
        assert not any(row["victim"] == "published" for row in rows_in(tables[name]))
        assert not any(
            "ublished lines" in note or "published are" in note for note in tables[name].notes
        )


def test_published_bars_stand_beside_the_papers_own_rule_where_it_was_run():
    def panels_of(run: Run) -> set[str]:
        (chart,) = parts_of(run, "figure3")
        return {point.panel for point in chart.points if point.x == "model, published"}

    (panel,) = panels_of(run_of())
    assert "choices = as_published" in panel
    assert panels_of(run_of(SMALL)) == {"cases · drugs · generalists"}


def test_searches_and_files_of_vectors_are_told_apart():
    files = {"a": "/data/e1.txt", "b": "/data/e2.txt"}
    rules = {"choices": "default", "variants": "exclude"}
    searches = {f"search {i}": {**zoo(m), **rules} for i, m in enumerate((3, 10))}
    attacks = {"random": ALL["random"], "near": ALL["n=-20"], **searches}
    tables = only(run_of(attacks, groups=files), "table1", "table2")
    for name in ("table1-choices", "table2-choices"):
        methods = [row["Method"] for row in rows_in(tables[name])]
        assert methods == 2 * ["PDWS n < 0", "DiscreteZOO, M = 3", "DiscreteZOO, M = 10"]
    assert [head for head, _ in tables["table2"].heads[0]] == ["", "e1.txt", "e2.txt"]
    same = only(run_of(groups={"a": "/one/e.txt", "b": "/two/e.txt"}), "table2")["table2"]
    assert [head for head, _ in same.heads[0]] == ["", "/one/e.txt", "/two/e.txt"]


def test_a_model_that_says_nothing_under_attack_may_have_lost_all():
    run = run_of({"random": substitution("random", None, 1)})
    mute = [replace(t, first=None, queries=t.queries._replace(unreadable=1)) for t in run.trials]
    silent = planted_run(mute, **{name: run.manifest[name] for name in ("config", "datasets")})
    (row, *_) = only(silent, "table1")["table1"].rows
    (asr,) = (entry for entry in row if "at worst" in "".join(entry.lines))
    assert asr.lines == ("at worst [0.0, 100.0]",)  # in per cent, as the column is


def test_a_choice_on_few_known_items_is_said_in_every_table_that_uses_it():
    parts = only(run_of(n=19), "table1", "table2", "rcap", "figure3", "figure4", "claims")
    used = {name for name in parts if "as-published" not in name}
    assert {"table1", "table1-choices", "table2", "rcap", "figure4-inflections", "claims"} <= used
    for name in used:
        few = [note for note in parts[name].notes if "too few to tell values of n apart" in note]
        assert len(few) == 1, name


def test_figure_4_and_its_table_are_of_the_items_that_did_not_choose_n():
    run = run_of({name: params for name, params in ALL.items() if "published" not in name})
    parts = {part.name: part for part in parts_of(run, "figure4")}
    chart, levels = parts["figure4"], parts["figure4-inflections"]
    assert isinstance(chart, Chart)
    assert isinstance(levels, Table)
    assert {row["n_items"] for row in rows_in(levels)} == {"44"}
    assert {point.y.n for point in chart.points if isinstance(point.y, Estimate)} == {44}
    assert "Items: 48 answered, 44 right at baseline and so attacked." in chart.notes


def test_figure_5_shows_explained_cases_and_their_profiles():
    run = run_of({"near": substitution("pdws", -20.0), "far": substitution("pdws", 20.0)})
    flipped = [one for one in run.trials if one.first is not None]
    chosen = [
        [one for one in flipped if one.arm.attack.label == name][-1] for name in ("near", "far")
    ]
    side: Any = {"answer": "B", "tokens": ["a", "b"], "values": [[0.1], [0.2]], "base": [0.1]}
    side |= {
        "segments": [["stem", False, 1], ["B", True, 1]],
        "full": [0.4],
        "evaluations": 4,
        "gap": 0.0,
    }
    found = {"outputs": ["B"], "key": "B", "value": "probability", "units": "words"}
    found |= {"before": side, "after": side}
    inquiries = [
        inquiry("explain", one.arm, one.item.id, spec, findings=found)
        for one in chosen
        for spec in ({"trial": one.id, "mask": "", "evaluations": 4},)
    ]
    explained = planted_run(run.trials, config=run.manifest["config"], inquiries=inquiries)
    (cases, *profiles) = parts_of(explained, "figure5")
    assert isinstance(cases, Tex)
    charts = [part for part in profiles if isinstance(part, Chart)]
    assert len(charts) == 2
    for one, chart in zip(chosen, charts, strict=True):
        assert f"item {one.item.id}," in cases.body
        assert chart.title.startswith(f"{one.item.id}, ")


def test_accuracy_says_that_it_is_of_what_could_be_attacked():
    run = run_of(SMALL, n=30)
    none: Any = {"verdict": Verdict.NOT_ATTACKABLE, "before": None, "first": None}
    mixed = [replace(t, **none) if int(t.item.id[1:]) >= 12 else t for t in run.trials]
    fuzz = AttackRecord(label="MedFuzz", name="medfuzz", attempts=1, params={"name": "medfuzz"})
    fuzzed = [trial(t.number, arm(fuzz), verdict=t.verdict) for t in mixed[:30]]
    parts = only(planted_run(mixed, config=run.manifest["config"]), "table1", "rcap")
    parts |= only(planted_run(fuzzed), "figure2", paper="medfuzz2024")
    for name in ("table1", "rcap", "figure2-accuracy"):
        (items,) = [note for note in parts[name].notes if note.startswith("Items: ")]
        assert "12 of 30" in items, name
        assert parts[name].notes.count(OF_ATTACKABLE) == 1, name
    assert DIGITISED not in parts["figure2-accuracy"].notes
    refused = planted_run([trial(i, arm(fuzz), asked=0) for i in range(30)])
    figure = only(refused, "figure2", paper="medfuzz2024")["figure2-accuracy"]
    assert any("of which 30 were shown no edit" in note for note in figure.notes)


def test_what_a_run_lacks_is_named():
    parts, skipped = made(run_of({"near": substitution("pdws", -5.0, 1)}), "xian2025")
    assert skipped["table2"] == "needs an attack with a budget of 8 or more"
    assert "random sampling and PDWS" in skipped["rcap"]
    assert "claims" not in parts
    assert skipped["claims"].startswith("no claim can be tested: ")
    assert "no PDWS n > 0 in this run" in skipped["claims"]
    _, of_others = made(run_of(), "araujo2020")
    assert set(of_others.values()) == {"needs tagged texts or sentence pairs"}


GOLD = "B-Chemical O O B-Chemical"


def texts(n: int = 40) -> list[Trial]:
    """Tagged texts in which noise takes one of two entities away."""
    records = [replace(SWAP, label=name, name=name) for name in ("synonym", "swap_noise")]
    params = {"search": "none"}
    return [
        one
        for record in records
        for i in range(n)
        for one in tagged(
            i, arm(replace(record, params=params), victim="tagger"), GOLD, GOLD, "B-Chemical O O O"
        )
    ]


def tagged_run(trials: list[Trial]) -> Run:
    config = {"experiment": {"name": "planted"}, "dataset": [{"name": "bc5cdr"}]}
    return planted_run(trials, config=config, datasets={"cases": {}})


def test_scores_of_tagged_texts_stand_with_the_published_ones():
    parts, skipped = made(tagged_run(texts()), "araujo2020")
    assert set(parts) == {"table2", "figure1"}
    assert set(skipped) == {"table3", "table4", "table5", "table6"}
    assert skipped["table4"] == "needs a run that trained on perturbed copies: medstress train"
    rows = {row["Test"]: row for row in table(parts["table2"])}
    assert list(rows) == ["original", "synonym", "swap_noise"]
    assert float(rows["original"]["F1"]) == 1.0
    assert float(rows["swap_noise"]["F1"]) == pytest.approx(2 / 3)
    assert rows["swap_noise"]["F1, P published"] == "0.583"
    assert rows["synonym"]["Recall, P+M published"] == "0.739"


LONG = "synonym, held-out names of a rather long kind of models"


def trained_run() -> Run:
    """Chemicals, three kinds of models, two seeds; each keeps so many of forty entities."""
    kept = {"original": (40, 20), "original twice": (40, 24), LONG: (38, 36)}
    record = replace(SWAP, label="synonym", name="synonym", params={"search": "none"})
    models, trials = [], []
    for kind, (clean, attacked) in kept.items():
        for seed in (0, 1):
            name = f"{kind}-{seed}"
            models.append({"victim": name, "model": kind, "seed": seed})
            at = arm(replace(record, judged=False), victim=name)
            # As the recipes have it: a control that no table of the paper shows.
            noise = replace(at.attack, label="noise", name="non_entity_noise")
            controls = replace(at, attack=noise, control_of="synonym")
            for i in range(40):
                answers = ["B-Chemical O" if i < n - 2 * seed else "O O" for n in (clean, attacked)]
                for one in (at, controls):
                    trials += tagged(i, one, "B-Chemical O", *answers)
    notes = {
        "models": models,
        "adversarial": [{"name": LONG, "attacks": ["synonym"], "n_left_out": 0, "n_offered": 9}],
    }
    config = {"experiment": {"name": "planted"}, "dataset": [{"name": "bc5cdr"}]}
    return planted_run(trials, config=config, datasets={"cases": {}}, training=notes)


def test_models_trained_on_copies_stand_beside_original_twice_under_whole_names():
    parts, _ = made(trained_run(), "araujo2020")
    assert {"table2", "figure1", "table4", "table4-gains"} == set(parts)
    rows = {(r["Trained on"], r["Score"]): r for r in table(parts["table4"])}
    assert {kind for kind, _ in rows} == {"original", "original twice", LONG}
    own = rows[LONG, "Recall"]
    assert float(own["clean"]) == pytest.approx(37 / 40)  # the mean of 38 and 36
    assert float(own["attacked"]) == pytest.approx(35 / 40)
    assert own["attacked, P published"] == ""  # the paper held no names out
    assert rows["original", "F1"]["attacked, P published"] == "0.739"
    gains = {(r["Model"], r["against"]): r for r in table(parts["table4-gains"])}
    f1 = [2 * n / (40 + n) for n in (36, 34, 24, 22)]
    gain = sum(f1[:2]) / 2 - sum(f1[2:]) / 2
    assert float(gains[LONG, "original twice"]["gain"]) == pytest.approx(gain)
    for name in ("table4", "table4-gains"):
        assert LONG in parts[name].files[f"{name}.tex"].decode()
    (models, _) = (table(parts[name]) for name in ("table2", "table4"))
    assert {row["Model"] for row in models} == {"original"}


def test_figures_of_ones_own_are_what_results_show():
    parts, skipped = made(run_of(SMALL), None, "svg", "png", "pdf")
    assert not skipped
    assert {"results", "loss", "curves"} <= set(parts)
    assert set(parts["loss"].files) == {
        f"loss.{f}" for f in ("svg", "png", "pdf", "csv", "txt", "tex")
    }
    assert b"each question once in every seed" in parts["loss"].files["loss.txt"]
    assert b"lost under attack, of what was right" in parts["results"].files["results.tex"]
    names = [name for one in parts.values() for name in one.files]
    assert len(names) == len(set(names))


def test_files_are_written_and_one_from_elsewhere_is_not_replaced(tmp_path):
    for _ in range(2):
        write_figures(run_of(SMALL), tmp_path / "own", ("svg",), "xian2025")
    files = {path.name for path in (tmp_path / "own").iterdir()}
    assert {"table1.tex", "table1.csv", "figure4.svg", "figures.tex"} <= files
    page = (tmp_path / "own" / INDEX).read_text()
    assert page.startswith(f"{HEAD}planted")
    assert "## Not made" in page
    assert r"\input{table1}" in (tmp_path / "own" / "figures.tex").read_text()
    (tmp_path / "table1.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"table1\.tex"):
        write_figures(run_of(SMALL), tmp_path, ("svg",), "xian2025")
    assert (tmp_path / "table1.tex").read_text() == "mine"


@pytest.mark.release
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
@pytest.mark.parametrize("paper", [None, *LAYOUTS])
def test_pdflatex_sets_what_is_written(paper, tmp_path):
    hostile = r"$\frac{1}{0$ 药物 50 % & #1 \input{x} ~^_ <b>"
    attacks = {**ALL, hostile: substitution("pdws", -9.0)}
    write_figures(run_of(attacks, groups={hostile: "ngram"}), tmp_path, ("pdf",), paper)
    command = ["pdflatex", "-halt-on-error", "-no-shell-escape", "figures.tex"]
    set_ = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert set_.returncode == 0, set_.stdout[-2000:]
    # Type 3 fonts may be bitmaps.
    assert all(b"/Type3" not in path.read_bytes() for path in tmp_path.glob("*.pdf"))


def test_words_are_coloured_and_hostile_texts_stay_text():
    words = ("take ", "\\input{x}", "& aspirin", "\x1b[2J")
    points = tuple(
        Point(x=i, y=value, series=word, panel="Before", marked=i == 2)
        for i, (word, value) in enumerate(zip(words, (0.0, 0.5, -1.0, 0.1), strict=True))
    )
    made = weighed(Chart(name="p", title="p", kind="words", x="token", y="value", points=points))
    assert r"\colorbox{blue!38}{\textbackslash" in made
    assert r"\fbox{\colorbox{orange!75}{\& aspirin}}" in made
    assert r"take\ %" in made
    assert "\x1b" not in made
