"""`medstress export --mlflow`: against a small stand-in of MLflow's client, and MLflow itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections import namedtuple
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from medstress.card.content import card_of
from medstress.results.load import open_run

Pair = namedtuple("Pair", "key value timestamp step", defaults=(0, 0))


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
            SimpleNamespace(info=SimpleNamespace(run_id=key))
            for key, run in self.runs.items()
            if run["tags"].get(wanted[1]) == wanted[2]
        ]

    def create_run(self, place, tags, run_name):
        key = f"r{len(self.runs)}"
        self.runs[key] = {"tags": dict(tags), "metrics": {}, "params": {}, "files": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id=key))

    def log_batch(self, run, metrics=(), params=(), tags=()):
        assert len(metrics) <= 1000
        for name, given in (("metrics", metrics), ("params", params), ("tags", tags)):
            self.runs[run][name].update((each.key, each.value) for each in given)

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
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE"):
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
            assert run["metrics"].get(f"{place}/{name}") == value
    with open_run(finished.out) as stored:
        assert json.loads(run["files"]["cards/mock/card.json"]) == (
            card_of(stored, "mock").as_json()
        )
    assert json.loads(run["files"]["summary.json"]) == summary
    said = " ".join(run["files"].values())
    assert "What treats case" not in said
    assert "zumab" not in said


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
def test_mlflow_itself_holds_the_run_in_a_local_folder(medstress, finished, tmp_path):
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
