"""Every shipped recipe: read, checked without a model, run by a stand-in, drawn."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from medstress import recipes
from medstress.cli.app import medstress_cli
from medstress.core.items import Candidate
from medstress.experiment.arms import make_attacks
from medstress.experiment.reading import find_source, resolve
from medstress.tasks.templates import load_template
from medstress.tasks.victim import prompt_for
from medstress.testing import tiny_questions
from medstress.training.train import plan_training

TRAINED = [name for name in recipes.names() if name.startswith("araujo2020-")]
"""Recipes of `medstress train`: the victims are what they train."""
ATTACKED = [name for name in recipes.names() if name not in TRAINED]

IN_CI = ("xian2024-table1",)
"""The cheapest; `make release-check` runs all."""
FILLS = {
    "prompt-ablation": {"table2.tex"},
    "xian2024-table1": {"rcap.tex"},
    "xian2024-table2": {"rcap.tex"},
    "xian2025-ablation": {"figure4.svg"},
    "xian2025-appendix-m": {"figure4.svg"},
    "xian2025-appendix-e": {"appendix-e.html", "appendix-e.tex"},
    "xian2025-figure2": {"figure2.svg"},
    "xian2025-figure3": {"figure3.svg"},
    "xian2025-figure4": {"figure4.svg", "figure4-embeddings.csv"},
    "xian2025-figure5": {"figure5.html"},
    "xian2025-table1": {"table1.tex", "table1.csv"},
    "xian2025-table2": {"table2.tex", "table2.csv"},
}
"""What the figures of a small run must hold."""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty folder with a small vocabulary, and the options that make a recipe quick."""
    monkeypatch.chdir(tmp_path)
    names = "\n".join(f"{a}{b}" for b in ("osis", "itis", "emia") for a in "abcdefghijklmnop")
    (tmp_path / "names.txt").write_text(names, encoding="utf-8")

    def options(name):
        raw = tomllib.loads(recipes.text_of(name))
        budget = max(attack["budget"] for attack in raw["attack"])
        changes = [
            'victim.backend="mock"',
            'entities.vocabulary="names.txt"',
            "experiment.seeds=[0]",
            f"attack.budget={min(budget, 8)}",
        ]
        if "analysis" in raw:
            changes.append('analysis.embedder="ngram"')
        for group in raw["entities"]:
            if group["embedding"] == "minilm":
                changes.append(f"entities.{group['name']}.embedding='ngram'")
        return changes

    return options


@pytest.mark.parametrize("name", ATTACKED)
def test_a_recipe_is_complete(name):
    raw = tomllib.loads(recipes.text_of(name))
    assert raw["experiment"]["name"] == name
    # An ensemble of MedFuzz is its runs, each of many calls; the paper's figure has one.
    assert len(raw["experiment"]["seeds"]) >= (1 if name.startswith("medfuzz") else 5)
    assert len(recipes.summary_of(name)) > 20
    used = [v for v in raw["victim"] if v.get("use", True)]
    assert {v["model"] for v in used} == {"smollm2"}
    assert len(used) == (3 if name == "prompt-ablation" else 1)
    # MedFuzz's recipes show in two lines how to ask models of a server.
    assert len(raw["victim"]) > len(used) or name.startswith("medfuzz")
    others = [v for v in raw["victim"] if v not in used]
    assert all("/" in v["model"] or v["backend"] == "openai" for v in others)
    assert [d["name"] for d in raw["dataset"] if d.get("use", True)] == ["sample"]
    checked = resolve(Path(name))[0]
    assert checked.experiment.name == name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.release)
        for name in sorted(FILLS)
    ],
)
def test_a_recipe_runs_and_its_figures_are_made(small, name, capsys):
    changes = [argument for change in small(name) for argument in ("--set", change)]
    few = ["--limit", "8", "--quiet"]
    assert medstress_cli(["run", name, "--dry-run", *few, *changes]) == 0
    assert "queries: at most" in capsys.readouterr().out
    assert medstress_cli(["run", name, "--out", "run", *few, *changes]) == 0
    asked = ["figures", "run", "--out", "figures", "--format", "svg", "--paper", "xian2025"]
    assert medstress_cli(asked) == 0
    out, err = capsys.readouterr()
    assert all(file in out for file in FILLS[name])
    assert out.rstrip().endswith("index.md")
    assert all(line.startswith("not made: ") for line in err.splitlines())


def _bc5cdr(folder):
    folder.mkdir(parents=True)
    lines = "fever\tB-Disease\n{n}\tO\nPatients\tO\nreceived\tO\naspirin\tB-Chemical\n\n"
    for split, start in (("train", 0), ("devel", 40), ("test", 60)):
        text = "".join(lines.replace("{n}", f"w{n}") for n in range(start, start + 20))
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")


