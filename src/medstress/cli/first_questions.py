"""The five questions of `medstress init` on a terminal."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from textwrap import fill

from medstress.cli.first_flags import choices_of
from medstress.cli.flags import Parser, choice_flags, settings_flag
from medstress.core.errors import DataError, MedstressError, UsageError
from medstress.datasets.guess import ENDINGS
from medstress.experiment.first.attack import (
    GROUPS,
    WITHOUT_NAMES,
    budget_key,
    default_attack,
    draws_names,
    find_attack,
    fitting_attacks,
)
from medstress.experiment.first.attackable import count_attackable
from medstress.experiment.first.choices import Choices
from medstress.experiment.first.compose import Composed, compose
from medstress.experiment.first.data import FirstData, read_data
from medstress.experiment.first.model_check import check_model, listed_models

_ASKED = {
    "data": "a file ({endings}), a folder, a data set of `medstress list datasets`, or "
    "owner/name on the Hugging Face hub",
    "model": "the victim: a folder, a .gguf file, file.py:function, a hub id, smollm2 (comes with "
    "medstress), mock (answers at once, knows nothing), or a server's model as "
    "NAME --base-url http://127.0.0.1:8000/v1 [--api-key-env VARIABLE]",
    "entities": "whose names are exchanged in wrong options: drugs, diseases, or drugs,diseases",
    "attack": "one of {attacks} (medstress list attacks says what they do)",
    "budget": "the most perturbed queries an item",
}
"""Flag -> what is asked, in the order of the questions."""
_MODEL = "mock"
"""Stands for the victim until it is named."""
_MOST_NAMES = 12
"""Models of a server that are shown."""


class EndOfAnswers(MedstressError):
    """The terminal gave no more answers."""


class Asker:
    """Asks for what no flag gives, checks every answer at once, and asks again if it does not fit.

    An answer may bring flags of its own, as in ``questions.csv --answer-base 1``; an empty one
    takes what is shown in brackets.

    Args:
        args: the flags of `medstress init`.
        base: the folder of the file that is written.
    """

    def __init__(self, args: argparse.Namespace, base: Path) -> None:
        self._args = args
        self._base = base.resolve()
        self._parser = Parser(prog="medstress init", add_help=False)
        choice_flags(self._parser)
        settings_flag(self._parser)
        self._groups_are_fixed = args.entities is not None

    def composed(self) -> Composed:
        """Ask, and return the experiment.

        Raises:
            UsageError: a flag has a value that does not fit.
            EndOfAnswers: the terminal was closed.
            DataError: a flag names data with a bad row.
        """
        data = self._data()
        find_attack(self._choices(), data)  # flags that do not fit end it now
        composed = self._ask("model", data, self._usual_model())
        usual = default_attack(data.kind)
        if not composed.attack.groups:
            self._fixed("entities", f"{composed.attack.table['name']} draws no names")
        elif self._args.entities is None and not _names_any(composed):
            self._fixed("entities", "no option names a drug or a disease")
            usual = WITHOUT_NAMES
        else:
            self._ask("entities", data, ",".join(GROUPS))
        attacks = ", ".join(fitting_attacks(data))
        composed = self._ask("attack", data, usual, attacks=attacks)
        name = composed.attack.table["name"]
        key = budget_key(name)
        if key is None:
            self._fixed("budget", f"{name} asks about a fixed number of perturbed copies")
            return composed
        return self._ask("budget", data, str(composed.attack.table[key]))

    def _data(self) -> FirstData:
        if self._args.data is not None:
            return read_data(self._choices(), self._base, self._args.set)
        before = vars(self._args).copy()
        while True:
            try:
                self._answer("data", _likely_data(), endings=", ".join(ENDINGS))
                data = read_data(self._choices(), self._base, self._args.set)
            except (UsageError, DataError) as error:
                print(f"! {error}")
                if flag := re.search(r"\(here: (--[a-z-]+ \S+)", str(error)):
                    print(f"  type it behind the data, as in: {self._args.data} {flag[1]}")
                vars(self._args).update(before)
            else:
                print(f"  {data.sentence}")
                return data

    def _usual_model(self) -> str:
        """Return the first model of the server that a flag names, after showing all; or mock."""
        if self._args.base_url is None or self._args.model is not None:
            return _MODEL
        names = listed_models(self._args.base_url, self._args.api_key_env)
        shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        print(fill(f"the server lists: {shown or 'no models'}", 80, subsequent_indent="  "))
        return names[0] if names else _MODEL

    def _ask(self, name: str, data: FirstData, usual: str, **shown: str) -> Composed:
        """Ask for one value, and return the experiment with it."""
        if getattr(self._args, name) is not None:
            return self._checked(name, data)
        before = vars(self._args).copy()
        while True:
            try:
                self._answer(name, usual, **shown)
                return self._checked(name, data)
            except (UsageError, DataError) as error:
                print(f"! {error}")
                vars(self._args).update(before)

    def _checked(self, name: str, data: FirstData) -> Composed:
        composed = compose(self._choices(), self._base, self._args.set, data)
        if name == "model" and (remark := check_model(composed.victim.table, self._base)):
            print(f"! {remark}")
        if name in ("entities", "attack"):
            found = count_attackable(composed)
            if found is not None and name == "entities":
                print(f"  attackable: {found.sentence}")
        return composed

    def _choices(self) -> Choices:
        values = {**vars(self._args), "model": self._args.model or _MODEL}
        return choices_of(argparse.Namespace(**values))

    def _answer(self, name: str, usual: str, **shown: str) -> None:
        """Ask for a value and put it, with the flags that follow it, among the flags.

        Raises:
            UsageError: the answer cannot be read.
            EndOfAnswers: there are no more.
        """
        number = list(_ASKED).index(name) + 1
        asked = f"{number}/{len(_ASKED)} {name}: {_ASKED[name].format(**shown)}"
        print(fill(asked, 80, subsequent_indent="  ", break_long_words=False))
        try:
            typed = input(f"  {name} [{usual}]: ").strip()
        except EOFError:
            print()
            raise EndOfAnswers("init: the answers ended before the last question") from None
        given = typed or usual
        words = [given] if Path(given).expanduser().exists() else _words(given)
        answered = self._parser.parse_args([f"--{name.replace('_', '-')}", *words])
        found = {key: value for key, value in vars(answered).items() if value not in (None, [])}
        if not typed and name in ("entities", "attack", "budget") and given != WITHOUT_NAMES:
            found.pop(name)  # the default keeps its name out of the run folder's
        if name == "attack" and not self._groups_are_fixed and not draws_names(given):
            self._args.entities = None
        vars(self._args).update(found)

    def _fixed(self, name: str, why: str) -> None:
        print(f"{list(_ASKED).index(name) + 1}/{len(_ASKED)} {name}: not asked, since {why}")


def _names_any(composed: Composed) -> bool:
    try:
        count_attackable(composed)
    except UsageError:
        return False
    return True


def _words(typed: str) -> list[str]:
    """Split an answer as a shell does.

    Raises:
        UsageError: a quotation mark is not closed.
    """
    try:
        return shlex.split(typed)
    except ValueError as error:
        raise UsageError(f"{typed}: {error}; close the quotation marks") from None


def _likely_data() -> str:
    """Return the first file with data in the working folder, else the sample questions."""
    found = (each for each in sorted(Path().iterdir()) if each.suffix.lower() in ENDINGS)
    return next((str(each) for each in found if each.is_file()), "sample")
