"""Log a run to an MLflow tracking server or folder: numbers, cards, the summary; no texts.

Neither a question, a prompt nor a reply is sent. MLflow's own telemetry is switched off.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medstress.card import pages
from medstress.card.content import Arm, Card, card_of
from medstress.core.errors import UsageError, missing_extra, reason
from medstress.results.load import StoredRun
from medstress.summary.summary import summarise_run

TAG = "medstress.fingerprint"
"""By which a run is found again, so that it is logged once however often this is called."""
_NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
_LONGEST = 250
"""Characters of a name that MLflow takes."""
_BATCH = 1000
"""Metrics that MLflow takes at once."""


def log_to_mlflow(run: StoredRun, uri: str) -> str:
    """Log a run, finished or not, and return the id of the MLflow run.

    Of one experiment (one fingerprint) there is one MLflow run; a later call adds to it.

    Args:
        run: the run.
        uri: a folder, or the address of a tracking server or a database.

    Raises:
        UsageError: MLflow is not installed, or it cannot be reached or written.
    """
    make, fault, place = _opened(uri)
    summary = summarise_run(run)
    cards = [card_of(run, victim) for victim in run.manifest["victims"]]
    try:
        return _log(make(tracking_uri=place), summary, cards)
    except (fault, OSError, ImportError) as error:  # those of requests are OSErrors
        raise UsageError(f"--mlflow {uri}: MLflow cannot log there: {reason(error)}") from error


def _opened(uri: str) -> tuple[Any, type[Exception], str]:
    """Return the class of MLflow's client, that of its errors, and the address in its words."""
    # Read when MLflow is imported, so set before.
    os.environ.update(_NO_TELEMETRY)
    is_folder = len(urlsplit(uri).scheme) < 2  # one letter is a drive
    if is_folder or uri.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise missing_extra("MLflow", "mlflow") from error
    return MlflowClient, MlflowException, Path(uri).resolve().as_uri() if is_folder else uri


def _log(client: Any, summary: Mapping[str, Any], cards: list[Card]) -> str:
    from mlflow.entities import Metric, Param, RunTag

    experiment = summary["experiment"]
    known = client.get_experiment_by_name(experiment["name"])
    place = client.create_experiment(experiment["name"]) if known is None else known.experiment_id
    wanted = f"tags.`{TAG}` = '{experiment['fingerprint']}'"
    found = client.search_runs([place], filter_string=wanted, max_results=1)
    if found:
        logged = found[0].info.run_id
    else:
        mark = {TAG: experiment["fingerprint"]}
        logged = client.create_run(place, tags=mark, run_name=experiment["name"]).info.run_id
    metrics = [Metric(name, value, 0, 0) for card in cards for name, value in _metrics(card)]
    params = [Param(name, text) for card in cards for name, text in _parameters(card)]
    tags = [
        RunTag("medstress.root", str(summary["root"])),
        RunTag("medstress.complete", str(bool(experiment["complete"])).lower()),
        RunTag("medstress.version", str(experiment["versions"].get("medstress"))),
    ]
    client.log_batch(logged, params=params, tags=tags)
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(logged, metrics=metrics[start : start + _BATCH])
    client.log_text(logged, json.dumps(summary, indent=1, allow_nan=False), "summary.json")
    for card in cards:
        folder = f"cards/{_name(card.victim)}"
        client.log_text(logged, pages.markdown(card), f"{folder}/card.md")
        client.log_text(logged, pages.html(card), f"{folder}/card.html")
        client.log_text(logged, pages.as_json(card), f"{folder}/card.json")
    client.set_terminated(logged, "FINISHED" if experiment["complete"] else "RUNNING")
    return str(logged)


def _metrics(card: Card) -> Iterator[tuple[str, float]]:
    """Yield name and value of every number of a card; ends of intervals have their own names."""
    for arm in card.arms:
        for measure, found in _estimates(arm):
            for end in ("value", "low", "high"):
                if found is not None and found[end] is not None:
                    name = measure if end == "value" else f"{measure}_{end}"
                    parts = (card.victim, arm.dataset, arm.group, arm.attack, name)
                    yield "/".join(map(_name, parts))[-_LONGEST:], float(found[end])


def _estimates(arm: Arm) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    score = "accuracy" if arm.measure == "asr" else arm.measure
    yield score, arm.before
    yield f"{score}_after", arm.after
    yield "asr" if arm.measure == "asr" else f"{score}_drop", arm.lost
    yield "control", arm.control_lost
    yield "net", arm.net
    yield "valid", arm.valid
    if arm.valid_bounds is not None and arm.n_lost and None not in arm.valid_bounds:
        low, high, _ = arm.valid_bounds
        yield "valid_bounds", {"value": None, "low": low, "high": high}


def _parameters(card: Card) -> Iterator[tuple[str, str]]:
    for key, value in card.model.items():
        yield f"{_name(card.victim)}/{key}", str(value)


def _name(text: str) -> str:
    """Return a text with what MLflow takes in a name.

    >>> _name("near names / no_op (n=-20)")
    'near names _ no_op _n_-20_'
    """
    return re.sub(r"[^\w. -]", "_", text, flags=re.ASCII) or "_"