@pytest.fixture
def araujo_data(tmp_path, monkeypatch):
    """The current folder, with BC5CDR and BIOSSES in small; and what makes synonyms quick."""
    monkeypatch.chdir(tmp_path)
    _bc5cdr(tmp_path / "data" / "bc5cdr")
    rows = "".join(f"{n}\tAspirin helps {n}\tPain is gone {n}\t{n % 5}\n" for n in range(100))
    head = "pair_id\tsentence1\tsentence2\tmean_score\n"
    (tmp_path / "data" / "biosses.tsv").write_text(head + rows, encoding="utf-8")
    return ["--set", "attack.synonym.mode=strict"]


@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_of_training_is_checked_without_a_model(name, araujo_data, capsys):
    raw = tomllib.loads(recipes.text_of(name))
    assert raw["experiment"]["name"] == name
    assert medstress_cli(["train", name, "--dry-run", *araujo_data]) == 0
    out = capsys.readouterr().out
    assert "queries: at most" in out
    assert ("swap_noise: " in out) == bool(raw["train"].get("adversarial"))
    if raw["dataset"][0]["name"] == "biosses":  # cross-validated, and beside the model as it comes
        assert "untrained: the model as it comes" in out
        assert "original: 25 models, 64 items an epoch, about 2 steps" in out
        assert "16 dev items" in out
    else:  # train and devel have 20 sentences each, and a twentieth picks the epoch
        assert "38 items an epoch" in out
        assert "2 dev items" in out


@pytest.mark.parametrize(
    ("clean", "adversarial"), [("table2", "table4"), ("table2", "table5"), ("table3", "table6")]
)
def test_tables_of_adversarial_training_take_the_original_models_of_the_clean_ones(
    clean, adversarial, araujo_data
):
    start = SimpleNamespace(files=SimpleNamespace(content="the same weights"))
    changes = [*araujo_data[1::2], "train.epochs=2"]
    if clean == "table2":
        changes.append('dataset.types=["Chemical"]')
    of = {}
    for table in (clean, adversarial):
        plan = plan_training(f"araujo2020-{table}", overrides=changes)
        trained = (model for model in plan.models if model.kind.name == "original")
        of[table] = {model.label: plan.hash_of(model, start) for model in trained}
    assert of[clean]
    assert of[clean] == of[adversarial]


@pytest.mark.parametrize("name", TRAINED)
def test_synonyms_of_the_recipes_are_listed_first_and_not_of_the_victims_embedding(name):
    checked = resolve(Path(name), [], needs=("dataset", "attack", "train"))[0]
    (synonym,) = (p.attack for p in make_attacks(checked.attack) if p.label == "synonym")
    assert (synonym.mode, synonym.embedding) == ("related", "ngram")
    assert synonym.embedding != checked.train.model


def test_the_prompts_of_the_ablation_differ_in_their_tags_alone():
    question = tiny_questions(1)[0]
    shown = {}
    for victim in resolve(Path("prompt-ablation"))[0].victim:
        name = victim.name.removeprefix("smollm2 ")
        shown[name] = load_template(victim.prompt).render(Candidate(item=question))
    tagged, head = shown["tagged"], shown["tagged"].splitlines()[0]
    options = "".join(f"{x}: {o}\n" for x, o in zip("ABCD", question.options, strict=True))
    assert tagged == (
        f"{head}\n[Context]: {question.context}\n[Question]: {question.stem}\n{options}[Answer]:"
    )
    whole = f"{question.context} {question.stem}"
    assert shown["untagged"] == f"{head}\n{whole}\n{options}Answer:"
    assert shown["context"] == f"{head}\n[Context]: {whole}\n{options}[Answer]:"


@pytest.mark.parametrize("name", [name for name in ATTACKED if name.startswith("xian")])
def test_published_victims_read_medmcqa_under_the_context_tag_alone(name):
    """Appendix D of Xian et al.: Context and Answer for MedMCQA, Question besides for MedQA."""
    raw = tomllib.loads(recipes.text_of(name))
    question = tiny_questions(1)[0]
    kinds = {each["name"] for each in raw["dataset"]}
    published = [each for each in raw["victim"] if not each.get("use", True)]
    for victim in published:
        for kind in kinds:
            prompt = prompt_for(victim.get("prompt", "qstab"), kind, kind)
            shown = load_template(prompt).render(Candidate(item=question))
            assert shown.count("[Context]: ") == 1
            assert shown.endswith("[Answer]:")
            assert ("[Question]" in shown) == (kind != "medmcqa")
    assert published


# -- which text a name stands for -----------------------------------------------------------------


def test_a_file_that_exists_wins_over_a_recipe_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_source("xian2025-table1").text == recipes.text_of("xian2025-table1")
    assert find_source("xian2025-table1").base == tmp_path
    (tmp_path / "xian2025-table1").mkdir()  # a folder is no experiment
    assert find_source("xian2025-table1").text == recipes.text_of("xian2025-table1")
    (tmp_path / "xian2025-table1").rmdir()
    (tmp_path / "xian2025-table1").write_text("mine", encoding="utf-8")
    assert find_source("xian2025-table1").text == "mine"
