"""Write the tables and figures of a run into a folder: one's own, or in the layout of a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from medstress.core.errors import UsageError, did_you_mean
from medstress.figures.canvas import FORMATS, doubted, missing_characters
from medstress.figures.outputs import INDEX_HEAD, Made, Skipped, index, with_doubt
from medstress.figures.own import make_own
from medstress.figures.tex import DOCUMENT, document, with_captions
from medstress.files.extras import importing
from medstress.files.writing import make_folder, write_bytes
from medstress.papers.layout import make_layout
from medstress.papers.layouts import layout_named
from medstress.store.load import StoredRun
from medstress.results.root import chain_sentences
from medstress.results.rows import trial_rows
from medstress.summary.summary import summarise_run

INDEX = "index.md"
_SHOWN = 10


def write_figures(
    run: StoredRun, out: Path, formats: Sequence[str], paper: str | None = None
) -> list[Made | Skipped]:
    """Write every table and figure that the run has data for.

    Files of the same names are replaced in a folder that an earlier call has written.

    Args:
        run: an opened run.
        out: folder to write into.
        formats: of the figures.
        paper: whose layout; None for figures of one's own.

    Returns:
        What was made, and what was skipped, with the reason.

    Raises:
        UsageError: an unknown format or paper, the extra `figures` is not installed, the folder
            cannot be written, or it holds a file of the same name that comes from elsewhere.
    """
    formats = check_formats(formats)
    with importing("drawing figures", "figures"):
        from matplotlib.figure import Figure
        from pylatexenc.latexencode import UnicodeToLatexEncoder
    del Figure, UnicodeToLatexEncoder
    layout = None if paper is None else layout_named(paper)
    summary = summarise_run(run)
    doubts = chain_sentences(summary)
    with doubted(doubts):
        if layout is None:
            made = make_own(summary, formats)
        else:
            items = run.items_by_id()
            made = make_layout(layout, summary, trial_rows(run), run.manifest, items, formats)
        found = [
            with_captions(with_doubt(each, doubts)) if isinstance(each, Made) else each
            for each in _remarked(made)
        ]
    contents = {
        name: data for each in found if isinstance(each, Made) for name, data in each.files.items()
    }
    contents[INDEX] = index(found, str(summary["experiment"]["name"])).encode()
    contents[DOCUMENT] = document(found, doubts).encode()
    _refuse_foreign(out, contents)
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


def _remarked(made: Iterable[Made | Skipped]) -> Iterator[Made | Skipped]:
    """Yield what is made, one by one; figures whose font lacks characters say so."""
    with missing_characters() as lacking:
        for each in made:
            if lacking and isinstance(each, Made):
                shown = " ".join(sorted(lacking)[:_SHOWN])
                more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
                remark = (
                    f"the font lacks characters of labels ({shown}{more}): pdf and png show boxes "
                    "in their place; give a label or name in Latin letters"
                )
                yield replace(each, remarks=(*each.remarks, remark))
            else:
                yield each
            lacking.clear()


def _refuse_foreign(out: Path, names: Iterable[str]) -> None:
    """Refuse a folder that an earlier call has not written and that holds one of these files."""
    try:
        with (out / INDEX).open("rb") as page:
            if page.read(len(INDEX_HEAD)) == INDEX_HEAD.encode():
                return
    except OSError:
        pass  # Without a page to read, every file is taken for one from elsewhere.
    if taken := next((name for name in names if (out / name).exists()), None):
        raise UsageError(
            f"--out: {out} holds a {taken} that medstress did not write, and it would be replaced; "
            "give another folder"
        )
