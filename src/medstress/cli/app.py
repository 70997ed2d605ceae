"""Entry point of the command line: dispatch, exit codes and one sentence per error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from medstress.cli.next_commands import with_next_command
from medstress.cli.parser import build_parser
from medstress.cli.stopping import INTERRUPTED, Stopping
from medstress.cli.streams import outlive_reader, visible_output
from medstress.core.errors import (
    MedstressError,
    UsageError,
    did_you_mean,
    flags_are_said,
    reason,
)
from medstress.core.frozen import rare_collections
from medstress.engine.progress import DRAIN_SECONDS

_MODULES = {
    **dict.fromkeys(("demo", "run", "merge", "tune", "train", "perturb"), "running"),
    "check": "checking",
    **dict.fromkeys(("test", "explain"), "asking"),
    **dict.fromkeys(("summary", "report", "figures", "export", "case", "view"), "viewing"),
    **dict.fromkeys(("compare", "verify", "review"), "viewing"),
    **dict.fromkeys(("cache", "list", "recipe"), "machine"),
    "doctor": "doctor",  # it is there when a package that the others import is not
}
"""Command -> the module of its function."""
COMMANDS = tuple(_MODULES)
_JUDGING = ("demo", "run", "tune", "train", "summary", "compare", "verify")
"""Commands whose exit code is a verdict, which has to survive `| head`."""


@visible_output()
def medstress_cli(arguments: Sequence[str], *, drain_seconds: float = DRAIN_SECONDS) -> int:
    """Run one command.

    Args:
        arguments: the command line, without the program name.
        drain_seconds: time to wait for calls in flight after a signal.

    Returns:
        The exit code: 0 done, 1 a bug or too many failed trials, 2 an error the user can fix,
        130 interrupted.
    """
    with Stopping(arguments, drain_seconds) as stop, flags_are_said(), rare_collections():
        return _guarded(arguments, stop)


def _guarded(arguments: Sequence[str], stop: Stopping) -> int:
    try:
        return _dispatch(arguments, stop)
    except MedstressError as error:
        # One line, even if a user's function or a library put line breaks into its message.
        sentence = with_next_command(str(error), arguments, error)
        print(f"medstress: {' '.join(sentence.splitlines())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        stop.report()
        return INTERRUPTED
    except OSError as error:
        if stop.by is not None:
            # Drawing on a terminal that has closed fails.
            stop.report()
            return INTERRUPTED
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            return 0
        # A system error that no reader or writer has translated; not a bug of medstress.
        named = f"{error.filename}: " if error.filename else ""
        sentence = with_next_command(f"{named}{reason(error)}", arguments)
        print(f"medstress: {' '.join(sentence.splitlines())}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"medstress: {with_next_command(reason(error), arguments)}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the edge: anything else is a bug of medstress
        from medstress.core.registry import complaint
        from medstress.files.extras import base_fault

        if message := complaint(error):
            print(f"medstress: {message}; fix or remove that package", file=sys.stderr)
            return 2
        if fault := base_fault(error):
            print(f"medstress: {fault}", file=sys.stderr)
            return 2
        print(f"medstress: unexpected {_log(error)}", file=sys.stderr)
        return 1


def _dispatch(arguments: Sequence[str], stop: Stopping) -> int:
    parser = build_parser()
    if not arguments:
        parser.print_help()
        return 0
    first = arguments[0]
    if not first.startswith("-") and first not in COMMANDS:
        hint = did_you_mean(first, COMMANDS)
        raise UsageError(f"unknown command {first!r}{hint}").with_command("medstress --help")
    args = parser.parse_args(arguments, argparse.Namespace(stop=stop))
    module = import_module(f"medstress.cli.{_MODULES[args.command]}")
    handler = getattr(module, f"{args.command}_cli")
    if args.command in _JUDGING:
        outlive_reader()
        code = int(handler(args))
        sys.stdout.flush()  # while a closed pipe can still be dealt with
        return code
    return int(handler(args))


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
