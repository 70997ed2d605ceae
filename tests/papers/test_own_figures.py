"""Figures and tables for one's own paper: what a run has, in its own words, and nothing else."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree

import pytest

from medstress.figures.dots import MOST_PANELS
from medstress.figures.outputs import Made, Skipped
from medstress.figures.own import make_own
from medstress.figures.tex import document, with_captions
from medstress.papers.layout import make_layout
from medstress.papers.layouts import LAYOUTS

pytestmark = pytest.mark.release

PDWS = {"name": "entity_substitution", "sampler": "pdws"}
SVG = "{http://www.w3.org/2000/svg}"


def own(summary, formats=("svg",)):
    return {each.name: each for each in make_own(summary, formats)}


def rows(made):
    return list(csv.DictReader(io.StringIO(made.files[f"{made.name}.csv"].decode())))


def texts(made):
    root = ElementTree.fromstring(made.files[f"{made.name}.svg"])
    return [" ".join("".join(e.itertext()).split()) for e in root.iter(f"{SVG}text")]


def share(value, n=10):
    low, high = max(0.0, value - 0.1), min(1.0, value + 0.1)
    return {"value": value, "n": n, "low": low, "high": high, "method": "planted"}


def unknown():
    return {"value": None, "n": 0, "low": None, "high": None, "method": "not computed"}


def row(attack, before=0.8, after=0.5, budget=2, **more):
    found = {
        "dataset": "d", "group": "g", "victim": "v", "attack": attack,
        "attack_spec": "{}", "seeds": [0], "n_items": 10,
        "accuracy": share(before), "accuracy_after": share(after), "asr": share(1 - after / before),
        "asr_at": [{"budget": b, **share(0.1 * b)} for b in range(1, budget + 1)],
        "queries_to_success": {"median": 1.0},
    }  # fmt: skip
    return {**found, **more}


def summary(*pooled, **more):
    names = {"victims": {"v": "llama", "w": "qwen"}, "attacks": {"a": "near names"}}
    names["attacks"] |= {
        "a / no_op": "near names / harmless edits",
        "c / no_op": "c / harmless edits",
    }
    return {
        "experiment": {"name": "mine", "complete": True}, "pooled": list(pooled),
        "names": {**names, "datasets": {}, "groups": {}}, **more,
    }  # fmt: skip


def many_slices(n, attacks):
    """Slices of which the last in the alphabet lose most, to the second attack most of all."""
    return [
        {**row(a), "by": "subject", "value": f"subject {i:03}", "asr": share((i + j) / (n + 2)),
         "asr_shrunken": (i + j) / (n + 2)}
        for i in range(n) for j, a in enumerate(attacks)
    ]  # fmt: skip


@pytest.mark.parametrize("attacks", [("a",), ("a", "b"), tuple("abcdef"), tuple("abcdefgh")])
def test_of_many_slices_the_worst_are_drawn_and_counted(attacks):
    found = own(summary(*map(row, attacks), slices=many_slices(150, attacks)), ("svg", "png"))[
        "slices"
    ]
    n_panels = -(-len(attacks) // 6)
    most = 30 // n_panels
    drawn = [text for text in texts(found) if text.startswith("subject ")]
    assert drawn[-most:] == [f"subject {i:03}" for i in range(149, 149 - most, -1)]
    assert f"subject: {most} of 150 slices are drawn, those that lose most." in found.notes
    assert len(rows(found)) == 150 * len(attacks)
    height = int.from_bytes(found.files["slices.png"][20:24])
    assert height < 200 * 18


def controlled():
    point = {
        "budget": 2, **share(0.2), "control": {"no_op": share(0.05)},
        "asr_net": {"no_op": share(0.15)}, "loss_bounds": {"no_op": [0.02, 0.3]},
    }  # fmt: skip
    return row("a", asr_at=[{"budget": 1, **share(0.1)}, point]), row(
        "a / no_op", after=0.7, control_of="a"
    )


# -- only what the run has ------------------------------------------------------------------------


def test_a_run_of_one_attack_and_query_is_an_accuracy_and_a_table():
    found = own(summary(row("a", budget=1)))
    assert set(found) == {"accuracy", "results"}
    assert any(note.startswith("No control was run") for note in found["accuracy"].notes)


def test_each_kind_of_data_brings_its_figure():
    transfer = [
        {"dataset": "d", "group": "g", "attack": "a", "from": a, "to": b, "n_asked": 4,
         "transfer": share(0.25)}
        for a in "vw" for b in "vw"
    ]  # fmt: skip
    more = {
        "analysis": {"transfer": transfer},
        "slices": [{**row("a"), "by": "subject", "value": v} for v in ("heart", "skin")],
        "passages": {
            "gains": [
                {"dataset": "d", "group": "g", "open": "v", "closed": "w", "passages": "all",
                 "n": 10, "accuracy_open": share(0.9), "accuracy_closed": share(0.4)}
            ]
        },
        "training": {
            "scores": [
                {"dataset": "d", "group": "g", "attack": "a", "model": model, "n_seeds": 3,
                 "measure": "f1", "clean": share(0.9), "attacked": share(attacked)}
                for model, attacked in (("original", 0.5), ("adversarial", 0.8))
            ]
        },
    }  # fmt: skip
    specs = [row(f"n {n}", attack_spec=json.dumps({**PDWS, "n": n})) for n in (-20, 5, 20)]
    at = [{"k": k, **share(0.9 - k / 10)} for k in range(3)]
    fuzz, scored = row("m", accuracy_at=at), row("s", f1=share(0.9), f1_after=share(0.6))
    attack, control = controlled()
    found = own(summary(attack, control, *specs, fuzz, scored, **more))
    assert list(found) == [
        "accuracy", "budget", "regimes", "attempts", "scores", "training", "transfer", "slices",
        "passages", "results", "controls",
    ]  # fmt: skip
    regimes = [r for r in rows(found["regimes"]) if r["budget"] == "2"]
    assert [r["exponent"] for r in regimes] == ["-20", "5", "20"]
    assert [float(r["value"]) for r in rows(found["attempts"])] == pytest.approx([0.9, 0.8, 0.7])
    trained = {(r["model"], r["attack"]): float(r["value"]) for r in rows(found["training"])}
    assert trained["original", "a"] == 0.5
    assert trained["adversarial", "a"] == 0.8
    assert trained["original", ""] == 0.9
    assert {"llama", "qwen", "25", "(10)"} <= set(texts(found["transfer"]))
    assert {"with its passage", "without", "all items"} <= set(texts(found["passages"]))
    assert {"heart", "skin"} <= set(texts(found["slices"]))


def test_a_run_without_a_finished_trial_says_so():
    (only,) = make_own(summary(), ["svg"])
    assert isinstance(only, Skipped)
    assert only.reason == "the run has no finished trial of an attack"


def test_no_paper_and_no_published_number_is_named(grid, scaling):
    for run in (grid, scaling):
        for made in own(run.summary, ["svg"]).values():
            said = " ".join([*made.notes, *(data.decode() for data in made.files.values())])
            assert not re.search(r"Xian|Ness|Araujo|[Pp]ublished|PDWS|RandS", said), made.name


def test_rows_stand_in_the_order_of_the_experiment_file():
    told = summary(row("b"), row("a"), row("x"))
    told["names"]["attacks"] = {"x": "x", "b": "b", "a": "near names"}
    assert [line["Attack"] for line in rows(own(told)["results"])] == ["x", "b", "near names"]


# -- names, controls, unknowns --------------------------------------------------------------------


def test_names_are_in_words_and_the_key_stays_in_the_csv():
    found = own(summary(*controlled()))
    assert {"before", "harmless edits", "near names"} <= set(texts(found["accuracy"]))
    states = [(r["attack"], r["state"], float(r["value"])) for r in rows(found["accuracy"])]
    assert states == [("", "before", 0.8), ("a / no_op", "after control", 0.7),
                      ("a", "after attack", 0.5)]  # fmt: skip
    curves = {(r["attack"], r["budget"]) for r in rows(found["budget"])}
    assert {("a", "2"), ("a / no_op", "2")} <= curves
    assert "Dashed: controls, with as many queries." in found["budget"].notes
    assert "llama" in found["results"].files["results.tex"].decode()


def test_the_table_of_controls_has_the_rates_of_its_budget():
    (line,) = rows(own(summary(*controlled()))["controls"])
    assert (line["Attack"], line["Control"]) == ("near names", "harmless edits")
    assert float(line["Control's rate"]) == 0.05
    assert float(line["Net"]) == 0.15
    assert line["Lost to the attack"] == "2 to 30 %"


def test_controls_that_differ_stand_beside_their_own_attacks():
    attack, control = controlled()
    other = row("c")
    theirs = {**control, "attack": "c / no_op", "control_of": "c", "accuracy_after": share(0.6)}
    said = texts(own(summary(attack, control, other, theirs))["accuracy"])
    assert {"near names / harmless edits", "c / harmless edits"} <= set(said)


def test_unknown_is_not_drawn_as_zero():
    known = own(summary(row("a"), row("b")))["accuracy"]
    hidden = own(summary(row("a"), row("b", accuracy_after=unknown())))["accuracy"]
    assert "b" in texts(known)
    assert "b" not in texts(hidden)
    made = own(summary(row("a", f1=share(0.9), f1_after=unknown())))
    assert "scores" not in made


def test_tables_have_no_empty_column():
    table = own(summary(row("a")))["results"]
    (line,) = rows(table)
    assert not {"F1", "Pearson", "Data", "Group"} & set(line)
    assert all(value for value in line.values())
    lines = table.files["results.md"].decode().splitlines()
    assert sum(line.startswith("|") for line in lines) == 3


# -- size and hostile text ------------------------------------------------------------------------


def test_many_groups_are_in_the_csv_and_a_page_s_worth_is_drawn():
    many = [row("a", group=f"g{i}") for i in range(100)]
    found = own(summary(*many))
    assert len(rows(found["accuracy"])) == 200
    assert "Drawn: the first of what accuracy.csv has." in found["accuracy"].notes
    assert sum(t.startswith("(") for t in texts(found["accuracy"])) == MOST_PANELS
    tex = found["results"].files["results.tex"].decode()
    assert tex.count(r"\begin{table}") == 3
    assert len(set(re.findall(r"\\label\{.*\}", tex))) == 3


def test_a_label_of_500_characters_and_hostile_ones_are_drawn():
    for text in ("x" * 500, r"$\frac{1}{0$ <b> \input{/etc/passwd} & %", "\u202egnp.exe 药物"):
        found = own(summary(row(text, victim=text), row("b")), ["pdf"])
        for made in map(with_captions, found.values()):
            tex = made.files.get(f"{made.name}.tex", b"").decode()
            assert r"\input{/etc" not in tex
            assert "\u202e" not in tex


# -- captions and LaTeX ---------------------------------------------------------------------------


def test_captions_stand_beside_the_image_and_not_in_it(grid):
    found = [*make_own(grid.summary, ["svg", "pdf"])]
    layout = make_layout(
        LAYOUTS["xian2025"], grid.summary, grid.trials, grid.manifest, grid.items, ["svg", "pdf"]
    )
    drawn = 0
    for made in map(with_captions, (m for m in (*found, *layout) if isinstance(m, Made))):
        if f"{made.name}.svg" not in made.files:
            continue
        drawn += 1
        caption = made.files[f"{made.name}.txt"].decode()
        assert caption == f"{made.caption}\n"
        assert all(" ".join(note.split()) in caption for note in made.notes)
        inside = " ".join(texts(made))
        assert not any(note in inside for note in made.notes)
        tex = made.files[f"{made.name}.tex"].decode()
        assert rf"\includegraphics{{{made.name}}}" in tex
        assert r"\caption{" in tex
    assert drawn >= 4


def test_a_caption_counts_trials_and_says_where_an_item_has_several():
    def captions(**spec):
        made = own(summary(row("a", attack_spec=json.dumps({"name": "medfuzz", **spec}))))
        return " ".join(" ".join(each.notes) for each in made.values() if isinstance(each, Made))

    assert "Trials answered before an attack: 10 in each row." in captions(runs=1)
    assert "one trial for each seed and run" not in captions(runs=1)
    assert "An item has one trial for each seed and run." in captions(runs=2)


def test_one_document_inputs_all_that_latex_can_show(grid):
    found = [with_captions(m) for m in make_own(grid.summary, ["pdf"])]
    text = document(found)
    assert re.findall(r"\\input\{(.*)\}", text) == [made.name for made in found]
    only_svg = document([with_captions(m) for m in make_own(grid.summary, ["svg"])])
    assert "% accuracy: pdflatex reads pdf and png, not svg" in only_svg
    assert r"\input{accuracy}" not in only_svg
    assert "Nothing was made." in document([])


def test_fonts_are_embedded_as_truetype(grid):
    for made in own(grid.summary, ["pdf"]).values():
        data = made.files.get(f"{made.name}.pdf")
        if data is not None:
            assert b"/Type3" not in data
            assert b"/FontFile2" in data


def test_the_same_summary_gives_the_same_bytes(grid):
    first, again = (own(grid.summary, ["svg", "pdf"]) for _ in range(2))
    assert [made.files for made in first.values()] == [made.files for made in again.values()]


# -- MedFuzz's layout -----------------------------------------------------------------------------


def test_the_published_accuracies_are_in_the_layout_of_the_paper_alone(made_up):
    run = made_up.MadeUp({"m": {"name": "mine", "budget": 2}}, lambda i, spec: 1)
    at = [{"k": k, **share(0.9 - k / 10)} for k in range(3)]
    pooled = [{**each, "accuracy_at": at} for each in run.summary["pooled"]]
    told = {**run.summary, "pooled": pooled}
    layout = LAYOUTS["medfuzz2024"]
    made = [*make_layout(layout, told, run.trials, run.manifest, run.items, ["svg"])]
    figure = made[0]
    published = [r for r in rows(figure) if r["source"] == "published"]
    assert next(float(r["value"]) for r in published if r["victim"] == "GPT-4") == 0.874
    assert [each.name for each in made if isinstance(each, Skipped)] == ["figure3", "significance"]
    assert "GPT-4, published" in texts(figure)
    assert not any("GPT" in text for text in texts(own(told)["attempts"]))
