"""Commands that share a run: export, figures, review, verify."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from medstress.cli import flags
from medstress.core.errors import UsageError
from medstress.core.words import command, plural, quoted

_share = partial(flags.app.command, cls=flags.Command, rich_help_panel="Share")
_PAPER = "the layout of xian2025, medfuzz2024 or araujo2020"
_MODE = "judge cases, or answer clean and attacked items as the model did"
_ROOM = "FILE.html: the room in one file; FILE.csv: its cases as a table to fill in"
_BACK = "FILE.json from the page, or a filled-in FILE.csv"
_ROOT = "a root that was kept elsewhere: did the run have it, and what came since?"
_READS = "the experiment of the run; its files of yours let attacks run again"


@_share()
def export(
    folder: flags.Folder,
    table: Annotated[
        Literal["trials", "exchanges", "items", "reviews", "attacked"],
        flags.option(None, "which rows"),
    ],
    to: Annotated[str, flags.option("FILE", "FILE.jsonl, FILE.csv or FILE.parquet")],
) -> int:
    """Tidy rows of a run.

    `attacked` is a data set of every attacked item with its edits, lost and held.
    """
    from medstress.analyses.exported import export as write

    print(f"{write(Path(folder), table, Path(to))} rows: {quoted(to)}")
    return 0


@_share()
def figures(
    folder: flags.Folder,
    out: Annotated[str, flags.option("DIR2", "folder to write into")],
    formats: Annotated[str, flags.option("FORMATS", "of figures", "--format")] = "pdf,svg,png",
    paper: Annotated[str | None, flags.option("PAPER", _PAPER)] = None,
) -> int:
    """Tables and figures for a paper.

    Writes the tables (LaTeX, CSV, Markdown) and figures that the run has data for; index.md lists
    them, figures.tex sets them. What a paper's layout has and the run cannot fill is listed with
    the reason. Files of an earlier call are replaced.
    """
    if not out.strip():
        raise UsageError("--out: expected a folder, got an empty text")
    from medstress.analyses.run import Run
    from medstress.report.figures import INDEX, write_figures

    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    made = write_figures(Run.open(Path(folder)), Path(out), wanted, paper)
    for one in made:
        if one.files:
            print(f"{one.title}: {', '.join(sorted(one.files))}")
    for one in made:
        if not one.files:
            print(f"not made: {one.title}: {one.reason}", file=sys.stderr)
    print(f"figures: {quoted(Path(out) / INDEX)}")
    return 0


@_share()
def review(
    folder: flags.Folder,
    mode: Annotated[Literal["judge", "answer"], flags.option(None, _MODE)] = "judge",
    sample: Annotated[int | None, flags.option("N", "cases to draw (default: 50, or all)")] = None,
    seed: Annotated[int, flags.option("S", "of the sample")] = 0,
    export_to: Annotated[str | None, flags.option("FILE", _ROOM, "--export")] = None,
    read: Annotated[str | None, flags.option("FILE", _BACK, "--import")] = None,
) -> int:
    """A room where experts judge cases, in the browser or in one file.

    Opens a page on this machine where experts judge a random sample of successes, without seeing
    model or attack: is the right answer still right, would a careful clinician be misled, is the
    text plausible, is harm likely. Every answer is saved in DIR as it is given, and planted cases
    measure the reviewers.
    """
    flags.only_one(**{"export": export_to, "import": read})
    from medstress.analyses.run import Run
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.room import described, make_room
    from medstress.report.room_pages import export_room, import_answers, routes
    from medstress.report.view import serve
    from medstress.store.reviews import ReviewStore

    run = Run.open(Path(folder))
    with ReviewStore(Path(folder)) as store:
        if read is not None:
            n, n_new = import_answers(run, store, Path(read))
        else:
            room = make_room(run, store, mode=mode, sample=sample, seed=seed)
            print(described(room.body))
            if not room.body["complete"]:
                print("the run is not complete: a later sample may hold other cases")
            if export_to is not None:
                export_room(room, Path(export_to))
                back = "FILE.json" if Path(export_to).suffix == ".html" else export_to
                again = command("review", folder, "--import", back)
                print(f"room: {quoted(export_to)}   its answers back: {again}")
                return 0
            with suppress(KeyboardInterrupt):
                serve(routes(room, store), usual=room.id)
    keep_summary(Path(folder))
    if read is not None:
        print(f"{plural(n, 'answer')} read, {n_new} new; next: {command('summary', folder)}")
    else:
        print(f"next: {command('summary', folder, '--wide')}")
    return 0


@_share()
def verify(
    folder: flags.Folder,
    root: Annotated[str | None, flags.option("DIGEST", _ROOT)] = None,
    experiment: Annotated[str | None, flags.option("EXPERIMENT.toml", _READS)] = None,
    as_json: flags.Json = False,
) -> int:
    """Are these the numbers that were measured?

    Checks digests and plan of a run folder, replays every trial and follow-up on the stored
    answers, and computes the kept summary again. Names the first thing that does not agree. Asks
    no model and changes nothing. Exit code 0, or 2.
    """
    from medstress.experiment.prepare import prepare
    from medstress.experiment.verify import verify_folder

    own = None if experiment is None else prepare(experiment)
    verified = verify_folder(Path(folder), root=root, own=own)
    if as_json:
        print(json.dumps(verified.as_json(), indent=1))
    elif verified.broken is None:
        print(f"{quoted(folder)}: {'verified' if verified.holds else 'not verified'}")
        for sentence in verified.sentences():
            print(sentence)
    if verified.holds:
        return 0
    refusal = f"is not verified: {'; '.join(verified.doubts())}"
    if verified.broken is not None:
        refusal = f"does not agree: {verified.broken}"
        if root is not None and verified.broken.expected.lower() == f"root {root.lower()}":
            # What the folder holds may agree with itself.
            refusal = f"{refusal}; next: {command('verify', folder)}"
    print(f"medstress: {folder} {refusal}", file=sys.stderr)
    return 2
