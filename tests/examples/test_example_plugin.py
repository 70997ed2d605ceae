"""The package of examples/plugin, installed as its pages print it, in whole runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

import medstress as ms
from fault_server import FaultServer
from medstress.cli.app import medstress_cli
from medstress.core import registry
from medstress.experiment.perturb import perturb
from medstress.experiment.verify import verify_folder
from medstress.plugin import DatasetOptions
from medstress.tasks import kinds
from rows import rows_of

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples/plugin"
LABELS = ("contradiction", "entailment", "neutral")
VICTIM = """
def planted(pairs):
    return [label(a, b) for a, b in pairs]

def label(a, b):
    if "aspirin" not in a.lower():
        return "neutral"
    return {"scores": {"contradiction": .1, "entailment": .7, "neutral": .2}}

def lost(pairs):
    return ["no idea" for _ in pairs]
"""
ROWS = [
    *({"text_a": f"Aspirin {i} works", "text_b": "It helps", "label": "entailment"} for i in "abc"),
    {"text_a": "Aspirin d works", "text_b": "It hurts", "label": "contradiction"},
    *({"text_a": f"Dogs {i} bark", "text_b": "It helps", "label": "neutral"} for i in "ef"),
]
EXPERIMENT = """
[experiment]
controls = false
name = "inference"
seeds = [0]
[[dataset]]
name = "nli"
path = "pairs.jsonl"
[[victim]]
name = "planted"
backend = "python"
target = "victim.py:planted"
[[attack]]
name = "swap_noise"
label = "first"
scope = "all"
[[attack]]
name = "swap_noise"
label = "second"
scope = "all"
side = "second"
[[attack]]
name = "keyboard_noise"
label = "search"
scope = "all"
search = "greedy"
budget = 4
"""


@pytest.fixture(scope="module")
def printed():
    """The commands on the attack's page."""
    text = (ROOT / "docs/writing-an-attack.md").read_text("utf-8")
    (block,) = re.findall(r"^```\n(python -m.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for line in block.splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory, printed):
    """Where pip has installed the package, first on the path: from a copy, as it leaves files."""
    place, target = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("site")
    shutil.copytree(PLUGIN, place / "examples/plugin")
    # Its dependency is installed with medstress, and nothing may be fetched.
    here = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, *printed[0], *here, *quiet], cwd=place, check=True)
    before = list(sys.path)
    sys.path.insert(0, str(target))
    invalidate_caches()
    kinds._plugged_in.cache_clear()
    yield place, target
    sys.path[:] = before
    kinds._plugged_in.cache_clear()


@pytest.fixture
def folder(installed, tmp_path):
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path


@pytest.mark.parametrize("page", ["writing-an-attack", "writing-a-back-end"])
def test_the_pages_quote_the_package(page, blocks):
    codes = blocks(f"docs/{page}.md", "python")
    assert len(codes) == 2
    assert {*codes} <= {path.read_text("utf-8") for path in PLUGIN.rglob("*.py")}
    entry = blocks(f"docs/{page}.md", "toml")[0]
    assert entry in (PLUGIN / "pyproject.toml").read_text("utf-8")


