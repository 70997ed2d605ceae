"""What benchmarks share: arguments, how they fail, a model as others run it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number for argparse, and refuses smaller ones.

    >>> at_least(1)("7")
    7
    """

    def read(told: str) -> int:
        try:
            number = int(told)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number, at least {least}, not {told!r}"
            )
        return number

    return read


def above_zero(told: str) -> float:
    """Read a number above 0 for argparse.

    >>> above_zero("0.5")
    0.5
    """
    try:
        number = float(told)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {told!r}")
    return number


def published_data(told: str) -> Path:
    """Read the folder of the published data for argparse, which looks for them before all else."""
    folder = Path(told)
    missing = [name for name in ("qa", "vocab") if not (folder / name).is_dir()]
    if missing:
        raise argparse.ArgumentTypeError(
            "the published data are not here (--data, or MEDSTRESS_DATA; see docs/data.md): "
            f"no folder {' and '.join(missing)} in {told}"
        )
    return folder


def plainly(main: Callable[[], int | None]) -> int:
    """Run a script's `main`; a missing file or model is told in one line, and the code is 2."""
    from medstress.core.errors import MedstressError

    try:
        return main() or 0
    except (MedstressError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2


@contextmanager
def own_layers(model: Any) -> Iterator[None]:
    """Let linear layers multiply as torch does by itself."""
    import torch

    from medstress.entities.processor import onednn_linear

    changed = [one for one in model.modules() if type(one) is onednn_linear()]
    for layer in changed:
        layer.__class__ = torch.nn.Linear
    try:
        yield
    finally:
        for layer in changed:
            layer.__class__ = onednn_linear()
