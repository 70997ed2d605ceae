"""Write the tables and figures of the papers into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medstress.core.errors import UsageError, did_you_mean
from medstress.files.writing import make_folder, write_bytes
from medstress.papers.canvas import FORMATS
from medstress.papers.collection import make_all
from medstress.papers.outputs import Made, Skipped, index
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.summary.summary import summarise_run

INDEX = "index.md"


def write_figures(run: StoredRun, out: Path, formats: Sequence[str]) -> list[Made | Skipped]:
    """Write every table and figure that the run has data for; files of the same names are replaced.

    Returns:
        What was made, and what was skipped, with the reason.

    Raises:
        UsageError: an unknown format, or the folder cannot be written.
    """
    formats = check_formats(formats)
    summary = summarise_run(run)
    found = list(make_all(summary, trial_rows(run), run.manifest, run.items_by_id(), formats))
    contents = {
        name: data for each in found if isinstance(each, Made) for name, data in each.files.items()
    }
    contents[INDEX] = index(found, str(summary["experiment"]["name"])).encode()
    try:
        make_folder(out)
        for name, data in contents.items():
            write_bytes(out / name, data)
    except OSError as error:
        raise UsageError(f"cannot write into {out}: {error.strerror}; give another --out") from None
    return found


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Return the formats without repetitions.

    Raises:
        UsageError: an unknown format, or none.
    """
    known = ", ".join(FORMATS)
    for name in formats:
        if name not in FORMATS:
            raise UsageError(
                f"--format: unknown format {name!r}{did_you_mean(name, FORMATS)} (known: {known})"
            )
    if not formats:
        raise UsageError(f"--format: expected one or more of {known}, got nothing")
    return tuple(dict.fromkeys(formats))
