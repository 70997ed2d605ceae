"""Put run folders side by side on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medstress.analyses.compare import Comparison, compare, open_sides
from medstress.core.errors import MedstressError
from medstress.results.load import open_run


def side_by_side(folders: Sequence[str | Path]) -> str:
    """Return several runs as one self-contained HTML page, each compared with the first.

    Args:
        folders: run folders, at least two.
    """
    from medstress.report.side_by_side import Beside, mark, render_side_by_side
    from medstress.summary.summary import summarise_run

    runs = []
    for i, folder in enumerate(folders):
        with open_run(Path(folder)) as run:
            summary, manifest = summarise_run(run), run.manifest
        runs.append(
            Beside(
                folder=str(folder),
                summary=summary,
                manifest=manifest,
                against_first=_compared(Path(folders[0]), Path(folder), mark(i)) if i else None,
            )
        )
    return render_side_by_side(runs)


def _compared(first: Path, other: Path, letter: str) -> Comparison | str:
    """Return the comparison, or the sentence that refuses it."""
    try:
        return compare(*open_sides(first, other, ("A", letter)))
    except MedstressError as error:
        return str(error)
