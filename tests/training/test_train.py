"""medstress train: whole flows on a tiny model, resuming, and what is refused."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.core.errors import MedstressError, StoreError, UsageError
from medstress.training import train as flow
from medstress.training.train import plan_training

TOML = """
[experiment]
controls = false
name = "toy"
seeds = [0]
[dataset]
name = "iob"
path = "test.iob"
[[attack]]
name = "swap_noise"
scope = "all"
[train]
model = "{model}"
data = {{path = "train.iob"}}
dev = 0
epochs = {epochs}
batch_size = 8
learning_rate = 5e-3
adversarial = [{{attack = "swap_noise"}}]
"""


def rows_of(run):
    return {(row["victim"], row["attack"]): row for row in run.summary()["results"]}


def test_before_and_after_are_victims_of_one_run(workplace, experiment, monkeypatch):
    trained = ms.train(experiment, out=workplace / "out")
    assert trained.is_complete
    rows = rows_of(trained.run)
    assert set(rows) == {
        (victim, attack)
        for victim in ("original-0", "swap_noise-0")
        for attack in ("swap_noise", "keyboard_noise")
    }
    assert rows["original-0", "swap_noise"]["f1"]["value"] > 0.8
    assert rows["original-0", "swap_noise"]["f1_drop"]["value"] > 0.1
    training = json.loads((workplace / "out" / "training.json").read_text())
    assert training["format"] == 1
    compared = {row["attack"]: row for row in training["rows"]}
    assert {name: row["trained_on"] for name, row in compared.items()} == {
        "swap_noise": True,
        "keyboard_noise": False,
    }
    on = compared["swap_noise"]
    assert on["clean"]["value"] == rows["original-0", "swap_noise"]["f1"]["value"]
    assert (
        on["trained_attacked"]["value"] == rows["swap_noise-0", "swap_noise"]["f1_after"]["value"]
    )
    assert on["gain"]["value"] > 0
    # So few sentences give no interval, so that nothing says whether the loss is above zero.
    assert (on["recovered"]["value"], "needed" in on["recovered"]["method"]) == (None, True)
    assert len(training["models"]) == 2
    kept = trained.run.manifest()["training"]["models"]
    assert all(len(model["curve"]) == 12 for model in kept)
    modes = {path: path.stat().st_mode & 0o777 for path in (workplace / "out").rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    first = trained.run.summary()
    monkeypatch.setattr(flow, "fit", None)  # a second time nothing is trained
    again = ms.train(experiment, out=workplace / "out").run.summary()
    assert (again["results"], again["training"]) == (first["results"], first["training"])


@pytest.mark.parametrize("name", ["models", "run.lock", "models/original-0.checkpoints"])
def test_nothing_is_trained_into_a_link(workplace, experiment, name):
    outside = workplace / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    link = workplace / "out" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(StoreError, match="it is a link"):
        ms.train(experiment, out=workplace / "out")
    assert link.is_symlink()
    assert [path.name for path in outside.iterdir()] == ["mine.txt"]


@pytest.mark.release
def test_models_join_later_and_others_are_refused(workplace, experiment):
    experiment["train"] |= {"epochs": 1, "adversarial": []}
    alone = ms.train(experiment, out="out").run
    assert alone.summary()["training"]["rows"] == []
    experiment["train"]["adversarial"] = [
        {"attack": ["swap_noise", "keyboard_noise"], "redraw": "epoch", "label": "both"}
    ]
    experiment["train"]["seeds"] = [0, 1]
    joined = ms.train(experiment, out="out").run
    assert {victim for victim, _ in rows_of(joined)} == {
        f"{kind}-{seed}" for kind in ("original", "both") for seed in (0, 1)
    }
    assert all(row["trained_on"] for row in joined.summary()["training"]["rows"])
    experiment["train"]["learning_rate"] = 1e-3
    with pytest.raises(StoreError, match="'original-0' that was trained on other data or with"):
        ms.train(experiment, out="out")


@pytest.mark.parametrize(
    "n_kills",
    [
        pytest.param(1, marks=pytest.mark.kills("train")),
        pytest.param(16, marks=[pytest.mark.kills, pytest.mark.timeout(1800)]),
    ],
)
def test_a_killed_process_goes_on_and_ends_with_the_same_models(workplace, encoder, n_kills):
    (workplace / "e.toml").write_text(TOML.format(model=encoder, epochs=1 + n_kills))
    code = (
        "import sys, torch, medstress.training.learners as loop\n"
        "torch.set_num_threads(1)\n"  # sums depend on the number of threads
        "from medstress.cli.app import medstress_cli\n"
        "loop.fit.__kwdefaults__['every_seconds'] = 0\n"
        "sys.exit(medstress_cli(['train', 'e.toml', '--out', 'broken', '--quiet']))\n"
    )
    begun = workplace / "broken" / "models" / "original-0.checkpoints"
    source = str(Path(ms.__file__).parents[1])

    def written():
        return {path.stat().st_mtime_ns for path in begun.glob("checkpoint.safetensors")}

    for _ in range(n_kills):
        before = written()
        process = subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": source}, cwd=workplace
        )
        deadline = time.monotonic() + 120
        while written() <= before and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert begun.is_dir()
    for name in ("broken", "whole"):
        assert medstress_cli(["train", "e.toml", "--out", name, "--quiet"]) == 0
    for model in ("original-0", "swap_noise-0"):
        broken, whole = (
            (workplace / name / "models" / model / "model.safetensors").read_bytes()
            for name in ("broken", "whole")
        )
        assert broken == whole
    assert not begun.exists()


DIES = """
import os, signal, sys, torch
import medstress.store.database as database
from medstress.backends.local.encoders import TokenClassificationBackend as Tagger
from medstress.cli.app import medstress_cli

