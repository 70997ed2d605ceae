"""What commands share: how help is printed, what a wrong command line is told, common flags.

Typer reads the signatures. It prints no boxes and no usage here: its help with rich costs more than
the rest of the start, and an error is one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from medstress.core.errors import UsageError, did_you_mean

EPILOG = """Exit codes: 0 done, or stopped cleanly at a limit; 1 a bug, more failed trials than
max_failed, or a model of which no answer could be read; 2 an error you can fix (one sentence says
how); 3 a complete run that misses a criterion ([[require]]), or a comparison that fails; 130
interrupted, nothing lost."""
GROUPS = ("Start", "Look", "Decide", "Study", "Share", "Machine")
"""What the help puts under one heading: a module each."""
_SEVERAL = {"--columns": "=", "--trial": ""}
"""Flags that take several values at once -> what each further value has to contain."""


class Command(TyperCommand):
    """A command: flags in sections, and refusals that Typer leaves out."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, without braces around what is required."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and flags, each under its panel."""
        _write_sections(formatter, (_entry(param, ctx) for param in self.get_params(ctx)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line.

        Raises:
            UsageError: the value of a flag looks like a flag, as in `--out --fresh`.
        """
        rest = super().parse_args(ctx, _spread(args))
        for param in self.params:
            values = ctx.params[param.name]
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str) and value.startswith("--"):
                    raise UsageError(
                        f"{param.opts[0]}: expected a value, got {value!r}"
                    ).with_command(f"medstress {ctx.info_name} --help")
        return rest


class Group(TyperGroup):
    """The program: its commands in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each under its group, and the flags."""
        commands = (
            (GROUPS[place_of(one)], name, one.get_short_help_str(200))
            for name, one in self.commands.items()
        )
        _write_sections(formatter, commands)
        _write_sections(formatter, (_entry(param, ctx) for param in self.get_params(ctx)))


def place_of(command: Any) -> int:
    """Return the place of a command's group in the help."""
    return GROUPS.index(command.rich_help_panel)


def _entry(param: Any, ctx: Any) -> tuple[str, str, str]:
    """Return panel, name and help of a parameter."""
    if param.param_type_name == "argument":
        return "Arguments", param.metavar, param.help or ""
    name, text = param.get_help_record(ctx)
    text = re.sub(r"  \[[^]]*x[<>]=[^]]*]$", "", text)  # the range of a number
    return getattr(param, "rich_help_panel", None) or "Options", name, text


def _write_sections(formatter: Any, entries: Iterable[tuple[str, str, str]]) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for panel, name, text in entries:
        sections.setdefault(panel, []).append((name, text))
    for panel, rows in sections.items():
        with formatter.section(panel):
            formatter.write_dl(rows, col_max=26)


def _spread(words: Sequence[str]) -> list[str]:
    """Return a command line with each value of a flag that takes several behind a flag of its own.

    >>> _spread(["run", "--columns", "question=stem", "answer=key", "--limit", "3"])
    ['run', '--columns', 'question=stem', '--columns', 'answer=key', '--limit', '3']
    """
    spread: list[str] = []
    several = None
    for word in words:
        if several is not None and spread[-1] == several:
            spread.append(word)
        elif several is not None and not word.startswith("-") and _SEVERAL[several] in word:
            spread += [several, word]
        else:
            several = word if word in _SEVERAL else None
            spread.append(word)
    return spread


