"""Entry point of the command line: dispatch, exit codes and one sentence per error."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from medstress.cli.flags import Group, app, place_of, refused
from medstress.cli.process import Stopping, outlive_reader, visible_output
from medstress.core.errors import (
    MedstressError,
    UsageError,
    command_of,
    did_you_mean,
    flag_of,
    flags_are_said,
    reason,
)
from medstress.core.frozen import rare_collections
from medstress.core.words import command, with_quoted
from medstress.engine.progress import DRAIN_SECONDS
from medstress.version import __version__

_GROUPS = {
    "start": ("demo", "check", "run"),
    "look": ("summary", "report", "view", "case"),
    "decide": ("compare",),
    "study": ("tune", "train", "test", "explain", "perturb"),
    "share": ("export", "figures", "review", "verify"),
    "machine": ("merge", "cache", "list", "doctor"),
}
"""Module -> its commands: one that is typed needs no other module."""
_JUDGING = ("demo", "run", "tune", "train", "summary", "compare", "verify")
"""Commands whose exit code is a verdict, which has to survive `| head`."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"medstress {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def program(word: str = "") -> Group:
    """Return the command line, with its commands by name.

    Args:
        word: a command; then its group is enough. Of any other word, all groups.
    """
    of_word = [name for name, commands in _GROUPS.items() if word in commands]
    for name in of_word or _GROUPS:
        import_module(f"medstress.cli.{name}")
    made = typer.main.get_command(app)
    assert isinstance(made, Group)
    made.commands = dict(sorted(made.commands.items(), key=lambda named: place_of(named[1])))
    return made


@visible_output()
def medstress_cli(arguments: Sequence[str], *, drain_seconds: float = DRAIN_SECONDS) -> int:
    """Run one command.

    Args:
        arguments: the command line, without the program name.
        drain_seconds: time to wait for calls in flight after a signal.

    Returns:
        The exit code: 0 done, 1 a bug or too many failed trials, 2 an error the user can fix, 3 a
        verdict against the model, 130 interrupted.
    """
    stop = Stopping(arguments, drain_seconds)
    with stop.handling(), flags_are_said(), rare_collections():
        try:
            return _dispatch(arguments)
        except KeyboardInterrupt:
            return stop.report()
        except OSError as error:
            if stop.by is not None:  # drawing on a terminal that has closed fails
                return stop.report()
            if isinstance(error, BrokenPipeError):
                sys.stderr.close()
                return 0
            # A system error that no reader or writer has translated; not a bug of medstress.
            named = f"{error.filename}: " if error.filename else ""
            return _refuse(f"{named}{reason(error)}", arguments)
        except MedstressError as error:
            return _refuse(str(error), arguments, error)
        except MemoryError as error:
            return _refuse(reason(error), arguments)
        except Exception as error:  # noqa: BLE001 - the edge: anything else is a bug of medstress
            from medstress.core.extras import base_fault
            from medstress.core.registry import complaint

            if message := complaint(error):
                print(f"medstress: {message}; fix or remove that package", file=sys.stderr)
                return 2
            if fault := base_fault(error):
                print(f"medstress: {fault}", file=sys.stderr)
                return 2
            print(f"medstress: unexpected {_log(error)}", file=sys.stderr)
            return 1


def _dispatch(arguments: Sequence[str]) -> int:
    words = list(arguments) or ["--help"]
    commands = program(words[0])
    if not words[0].startswith("-") and words[0] not in commands.commands:
        hint = did_you_mean(words[0], commands.commands)
        raise UsageError(f"unknown command {words[0]!r}{hint}").with_command("medstress --help")
    try:
        with commands.make_context("medstress", list(words)) as context:
            if words[0] in _JUDGING:
                outlive_reader()
            code = commands.invoke(context)
            sys.stdout.flush()  # while a closed pipe can still be dealt with
            return int(code)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as error:
        raise refused(error, words, commands) from None


def _refuse(sentence: str, arguments: Sequence[str], error: MedstressError | None = None) -> int:
    """Print a refusal in one line, even if a user's function put line breaks into it."""
    whole = with_quoted(with_next_command(sentence, arguments, error), arguments)
    print(f"medstress: {' '.join(whole.splitlines())}", file=sys.stderr)
    return 2


_MEANT = re.compile(r"(?:'([^']+)'[^']*)?; did you mean '([^']+)'\?")


def with_next_command(
    sentence: str, arguments: Sequence[str], error: BaseException | None = None
) -> str:
    """Return a refusal with the next command to type at its end, where one is known.

    It is the same command line with the flag or the word put right that the error corrects, or the
    command that the error names.

    >>> with_next_command("unknown command 'rum'; did you mean 'run'?", ["rum", "a.toml"])
    "unknown command 'rum'; did you mean 'run'? Next: medstress run a.toml"
    >>> with_next_command("a.toml, line 3: budget = 0: expected 1 or more", ["run", "a.toml"])
    'a.toml, line 3: budget = 0: expected 1 or more'
    >>> with_next_command("no run in run-c; did you mean 'run-a'?", ["compare", "run-a", "run-c"])
    "no run in run-c; did you mean 'run-a'?"
    >>> with_next_command("no 'textattack'; did you mean 'attacked'?", ["--attack", "textattack"])
    "no 'textattack'; did you mean 'attacked'? Next: medstress --attack attacked"
    """
    sentence, flag = sentence.rstrip(), flag_of(error)
    mended = _corrected(sentence, arguments) if flag is None else _with_flag(arguments, *flag)
    following = command(*mended) if mended else command_of(error)
    if following is None or mended == list(arguments) or sentence.endswith(following):
        return sentence
    if not mended and arguments[:1] == ["check"] and following.startswith("medstress check "):
        return sentence  # it was just typed
    is_whole = sentence.endswith((".", "?", "!"))
    return f"{sentence} Next: {following}" if is_whole else f"{sentence}; next: {following}"


def _corrected(sentence: str, arguments: Sequence[str]) -> list[str] | None:
    """Return the command line with the word put right that a sentence corrects, if it has it."""
    if (meant := _MEANT.search(sentence)) is None:
        return None
    wrong, right = meant.groups()
    before = sentence[: meant.start(2)]
    for i, word in enumerate(arguments):
        key, equals, value = word.rpartition("=")
        name, mended = Path(value).name, word
        is_other = not equals and word.startswith("-") != right.startswith("-")
        if equals and wrong and get_close_matches(wrong, [right], cutoff=0.6):
            # a key or a name in a value, such as --set attack.bugdet=3
            mended = re.sub(rf"(?<![\w-]){re.escape(wrong)}(?![\w-])", lambda _: right, word)
        elif (
            not is_other
            and name in before
            and get_close_matches(name, [Path(right).name], cutoff=0.6)
        ):
            is_path = "://" not in word and Path(right).name == right
            mended = key + equals + (str(Path(value).with_name(right)) if is_path else right)
        if mended not in arguments:  # changed, and no second time the same
            return [*arguments[:i], mended, *arguments[i + 1 :]]
    return None


def _with_flag(arguments: Sequence[str], flag: str, value: str | None) -> list[str]:
    """Return a command line with another value of a flag; None: without the flag.

    >>> _with_flag(["run", "--limit", "0", "--set=a.b=1"], "--limit", None)
    ['run', '--set=a.b=1']
    >>> _with_flag(["run", "--set", "a.b=1"], "--set", "a.c=2")  # which is repeatable
    ['run', '--set', 'a.b=1', '--set', 'a.c=2']
    """
    kept: list[str] = []
    words, at = iter(arguments), None
    for word in words:
        if flag == "--set" or word.partition("=")[0] != flag:
            kept.append(word)
            continue
        at = len(kept) if at is None else at
        if word == flag:
            next(words, None)
    kept[at or len(kept) : at or len(kept)] = [] if value is None else [flag, value]
    return kept


def _log(error: Exception) -> str:
    """Write the traceback to a file and return a message with its path.

    The file may hold texts of the data.
    """
    import tempfile
    import traceback

    message = f"{type(error).__name__}: {reason(error)}; this is a bug in medstress"
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="medstress-",
            suffix=".log",
            delete=False,
            encoding="utf-8",
            errors="replace",
        ) as stream:
            traceback.print_exception(error, file=stream)
    except OSError as failure:
        return f"{message}; its details could not be written ({reason(failure)})"
    return f"{message}: please report it with the details in {stream.name}"
