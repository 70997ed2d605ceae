"""medstress measures the adversarial robustness of biomedical language models.

Public names are imported on first use, so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from medstress.version import __version__

if TYPE_CHECKING:
    from medstress import attacks, metrics, testing
    from medstress.api import attack_one, load_dataset
    from medstress.experiment.config import Experiment
    from medstress.experiment.public import Run, run, train, tune
    from medstress.items import Candidate, Mention, Question

_PLACES = {
    "Candidate": "medstress.items",
    "Experiment": "medstress.experiment.config",
    "Mention": "medstress.items",
    "Question": "medstress.items",
    "Run": "medstress.experiment.public",
    "attack_one": "medstress.api",
    "load_dataset": "medstress.api",
    "run": "medstress.experiment.public",
    "train": "medstress.experiment.public",
    "tune": "medstress.experiment.public",
}
_MODULES = ("attacks", "metrics", "testing")

__all__ = [
    "Candidate",
    "Experiment",
    "Mention",
    "Question",
    "Run",
    "__version__",
    "attack_one",
    "attacks",
    "load_dataset",
    "metrics",
    "run",
    "testing",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"medstress.{name}")
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'medstress' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