torch.set_num_threads(1)
out, left, link, answer = sys.argv[1], int(sys.argv[2]), database.link, Tagger.answer


def logged(self, calls):
    with open(f"{out}.log", "a") as log:
        log.write("".join(f"{self.identity.hash} {call!r}\\n" for call in calls))
    return answer(self, calls)


def dying(db, chained):
    global left
    left -= 1
    link(db, chained)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


database.link, Tagger.answer = dying, logged
sys.exit(medstress_cli(["train", "e.toml", "--out", out, "--quiet"]))
"""
"""Logs what models are asked, and kills itself in its n-th commit; in none with n = 0."""


@pytest.mark.kills
def test_a_training_that_is_killed_while_it_attacks_goes_on_there(workplace, encoder):
    (workplace / "e.toml").write_text(TOML.format(model=encoder, epochs=1))
    weights = workplace / "broken" / "models" / "original-0" / "model.safetensors"
    trained_at = set()

    def train(out, n):
        command = [sys.executable, "-c", DIES, out, str(n)]
        return subprocess.run(command, cwd=workplace, check=False).returncode

    for n in (1, 2, 3, 4):
        assert train("broken", n) == -signal.SIGKILL
        assert (workplace / "broken" / "run.sqlite").exists()
        trained_at.add(weights.stat().st_mtime_ns)
    assert train("broken", 0) == train("whole", 0) == 0
    assert trained_at == {weights.stat().st_mtime_ns}
    broken, whole = (ms.open(name).summary() for name in ("broken", "whole"))
    assert broken["root"] == whole["root"] is not None
    assert broken["training"] == whole["training"]
    asked, of_whole = (
        (workplace / f"{n}.log").read_text().splitlines() for n in ("broken", "whole")
    )
    assert set(asked) == set(of_whole)
    interrupted = sum(row["queries"]["interrupted"] for row in broken["results"])
    assert len(asked) - len(of_whole) <= interrupted


@pytest.mark.parametrize(
    ("table", "changes", "sentence"),
    [
        ("train", {"epocs": 3}, "unknown key 'epocs'; did you mean 'epochs'?"),
        ("train", {"dev": {"path": "none.iob"}}, "[train] dev: "),
        ("train", {"data": {"path": "test.iob"}}, "every attacked item is in the training data"),
        (
            "train",
            {"adversarial": [{"attack": "swapnoise"}]},
            "there is no [[attack]] 'swapnoise'; did you mean 'swap_noise'?",
        ),
        (
            "train",
            {"adversarial": [{"attack": "swap_noise"}, {"attack": ["swap_noise"]}]},
            "two models would be called 'swap_noise'; give one of them a label",
        ),
        (
            "victim",
            {"backend": "mock"},
            "medstress train attacks the models that it trains; remove [[victim]]",
        ),
    ],
)
def test_garbage_is_refused_in_one_sentence_before_anything_is_trained(
    workplace, experiment, table, changes, sentence
):
    given = copy.deepcopy(experiment)
    given.setdefault(table, {}).update(changes)
    with pytest.raises(MedstressError) as refused:
        ms.train(given, out="out")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(workplace.glob("out/models/*"))


def test_a_search_cannot_be_trained_on_and_a_file_without_the_table_is_refused(
    workplace, experiment
):
    experiment["attack"][0] |= {"search": "greedy", "budget": 4}
    with pytest.raises(MedstressError, match="a search asks a model which edits matter"):
        ms.train(experiment, out="out")
    del experiment["train"]
    with pytest.raises(MedstressError, match=r"the table \[train\] is missing"):
        ms.train(experiment, out="out")


def test_what_the_data_trained_on_take_over_from_those_attacked_is_named(workplace, experiment):
    """Types that the training data lack, unless they are renamed."""
    mixed = (workplace / "test.iob").read_text().replace("B-Chemical", "B-Drug")
    (workplace / "test.iob").write_text(mixed.replace("I-Chemical", "I-Drug"))
    experiment["dataset"][0]["types"] = ["Drug"]
    with pytest.raises(
        UsageError, match=r"^\[train\] data: .*inherited from \[\[dataset\]\]: types"
    ):
        plan_training(experiment)
    experiment["train"]["data"] |= {"types": ["Chemical"]}
    with pytest.raises(UsageError, match=r"^\[train\] data: the type 'Chemical'"):
        plan_training(experiment)
    experiment["train"]["data"] |= {"types": {"Chemical": "Drug"}}
    assert plan_training(experiment).prepared.classes == ("Drug",)


def test_a_folder_of_another_run_is_refused(workplace, experiment):
    (workplace / "v.py").write_text("def f(x):\n    return [['O' for _ in s] for s in x]\n")
    plain = {k: v for k, v in experiment.items() if k != "train"}
    ms.run({**plain, "victim": {"backend": "python", "target": "v.py:f"}}, out="out")
    with pytest.raises(StoreError, match="holds a run without training"):
        ms.train(experiment, out="out")
