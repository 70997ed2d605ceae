"""`train` on many machines, with threads in place of machines: it ends as that of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from fleet_of_threads import KeeperHere, Stop, Threads, exported, fleet
from medstress.api.run import Run
from medstress.core.errors import StoreError, UsageError
from medstress.fleet import driver as drivers
from medstress.fleet import leasing
from medstress.fleet import training as flow
from medstress.fleet import training_work as work
from medstress.fleet.models import digest_of_model, packed, unpack_to
from medstress.fleet.training import train_on_workers
from medstress.running.prepare import Watcher

TOML = """
[experiment]
controls = false
name = "toy"
seeds = [0]
[dataset]
name = "iob"
path = "test.iob"
limit = 12
[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
scope = "all"
[train]
model = "{model}"
data = {{path = "train.iob"}}
dev = 0.2
epochs = 2
batch_size = 8
learning_rate = 5e-3
patience = 0
adversarial = [{{attack = "swap_noise"}}]
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process, and no worker that waits for long."""
    monkeypatch.setattr(leasing, "KeeperProcess", KeeperHere)
    monkeypatch.setattr(drivers, "_IDLE_SECONDS", 0.02)


@pytest.fixture
def file(workplace: Path, encoder: Path) -> Path:
    """The experiment file."""
    path = workplace / "e.toml"
    path.write_text(TOML.format(model=encoder), "utf-8")
    return path


@pytest.fixture
def alone(file: Path) -> Path:
    """The folder of the training of one process."""
    return Path(ms.train(file, out="alone").run.folder)


def trained(file: Path, threads: Any, out: str = "many", n_shards: int = 3, **keys: Any) -> Any:
    """Train on a fleet."""
    watcher = keys.pop("watcher", None)
    overrides = keys.pop("overrides", ())
    given = fleet(threads, n_shards=n_shards, **keys)
    return train_on_workers(file, out, given, watcher=watcher, overrides=overrides)


def compared(folder: Path) -> Any:
    """The comparison, but for times."""
    found = json.loads((folder / "training.json").read_text("utf-8"))
    for model in found["models"]:
        for point in model["curve"]:
            del point["seconds"]
    return found


def check_same(many: Path, alone: Path) -> None:
    assert exported(many) == exported(alone)
    assert compared(many) == compared(alone)
    assert Run(many).summary()["root"] == Run(alone).summary()["root"]
    for model in ("original-0", "swap_noise-0"):
        one, other = (folder / "models" / model for folder in (many, alone))
        assert digest_of_model(one) == digest_of_model(other)
    assert Run(many).manifest()["complete"]


def calls_of(folder: Path) -> int:
    return int(Run(folder).summary()["performance"]["calls"])


def test_the_result_is_that_of_one_process(file: Path, alone: Path) -> None:
    threads = Threads()
    found, _ = trained(file, threads)
    assert found.is_complete
    check_same(found.folder, alone)
    assert calls_of(found.folder) == calls_of(alone)
    again, _ = trained(file, None)
    assert again == found
    check_same(found.folder, alone)


@pytest.mark.release
@pytest.mark.kills
def test_a_model_whose_worker_is_lost_is_trained_by_another(file: Path, alone: Path) -> None:
    """One worker is lost when it ships a model, one when it ships attacks on all."""
    shipped: list[str] = []

    def lose(_: int, asked: dict[str, Any]) -> bool:
        if asked["ask"] == "ship":
            shipped.append(asked["suffix"])
        return asked["ask"] == "ship" and len(shipped) in (1, 7)

    told: list[str] = []
    threads = Threads(lose)
    found, _ = trained(file, threads, watcher=Watcher(announce=told.append))
    assert len(threads.lost) == 2
    assert shipped.count(".zip") == 3
    assert any("others began anew: 1" in line for line in told), told
    check_same(found.folder, alone)


@pytest.mark.release
@pytest.mark.parametrize("at", ["_keep", "attack", "write_comparison"])
def test_a_driver_that_ends_between_phases_trains_and_asks_nothing_twice(
    file: Path, alone: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise Stop

    where = flow if at == "write_comparison" else flow._Training
    with monkeypatch.context() as patch:
        patch.setattr(where, at, stop)
        with pytest.raises(Stop):
            trained(file, Threads())
    trainings: list[str] = []
    real = work.trained

    def counting(plan: Any, model: Any, *given: Any) -> Any:
        trainings.append(model.label)
        return real(plan, model, *given)

    monkeypatch.setattr(work, "trained", counting)
    found, _ = trained(file, Threads())
    assert trainings == ([] if at == "write_comparison" else ["swap_noise-0"])
    check_same(found.folder, alone)
    assert calls_of(found.folder) == calls_of(alone)


@pytest.mark.release
@pytest.mark.kills
def test_a_driver_that_ends_in_the_last_phase_is_followed_by_another(
    file: Path, alone: Path
) -> None:
    planned: list[int] = []

    def progress(counts: Any) -> None:
        if not planned or planned[-1] != counts.n_planned:
            planned.append(counts.n_planned)
        # Models, attacks on one, models, attacks on both.
        if len(planned) == 4 and counts.n_done > counts.n_planned * 0.6:
            raise Stop

    with pytest.raises(Stop):
        trained(file, Threads(), ship_every=5, watcher=Watcher(progress=progress))
    assert set(Run("many").manifest()["victims"]) == {"original-0"}
    found, _ = trained(file, Threads(), ship_every=5)
    check_same(found.folder, alone)


@pytest.mark.release
def test_folds_are_asked_about_their_own_items(file: Path) -> None:
    text = file.read_text("utf-8").replace('data = {path = "train.iob"}', "folds = 2")
    text = text.replace('path = "test.iob"\nlimit = 12', 'path = "train.iob"')
    file.write_text(text.replace("dev = 0.2", "dev = 0"), "utf-8")
    alone = Path(ms.train(file, out="alone").run.folder)
    found, _ = trained(file, Threads())
    assert exported(found.folder) == exported(alone)
    assert compared(found.folder) == compared(alone)


@pytest.mark.release
def test_a_limit_counts_all_attacks_and_raising_it_goes_on(file: Path, alone: Path) -> None:
    n = calls_of(alone)
    for cap in (n // 4, n * 3 // 4):
        found, spread = trained(
            file, Threads(), overrides=[f"experiment.max_queries={cap}"], n_workers=2
        )
        assert found is None
        assert not spread.is_merged
    found, _ = trained(file, Threads(), overrides=[f"experiment.max_queries={n}"])
    check_same(found.folder, alone)


@pytest.mark.release
def test_models_travel_to_a_machine_that_does_not_see_them(
    file: Path, alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As if the driver's folder of models were on another disk."""
    hidden, models = tmp_path / "hidden", tmp_path / "many" / "models"
    hidden.mkdir()
    asked: list[str] = []

    def lose(_: int, message: dict[str, Any]) -> bool:
        asked.append(message["ask"])
        for folder in models.glob("[os]*-0"):
            if message["ask"] == "planned" and not (hidden / folder.name).exists():
                folder.rename(hidden / folder.name)
        return False

    monkeypatch.setattr(leasing, "packed", lambda folder: packed(hidden / folder.name))
    found, _ = trained(file, Threads(lose), n_workers=1, store=str(tmp_path / "store"))
    assert asked.count("model") == 2
    check_same(found.folder, alone)


def test_another_model_at_the_same_place_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    monkeypatch.setattr(flow, "digest_of_model", lambda _: "another")
    with pytest.raises(UsageError) as error:
        trained(file, Threads(), n_workers=1)
    said(str(error.value), "original-0", "another model")


@pytest.mark.release
def test_models_of_one_machine_are_not_trained_again_but_its_run_is_refused(
    file: Path, alone: Path, said: Any
) -> None:
    with pytest.raises(StoreError) as error:
        trained(file, None, out="alone")
    said(str(error.value), "without --ray")
    (alone / "run.sqlite").unlink()
    before = digest_of_model(alone / "models")
    threads = Threads()
    found, _ = trained(file, threads, out="alone")
    assert digest_of_model(found.folder / "models") == before
    assert Run(found.folder).manifest()["complete"]


@pytest.mark.release
def test_more_models_are_added_without_workers(file: Path, said: Any) -> None:
    found, _ = trained(file, Threads())
    more = ["train.seeds=[0, 1, 2]"]
    with pytest.raises(StoreError) as error:
        trained(file, Threads(), overrides=more)
    said(str(error.value), "without --ray")
    before = digest_of_model(found.folder / "models" / "original-0")
    ms.train(file, out=found.folder, overrides=more)
    assert digest_of_model(found.folder / "models" / "original-0") == before


@pytest.mark.parametrize("name", ["../outside.json", "/outside.json", "model.bin", "a/b.pkl"])
def test_an_archive_with_anything_but_a_model_is_refused(
    tmp_path: Path, name: str, said: Any
) -> None:
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, "{}")
    with pytest.raises(StoreError) as error:
        unpack_to(tmp_path / "models" / "m", data.getvalue())
    said(str(error.value), "archive")
    assert not list((tmp_path / "models").iterdir())


def test_what_is_no_archive_is_refused(tmp_path: Path, said: Any) -> None:
    with pytest.raises(StoreError) as error:
        unpack_to(tmp_path / "m", b"nothing")
    said(str(error.value), "archive")


@pytest.mark.release
def test_a_training_on_ray_is_that_of_one_process(file: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`")
    flags = ("--ray", "local", "--workers", "2", "--shards", "3")
    for name, more in (("alone", ()), ("many", flags)):
        done = subprocess.run(
            [sys.executable, "-m", "medstress", "train", file, "--out", name, "--quiet", *more],
            cwd=file.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # sums depend on the number of threads
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    check_same(file.parent / "many", file.parent / "alone")
