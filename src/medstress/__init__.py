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

_NAMES = {
    "api.compare": ("compare",),
    "api.experiments": ("Experiment",),
    "api.one": ("attack_one", "load_dataset"),
    "api.results": ("open",),
    "api.run": ("Run", "merge", "run", "train", "tune"),
    "api.tables": (
        *("Analysis", "Attack", "Dataset", "Entities", "Require", "Role"),
        *("Significance", "Slices", "Train", "Tune", "Victim"),
    ),
    "core.errors": ("BackendError", "DataError", "MedstressError", "StoreError", "UsageError"),
    "core.items": ("Candidate", "Mention", "Question"),
}
_PLACES = {name: f"medstress.{module}" for module, names in _NAMES.items() for name in names}
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
        from medstress.files.extras import half_installed

        if fault := half_installed(error):
            raise fault from error
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
