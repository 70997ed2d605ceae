"""The bound of a dry run is never below what the run asks, whatever kind of experiment it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import medstress as ms
from experiments import GOLDENS, SAMPLERS, substitution, victim
from medstress.experiment.dry_run import DryRun, dry_run
from medstress.experiment.opened import opened_victims
from medstress.experiment.prepare import prepare
from medstress.stats.power import detectable

RIGHT = "\n\ndef right(prompts):\n    return [key_of(prompt) for prompt in counted(prompts)]\n"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDEN_ASKED", str(tmp_path / "asked.txt"))
    return tmp_path


def planned(files: dict[str, str]) -> DryRun:
    """Write the files of an experiment, and count what it asks; nothing is asked."""
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    prepared = prepare(Path("e.toml"))
    with opened_victims(prepared, lambda _: None):
        costs = dry_run(prepared, Path("run"))
    assert not Path("asked.txt").exists()
    assert not Path("run").exists()
    return costs


def asked() -> dict[str, int]:
    """Run the experiment; return the computed calls by model and role."""
    performance = ms.run("e.toml", out="run").summary()["performance"]
    return {row["payer"]: row["calls"] for row in performance["spending"]}


def test_a_model_that_is_always_right_is_asked_for_every_budget(workplace: Path) -> None:
    """No success ends a search early; names that several samplers draw are paid once."""
    files = substitution(victim("right") + SAMPLERS.replace("budget = 5", "budget = 7"))
    files["choosing.py"] += RIGHT
    files["e.toml"] = files["e.toml"].replace("seeds = [0, 1]", "seeds = [0]\ncontrols = false")
    costs = planned(files)
    (cost,) = costs.costs
    n = asked()["right"]
    rows = ms.open("run").trials()
    n_asked = sum(row["n_asked"] for row in rows.iter_rows(named=True))
    assert n_asked == cost.queries["attacks"]
    assert (
        n <= cost.queries["clean"] + cost.queries["attacks"] == cost.bound - cost.queries["checks"]
    )


def test_the_least_loss_is_that_of_the_run_in_the_folder(workplace: Path) -> None:
    """Accuracy and discordance are measured there; two planted rows can be counted by hand."""
    files = GOLDENS["controls"].files
    (least,) = planned(files).least
    assert (least.accuracy, least.discordances, least.source) == (0.5, (0.15, 0.4), "assumed")
    run = ms.run("e.toml", out="run")
    with opened_victims(prepared := prepare(Path("e.toml")), lambda _: None):
        (after,) = dry_run(prepared, Path("run")).least
    rows = [row for row in run.summary()["results"] if "control_of" not in row]
    (row,) = rows
    assert after.accuracy == pytest.approx(row["accuracy"]["value"])
    assert after.source == "measured in run"
    trials = run.trials().to_dicts()
    lost = {t["item_id"] for t in trials if t["arm"] == "attack" and t["verdict"] == "flipped"}
    shares = []
    for control in {t["attack"] for t in trials if t["control_of"]}:
        own = {t["item_id"]: t["verdict"] for t in trials if t["attack"] == control}
        known = {item for item, verdict in own.items() if verdict in ("flipped", "held")}
        differ = {item for item in known if (own[item] == "flipped") != (item in lost)}
        shares.append(len(differ) / len(known))
    assert list(after.discordances) == [pytest.approx(max(shares))]
    assert after.losses == (detectable(round(after.n_items * after.accuracy), max(shares)),)
