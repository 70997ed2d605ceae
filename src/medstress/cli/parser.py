"""Commands and flags; imports nothing heavy, so that --help is instant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from medstress.core.errors import UsageError, did_you_mean
from medstress.version import __version__

KINDS = (
    *("attacks", "samplers", "datasets", "backends", "embeddings", "recognisers"),
    *("vocabularies", "prompts", "parsers", "text_scores", "wrappers", "recipes"),
)
EPILOG = """exit codes: 0 done, or stopped cleanly at a limit; 1 a bug, or more failed trials than
max_failed; 2 an error you can fix (one sentence says how); 3 a complete run that misses a criterion
([[require]]), or a comparison that fails; 130 interrupted, nothing lost"""
_DATA = "a file, a folder, a data set of `medstress list datasets`, or owner/name on the hub"


class Parser(argparse.ArgumentParser):
    """Reports an error in one sentence instead of printing the whole usage."""

    def __init__(self, **settings: Any) -> None:
        # For every command: `--fre` must not delete a run.
        super().__init__(**{**settings, "allow_abbrev": False})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what a command does not know where its own flags are known."""
        parsed, strange = super().parse_known_args(args, namespace)
        if strange:
            flags = [name for name in self._option_string_actions if name.startswith("--")]
            near = did_you_mean(strange[0].partition("=")[0], flags)
            self.error(f"unrecognized arguments: {' '.join(strange)}{near}")
        return parsed, strange

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse `--flag=--`, of which argparse makes an empty list."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument, got '--'")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise a `UsageError`, so that one place prints all errors."""
        if chosen := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message):
            message += did_you_mean(chosen[1], re.findall(r"[\w-]+", chosen[2]))
        raise UsageError(message).with_command(f"{self.prog} --help")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    parser = Parser(
        prog="medstress",
        description="Adversarial robustness of biomedical language models: attack, count, report.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"medstress {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    groups: Sequence[Callable[[Commands], None]] = (_start, _look, _study, _share, _machine)
    for add in groups:
        add(commands)
    return parser


# -- start -----------------------------------------------------------------------------------------


def _start(commands: Commands) -> None:
    """Add `demo`, `check` and `run`."""
    demo = commands.add_parser(
        "demo",
        help="attack the embedded language model on the embedded questions",
        description="Ask the embedded model the sample questions with a passage and without, "
        "attack it with far, random and near names, and write report.html. Downloads nothing.",
    )
    demo.add_argument("--out", metavar="DIR", default="runs/demo", help="default: runs/demo")
    _quiet(demo)
    check = commands.add_parser(
        "check",
        help="how your data are read, what of them can be attacked, and why the rest cannot",
        description="Read data as a run would: the first five items as understood, how many each "
        "attack can attack, and why not the rest. Asks no model. The last line is the next command "
        "to type. Exit code 2 if rows cannot be read.",
    )
    check.add_argument("data", metavar="DATA", help=_DATA)
    _limit(check, "check a random sample of N items (default: 5,000)")
    _reading(check)
    _entities(check)
    _set(check)
    check.add_argument(
        "--to",
        metavar="FILE",
        help="FILE.jsonl: write the questions with typed mentions; --set entities.recogniser=... "
        "says what finds them",
    )
    run = commands.add_parser(
        "run",
        help="run, resume or extend an experiment, or data and a model without a file",
        description="Run an experiment: a file, or --data and --model. A folder with the same "
        "experiment is resumed; one with fewer items, seeds, victims or attacks is extended; one "
        "with other settings is refused.",
    )
    run.add_argument(
        "experiment",
        metavar="EXPERIMENT.toml",
        nargs="?",
        help="a file, or the name of a shipped recipe",
    )
    group = run.add_argument_group("an experiment without a file")
    group.add_argument("--data", metavar="DATA", help=_DATA)
    group.add_argument(
        "--model",
        metavar="NAME",
        help="a folder, a .gguf file, file.py:function, mock, smollm2, the name that the server at "
        "--base-url knows, or a hub id",
    )
    group.add_argument(
        "--base-url", metavar="URL", help="the server's address, e.g. http://127.0.0.1:8000/v1"
    )
    group.add_argument(
        "--api-key-env", metavar="VARIABLE", help="the environment variable with the server's key"
    )
    _entities(group)
    group.add_argument(
        "--attack",
        metavar="NAME",
        help="default: entity_substitution on questions, swap_noise on other data",
    )
    group.add_argument(
        "--budget", type=int, metavar="N", help="perturbed queries per item (default: the attack's)"
    )
    _reading(group)
    run.add_argument("--out", metavar="DIR", help="run folder (default: runs/<name>)")
    run.add_argument(
        "--shard",
        metavar="K/N",
        help="run the trials of part K of N, for `medstress merge`; auto/N: K is the place in a "
        "job array of Slurm (default of --out: runs/<name>-shards/K)",
    )
    _running(run)
    run.add_argument(
        "--to", metavar="FILE.toml", help="with --dry-run: write the experiment that would run"
    )
    run.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run shards on a Ray cluster and merge them: local starts Ray here, auto finds this "
        "machine's cluster; else HOST:PORT",
    )
    run.add_argument("--shards", type=int, metavar="N", help="with --ray: parts of the plan")
    _junit(run)


# -- look and decide -------------------------------------------------------------------------------


def _look(commands: Commands) -> None:
    """Add `summary`, `report`, `view`, `case` and `compare`."""
    summary = commands.add_parser("summary", help="the numbers of a run")
    _folder(summary)
    shape = summary.add_mutually_exclusive_group()
    shape.add_argument(
        "--wide", action="store_true", help="all columns of all tables, by key and by seed"
    )
    shape.add_argument("--json", action="store_true", help="as JSON (format 3)")
    _junit(summary)
    _markdown(summary)
    report = commands.add_parser(
        "report",
        help="one self-contained HTML file, readable offline",
        description="Write a run as one self-contained HTML file; several runs side by side, each "
        "compared with the first.",
    )
    report.add_argument("folders", metavar="DIR", nargs="+")
    report.add_argument(
        "--out",
        metavar="FILE",
        help="default: DIR/report.html; of several runs report.html in the current folder",
    )
    view = commands.add_parser(
        "view",
        help="the report in a browser, with all cases, also while the run goes on",
        description="Open the report from a server on this machine that nobody else can reach. It "
        "has every case of the run, follows a run in progress, and writes no file. Ctrl+C ends it.",
    )
    _folder(view)
    _served(view)
    case = commands.add_parser(
        "case",
        help="one case: what changed, what was sent, what was answered; without ID a list",
        description="Show one trial with everything that the run folder keeps about it; what was "
        "[-removed-] and {+added+} is marked.",
    )
    _folder(case)
    case.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="trial id, its beginning, the id that the report shows, or an item id with one attack",
    )
    case.add_argument("--wide", action="store_true", help="list all cases, with all columns")
    case.add_argument("--json", action="store_true", help="as JSON")
    compare = commands.add_parser(
        "compare",
        help="is B worse than A? Two runs, or two models of one, on the same items",
        description="Compare two runs, or two models of one run, item by item and seed by seed. "
        "Exit code 3 without --margin only if B is worse; with it unless B is shown to be no worse "
        "than the margin.",
    )
    compare.add_argument(
        "folder",
        metavar="A",
        help="the run that B is compared with; DIR#victim for a model of a run with several",
    )
    compare.add_argument("other", metavar="B", help="the run that the verdict is about")
    compare.add_argument(
        "--factor",
        choices=("victim", "attack", "group"),
        default="victim",
        help="what is compared: models (the default), attacks, or what these draw names from",
    )
    compare.add_argument(
        "--metric",
        metavar="NAME",
        help="the measure that decides: accuracy_after (the default), accuracy, asr (the default "
        "for attacks and groups), asr_net, or a score such as f1_after",
    )
    compare.add_argument(
        "--margin", type=float, metavar="M", help="the largest difference that does not matter"
    )
    compare.add_argument("--json", action="store_true", help="as JSON (format 3)")
    _junit(compare)
    _markdown(compare)


# -- study -----------------------------------------------------------------------------------------


def _study(commands: Commands) -> None:
    """Add `tune`, `train`, `test`, `explain` and `perturb`."""
    tune = commands.add_parser(
        "tune",
        help="choose the exponent n on a tuning split, then report on the rest",
        description="Choose n of every attack with sampler = pdws, separately for n < 0 and n > 0, "
        "on a split of the items ([tune] in the file); then run the chosen n on the rest. The same "
        "command resumes.",
    )
    tune.add_argument("experiment", metavar="EXPERIMENT.toml")
    tune.add_argument(
        "--out",
        metavar="DIR",
        help="folder of the report, with the tuning split's run in DIR/tuning and the choice in "
        "DIR/tune.json (default: runs/<name>-tuned)",
    )
    _running(tune)
    train = commands.add_parser(
        "train",
        help="fine-tune, attack, train on perturbed copies, attack again",
        description="Fine-tune models on the original data, and on the data and a perturbed copy "
        "([train] in the file), and attack both with the same seeds. The same command resumes, "
        "even in the middle of an epoch.",
    )
    train.add_argument(
        "experiment", metavar="EXPERIMENT.toml", help="a file, or the name of a shipped recipe"
    )
    train.add_argument(
        "--out",
        metavar="DIR",
        help="run folder, with the models in DIR/models and the comparison in DIR/training.json "
        "(default: runs/<name>-trained)",
    )
    _limit(train)
    _set(train)
    _dry_run(train, "check everything and print what would be trained")
    _quiet(train)
    test = commands.add_parser(
        "test",
        help="significance of MedFuzz successes",
        description="Compare successes of MedFuzz with control fuzzes: is the model misled by what "
        "the attack says, or would any change do? Models, keys and settings ([test]) come from "
        "your experiment, never from the folder. The same command resumes.",
    )
    _asking(test)
    explain = commands.add_parser(
        "explain",
        help="which words carry an answer, before and after an attack (Shapley values)",
        description="Compute token-wise Shapley (Owen) values of prompts before and after an "
        "attack, for successes and for attacks that failed. Models and keys come from your "
        "experiment, never from the folder. The same command resumes.",
    )
    _asking(explain)
    which = explain.add_mutually_exclusive_group()
    which.add_argument(
        "--trial",
        nargs="+",
        default=[],
        metavar="ID",
        help="trials by id, the start of one or their item, as for case; flipped or held",
    )
    which.add_argument(
        "--all",
        action="store_true",
        help="all successes, and as many attacks of the same arms that failed",
    )
    _limit(explain, "with --all: draw N successes, and as many failures")
    explain.add_argument(
        "--max-calls",
        type=int,
        metavar="N",
        help="most masked texts of one prompt; each trial has two (default: 500)",
    )
    explain.add_argument(
        "--out",
        metavar="FILE",
        help="also write FILE.html (heat maps) or FILE.jsonl, .csv, .parquet",
    )
    perturb = commands.add_parser(
        "perturb",
        help="write the perturbed data set without asking any victim",
        description="Write every item as every attack and seed of an experiment perturbs it, as "
        "`medstress run` would ask it. No victim is needed.",
    )
    perturb.add_argument("experiment", metavar="EXPERIMENT.toml")
    perturb.add_argument(
        "--to",
        required=True,
        metavar="FILE",
        help="FILE.jsonl; for one attack and seed also FILE.tsv (pairs, or IOB), .iob, .conll",
    )
    _limit(perturb)
    _set(perturb)
    _quiet(perturb)


# -- share -----------------------------------------------------------------------------------------


def _share(commands: Commands) -> None:
    """Add `export`, `figures`, `review` and `verify`."""
    export = commands.add_parser("export", help="tidy rows of a run")
    _folder(export)
    export.add_argument(
        "--table",
        choices=("trials", "exchanges", "items", "reviews", "attacked"),
        required=True,
        help="which rows",
    )
    export.add_argument(
        "--to", required=True, metavar="FILE", help="FILE.jsonl, FILE.csv or FILE.parquet"
    )
    figures = commands.add_parser(
        "figures",
        help="tables and figures for a paper",
        description="Write the tables (LaTeX, CSV, Markdown) and figures that the run has data "
        "for; index.md lists all, figures.tex sets all. What a paper's layout has and the run "
        "cannot fill is listed with the reason. Files of an earlier call are replaced.",
    )
    _folder(figures)
    figures.add_argument("--out", required=True, metavar="DIR2", help="folder to write into")
    figures.add_argument(
        "--format",
        default="pdf,svg,png",
        metavar="FORMATS",
        help="of figures: pdf, svg, png, separated by commas (default: all)",
    )
    figures.add_argument(
        "--paper",
        metavar="PAPER",
        help="the layout of xian2025, medfuzz2024 or araujo2020 (default: your own)",
    )
    review = commands.add_parser(
        "review",
        help="a room where experts judge cases, in the browser or in one file",
        description="Open a local page where experts judge a random sample of successes, without "
        "seeing model or attack: is the key still right, would a careful clinician be misled, is "
        "the text plausible, is harm likely. Every answer is saved at once in DIR, and planted "
        "cases measure the raters. Where they disagree, validity stays unknown until --adjudicate.",
    )
    _folder(review)
    review.add_argument(
        "--mode",
        choices=("judge", "answer"),
        default="judge",
        help="answer: people answer clean and attacked items, to compare them with the model",
    )
    review.add_argument(
        "--sample", type=int, metavar="N", help="so many cases (default: 50, or all if fewer)"
    )
    review.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample (0)")
    review.add_argument(
        "--controls",
        type=int,
        metavar="N",
        help="planted cases of each of the two sorts (default: a tenth of the sample, at least 2)",
    )
    _served(review)
    how = review.add_mutually_exclusive_group()
    how.add_argument(
        "--adjudicate", action="store_true", help="decide the cases on which raters disagree"
    )
    how.add_argument(
        "--export",
        metavar="FILE",
        help="FILE.html: the room in one file, for people who may install nothing; FILE.csv: its "
        "cases as a table to fill in",
    )
    how.add_argument(
        "--import",
        dest="read",
        metavar="FILE",
        help="FILE.json that the page gave, or a filled-in FILE.csv",
    )
    verify = commands.add_parser(
        "verify",
        help="whether a run's numbers are those that were measured",
        description="Check a run folder: its digests, its plan, every trial and follow-up replayed "
        "on the stored answers, by the attack itself where what it reads is here, and the kept "
        "summary. Names the first thing that does not agree. Asks no model and changes nothing. "
        "Exit code 0, or 2.",
    )
    _folder(verify)
    verify.add_argument(
        "--root",
        metavar="DIGEST",
        help="a root kept elsewhere, such as in a paper: also check that the run once had it, and "
        "say what was added since",
    )
    verify.add_argument(
        "--experiment",
        metavar="FILE",
        help="the run's own experiment file: names what it reads of yours (vocabularies, synonyms, "
        "templates), so that attacks run again; nothing that only the folder names is opened",
    )
    verify.add_argument("--json", action="store_true", help="as JSON")


# -- machine ---------------------------------------------------------------------------------------


def _machine(commands: Commands) -> None:
    """Add `merge`, `cache`, `list`, `recipe` and `doctor`."""
    merge = commands.add_parser(
        "merge",
        help="join the shards of one experiment to one run",
        description="Join run folders that `medstress run --shard` wrote to a new one; then "
        "`medstress run EXPERIMENT.toml --out DIR` completes it. Shards of other experiments, "
        "given twice, missing or unfinished are refused. Asks no model and changes no shard.",
    )
    merge.add_argument("folders", metavar="DIR", nargs="+", help="the folders of all shards")
    merge.add_argument("--out", required=True, metavar="DIR", help="a new folder")
    _quiet(merge)
    cache = commands.add_parser(
        "cache",
        help="the shared answer cache",
        description="Manage the answers that runs share if [experiment] says cache = PATH. info: "
        "entries by model, size; prune: remove entries, and always those that are damaged. Run "
        "folders have copies and do not need the cache.",
    )
    cache.add_argument("action", metavar="{info,prune}", choices=("info", "prune"))
    cache.add_argument(
        "--path",
        metavar="DIR",
        default="default",
        help='the folder that the experiment names (default: that of cache = "default")',
    )
    cache.add_argument(
        "--older-than", type=float, metavar="DAYS", help="prune: entries older than this many days"
    )
    cache.add_argument("--model", metavar="NAME", help="prune: entries of this model, or its hash")
    listing = commands.add_parser("list", help="what is installed, plug-ins included")
    listing.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    listing.add_argument("name", metavar="NAME", nargs="?", help="prompts: show the text of one")
    listing.add_argument("--to", metavar="DIR", help="prompts NAME: write them to this folder")
    recipe = commands.add_parser(
        "recipe",
        help="a shipped experiment: a table or figure of a paper",
        description="Print a shipped experiment, or write it to a file. `medstress run NAME` runs "
        "it as it is.",
    )
    recipe.add_argument("name", metavar="NAME", help="see: medstress list recipes")
    recipe.add_argument("--to", metavar="FILE", help="write it to this file")
    commands.add_parser(
        "doctor",
        help="versions, extras, devices, models, free disk; how to install what is missing",
        description="Show what is installed, and the command that installs what is missing.",
    )


# -- flags that commands share ---------------------------------------------------------------------


def _folder(command: Parser) -> None:
    command.add_argument("folder", metavar="DIR")


def _quiet(command: Parser) -> None:
    command.add_argument("--quiet", action="store_true", help="no progress display")


def _dry_run(command: Parser, what: str) -> None:
    command.add_argument("--dry-run", action="store_true", help=what)


def _limit(command: Parser, what: str = "at most N items of each data set") -> None:
    command.add_argument("--limit", type=int, metavar="N", help=what)


def _set(command: Parser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="change a key: table.key=v for every entry, table.NAME.key=v for one (repeatable)",
    )


def _running(command: Parser) -> None:
    """Add the options of commands that make a run."""
    command.add_argument(
        "--fresh", action="store_true", help="delete what the folder holds and restart"
    )
    command.add_argument("--retry-failed", action="store_true", help="run failed trials again")
    _limit(command)
    _set(command)
    _dry_run(command, "check everything and print what it would cost")
    _quiet(command)


def _asking(command: Parser) -> None:
    """Add the options of commands that ask the models of a run again."""
    _folder(command)
    command.add_argument(
        "--experiment",
        metavar="EXPERIMENT.toml",
        help="the experiment of this run (default: what you ran in this folder)",
    )
    command.add_argument("--yes", action="store_true", help="ask the models without a question")
    _set(command)
    _dry_run(command, "print how much would be asked at most; ask nothing")
    _quiet(command)


def _served(command: Parser) -> None:
    command.add_argument("--port", type=int, default=0, metavar="PORT", help="default: a free one")
    command.add_argument("--no-browser", action="store_true", help="only print the address")


def _junit(command: Parser) -> None:
    command.add_argument("--junit", metavar="FILE", help="write the verdicts as JUnit XML")


def _markdown(command: Parser) -> None:
    command.add_argument(
        "--markdown",
        metavar="FILE",
        help="write verdict and numbers as one page of Markdown; an existing file is replaced",
    )


def _reading(command: argparse._ActionsContainer) -> None:
    """Add the options that say how data are read."""
    command.add_argument(
        "--columns",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=COLUMN",
        help="the data's name of a field, as in question=stem or options=opa,opb,opc (repeatable)",
    )
    command.add_argument(
        "--answer-base",
        type=int,
        choices=(0, 1),
        help="whether answers given as numbers count options from 0 or from 1",
    )


def _entities(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--entities",
        metavar="GROUPS",
        help="drugs, diseases, or drugs,diseases (default: both; found in the questions by name)",
    )


def check_limit(args: argparse.Namespace) -> None:
    """Check the value of --limit.

    Raises:
        UsageError: it is below 1.
    """
    if args.limit is not None and args.limit < 1:
        error = UsageError(f"--limit: expected at least 1, got {args.limit}")
        raise error.with_flag("--limit", None)


def groups_of(text: str) -> tuple[str, ...]:
    """Return the groups in a list such as ``drugs, diseases``.

    >>> groups_of("drugs, diseases")
    ('drugs', 'diseases')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def columns_of(given: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """Return the columns of flags such as ``question=stem``.

    Raises:
        UsageError: a flag has no equals sign, or no name on a side of it.

    >>> columns_of(["question=stem", "options=opa,opb"])
    {'question': 'stem', 'options': ('opa', 'opb')}
    >>> columns_of(["question=Question, text"])  # of options alone there are several columns
    {'question': 'Question, text'}
    """
    columns: dict[str, str | tuple[str, ...]] = {}
    for flag in given:
        name, equals, column = (part.strip() for part in flag.partition("="))
        if not (name and equals and column):
            raise UsageError(f"--columns {flag!r}: expected FIELD=COLUMN, e.g. question=stem")
        several = tuple(part.strip() for part in column.split(",")) if name == "options" else ()
        columns[name] = several if len(several) > 1 else column
    return columns
