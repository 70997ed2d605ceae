"""Log a run to an MLflow tracking server or folder: numbers, cards, the summary; no texts.

Neither a question, a prompt nor a reply is sent. MLflow's own telemetry is switched off.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medstress.card import pages
from medstress.card.content import Arm, Card, card_of
from medstress.core.errors import UsageError, reason
from medstress.core.hashing import content_hash
from medstress.files.extras import importing
from medstress.results.load import StoredRun
from medstress.summary.summary import summarise_run

TAG = "medstress.folder"
"""By which a run is found again, so that a folder is one MLflow run however often it is logged: a
hash of fingerprint, start and path. Copies of a folder have the first two in common."""
_SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
_DEFAULTS = {
    # Else a server that does not answer is asked for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    # Else it prints tracebacks beside the one sentence.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}
_LONGEST = 250
"""Characters of a name that MLflow takes."""
_METRICS, _PARAMS = 1000, 100
"""What MLflow takes at once."""
_DATABASES = ("sqlite", "mysql", "postgresql", "mssql")
_WEB = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """All that is logged of a run, made before anything is sent."""

    experiment: str
    """Name of the experiment."""
    tags: Mapping[str, str]
    """With `TAG`."""
    metrics: Mapping[str, float]
    """Name -> number."""
    params: Mapping[str, str]
    """What is known of the models."""
    files: Mapping[str, str]
    """Name -> text."""
    is_complete: bool
    """Whether the run is."""


def log_to_mlflow(run: StoredRun, uri: str) -> str:
    """Log a run, finished or not, and return the id of the MLflow run.

    Of one run folder there is one MLflow run; a later call renews it. A number that the folder no
    longer has, such as the valid share of a review that was taken back, becomes NaN there, because
    MLflow deletes none.

    Args:
        run: the run.
        uri: a folder, or the address of a tracking server or a database.

    Raises:
        UsageError: MLflow is not installed, or it cannot be reached or written.
    """
    place = _place(uri)
    make, fault = _opened(place)
    entry = _entry(run)
    try:
        return _log(make(tracking_uri=place), entry)
    except (fault, OSError, ImportError) as error:  # those of requests are OSErrors
        raise UsageError(f"--mlflow {uri}: {_why(place, error)}") from error


def _place(uri: str) -> str:
    """Return the address in MLflow's words.

    Raises:
        UsageError: it is empty, or a folder that holds other things.
    """
    if not uri.strip():
        raise UsageError(
            "--mlflow: expected a folder or the address of a server, got an empty text"
        )
    scheme = urlsplit(uri).scheme
    if uri.startswith("databricks"):
        raise UsageError(
            f"--mlflow {uri}: expected a folder or the address of a server, got MLflow's short "
            f"name of one; write its address, or ./{uri} for a folder of that name"
        )
    if len(scheme) >= 2:  # one letter is a drive
        return uri
    folder = Path(uri)
    known = [*folder.glob("*/meta.yaml"), *folder.glob(".trash")]
    if folder.exists() and not (folder.is_dir() and (known or not any(folder.iterdir()))):
        raise UsageError(
            f"--mlflow {uri}: expected a new or empty folder or one that MLflow made, got one "
            "with other things; choose another"
        )
    return folder.resolve().as_uri()


def _opened(place: str) -> tuple[Any, type[Exception]]:
    """Return the class of MLflow's client, and that of its errors."""
    # Read when MLflow is imported, so set before.
    os.environ.update(_SETTINGS)
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if place.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    with importing("MLflow", "mlflow"):
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    if _is_database(place) and find_spec("sqlalchemy") is None:
        raise UsageError(f"--mlflow {place}: {_WHOLE}")
    return MlflowClient, MlflowException


_WHOLE = "a database needs the whole of MLflow: pip install mlflow"


def _is_database(place: str) -> bool:
    return urlsplit(place).scheme.partition("+")[0] in _DATABASES


def _why(place: str, error: Exception) -> str:
    """Return why MLflow could not log."""
    told = str(error)
    if _is_database(place) and ("unsupported URI" in told or isinstance(error, ImportError)):
        return _WHOLE
    if urlsplit(place).scheme in _WEB and ("Max retries" in told or "timed out" in told):
        return "no MLflow server answers there; start it, or correct the address"
    return f"MLflow cannot log there: {reason(error)}"


