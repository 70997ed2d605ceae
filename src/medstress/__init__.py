"""medstress measures the adversarial robustness of biomedical language models.

Public names are imported on first use, so that importing the package is fast.
"""

from __future__ import annotations

import sys

# pip refuses an older Python; here comes only who has a folder of sources on the path.
if sys.version_info < (3, 11):  # noqa: UP036
    _told = (
        f"medstress needs Python 3.11 or newer, and this is {sys.version.split()[0]}; "
        "in a checkout: make PYTHON=python3.11 demo"
    )
    if sys.argv[:1] == ["-m"]:
        print(f"medstress: {_told}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_told)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from medstress.version import __version__

if TYPE_CHECKING:
    from medstress import attacks, testing
    from medstress.api.compare import compare
    from medstress.api.experiments import Experiment
    from medstress.api.one import attack_one, load_dataset
    from medstress.api.results import open  # noqa: A004 - used as `ms.open`
    from medstress.api.run import Run, merge, run, train, tune
    from medstress.api.tables import (
        Analysis,
        Attack,
        Dataset,
        Entities,
        Require,
        Role,
        Significance,
        Slices,
        Train,
        Tune,
        Victim,
    )
    from medstress.core.errors import (
        BackendError,
        DataError,
        MedstressError,
        StoreError,
        UsageError,
    )
    from medstress.core.items import Candidate, Mention, Question

_PLACES = {
    "Analysis": "medstress.api.tables",
    "Attack": "medstress.api.tables",
    "BackendError": "medstress.core.errors",
    "Candidate": "medstress.core.items",
    "DataError": "medstress.core.errors",
    "Dataset": "medstress.api.tables",
    "Entities": "medstress.api.tables",
    "Experiment": "medstress.api.experiments",
    "MedstressError": "medstress.core.errors",
    "Mention": "medstress.core.items",
    "Question": "medstress.core.items",
    "Require": "medstress.api.tables",
    "Role": "medstress.api.tables",
    "Run": "medstress.api.run",
    "Significance": "medstress.api.tables",
    "Slices": "medstress.api.tables",
    "StoreError": "medstress.core.errors",
    "Train": "medstress.api.tables",
    "Tune": "medstress.api.tables",
    "UsageError": "medstress.core.errors",
    "Victim": "medstress.api.tables",
    "attack_one": "medstress.api.one",
    "compare": "medstress.api.compare",
    "load_dataset": "medstress.api.one",
    "merge": "medstress.api.run",
    "open": "medstress.api.results",
    "run": "medstress.api.run",
    "train": "medstress.api.run",
    "tune": "medstress.api.run",
}
_MODULES = ("attacks", "testing")

__all__ = [
    "Analysis",
    "Attack",
    "BackendError",
    "Candidate",
    "DataError",
    "Dataset",
    "Entities",
    "Experiment",
    "MedstressError",
    "Mention",
    "Question",
    "Require",
    "Role",
    "Run",
    "Significance",
    "Slices",
    "StoreError",
    "Train",
    "Tune",
    "UsageError",
    "Victim",
    "__version__",
    "attack_one",
    "attacks",
    "compare",
    "load_dataset",
    "merge",
    "open",
    "run",
    "testing",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(f"medstress.{name}")
    if name in _PLACES:
        return getattr(_imported(_PLACES[name]), name)
    raise AttributeError(f"module 'medstress' has no attribute {name!r}")


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except (ImportError, SyntaxError, AttributeError) as error:
        from medstress.files.damaged import half_installed

        if fault := half_installed(error):
            raise fault from error
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
