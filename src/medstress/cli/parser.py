"""Commands and flags; imports nothing heavy, so that --help is instant."""

from __future__ import annotations

import argparse

from medstress.cli.explaining import add_explain
from medstress.cli.flags import (
    Parser,
    choice_flags,
    entities_flag,
    experiment_flags,
    reading_flags,
    run_flags,
    settings_flag,
    verdict_flags,
)
from medstress.cli.merging import add_merge, ray_flags, shard_flag
from medstress.cli.verifying import add_verify
from medstress.version import __version__

KINDS = (
    "attacks",
    "samplers",
    "datasets",
    "backends",
    "embeddings",
    "recognisers",
    "vocabularies",
    "prompts",
    "parsers",
    "text_scores",
    "wrappers",
    "recipes",
)
EPILOG = """exit codes: 0 done, or stopped cleanly at a limit; 1 a bug, or more failed trials than
max_failed; 2 an error you can fix (one sentence says how); 3 a complete run that misses a criterion
([[require]]), or a comparison that fails; 130 interrupted, nothing lost"""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    parser = Parser(
        prog="medstress",
        description="Adversarial robustness of biomedical language models: attack, count, report.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"medstress {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _demo(commands)
    _check(commands)
    _run(commands)
    add_merge(commands)
    _tune(commands)
    _train(commands)
    _look(commands)
    _case(commands)
    _view(commands)
    _compare(commands)
    add_verify(commands)
    _test(commands)
    add_explain(commands)
    _review(commands)
    _cache(commands)
    _perturb(commands)
    _list(commands)
    commands.add_parser(
        "doctor",
        help="versions, extras, devices, models, free disk; how to install what is missing",
        description="Show what is installed, and the command that installs what is missing.",
    )
    return parser


def _demo(commands: argparse._SubParsersAction[Parser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="attack the embedded language model on the embedded questions",
        description="Ask the embedded language model the sample questions with a passage to read "
        "and without, and attack it with far, random and near names and with harmless edits as a "
        "control. Prints one table for each victim and group and writes report.html. Nothing is "
        "downloaded.",
    )
    demo.add_argument("--out", metavar="DIR", default="runs/demo", help="default: runs/demo")
    demo.add_argument("--quiet", action="store_true", help="no progress display")


def _run(commands: argparse._SubParsersAction[Parser]) -> None:
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
    choice_flags(run)
    run.add_argument("--out", metavar="DIR", help="run folder (default: runs/<name>)")
    shard_flag(run)
    run_flags(run)
    ray_flags(run)
    verdict_flags(run)


def _tune(commands: argparse._SubParsersAction[Parser]) -> None:
    tune = commands.add_parser(
        "tune",
        help="choose the exponent n on a tuning split, then report on the rest",
        description="Choose n of every attack with sampler = pdws, for each data set, group and "
        "victim, separately for n < 0 and n > 0, on a split of the items ([tune] in the file). "
        "Then run the chosen n, and the attacks without n, on the rest. The same command resumes.",
    )
    tune.add_argument("experiment", metavar="EXPERIMENT.toml")
    tune.add_argument(
        "--out",
        metavar="DIR",
        help="folder of the report, with the tuning split's run in DIR/tuning and the choice in "
        "DIR/tune.json (default: runs/<name>-tuned)",
    )
    run_flags(tune)


def _train(commands: argparse._SubParsersAction[Parser]) -> None:
    train = commands.add_parser(
        "train",
        help="fine-tune, attack, train on perturbed copies, attack again",
        description="Fine-tune models on the original data and attack them; fine-tune others on "
        "the data and a perturbed copy ([train] in the file) and attack those with the same seeds. "
        "The same command resumes, even in the middle of an epoch.",
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
    experiment_flags(train)
    train.add_argument(
        "--dry-run", action="store_true", help="check everything and print what would be trained"
    )
    train.add_argument("--quiet", action="store_true", help="no progress display")


def _perturb(commands: argparse._SubParsersAction[Parser]) -> None:
    perturb = commands.add_parser(
        "perturb",
        help="write the perturbed data set without asking any victim",
        description="Write every item as every attack and seed of an experiment perturbs it: noise "
        "and synonyms in tagged texts, sentence pairs and questions, and the names that a "
        "substitution draws. `medstress run` asks the same texts. No victim is needed.",
    )
    perturb.add_argument("experiment", metavar="EXPERIMENT.toml")
    perturb.add_argument(
        "--to",
        required=True,
        metavar="FILE",
        help="FILE.jsonl; for one attack and seed also FILE.tsv (pairs, or IOB), .iob, .conll",
    )
    experiment_flags(perturb)
    perturb.add_argument("--quiet", action="store_true", help="no progress display")


def _look(commands: argparse._SubParsersAction[Parser]) -> None:
    summary = commands.add_parser("summary", help="the numbers of a run")
    summary.add_argument("folder", metavar="DIR")
    shape = summary.add_mutually_exclusive_group()
    shape.add_argument(
        "--wide", action="store_true", help="all columns of all tables, by key and by seed"
    )
    shape.add_argument("--json", action="store_true", help="as JSON (format 3)")
    verdict_flags(summary)
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
    figures = commands.add_parser(
        "figures",
        help="tables and figures for a paper",
        description="Write the tables (LaTeX, CSV, Markdown) and figures that the run has data "
        "for, with intervals; captions as text beside them; index.md, which lists all, and "
        "figures.tex, which sets all. What a paper's layout has and the run cannot fill is listed "
        "with the reason. Files of an earlier call in the same folder are replaced.",
    )
    figures.add_argument("folder", metavar="DIR")
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
    export = commands.add_parser("export", help="tidy rows of a run")
    export.add_argument("folder", metavar="DIR")
    export.add_argument(
        "--table",
        choices=("trials", "exchanges", "items", "reviews", "attacked"),
        required=True,
        help="which rows",
    )
    export.add_argument(
        "--to", required=True, metavar="FILE", help="FILE.jsonl, FILE.csv or FILE.parquet"
    )


def _review(commands: argparse._SubParsersAction[Parser]) -> None:
    review = commands.add_parser(
        "review",
        help="a room where experts judge cases, in the browser or in one file",
        description="Open a local page where experts judge a random sample of successes, without "
        "seeing model or attack: is the key still right, would a careful clinician be misled, is "
        "the text plausible, is harm likely. Every answer is saved at once in DIR. Planted cases "
        "measure the raters. Where raters agree that the key is right, the success is valid; where "
        "they disagree it stays unknown until --adjudicate. Names of raters stay in DIR.",
    )
    review.add_argument("folder", metavar="DIR")
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
    review.add_argument("--port", type=int, default=0, metavar="PORT", help="default: a free one")
    review.add_argument("--no-browser", action="store_true", help="only print the address")
    how = review.add_mutually_exclusive_group()
    how.add_argument(
        "--adjudicate", action="store_true", help="decide the cases on which raters disagree"
    )
    how.add_argument("--agreement", action="store_true", help="how far raters agree, as tables")
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


def _cache(commands: argparse._SubParsersAction[Parser]) -> None:
    cache = commands.add_parser(
        "cache",
        help="the shared answer cache",
        description="Manage the answers that runs share if [experiment] says cache = PATH. "
        "info: entries by model, size; verify: read every entry and count the damaged ones; "
        "prune: remove entries. Run folders have copies and do not need the cache.",
    )
    cache.add_argument("action", metavar="{info,verify,prune}", choices=("info", "verify", "prune"))
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
    cache.add_argument("--damaged", action="store_true", help="prune: entries that verify finds")
    cache.add_argument(
        "--dry-run", action="store_true", help="prune: count what would be removed, remove nothing"
    )


def _list(commands: argparse._SubParsersAction[Parser]) -> None:
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


def _check(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress check`."""
    check = commands.add_parser(
        "check",
        help="how your data are read, what of them can be attacked, and why the rest cannot",
        description="Read data as a run would and show the first five items as understood, how "
        "many each attack can attack, and why it cannot attack the rest. Mentions of drugs and "
        "diseases are found by the built-in tables of names. No model is asked, and nothing is "
        "written but the file of --to. The last line is the next command to type. Exit code 2 if "
        "rows cannot be read.",
    )
    check.add_argument(
        "data",
        metavar="DATA",
        help="a file or folder, a data set of `medstress list datasets`, or owner/name on the "
        "Hugging Face hub",
    )
    check.add_argument(
        "--limit", type=int, metavar="N", help="check a random sample of N items (default: 5,000)"
    )
    reading_flags(check)
    entities_flag(check)
    settings_flag(check)
    check.add_argument(
        "--to",
        metavar="FILE",
        help="FILE.jsonl or FILE.parquet: write the questions with typed mentions and group "
        "labels; --set entities.recogniser=... says what finds them",
    )
    check.add_argument("--json", action="store_true", help="as JSON (format 1)")


def _compare(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress compare`."""
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
    verdict_flags(compare)


def _test(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress test`; its settings are keys of `[test]`."""
    test = commands.add_parser(
        "test",
        help="significance of MedFuzz successes",
        description="Compare successes of MedFuzz with control fuzzes: is the victim misled by "
        "what the attack says, or would any change do? The models, their keys and the settings "
        "([test]) come from your experiment, never from the folder; the folder must be a run of "
        "it. The same command resumes; other settings (--set test.null=...) add to the folder.",
    )
    test.add_argument("folder", metavar="DIR")
    test.add_argument(
        "--experiment",
        metavar="EXPERIMENT.toml",
        help="the experiment of this run (default: what you ran in this folder)",
    )
    test.add_argument("--yes", action="store_true", help="ask the models without a question")
    settings_flag(test)
    test.add_argument(
        "--dry-run", action="store_true", help="print how much would be asked at most; ask nothing"
    )
    test.add_argument("--quiet", action="store_true", help="no progress display")


def _case(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress case`."""
    case = commands.add_parser(
        "case",
        help="one case: what changed, what was sent, what was answered; without ID a list",
        description="Show one trial with everything that the run folder keeps about it: the text "
        "with what was [-removed-] and {+added+}, what was sent to the model, its answers and "
        "scores, the edits that failed before, the attempts of an attacker model.",
    )
    case.add_argument("folder", metavar="DIR")
    case.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="trial id, its beginning, the id that the report shows, or an item id with one attack",
    )
    case.add_argument("--wide", action="store_true", help="list all cases, with all columns")
    case.add_argument("--json", action="store_true", help="as JSON")


def _view(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress view`."""
    view = commands.add_parser(
        "view",
        help="the report in a browser, with all cases, also while the run goes on",
        description="Open the report from a server on this machine that nobody else can reach. It "
        "has every case of the run, follows a run in progress, and writes no file. Ctrl+C ends it.",
    )
    view.add_argument("folder", metavar="DIR")
    view.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")
    view.add_argument("--no-browser", action="store_true", help="only print the address")
