"""`medstress export --mlflow`: against a small stand-in of MLflow's client, and MLflow itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from collections import namedtuple
from dataclasses import replace
from math import isnan
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from medstress.api import tracking
from medstress.api.tracking import _DEFAULTS, _SETTINGS
from medstress.card.content import card_of
from medstress.core.errors import UsageError
from medstress.results.load import open_run

Pair = namedtuple("Pair", "key value timestamp step", defaults=(0, 0))


def shown(run):
    """Name -> the value that MLflow shows, None for one that is none."""
    return {name: (max(v)[-1] if max(v)[2] else None) for name, v in run["seen"].items()}


def places(bench):
    """Where metrics stand: victim, data set, group and attack."""
    rows = bench.summary()["pooled"]
    keys = ("victim", "dataset", "group", "attack")
    return {"/".join(r[key] for key in keys) for r in rows if "control_of" not in r}


class Error(Exception):
    """What MLflow raises."""


class Client:
    """The part of MLflow's client that is used; keeps what it is told by address."""

    stores: ClassVar[dict] = {}

    def __init__(self, tracking_uri):
        if tracking_uri.startswith("http"):
            raise Error("no server\nthere")
        self.runs = self.stores.setdefault(tracking_uri, {})

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id="1") if self.runs else None

    def create_experiment(self, name):
        return "1"

    def search_runs(self, places, filter_string, max_results):
        wanted = re.fullmatch(r"tags\.`(.+)` = '(.+)'", filter_string)
        return [
            SimpleNamespace(
                info=SimpleNamespace(run_id=key),
                data=SimpleNamespace(metrics={name: max(v)[-1] for name, v in run["seen"].items()}),
            )
            for key, run in self.runs.items()
            if run["tags"].get(wanted[1]) == wanted[2]
        ]

    def create_run(self, place, tags, run_name):
        key = f"r{len(self.runs)}"
        self.runs[key] = {"tags": dict(tags), "seen": {}, "params": {}, "files": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id=key))

    def log_batch(self, run, metrics=(), params=(), tags=()):
        assert len(metrics) <= 1000
        assert len(params) <= 100
        for each in metrics:
            # It shows the latest, and of one moment the largest.
            seen = self.runs[run]["seen"].setdefault(each.key, [])
            is_number = each.value == each.value
            seen.append((each.step, each.timestamp, is_number, each.value if is_number else 0))
        for name, given in (("params", params), ("tags", tags)):
            assert len({each.key for each in given}) == len(given)
            self.runs[run][name].update((each.key, each.value) for each in given)

    def delete_run(self, run):
        del self.runs[run]

    def log_text(self, run, text, name):
        self.runs[run]["files"][name] = text

    def set_terminated(self, run, status):
        self.runs[run]["status"] = status


