"""Whole experiments on entities and sentence pairs: verdicts, ledger, scores, refusals."""

from typing import Any

import pytest

import medstress as ms
from forged import rebuild
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.experiment.dry_run import dry_run
from medstress.experiment.prepare import prepare
from question_rows import write_rows
from rows import rows_of

IOB = """Aspirin\tB-Chemical
relieves\tO
headache\tO

Patients\tO
received\tO
warfarin\tB-Chemical
and\tO
morphine\tB-Chemical

Nothing\tO
happened\tO
there\tO

Salicylic\tB-Chemical
acid\tI-Chemical
helps\tO
"""
PAIRS = """id\ttext_a\ttext_b\tscore
p1\tAspirin relieves severe pain\tAspirin relieves pain\t3.5
p2\tWarfarin thins the blood\tWarfarin prevents clots\t2
p3\tDogs bark loudly\tPatients received morphine\t0
p4\tNaproxen helps patients\tNaproxen helps many patients\t4
"""
VICTIMS = """
KNOWN = {"aspirin", "warfarin", "morphine"}
ASKED = []

def tags(sentences):
    ASKED.extend(sentences)
    return [["B-Chemical" if w.lower() in KNOWN else "O" for w in s] for s in sentences]

def context(sentences):
    return [
        ["B-Chemical" if i == 2 and ("Patients" in s or "received" in s) else "O"
         for i, _ in enumerate(s)]
        for s in sentences
    ]

def overlap(pairs):
    sets = [(set(a.lower().split()), set(b.lower().split())) for a, b in pairs]
    return [len(a & b) / len(a | b) for a, b in sets]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "data.iob").write_text(IOB)
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    (tmp_path / "victims.py").write_text(VICTIMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tagged(*attacks: dict[str, Any], **experiment: Any) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "ner", "seeds": [0, 1], **experiment},
        "dataset": [{"name": "iob", "path": "data.iob"}],
        "victim": [{"backend": "python", "target": "victims.py:tags"}],
        "attack": list(attacks),
    }


def pairs(*attacks: dict[str, Any]) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "sts", "seeds": [0, 1]},
        "dataset": [{"name": "pairs", "path": "pairs.tsv"}],
        "victim": [{"backend": "python", "target": "victims.py:overlap"}],
        "attack": list(attacks),
    }


STATIC = {"name": "swap_noise", "scope": "all"}
CONTROL = {"name": "non_entity_noise", "scope": "all"}
GREEDY = {"name": "swap_noise", "scope": "all", "search": "greedy", "budget": 4}


def row_of(run: Any, attack: str) -> dict[str, Any]:
    (row,) = [row for row in run.summary()["results"] if row["attack"] == attack]
    return dict(row)


def test_a_static_attack_computes_one_copy_a_sentence_and_counts_a_query_an_entity(folder):
    run = ms.run(tagged(STATIC, seeds=[0], flip_check=False), out=folder / "run")
    rows = {(row.item_id, row.unit): row for row in rows_of(run)}
    assert {place: row.verdict.value for place, row in rows.items()} == {
        ("1", "0:1:Chemical"): "flipped",
        ("2", "2:3:Chemical"): "flipped",
        ("2", "4:5:Chemical"): "flipped",
        ("3", "item"): "not_attackable",
        ("4", "0:2:Chemical"): "already_wrong",
    }
    row = row_of(run, "swap_noise")
    assert (row["n_items"], row["n_trials"], row["n_eligible"]) == (4, 5, 3)
    # Two entities of one sentence share its copy; sentences that cannot flip are asked as well.
    assert row["queries"]["asked"] == 5
    assert (row["queries"]["paid"], row["queries"]["cached"]) == (4, 1)
    assert run.summary()["performance"]["calls"] == 8  # four sentences, clean and perturbed
    assert row["chance"] is None
    assert row["asr"]["value"] == 1.0
    assert row["accuracy"]["value"] == 3 / 4


@pytest.mark.parametrize("search", ["greedy", "random"])
def test_a_search_leaves_out_the_edits_that_a_success_does_not_need(folder, search):
    (folder / "one.iob").write_text(
        "Patients\tO\nreceived\tO\nwarfarin\tB-Chemical\nevery\tO\nmorning\tO\n"
    )
    experiment = tagged({**GREEDY, "search": search, "budget": 25}, seeds=list(range(6)))
    experiment["dataset"][0]["path"] = "one.iob"
    experiment["victim"][0]["target"] = "victims.py:context"
    run = ms.run(experiment, out=folder / "run")
    rows = list(rows_of(run))
    n_larger = 0
    for row in rows:
        starts = {edit["start"] for edit in row.edits}
        # The victim misses the drug where both words before it are misspelt, and only there.
        assert (row.verdict.value, row.repeats, starts) == ("flipped", True, {0, 1})
        assert row.answer_after == "O"
        assert row.first_success <= row.n_asked <= 25
        n_larger += row.first_success < row.n_asked
    assert n_larger > 0
    assert row_of(run, "swap_noise")["asr_at"][24]["value"] == 1.0
    asked = 1 + sum(row.n_asked for row in rows)
    assert asked <= dry_run(prepare(experiment)).total.bound


def test_a_pair_is_measured_unless_a_change_is_too_much(folder):
    limited = {**GREEDY, "max_change": 0.3}
    copy, search = {**STATIC, "label": "copy"}, {**GREEDY, "label": "search"}
    run = ms.run(pairs(copy, search, {**limited, "label": "limited"}), out=folder / "run")
    by_attack: dict[str, set[str]] = {}
    for row in rows_of(run):
        by_attack.setdefault(row.attack, set()).add(row.verdict.value)
        if row.attack != "limited":
            assert row.score_before is not None
            assert row.score_after is not None
    assert by_attack == {
        "copy": {"measured"},
        "search": {"measured"},
        "limited": {"flipped", "held"},
    }
    static, searched = row_of(run, "copy"), row_of(run, "search")
    assert (static["n_measured"], static["n_flipped"]) == (8, 0)
    assert searched["pearson_after"]["value"] < searched["pearson"]["value"]
    assert searched["spearman_drop"]["value"] > 0
    limited_row = row_of(run, "limited")
    assert limited_row["pearson_after"]["value"] is None
    assert limited_row["pearson"]["value"] == searched["pearson"]["value"]


TAGS = {"backend": "python", "target": "victims.py:tags"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attack": [{"name": "entity_substitution", "sampler": "random"}]}, "is for questions"),
        ({"dataset": [{"name": "iob", "path": "data.iob"}, {"name": "sample"}]}, "does one task"),
        ({"victim": [{**TAGS, "answer_by": "text"}]}, "answer_by is for questions"),
        ({"entities": [{"type": "drugs", "vocabulary": "drugs"}]}, "table [entities] is for"),
        ({"victim": [{"backend": "sentence_transformers", "model": "m"}]}, "two sentences"),
        ({"analysis": {"transfer": True}}, "table [analysis] is for questions"),
    ],
)
def test_what_does_not_fit_sentences_is_refused_before_anything_runs(folder, change, words):
    with pytest.raises(UsageError) as refused:
        ms.run({**tagged(STATIC), **change}, out=folder / "run")
    assert words in str(refused.value)


def test_the_control_of_tagged_texts_may_be_named(folder):
    named, all_ = (
        ms.run(tagged(STATIC, controls=wanted), out=name)
        for name, wanted in (("named", ["non_entity_noise"]), ("all", True))
    )
    assert row_of(named, "control of swap_noise") == row_of(all_, "control of swap_noise")
    with pytest.raises(UsageError, match="for tagged texts write true or false"):
        ms.run(tagged(STATIC, controls=["no_op"]), out="other")


def test_pairs_have_no_noise_outside_entities(folder):
    """Their score rests on all words, so that it would be no control."""
    with pytest.raises(UsageError, match="is for questions and tagged texts, but the data are"):
        ms.run(pairs(STATIC, CONTROL), out=folder / "run")


@pytest.mark.parametrize("made", [tagged, pairs])
def test_an_answer_that_is_none_is_refused_in_a_sentence(folder, made, capsys):
    ms.run(made(STATIC), out=folder / "run")
    rebuild(
        folder / "run",
        "UPDATE verdicts SET result = json_set(result, '$.before', 'x') WHERE id = 1",
    )
    assert medstress_cli(["summary", str(folder / "run")]) == 2
    assert "x is no answer" in capsys.readouterr().err


def test_marks_that_count_otherwise_than_a_model_may_mean_them_are_counted(folder):
    marks = {"other": "B-Drug", "nothing": "O", "inside": "I-Chemical", "last": "E-Chemical"}
    victims = [
        f"def {name}(given):\n"
        f"    return [[{mark!r} if w == 'warfarin' else 'O' for w in s] for s in given]\n"
        for name, mark in marks.items()
    ]
    (folder / "others.py").write_text("".join(victims))
    spec = tagged(STATIC, seeds=[0], flip_check=False)
    spec["victim"] = [
        {"backend": "python", "target": f"others.py:{name}", "name": name} for name in marks
    ]
    spec["victim"] += [{**spec["victim"][0], "name": "left out", "labels": {"Drug": "O"}}, TAGS]
    summary = ms.run(spec, out="run").summary()
    said = " ".join(one["sentence"] for one in summary["warnings"])
    assert "other marks 1 entity of the type Drug, which the data do not annotate" in said
    for name in ("nothing", "left out"):
        assert f"{name} marks nothing at all in the clean data" in said
    for name in ("inside", "last"):
        assert f"{name} begins 1 of 1 entities with I- or E-, after O or another type" in said
    # As seqeval counts: a false alarm is of any type. Misspelt, no model marks a word.
    precision = {row["victim"]: row["precision"]["value"] for row in summary["results"]}
    assert (precision["other"], precision["left out"], precision["inside"]) == (0.0, None, 1.0)
    mute = {
        one["sentence"].split(" marks")[0]
        for one in summary["warnings"]
        if "marks nothing at all under swap noise" in one["sentence"]
    }
    assert mute == {"other", "inside", "last", "victims.py:tags"}


def test_marks_that_an_attack_alone_brings_are_counted(folder):
    (folder / "others.py").write_text(
        "def known(mark, other):\n"
        "    return lambda given: [\n"
        "        [{'warfarin': mark}.get(w, other) if {*w} == {*'warfarin'} else 'O' for w in s]\n"
        "        for s in given\n"
        "    ]\n"
        "unknown = known('B-Chemical', 'B-Drug')\n"
        "inside = known('B-Chemical', 'I-Chemical')\n"
        "always = known('B-Drug', 'B-Drug')\n"
    )
    spec = tagged(STATIC, seeds=[0, 1], flip_check=False)
    names = ("unknown", "inside", "always")
    spec["victim"] = [
        {"backend": "python", "target": f"others.py:{name}", "name": name} for name in names
    ]
    said = [one["sentence"] for one in ms.run(spec, out="run").summary()["warnings"]]
    said = [one.partition(", ")[0] for one in said if one.startswith(names)]
    assert said == [
        "always marks 1 entity of the type Drug",
        "inside begins 2 of 2 entities under swap noise with I- or E-",
        "unknown marks 2 entities of the type Drug under swap noise",
    ]


def test_documents_that_are_named_later_make_the_units_of_a_run_that_is_there(folder):
    blocks = [[line.split("\t") for line in b.splitlines()] for b in IOB.strip().split("\n\n")]
    rows = [
        {"tokens": [t for t, _ in block], "labels": [x for _, x in block], "pmid": pmid}
        for block, pmid in zip(blocks, (5, 5, 6, 6), strict=True)
    ]
    write_rows(folder / "data.jsonl", rows)
    spec = tagged(STATIC, CONTROL, seeds=[0], flip_check=False)
    spec["dataset"][0]["path"] = "data.jsonl"
    before = ms.run(spec, out="run")
    apart = row_of(before, "swap_noise")
    assert "sentences for an interval: 4" in apart["recall"]["method"]
    assert {row.cluster for row in rows_of(before)} == {"1", "2", "3", "4"}
    spec["dataset"][0]["documents"] = "pmid"
    run = ms.run(spec, out="run")
    assert run.summary()["performance"]["calls"] == before.summary()["performance"]["calls"]
    assert {(row.item_id, row.cluster) for row in rows_of(run)} == {
        ("1", "5"),
        ("2", "5"),
        ("3", "6"),
        ("4", "6"),
    }
    row = row_of(run, "swap_noise")
    for name in ("recall", "f1_drop", "f1_net_drop"):
        assert row[name]["value"] == apart[name]["value"]
        assert "documents for an interval: 2" in row[name]["method"]
    # What the victim finds stands in two sentences of one document.
    assert "2 items (documents where known)" in apart["asr"]["method"]
    assert "1 items (documents where known)" in row["asr"]["method"]


def test_pairs_that_share_a_sentence_are_one_unit_of_every_number(folder):
    text = PAIRS.replace("Warfarin prevents clots", "Aspirin  relieves pain")
    (folder / "pairs.tsv").write_text(text)
    run = ms.run(pairs({"name": "swap_noise", "scope": "all", "max_change": 0.01}), out="run")
    assert {(row.item_id, row.cluster) for row in rows_of(run)} == {
        ("p1", "p1"),
        ("p2", "p1"),
        ("p3", "p3"),
        ("p4", "p4"),
    }
    row = row_of(run, "swap_noise")
    for name in ("pearson", "spearman"):
        assert "pairs (those that share a sentence count once)" in row[name]["method"]
        assert "for an interval: 3" in row[name]["method"]
    assert row["pearson"]["n"] == 4
    assert "3 items" in row["asr"]["method"]
