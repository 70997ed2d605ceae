"""The recipes of MedFuzz: two lines ask other models, and their figures come of the vignettes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conversation_server import ConversationServer
from medstress import recipes
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.experiment.file.reading import read_experiment
from medstress.testing import rule_target, scripted_attacker, scripted_judge

pytest.importorskip("openai")
NAMES = ("medfuzz-figure2", "medfuzz-figure3", "medfuzz-significance")
VIGNETTES = load(DatasetOptions(sample="vignettes")).questions
SCRIPT = [
    f"The patient works as a {job}."
    for job in ("clerk", "lighthouse keeper", "baker", "monk", "cook")
]
CUES = {item.id: "lighthouse" for item in VIGNETTES[::4]}
WRONG = [item.id for item in VIGNETTES[1::4]]


def with_two_lines(name: str, url: str) -> str:
    """A copy of a recipe: `model` of the victim, with the address, and `model` of the attacker."""
    address = f'base_url = "{url}"\napi_key_env = "KEY_OF_THE_TEST"'
    text, n = re.subn(
        r'^model = "smollm2".*\n(?=answer_by)',
        f'model = "target"\n{address}\n',
        recipes.text_of(name),
        flags=re.MULTILINE,
    )
    text, m = re.subn(r'(?<=\[role.attacker\]\n)model = "smollm2"', 'model = "attacker"', text)
    assert (n, m) == (1, 1)
    return text


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Writes `mine.toml` for a server with a scripted target, attacker and judge."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_OF_THE_TEST", "secret")

    def serve(name: str, *, admits: bool = False) -> ConversationServer:
        target = rule_target(VIGNETTES, CUES, wrong=WRONG, admits=admits)
        attacker, judge = scripted_attacker(VIGNETTES, SCRIPT), scripted_judge(VIGNETTES)

        def writes(conversations):
            # A judge without a model of its own is the attacker's.
            (turns,) = conversations
            return (attacker if turns[0]["role"] == "system" else judge)(conversations)

        server = ConversationServer({"target": target, "attacker": writes}, key="secret")
        Path("mine.toml").write_text(with_two_lines(name, server.url), encoding="utf-8")
        return server

    return serve


@pytest.mark.parametrize("name", NAMES)
def test_two_lines_change_a_recipe_to_two_models_of_a_server(served, name, capsys):
    with served(name) as server:
        assert medstress_cli(["run", "mine.toml", "--dry-run", "--quiet"]) == 0
        assert not server.log, "a dry run asks nothing"
    lines = capsys.readouterr().out.splitlines()
    (about,) = [line for line in lines if line.startswith("estimate: about ")]
    assert re.search(r"calls, [\d,]+ tokens \(.*target .* calls; attacker .* calls", about)
    assert any(line.startswith("bound: at most ") for line in lines)
    checked = read_experiment(Path("mine.toml"))
    victim, attacker = checked.victim[0], checked.role.attacker
    for role in (attacker, *([checked.role.judge] if checked.role.judge else [])):
        role = role[0] if isinstance(role, tuple) else role
        assert (role.backend, role.base_url) == ("openai", victim.base_url)
        assert (role.api_key_env, role.model) == ("KEY_OF_THE_TEST", "attacker")
    comments = [line for line in recipes.text_of(name).splitlines() if line.startswith("#   ")]
    assert [line.split()[1] for line in comments[:4]] == [
        "model",
        "base_url",
        "api_key_env",
        "model",
    ]


def run(name, served, *changes, **keys):
    """Run a copied recipe on scripted models; return its summary."""
    with served(name, **keys):
        few = [part for change in changes for part in ("--set", change)]
        arguments = ["--set", "victim.answer_by=generate", *few, "--out", "run", "--quiet"]
        assert medstress_cli(["run", "mine.toml", *arguments]) == 0
    return Run(Path("run")).summary()


def test_figure_2_has_the_curve_that_was_planted_and_the_digitised_points(served, capsys):
    summary = run("medfuzz-figure2", served)
    (row,) = summary["attempts"]
    # Six of 24 are wrong at first, and six fall for the second attempt.
    hits = [one["hits"] for one in row["curve"]]
    assert hits == [18, 18, 12, 12, 12]
    made = ["figures", "run", "--out", "figures", "--paper", "medfuzz2024", "--format", "svg"]
    assert medstress_cli(made) == 0
    picture = Path("figures/figure2.svg").read_text("utf-8")
    assert "GPT-4, digitised" in picture
    assert "digitised: read off a chart" in capsys.readouterr().out + Path(
        "figures/index.md"
    ).read_text("utf-8")


def test_figure_3_has_the_share_of_reasonings_that_admit_the_insertion(served):
    summary = run("medfuzz-figure3", served, admits=True)
    (rates,) = summary["faithfulness"]
    assert rates["method"] == "majority of 3 votes of a judge"
    assert (rates["admitted"]["hits"], rates["admitted"]["n"]) == (6, 6)
    assert rates["unfaithful"]["value"] == 0
    # Twelve trials held, with five attempts each.
    held = rates["admitted_held"]
    assert (held["hits"], held["n"]) == (0, 60)
    assert "effective sample size" in held["method"]
    assert "significance" not in summary
    made = ["figures", "run", "--out", "figures", "--paper", "medfuzz2024", "--format", "svg"]
    assert medstress_cli(made) == 0
    picture = Path("figures/figure3.svg").read_text("utf-8")
    assert "6/6" in picture
    assert "0/60" in picture


def test_the_recipe_of_significance_tests_the_family_of_attacked_items(served):
    summary = run("medfuzz-significance", served, "attack.attempts=2", "test.max_calls=400")
    (family,) = summary["significance"]
    assert (family["null"], family["n_family"]) == ("matched", 18)
    assert len(family["items"]) == 6
    assert json.dumps(summary)