def refused(error: typer.TyperException, words: Sequence[str], program: Group) -> UsageError:
    """Return what Typer refuses as one sentence, with what was meant where that is near."""
    command = program.commands.get(words[0])
    text = " ".join(error.format_message().split()).rstrip(".")
    if wrong := re.match(r"No such option: (\S+)", text):
        flags = [flag for param in command.params for flag in param.opts] if command else ()
        text = f"no such option {wrong[1]!r}{did_you_mean(wrong[1], flags)}"
    elif invalid := re.match(r"Invalid value for '([^']+)': (?:Value error, )?(.*)", text):
        name, fault = invalid.groups()
        if chosen := re.match(r"'([^']*)' is not one of (.*)", fault):
            near = did_you_mean(chosen[1], re.findall(r"'([^']*)'", chosen[2]))
            text = f"{name} {chosen[1]!r}: expected one of {chosen[2]}{near}"
        else:
            # Typer 0.28 says "0 is not in the range x>=1", 0.29 "Input should be greater than ...".
            expected = re.sub("^Input should be |, unable.*|^'.*' is not (?=a valid)", "", fault)
            least = r"^(?:greater than or equal to |\S+ is not in the range x>=)(\S+)$"
            expected = re.sub(least, r"\1 or more", expected)
            expected = re.sub(r"^less than or equal to (\S+)$", r"\1 or less", expected)
            expected = re.sub(r"^.* is not in the range (\d+)<=x<=(\d+)$", r"\1 to \2", expected)
            value = next((after for word, after in pairwise(words) if word == name), "")
            text = f"{f'{name} {value}'.strip()}: expected {expected}"
    else:
        text = f"{text[:1].lower()}{text[1:]}"
    typed = f"medstress {words[0]} --help" if command else "medstress --help"
    return UsageError(f"{words[0]}: {text}" if command else text).with_command(typed)


app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    suggest_commands=False,
    context_settings={"max_content_width": 100},
    help="Adversarial robustness of biomedical language models: attack, count, report.",
    epilog=EPILOG,
)


# -- flags that commands share ---------------------------------------------------------------------


def option(metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """Return a flag: what its value is called, its help, and its names if they do not follow."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def argument(metavar: str, text: str) -> Any:
    """Return what holds without a flag."""
    return typer.Argument(metavar=metavar, help=text)


_DATA = "a file, a folder, a name of `list datasets`, or owner/name on the hub"
_SET = "change a key: table.key=v for every entry, table.NAME.key=v for one (repeatable)"
Folder = Annotated[str, argument("DIR", "a run folder")]
File = Annotated[str, argument("EXPERIMENT.toml", "a file, or a name of `list recipes`")]
Data = Annotated[str, argument("DATA", _DATA)]
Quiet = Annotated[bool, option(None, "no progress display", "--quiet")]
Limit = Annotated[int | None, option("N", "at most N items of each data set", min=1)]
Sets = Annotated[list[str], option("TABLE.KEY=VALUE", _SET, "--set")]
DryRun = Annotated[bool, option(None, "check everything, print the cost; ask nothing", "--dry-run")]
Fresh = Annotated[bool, option(None, "delete what the folder holds and restart", "--fresh")]
Retry = Annotated[bool, option(None, "run failed trials again", "--retry-failed")]
Yes = Annotated[bool, option(None, "ask the models without a question", "--yes")]
Own = Annotated[str | None, option("EXPERIMENT.toml", "the run's own (default: what you ran here)")]
Json = Annotated[bool, option(None, "as JSON", "--json")]
Junit = Annotated[str | None, option("FILE", "write the verdicts as JUnit XML")]
Markdown = Annotated[str | None, option("FILE", "write verdict and numbers as a page of Markdown")]


def groups_of(text: str | None) -> tuple[str, ...] | None:
    """Return the groups in a list such as ``drugs, diseases``.

    >>> groups_of("drugs, diseases")
    ('drugs', 'diseases')
    """
    if text is None:
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def columns_of(flags: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """Return the columns of flags such as ``question=stem``.

    Raises:
        UsageError: a flag has no equals sign, or no name on a side of it.

    >>> columns_of(["question=stem", "options=opa,opb"])
    {'question': 'stem', 'options': ('opa', 'opb')}
    >>> columns_of(["question=Question, text"])  # of options alone there are several columns
    {'question': 'Question, text'}
    """
    columns: dict[str, str | tuple[str, ...]] = {}
    for flag in flags:
        name, equals, column = (part.strip() for part in flag.partition("="))
        if not (name and equals and column):
            raise UsageError(f"--columns {flag!r}: expected FIELD=COLUMN, e.g. question=stem")
        several = tuple(part.strip() for part in column.split(",")) if name == "options" else ()
        columns[name] = several if len(several) > 1 else column
    return columns


def only_one(**flags: object) -> None:
    """Refuse flags that exclude each other.

    Raises:
        UsageError: more than one is set.
    """
    both = [f"--{name}" for name, value in flags.items() if value not in (None, False, [])]
    if len(both) > 1:
        raise UsageError(f"{both[1]}: not allowed with {both[0]}")
