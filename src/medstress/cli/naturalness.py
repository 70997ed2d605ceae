"""`medstress naturalness`: how much less likely edited options are, to a model of language."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from medstress.cli.flags import Parser
from medstress.core.calls import Backend

SHIPPED = "smollm2"


def add_naturalness(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress naturalness`."""
    command = commands.add_parser(
        "naturalness",
        help="perplexity of edited options over that of the clean ones, by a local model",
        description="Score the edited and the clean option of every success, and of the controls "
        "beside it, in their place with a local language model, and store the ratio of "
        "perplexities with the trials. No victim is asked and nothing is paid; the same command "
        "goes on where it stopped.",
    )
    command.add_argument("folder", metavar="DIR")
    command.add_argument(
        "--model",
        default=SHIPPED,
        metavar="NAME",
        help=f"a folder, a hub id or {SHIPPED} (the default; comes with medstress)",
    )
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--quiet", action="store_true", help="no progress display")


def naturalness_cli(args: argparse.Namespace) -> int:
    """Run `medstress naturalness`."""
    from medstress.backends.options import BackendOptions
    from medstress.cli.display import display
    from medstress.core import registry
    from medstress.experiment.first.choices import Choices
    from medstress.experiment.first.victim import model_place
    from medstress.running.perplexity import check_scores, measure_perplexities
    from medstress.summary.kept import keep_summary

    folder, base = Path(args.folder), Path.cwd()
    place = model_place(Choices(data="", model=args.model), base, "multiple_choice")
    options = BackendOptions(base=base, **{k: v for k, v in place.items() if k != "backend"})

    def open_scorer() -> Backend:
        backend = registry.open_backend(place["backend"], options)
        check_scores(backend, args.model)
        return backend

    with display(quiet=args.quiet, stop=args.stop) as watcher:
        said = measure_perplexities(folder, open_scorer, watcher.note)
    keep_summary(folder)
    _show(folder, said, as_json=args.json)
    return 0


def _show(folder: Path, said: list[str], *, as_json: bool) -> None:
    from medstress.cli.screen import screen
    from medstress.report.labels import measured
    from medstress.results.load import open_run
    from medstress.results.measures import measure
    from medstress.summary.summary import summarise_run

    with open_run(folder) as run:
        summary = summarise_run(run)
    rows = [row for row in summary["pooled"] if row.get("perplexity_ratio")]
    if as_json:
        keys = ("dataset", "group", "victim", "attack", "perplexity_ratio")
        told = [{key: row[key] for key in keys} for row in rows]
        found = {"scorer": summary["perplexity"], "rows": told, "said": said}
        print(json.dumps(found, ensure_ascii=False))
        return
    one, out = measure("perplexity_ratio"), screen()
    out.show(measured("naturalness", one.label, rows, [one], f"{one.label}: {one.meaning}."))
    for line in said:
        out.say(line)
