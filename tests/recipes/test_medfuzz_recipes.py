"""The recipes of MedFuzz: two lines ask other models, and their figures come of the vignettes."""

import json
import re
from pathlib import Path

import pytest

from fault_server import FaultServer
from late import needs
from medstress import recipes
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.experiment.reading import resolve

pytestmark = needs("openai")
NAMES = ("medfuzz-figure2", "medfuzz-figure3", "medfuzz-significance")
MODELS = """
from medstress.datasets.named import load_sample as load
from medstress.datasets.source import DatasetOptions
from medstress.testing import rule_target, scripted_attacker, scripted_judge

ITEMS = load(DatasetOptions(sample="vignettes")).items
JOBS = ("clerk", "lighthouse keeper", "baker", "monk", "cook")
cues = {item.id: "lighthouse" for item in ITEMS[::4]}
target = rule_target(ITEMS, cues, wrong=[item.id for item in ITEMS[1::4]], admits=True)
attacker = scripted_attacker(ITEMS, [f"The patient works as a {job}." for job in JOBS])
judge = scripted_judge(ITEMS)
"""
"""A quarter of the vignettes fall for the second attempt, another is wrong at first."""


def with_two_lines(name, url):
    """A copy of a recipe: `model` of the victim, with the address, and `model` of the attacker."""
    address = f'base_url = "{url}"\napi_key_env = "KEY_OF_THE_TEST"'
    text, n = re.subn(
        r'^model = "smollm2".*\n(?=# answer_by)',
        f'model = "target"\n{address}\n',
        recipes.text_of(name),
        flags=re.MULTILINE,
    )
    text, m = re.subn(r'(?<=\[role.attacker\]\n)model = "smollm2"', 'model = "attacker"', text)
    assert (n, m) == (1, 1)
    return text


@pytest.mark.parametrize("name", NAMES)
def test_two_lines_change_a_recipe_to_two_models_of_a_server(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY_OF_THE_TEST", "secret")
    with FaultServer(key="secret", model="target", lists=("target", "attacker")) as server:
        Path("mine.toml").write_text(with_two_lines(name, server.url), encoding="utf-8")
        assert medstress_cli(["run", "mine.toml", "--dry-run", "--quiet"]) == 0
        assert not server.log, "a dry run asks nothing"
    lines = capsys.readouterr().out.splitlines()
    (about,) = [line for line in lines if line.startswith("estimate: about ")]
    assert re.search(r"calls, [\d,]+ tokens", about)
    checked = resolve(Path("mine.toml"))[0]
    (victim,), roles = checked.victim, checked.role
    assert (roles.judge is not None) == (name == "medfuzz-figure3")
    for role in filter(None, (roles.attacker, roles.judge)):
        assert (role.backend, role.base_url) == ("openai", victim.base_url)
        assert (role.api_key_env, role.model) == ("KEY_OF_THE_TEST", "attacker")
    keys = re.findall(r"^#   (\w+) = ", recipes.text_of(name), flags=re.MULTILINE)
    assert keys == ["model", "base_url", "api_key_env", "model"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a recipe as it is, but for functions in place of its models; returns the summary."""
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(MODELS, encoding="utf-8")

    def go(name, *changes):
        roles = ["victim", "role.attacker", *["role.judge"] * (name == "medfuzz-figure3")]
        for role in roles:
            function = role.removeprefix("role.").replace("victim", "target")
            changes += (f"{role}.backend=python", f"{role}.target=models.py:{function}")
        arguments = [part for change in changes for part in ("--set", change)]
        assert medstress_cli(["run", name, *arguments, "--out", "run", "--quiet"]) == 0
        return Run(Path("run")).summary()

    return go


def test_figure_2_has_the_curve_that_was_planted_and_the_digitised_points(run, capsys):
    summary = run("medfuzz-figure2")
    (row,) = summary["attempts"]
    # Six of 24 are wrong at first, and six fall for the second attempt.
    hits = [one["hits"] for one in row["curve"]]
    assert hits == [18, 18, 12, 12, 12]
    made = ["figures", "run", "--out", "figures", "--paper", "medfuzz2024", "--format", "svg"]
    assert medstress_cli(made) == 0
    picture = Path("figures/figure2.svg").read_text("utf-8")
    assert "GPT-4, digitised" in picture
    assert "we digitised them from the published chart" in capsys.readouterr().out + Path(
        "figures/index.md"
    ).read_text("utf-8")


def test_figure_3_has_the_share_of_reasonings_that_admit_the_insertion(run):
    summary = run("medfuzz-figure3")
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


def test_the_recipe_of_significance_tests_the_family_of_attacked_items(run):
    summary = run("medfuzz-significance", "attack.attempts=2", "test.max_calls=310")
    (family,) = summary["significance"]
    assert (family["null"], family["n_family"]) == ("matched", 18)
    assert len(family["items"]) == 6
    assert json.dumps(summary)
