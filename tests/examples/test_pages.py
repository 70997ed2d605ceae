"""The code on the pages runs as it is."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import medstress as ms
from medstress import recipes
from medstress.cli.app import medstress_cli

ROOT = Path(__file__).resolve().parents[2]
Blocks = Callable[[str, str], list[str]]
Load = Callable[[Path], ModuleType]
Modules = Callable[[str], list[ModuleType]]
GENERATED = ("cli.md", "schema.md", "api.md")
"""Pages of the site that `make docs` writes; they are not committed."""
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path.name not in GENERATED
)


@pytest.fixture
def modules(workplace, blocks, load):
    """Writes a page's Python blocks under the names in their first lines, and imports them."""

    def write(page):
        found = []
        for code in blocks(page, "python"):
            path = workplace / code.partition("\n")[0].removeprefix("# ")
            path.write_text(code, encoding="utf-8")
            found.append(load(path))
        return found

    return write


def test_the_quick_start_runs_from_the_command_line(workplace, blocks):
    page = "docs/first-run.md"
    (toml,) = blocks(page, "toml")
    Path("mine.toml").write_text(toml, encoding="utf-8")
    assert medstress_cli(["run", "mine.toml", "--dry-run"]) == 0
    few = ("--limit", "8", "--set", "attack.near.n=-30")
    assert medstress_cli(["run", "mine.toml", *few, "--out", "runs/mine-30"]) == 0


def test_the_function_of_the_models_page_is_a_victim(workplace, blocks):
    (code,) = blocks("docs/models.md", "python")
    Path("my_model.py").write_text(code, encoding="utf-8")
    prompt = blocks("docs/answers.md", "text")[0]
    Path("mine.txt").write_text(prompt, encoding="utf-8")
    victim, *_ = tomllib.loads(blocks("docs/models.md", "toml")[0])["victim"]
    item = ms.Question(
        id="q",
        stem="Which?",
        options=("Warfarin", "Ibuprofen", "Insulin", "Codeine"),
        key="A",
        mentions=(ms.Mention(field="B", start=0, end=9, type="drugs"),),
    )
    trial = ms.attack_one(
        item,
        {**victim, "prompt": "mine.txt"},
        ms.attacks.EntitySubstitution(sampler="nearest", budget=2),
        entities={"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
    )
    assert trial["verdict"] == "held"
    assert trial["n_asked"] == 2


@pytest.mark.parametrize("name", ["medfuzz-figure2", "medfuzz-figure3"])
def test_the_functions_of_the_medfuzz_page_play_its_recipes(workplace, blocks, modules, name):
    """Planted: the judge of Figure 3, which is the attacker, was refused."""
    page = "docs/medfuzz.md"
    modules(page)
    tables = next(code for code in blocks(page, "toml") if "models.py:target" in code)
    recipe = recipes.text_of(name)
    own, n = re.subn(r"(?ms)^\[\[victim\]\].*?(?=(?:# )?\[role.judge\])", lambda _: tables, recipe)
    assert n == 1
    Path("mine.toml").write_text(own, encoding="utf-8")
    assert medstress_cli(["run", "mine.toml", "--out", "run", "--quiet"]) == 0
    summary = ms.Run(Path("run")).summary()
    (row,) = summary["attempts"]
    hits = [one["hits"] for one in row["curve"]]
    assert hits == [24, 24, *[23] * (len(hits) - 2)]
    assert "judge_unread" not in {one["rule"] for one in summary["warnings"]}


def test_links_and_anchors_between_pages_lead_somewhere():
    for page in PAGES:
        folder = (ROOT / page).parent
        text = (ROOT / page).read_text("utf-8")
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
            if "://" in target or Path(target).name in GENERATED:
                continue
            there = folder / target if target else ROOT / page
            assert there.exists(), (page, target)
            if anchor:
                heads = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^a-z0-9 -]", "", head.lower()) for head in heads}
                assert anchor.replace("-", " ") in {slug.replace("-", " ") for slug in slugs}, (
                    page,
                    f"{target}#{anchor}",
                )