def _entry(run: StoredRun) -> _Entry:
    summary = summarise_run(run)
    experiment = summary["experiment"]
    cards = [card_of(run, victim) for victim in run.manifest["victims"]]
    names = _names(_labels(cards))
    key = [experiment["fingerprint"], experiment["started"], str(run.folder.resolve())]
    files = {"summary.json": json.dumps(summary, indent=1, allow_nan=False)}
    for card in cards:
        folder = f"cards/{names[card.victim]}"
        files[f"{folder}/card.md"] = pages.markdown(card)
        files[f"{folder}/card.html"] = pages.html(card)
        files[f"{folder}/card.json"] = pages.as_json(card)
    return _Entry(
        experiment=experiment["name"],
        tags={
            TAG: content_hash(key),
            "medstress.fingerprint": experiment["fingerprint"],
            "medstress.root": str(summary["root"]),
            "medstress.complete": str(bool(experiment["complete"])).lower(),
            "medstress.version": str(experiment["versions"].get("medstress")),
        },
        metrics={name: value for card in cards for name, value in _metrics(card, names)},
        params={
            f"{names[card.victim]}/{key}": str(value)
            for card in cards
            for key, value in card.model.items()
        },
        files=files,
        is_complete=bool(experiment["complete"]),
    )


def _log(client: Any, entry: _Entry) -> str:
    from mlflow.entities import Metric, Param, RunTag

    known = client.get_experiment_by_name(entry.experiment)
    place = client.create_experiment(entry.experiment) if known is None else known.experiment_id
    wanted = f"tags.`{TAG}` = '{entry.tags[TAG]}'"
    found = client.search_runs([place], filter_string=wanted, max_results=1)
    if found:
        logged, before = found[0].info.run_id, found[0].data.metrics
    else:
        mark = {TAG: entry.tags[TAG]}
        logged = client.create_run(place, tags=mark, run_name=entry.experiment).info.run_id
        before = {}
    try:
        # MLflow shows the latest of several values, and of those of one moment the largest.
        now = time.time_ns() // 1_000_000
        values = {**dict.fromkeys(before, nan), **entry.metrics}
        metrics = [Metric(name, value, now, 0) for name, value in values.items()]
        params = [Param(name, text) for name, text in entry.params.items()]
        client.log_batch(logged, tags=[RunTag(*each) for each in entry.tags.items()])
        for start in range(0, len(params), _PARAMS):
            client.log_batch(logged, params=params[start : start + _PARAMS])
        for start in range(0, len(metrics), _METRICS):
            client.log_batch(logged, metrics=metrics[start : start + _METRICS])
        for name, text in entry.files.items():
            client.log_text(logged, text, name)
        client.set_terminated(logged, "FINISHED" if entry.is_complete else "RUNNING")
    except BaseException:
        if not found:  # nothing half logged stays
            client.delete_run(logged)
        raise
    return str(logged)


def _labels(cards: Iterable[Card]) -> Iterator[str]:
    for card in cards:
        yield card.victim
        for arm in card.arms:
            yield from (arm.dataset, arm.group, arm.attack)


def _metrics(card: Card, names: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield name and value of every number of a card; ends of intervals have their own names."""
    for arm in card.arms:
        place = [names[each] for each in (card.victim, arm.dataset, arm.group, arm.attack)]
        for measure, found in _estimates(arm):
            for end in ("value", "low", "high"):
                if found is not None and found[end] is not None:
                    name = measure if end == "value" else f"{measure}_{end}"
                    yield _short("/".join((*place, name))), float(found[end])


def _short(name: str) -> str:
    """Return a name that MLflow takes; a long one keeps its end behind a hash of all of it."""
    if len(name) <= _LONGEST:
        return name
    mark = f"{_mark(name)}-"
    return f"{mark}{name[len(mark) - _LONGEST :]}"


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


def _names(labels: Iterable[str]) -> dict[str, str]:
    """Return texts with what MLflow takes in a name, no two of them alike.

    What loses letters, or would be like another, ends in a hash of the text.

    >>> _names(["near names / no_op (n=-20)"])
    {'near names / no_op (n=-20)': 'near names _ no_op _n_-20_'}
    >>> len({*_names(["模型甲", "模型乙", "a/b", "a(b"]).values()})
    4
    """
    plain = {label: re.sub(r"[^\w. -]", "_", label, flags=re.ASCII) or "_" for label in labels}
    counts = Counter(name.casefold() for name in plain.values())
    return {
        label: f"{name}-{_mark(label)}" if counts[name.casefold()] > 1 or _lost(label) else name
        for label, name in plain.items()
    }


def _lost(label: str) -> bool:
    """Return whether a letter or digit of a text is none that MLflow takes."""
    return any(each.isalnum() and not each.isascii() for each in label)


def _mark(text: str) -> str:
    return content_hash(text)[-8:]