def test_the_package_passes_its_own_tests_where_it_is_installed(installed, printed):
    place, target = installed
    path = os.pathsep.join([str(target), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, *printed[1], "-q", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=place, env={**os.environ, "PYTHONPATH": path}, check=True)


def test_attack_and_back_end_are_listed_and_run(installed, workplace, capsys, blocks):
    for kind, name in (("attacks", "look_alike"), ("backends", "word_counts"), ("datasets", "nli")):
        assert medstress_cli(["list", kind]) == 0
        assert re.search(
            rf"^{name} +plug-in from medstress-example$", capsys.readouterr().out, re.M
        )
    (workplace / "corpus.txt").write_text("Scopolamine prevents travel sickness.", "utf-8")
    tables = [blocks(f"docs/writing-{page}.md", "toml")[1] for page in ("an-attack", "a-back-end")]
    (workplace / "x.toml").write_text(
        '[experiment]\ncontrols = false\nname = "x"\n[dataset]\nname = "sample"\nlimit = 20\n'
        '[entities]\ntype = "drugs"\nvocabulary = "drugs"\nembedding = "ngram"\n' + "".join(tables)
    )
    (row,) = ms.run("x.toml").summary()["by_seed"]
    assert (row["attack"], row["victim"], row["seed"]) == ("look_alike", "words", None)
    assert row["n_eligible"] > 0
    assert row["n_failed"] == 0


def test_a_planted_victim_has_the_rates_and_scores_that_follow_by_hand(folder):
    """Entailment wherever aspirin is spelt rightly, else neutral.

    Clean: 3 entailed pairs right, 1 contradiction taken for one, 2 neutral right: 5 of 6. Noise
    in the first text breaks the word: all is neutral, so 3 of the 5 flip. Noise in the second
    changes nothing.
    """
    run = ms.run(folder / "e.toml", out=folder / "run")
    summary = run.summary()
    rows = {row["attack"]: row for row in summary["results"]}
    for row in rows.values():
        assert (row["accuracy"]["value"], row["n_items"]) == (pytest.approx(5 / 6), 6)
        # F1: entailment 2*3/(4+3), neutral 2*2/(2+2), contradiction 0.
        assert row["macro_f1"]["value"] == pytest.approx((6 / 7 + 1 + 0) / 3)
        assert row["chance"] == pytest.approx(1 / 2)
    noise = rows["first"]
    assert (noise["n_flipped"], noise["asr"]["value"]) == (3, pytest.approx(3 / 5))
    # All neutral: 2*2/(6+2), the others 0.
    assert noise["macro_f1_after"]["value"] == pytest.approx(0.5 / 3)
    assert noise["macro_f1_drop"]["value"] == pytest.approx((6 / 7 + 1 - 0.5) / 3)
    assert rows["second"]["asr"]["value"] == rows["second"]["macro_f1_drop"]["value"] == 0
    assert rows["search"]["asr"]["value"] == pytest.approx(3 / 5)
    assert rows["search"]["macro_f1_after"]["value"] is None
    before_after = [t for t in summary["tests"] if t["family"] == "before_after"]
    (test,) = [t for t in before_after if t["comparison"] == noise["attack"]]
    assert test["difference"]["value"] == pytest.approx(noise["macro_f1_drop"]["value"])
    row = next(row for row in rows_of(run) if row.verdict.value == "flipped")
    assert (row.key, row.answer_before, row.answer_after) == ("entailment", "entailment", "neutral")
    assert (row.score_before, row.prompt_before) == (0.7, "Aspirin a works\nIt helps")
    assert (row.option, row.replaced) == ("text_a", "Aspirin")
    assert run.export("items", folder / "items.jsonl") == 6
    item = json.loads((folder / "items.jsonl").read_text().splitlines()[0])
    assert (item["text_a"], item["label"]) == ("Aspirin a works", "entailment")
    assert run.export("trials", folder / "trials.csv") == 18
    assert "Macro F1" in run.report()
    verified = verify_folder(folder / "run")
    assert (verified.holds, verified.n_redrawn) == (True, 18)
    n = run.export("exchanges", folder / "a.jsonl")
    again = ms.run(folder / "e.toml", out=folder / "run")
    assert again.export("exchanges", folder / "b.jsonl") == n
    assert again.summary()["results"] == summary["results"]


def test_a_victim_that_names_no_label_is_unreadable(folder):
    lost = ["victim.target='victim.py:lost'"]
    run = ms.run(folder / "e.toml", out=folder / "run", overrides=lost)
    for row in run.summary()["results"]:
        assert (row["n_unreadable_at_baseline"], row["macro_f1"]["value"]) == (6, 0)


def test_any_model_is_asked_with_a_prompt_whose_options_are_the_labels(folder):
    def answer(prompt):
        asked.append(prompt)
        return "B" if "Aspirin" in prompt else "C"

    asked: list[str] = []
    with FaultServer(answer=answer) as server:
        victim = {"backend": "openai", "model": server.model, "base_url": server.url}
        run = ms.run(
            {
                "experiment": {"controls": False, "name": "served", "seeds": [0]},
                "dataset": {"name": "nli", "path": str(folder / "pairs.jsonl")},
                "victim": {**victim, "answer_by": "generate"},
                "attack": {"name": "swap_noise", "scope": "all"},
            },
            out=folder / "served",
        )
    (row,) = run.summary()["results"]
    assert (row["accuracy"]["value"], row["n_flipped"]) == (pytest.approx(5 / 6), 3)
    assert all(f"{x}: {label}" in asked[0] for x, label in zip("ABC", LABELS, strict=True))
    trial = next(row for row in rows_of(run) if row.verdict.value == "flipped")
    assert trial.prompt_before in asked
    assert trial.answer_before == "entailment"
    assert verify_folder(folder / "served").holds


def test_perturbed_pairs_are_written_and_read_back(folder):
    only = ["attack.second.use=false", "attack.search.use=false"]
    perturb(folder / "e.toml", folder / "perturbed.jsonl", overrides=only)
    items = registry.load("datasets", "nli")(DatasetOptions(path=folder / "perturbed.jsonl")).items
    assert [item.label for item in items] == [row["label"] for row in ROWS]
    assert all("aspirin" not in item.text_a.lower() for item in items)


def test_a_run_says_what_is_missing_where_the_plug_in_is_not_installed(folder, monkeypatch):
    run = ms.run(folder / "e.toml", out=folder / "run")
    run.summary()
    kinds._plugged_in.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(ms.MedstressError, match="that is installed here"):
        ms.open(folder / "run").summary()
    kinds._plugged_in.cache_clear()
