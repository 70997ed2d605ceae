"""What is wrong with what a benchmark was given, in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from medstress.core.errors import MedstressError


def plainly(main: Callable[[], int | None]) -> int:
    """Run a script's `main`; a missing file or model is told in one line, and the code is 2."""
    try:
        return main() or 0
    except (MedstressError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