@pytest.fixture
def mlflow(monkeypatch):
    """The stand-in, installed."""
    parts = {
        "mlflow": {},
        "mlflow.tracking": {"MlflowClient": Client},
        "mlflow.exceptions": {"MlflowException": Error},
        "mlflow.entities": {"Metric": Pair, "Param": Pair, "RunTag": Pair},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in (*_SETTINGS, *_DEFAULTS, "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(Client, "stores", {})


def test_numbers_cards_and_summary_are_logged_once_and_no_text(
    medstress, finished, mlflow, tmp_path
):
    uri = tmp_path / "mlruns"
    first = medstress("export", finished.out, "--mlflow", uri)
    again = medstress("export", finished.out, "--mlflow", uri)
    assert (first.code, first.out) == (0, again.out)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    ((run,),) = (store.values() for store in Client.stores.values())
    summary = finished.summary()
    assert run["status"] == "FINISHED"
    assert run["tags"]["medstress.root"] == summary["root"]
    for row in summary["pooled"]:
        place = "/".join(row[key] for key in ("victim", "dataset", "group", "attack"))
        for name in ("asr", "accuracy", "accuracy_after"):
            value = row[name]["value"]
            assert shown(run).get(f"{place}/{name}") == value
    with open_run(finished.out) as stored:
        assert json.loads(run["files"]["cards/mock/card.json"]) == (
            card_of(stored, "mock").as_json()
        )
    assert json.loads(run["files"]["summary.json"]) == summary
    said = " ".join(run["files"].values())
    assert "What treats case" not in said
    assert "zumab" not in said


def test_a_later_call_shows_what_holds_now(finished, mlflow, tmp_path, monkeypatch):
    uri, now = str(tmp_path / "mlruns"), iter((10**15, 2 * 10**15, 3 * 10**15))
    monkeypatch.setattr(tracking.time, "time_ns", lambda: next(now))
    kept = tracking._estimates
    for change in ({"valid": {"value": 0.7, "low": 0.5, "high": 0.8}}, {"valid": None}):
        with monkeypatch.context() as patch:
            patch.setattr(
                tracking, "_estimates", lambda arm, more=change: kept(replace(arm, **more))
            )
            with open_run(finished.out) as run:
                tracking.log_to_mlflow(run, uri)
        ((logged,),) = (store.values() for store in Client.stores.values())
        found = {name: value for name, value in shown(logged).items() if "/valid" in name}
        assert set(found) > {f"{name}/valid" for name in places(finished)}
        assert {value for name, value in found.items() if name.endswith("/valid")} == (
            {0.7} if change["valid"] else {None}
        )
    # A value that fell is the one that is shown.
    lower = {"valid": {"value": 0.1, "low": 0.0, "high": 0.2}}
    monkeypatch.setattr(tracking, "_estimates", lambda arm: kept(replace(arm, **lower)))
    with open_run(finished.out) as run:
        tracking.log_to_mlflow(run, uri)
    assert {v for name, v in shown(logged).items() if name.endswith("/valid")} == {0.1}


def test_a_copy_of_a_folder_is_a_run_of_its_own(medstress, finished, mlflow, tmp_path):
    shutil.copytree(finished.out, tmp_path / "copy")
    uri = tmp_path / "mlruns"
    told = [
        medstress("export", each, "--mlflow", uri) for each in (finished.out, tmp_path / "copy")
    ]
    assert told[0].out != told[1].out
    (store,) = Client.stores.values()
    assert len(store) == 2


def test_names_in_other_scripts_stay_apart(medstress, workbench, mlflow, tmp_path, monkeypatch):
    bench = workbench.Bench(tmp_path)
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["victim"] = [{"name": name, "backend": "mock"} for name in ("模型甲", "模型乙")]
    bench.tables["attack"] = bench.tables["attack"][:1]
    bench.run()
    assert medstress("export", bench.out, "--mlflow", tmp_path / "mlruns").code == 0
    ((run,),) = (store.values() for store in Client.stores.values())
    assert len({name.split("/")[1] for name in run["files"] if name.startswith("cards/")}) == 2
    assert len({name.split("/")[0] for name in shown(run)}) == 2


def test_nothing_half_logged_stays(finished, mlflow, tmp_path, monkeypatch):
    def fail(*_):
        raise Error("disk full")

    monkeypatch.setattr(Client, "log_text", fail)
    with open_run(finished.out) as run, pytest.raises(UsageError):
        tracking.log_to_mlflow(run, str(tmp_path / "mlruns"))
    assert Client.stores == {(tmp_path / "mlruns").as_uri(): {}}


def test_a_place_that_is_none_is_refused_before_anything_is_made(
    medstress, finished, mlflow, said, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    for uri, word in (
        ("", "empty"),
        (tmp_path / "other", "other things"),
        (tmp_path / "other" / "notes.txt", "other things"),
        ("databricks", "short name"),
        (f"sqlite:///{tmp_path}/a.db", "pip install mlflow"),
    ):
        told = medstress("export", finished.out, "--mlflow", uri)
        assert told.code == 2
        assert told.err.count("\n") == 1
        said(told.err, word)
    assert Client.stores == {}


def test_a_server_that_does_not_answer_is_named_in_plain_words(finished, mlflow, monkeypatch):
    def fail(*_, **__):
        raise Error("Max retries exceeded with url: (Caused by NewConnectionError(...))")

    monkeypatch.setattr(Client, "__init__", fail)
    with open_run(finished.out) as run, pytest.raises(UsageError, match="no MLflow server answers"):
        tracking.log_to_mlflow(run, "http://127.0.0.1:9")
    assert int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) <= 1


def test_what_mlflow_refuses_and_what_is_missing_is_one_sentence(
    medstress, finished, mlflow, said, tmp_path
):
    for flags, word in (
        (("--mlflow", "http://127.0.0.1:1"), "no server"),
        ((), "--mlflow URI"),
        (("--to", tmp_path / "a.csv"), "--table"),
    ):
        told = medstress("export", finished.out, *flags)
        assert told.code == 2
        assert told.err.count("\n") == 1
        said(told.err, word)


def test_without_mlflow_the_extra_is_named(medstress, finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", None)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "")
    told = medstress("export", finished.out, "--mlflow", "here")
    assert told.code == 2
    assert "pip install 'medstress[mlflow]'" in told.err + told.next


@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_itself_holds_the_run_in_a_local_folder(medstress, finished, tmp_path, monkeypatch):
    told = medstress("export", finished.out, "--mlflow", tmp_path / "mlruns")
    assert told.code == 0
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    run = client.get_run(told.out.split()[-1])
    row = finished.summary()["pooled"][0]
    place = "/".join(row[key] for key in ("victim", "dataset", "group", "attack"))
    assert run.data.metrics[f"{place}/asr"] == row["asr"]["value"]
    assert (tmp_path / "mlruns").is_dir()
    names = [each.path for each in client.list_artifacts(run.info.run_id)]
    assert sorted(names) == ["cards", "summary.json"]
    # Logged again, a number that fell is the one that is shown, and one that is gone is none.
    monkeypatch.setattr(
        tracking, "_estimates", lambda _: [("asr", {"value": -1, "low": None, "high": None})]
    )
    assert medstress("export", finished.out, "--mlflow", tmp_path / "mlruns").out == told.out
    shown_now = client.get_run(run.info.run_id).data.metrics
    assert shown_now[f"{place}/asr"] == -1
    assert isnan(shown_now[f"{place}/accuracy"])
