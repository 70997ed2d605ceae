"""The end of every refusal: the next command to type.

It is the command that the error names, or the same command line with the word put right that the
message corrects, or else the same command line, for when what it refuses is mended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from medstress.core.errors import (
    DataError,
    OtherRunError,
    StoreError,
    UsageError,
    command_of,
    flag_of,
)
from medstress.files.writing import free

_MAKES_A_FOLDER = ("demo", "run", "tune", "train")
"""Commands that take the folder of a new run by --out."""
_MENDABLE = ("demo", "run", "tune", "train", "perturb", "check")
"""Commands that read a file of the user's, which can be mended before they are typed again."""
_CORRECTED = re.compile(r"did you mean '([^']+)'")
_WRONG = re.compile(r"'([^']+)'[^']*; did you mean '")
_INSTALL = re.compile(r"pip install (?:--no-deps )?(?:'[^']+'|[\w.=<>-]+)")
_ENDS_WITH_ONE = re.compile(r": medstress [a-z][^;:]*$")
_ABOUT_A_FLAG = re.compile(r"--[a-z]")


def with_next_command(
    sentence: str, arguments: Sequence[str], error: BaseException | None = None
) -> str:
    """Return a refusal with the next command to type at its end.

    Args:
        sentence: the refusal.
        arguments: the command line, without the program name.
        error: what was raised; it may name the command.

    >>> with_next_command("unknown command 'rum'; did you mean 'run'?", ["rum", "a.toml"])
    "unknown command 'rum'; did you mean 'run'? Next: medstress run a.toml"
    >>> with_next_command("a.toml, line 3: budget = 0: expected 1 or more", ["run", "a.toml"])
    'a.toml, line 3: budget = 0: expected 1 or more; once mended: medstress run a.toml'
    """
    lead, command = _next(sentence, arguments, error)
    sentence = sentence.rstrip()
    if sentence.endswith(command) or _ENDS_WITH_ONE.search(sentence):
        return sentence
    if sentence.endswith((".", "?", "!")):
        return f"{sentence} {lead.capitalize()}: {command}"
    return f"{sentence}; {lead}: {command}"


def _next(sentence: str, arguments: Sequence[str], error: BaseException | None) -> tuple[str, str]:
    """Return how the command is introduced, and the command."""
    if "--answer-base 0 or 1" in sentence and not _has_file(arguments):
        return "next", f"{_line(with_flag(arguments, '--answer-base', '0'))}  # or 1"
    if (mended := flag_of(error)) is not None:
        line = with_flag(arguments, *mended)
        return "once mended" if line == list(arguments) else "next", _line(line)
    if (corrected := _corrected(sentence, arguments)) is not None:
        return "next", _line(corrected)
    if (command := command_of(error)) is not None:
        return ("once mended", _line(arguments)) if _is(command, arguments) else ("next", command)
    # What a folder holds may look like a command.
    is_a_strangers = isinstance(error, StoreError | DataError)
    if not is_a_strangers and (install := _INSTALL.search(sentence)) is not None:
        return "next", install[0]
    if isinstance(error, OtherRunError) and arguments[:1] and arguments[0] in _MAKES_A_FOLDER:
        return "next", _line(with_flag(arguments, "--out", str(free(error.folder)), "--fresh"))
    is_mendable = "--experiment" in arguments or (arguments[:1] and arguments[0] in _MENDABLE)
    if _ABOUT_A_FLAG.match(sentence) or (isinstance(error, UsageError) and not is_mendable):
        return "next", _line([*arguments[:1], "--help"])
    return "once mended", _line(arguments)


def _has_file(arguments: Sequence[str]) -> bool:
    """Return whether the command reads an experiment file, which has no flags for its data."""
    return any(word.endswith(".toml") for word in arguments) or arguments[:1] == ["tune"]


def _is(command: str, arguments: Sequence[str]) -> bool:
    """Return whether a command is the one that was typed; a path may be spelled otherwise."""
    words = shlex.split(command)[1:]
    return len(words) == len(arguments) and all(
        word == typed or Path(word) == Path(typed).absolute()
        for word, typed in zip(words, arguments, strict=True)
    )


def _line(arguments: Sequence[str]) -> str:
    return shlex.join(["medstress", *arguments])


def _corrected(sentence: str, arguments: Sequence[str]) -> list[str] | None:
    """Return the command line with the word put right that the message corrects, if it has it."""
    found = _CORRECTED.search(sentence)
    if found is None:
        return None
    before = sentence[: found.start()]
    for i, word in enumerate(arguments):
        right = found[1]
        if "://" not in word and Path(right).name == right and Path(word).name != word:
            right = str(Path(word).with_name(right))  # a message corrects the name alone
        is_named = re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w/-]|\.\w)", before)
        is_near = bool(i) and right.startswith(word)
        is_near = is_near or bool(get_close_matches(word, [right], n=1, cutoff=0.6))
        if is_named and word != right and is_near:
            return [*arguments[:i], right, *arguments[i + 1 :]]
    # Else a word within a value, such as --set attack.bugdet=3.
    wrong = _WRONG.search(sentence)
    token = re.compile(rf"(?<![\w-]){re.escape(wrong[1])}(?![\w-])") if wrong else None
    for i, word in enumerate(arguments):
        if token is not None and "=" in word and token.search(word):
            return [*arguments[:i], token.sub(lambda _: found[1], word), *arguments[i + 1 :]]
    return None


def with_flag(arguments: Sequence[str], flag: str, value: str | None, *dropped: str) -> list[str]:
    """Return a command line with another value of a flag; None: without the flag.

    Args:
        arguments: the command line.
        flag: takes one value; `--set`, which is repeatable, is added to those that are there.
        value: its value.
        dropped: flags without a value that are left out.

    >>> with_flag(["run", "--limit", "0", "--set=a.b=1"], "--limit", None)
    ['run', '--set=a.b=1']
    >>> with_flag(["run", "--set", "a.b=1"], "--set", "a.c=2")
    ['run', '--set', 'a.b=1', '--set', 'a.c=2']
    """
    kept: list[str] = []
    words = iter(word for word in arguments if word not in dropped)
    is_there = False
    for word in words:
        if flag == "--set" or not (word == flag or word.startswith(f"{flag}=")):
            kept.append(word)
            continue
        if word == flag:
            next(words, None)
        kept += [] if value is None or is_there else [flag, value]
        is_there = True
    return kept if value is None or is_there else [*kept, flag, value]
