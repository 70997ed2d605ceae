"""medstress measures the adversarial robustness of biomedical language models.

Public names are imported on first use, so that importing the package is fast.
"""

from __future__ import annotations

import sys

# pip refuses an older Python; here comes only who has a folder of sources on the path.
if sys.version_info < (3, 11):  # noqa: UP036
    _message = (
        f"medstress needs Python 3.11 or newer, and this is {sys.version.split()[0]}; "
        "in a checkout: make PYTHON=python3.11 demo"
    )
    if sys.argv[:1] == ["-m"]:
        print(f"medstress: {_message}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_message)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from medstress.version import __version__ as __version__

if TYPE_CHECKING:  # as itself, so that type checkers know each name as public
    from medstress import attacks as attacks
    from medstress import testing as testing
    from medstress.api.one import attack_one as attack_one
    from medstress.api.one import load_dataset as load_dataset
    from medstress.api.results import Run as Run
    from medstress.api.results import compare as compare
    from medstress.api.results import open as open  # noqa: A004 - used as `ms.open`
    from medstress.api.run import merge as merge
    from medstress.api.run import run as run
    from medstress.api.run import train as train
    from medstress.api.run import tune as tune
    from medstress.attacks import EntitySubstitution as EntitySubstitution
    from medstress.core.errors import BackendError as BackendError
    from medstress.core.errors import DataError as DataError
    from medstress.core.errors import MedstressError as MedstressError
    from medstress.core.errors import StoreError as StoreError
    from medstress.core.errors import UsageError as UsageError
    from medstress.core.items import Candidate as Candidate
    from medstress.core.items import Mention as Mention
    from medstress.core.items import Question as Question
    from medstress.experiment.config import Analysis as Analysis
    from medstress.experiment.config import Attack as Attack
    from medstress.experiment.config import Dataset as Dataset
    from medstress.experiment.config import Entities as Entities
    from medstress.experiment.config import Experiment as Experiment
    from medstress.experiment.config import Require as Require
    from medstress.experiment.config import Role as Role
    from medstress.experiment.config import Significance as Significance
    from medstress.experiment.config import Slices as Slices
    from medstress.experiment.config import Train as Train
    from medstress.experiment.config import Tune as Tune
    from medstress.experiment.config import Victim as Victim

_NAMES = {
    "api.one": ("attack_one", "load_dataset"),
    "api.results": ("Run", "compare", "open"),
    "api.run": ("merge", "run", "train", "tune"),
    "attacks": ("EntitySubstitution",),
    "core.errors": ("BackendError", "DataError", "MedstressError", "StoreError", "UsageError"),
    "core.items": ("Candidate", "Mention", "Question"),
    "experiment.config": (
        *("Analysis", "Attack", "Dataset", "Entities", "Experiment", "Require", "Role"),
        *("Significance", "Slices", "Train", "Tune", "Victim"),
    ),
}
_PLACES = {name: f"medstress.{module}" for module, names in _NAMES.items() for name in names}
_MODULES = ("attacks", "testing")

__all__ = sorted([*_PLACES, *_MODULES, "__version__"])


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
        from medstress.core.extras import half_installed

        if fault := half_installed(error):
            raise fault from error
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
