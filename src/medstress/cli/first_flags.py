"""The flags that stand for an experiment file, read into `Choices`."""

from __future__ import annotations

import argparse

from medstress.core.errors import UsageError
from medstress.experiment.first.data import Choices

FLAGS = (
    "data",
    "model",
    "base_url",
    "api_key_env",
    "entities",
    "attack",
    "budget",
    "columns",
    "answer_base",
)
"""The flags that stand for an experiment file, as `argparse` calls them."""


def used_flags(args: argparse.Namespace) -> list[str]:
    """Return those of the flags that were given, as the user types them."""
    return [
        f"--{name.replace('_', '-')}" for name in FLAGS if getattr(args, name) not in (None, [])
    ]


def choices_of(args: argparse.Namespace) -> Choices:
    """Return the values of the flags.

    Raises:
        UsageError: no data or no model.
    """
    missing = [f"--{name}" for name in ("data", "model") if getattr(args, name) is None]
    if missing:
        usual = {"--data": "questions.csv", "--model": "my_model.py:answer"}
        example = " ".join(f"{flag} {usual[flag]}" for flag in missing)
        error = UsageError(
            f"{args.command}: {' and '.join(missing)} missing; give for example {example}"
        )
        if len(missing) > 1:
            raise error.with_command(f"medstress {args.command} {example}")
        raise error.with_flag(missing[0], usual[missing[0]])
    entities = args.entities
    return Choices(
        data=args.data,
        model=args.model,
        base_url=args.base_url,
        api_key_env=args.api_key_env,
        entities=None if entities is None else groups_of(entities),
        attack=args.attack,
        budget=args.budget,
        columns=columns_of(args.columns),
        answer_base=args.answer_base,
    )


def groups_of(text: str) -> tuple[str, ...]:
    """Return the groups in a list such as ``drugs, diseases``.

    >>> groups_of("drugs, diseases")
    ('drugs', 'diseases')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def columns_of(given: list[str]) -> dict[str, str | tuple[str, ...]]:
    """Return the columns of flags such as ``question=stem``.

    Raises:
        UsageError: a flag has no equals sign, or no name on a side of it.

    >>> columns_of(["question=stem", "options=opa,opb"])
    {'question': 'stem', 'options': ('opa', 'opb')}
    >>> columns_of(["question=Question, text"])  # of options alone there are several columns
    {'question': 'Question, text'}
    """
    found: dict[str, str | tuple[str, ...]] = {}
    for each in given:
        name, equals, column = (part.strip() for part in each.partition("="))
        if not (name and equals and column):
            raise UsageError(f"--columns {each!r}: expected FIELD=COLUMN, e.g. question=stem")
        several = tuple(part.strip() for part in column.split(",")) if name == "options" else ()
        found[name] = several if len(several) > 1 else column
    return found
