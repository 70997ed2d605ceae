"""Compose the experiment file that a few values stand for, as commented TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.experiment.file.reading import Source
from medstress.experiment.first.attack import FirstAttack, find_attack
from medstress.experiment.first.data import Choices, FirstData, read_data
from medstress.experiment.first.victim import FirstVictim, find_victim
from medstress.files.toml_values import toml_key, toml_value

_WIDEST = 40
"""Characters of a key and its value that comments in a table are still aligned with."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    name: str
    """The key."""
    value: Any
    """A value that TOML has."""
    remark: str = ""
    """What the user should know, in a few words."""
    is_off: bool = False
    """True if it is shown as a comment, to be switched on."""

    @property
    def text(self) -> str:
        """Key and value."""
        return f"{'# ' if self.is_off else ''}{toml_key(self.name)} = {toml_value(self.value)}"

    def line(self, column: int) -> str:
        """Return its line, with the remark as a comment from a column on, if there is room."""
        return f"{self.text:<{column}}  # {self.remark}" if self.remark else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table."""

    header: str
    """Such as `[experiment]` or `[[victim]]`."""
    keys: Sequence[Key]
    """In order."""
    before: str = ""
    """A comment above it."""
    is_off: bool = False
    """True if all of it is shown as a comment."""

    @property
    def lines(self) -> Iterator[str]:
        """The lines of the table."""
        if self.before:
            yield from (f"# {line}" for line in self.before.splitlines())
        mark = "# " if self.is_off else ""
        yield f"{mark}{self.header}"
        widths = [len(key.text) for key in self.keys if key.remark]
        column = max((width for width in widths if width <= _WIDEST), default=0)
        yield from (f"{mark}{key.line(column)}" for key in self.keys)


def written(title: str, sections: Sequence[Section]) -> str:
    """Return a file: its title as a comment, and the tables with an empty line between them."""
    head = "\n".join(f"# {line}" for line in title.splitlines())
    return "\n\n".join([head, *("\n".join(section.lines) for section in sections)]) + "\n"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")
_LONGEST_NAME = 60
_ROLE_KEYS = ("backend", "model", "base_url", "api_key_env", "dtype")
_REMARKS = {
    "seeds": "[0, 1, 2]: three draws of names for each item, three times the queries",
    "path": "a relative path starts at this file",
    "budget": "most perturbed queries an item; the first success ends it",
    "attempts": "most edits of an item; the first success ends it",
    "sampler": 'or "random"; "nearest", "farthest" (then without n)',
    "n": "below 0: names near the right answer; above 0: far from it",
    "api_key_env": "the environment variable with the key; the key itself is in no file",
    "answer_base": "the number of the first option",
}


def compose(
    choices: Choices,
    overrides: Sequence[str] = (),
    data: FirstData | None = None,
    *,
    attack: FirstAttack | None = None,
    victim: FirstVictim | None = None,
) -> Source:
    """Compose a first experiment: its text, as a file in the working folder would hold it.

    Args:
        choices: what the user gave.
        overrides: as --set; those of `[[dataset]]` are part of the text, others are left to the
            reader of the text.
        data: the data of these choices, if they are read already.
        attack: the attack, if it has a table already.
        victim: the victim, if it has a table already.

    Raises:
        UsageError: a value does not fit; the message names its flag.
        DataError: a bad row.
    """
    base = Path.cwd().resolve()
    data = data or read_data(choices, base, overrides)
    attack = attack or find_attack(choices, data)
    needs_scores = "scores" in attack.attack.needs
    victim = victim or find_victim(choices, base, data, scores=needs_scores)
    name, roles = experiment_name(choices), _roles(attack, victim, overrides)
    sections = [
        _experiment(name, data, victim),
        _dataset(data),
        *(_group(table, attack) for table in attack.groups),
        _victim(victim),
        *roles,
        _attack(attack),
        _criterion(data),
    ]
    remark = ""
    if roles:
        remark = (
            f"{attack.table['name']}: no attacker is named, so the model attacks itself; a "
            "stronger attacker finds more: --set role.attacker.model=NAME"
        )
    text = written(_title(data), sections)
    return Source(text=text, name=f"{name}.toml", base=base, remark=remark)


def experiment_name(choices: Choices) -> str:
    """Return the name of the experiment and of its run folder: what tells one from another.

    >>> experiment_name(Choices(data="data/my questions.csv", model="my_model.py:answer"))
    'my-questions-my_model.py-answer'
    >>> experiment_name(Choices(data="q.csv", model="org/Big", attack="swap_noise", budget=None))
    'q-Big-swap_noise'
    """
    data, model = (Path(each.strip()) for each in (choices.data, choices.model))
    parts = [data.stem or data.name, model.name]
    parts += ["-".join(choices.entities)] if choices.entities is not None else []
    parts += [choices.attack] if choices.attack is not None else []
    parts += [f"budget{choices.budget}"] if choices.budget is not None else []
    slug = _NOT_IN_NAMES.sub("-", "-".join(parts)).strip("-._")
    return slug[:_LONGEST_NAME].strip("-._") or "first"


def _title(data: FirstData) -> str:
    return (
        f"An experiment on {data.kind.name}. Change what you like: `medstress run` checks it.\n"
        "Lines that begin with # are switched off. All keys: medstress's docs/schema.md"
    )


def _experiment(name: str, data: FirstData, victim: FirstVictim) -> Section:
    keys = [
        Key("name", name, f"the run is kept in runs/{name}"),
        Key("seeds", [0], _REMARKS["seeds"]),
        Key("max_queries", 10000, "stop cleanly after so many", is_off=True),
    ]
    if data.kind.has_parts:
        keys.append(Key("controls", True, "as much noise outside entities", is_off=True))
    if victim.table["backend"] == "openai":
        keys.append(
            Key(
                "max_usd",
                5.0,
                "stop cleanly at this price; needs price_in and price_out below",
                is_off=True,
            )
        )
    return Section(header="[experiment]", keys=keys)


def _dataset(data: FirstData) -> Section:
    keys = _keys(data.table)
    if not data.table.get("limit"):
        keys.append(Key("limit", 200, "a random sample of so many", is_off=True))
    understood = data.part.loaded.understood
    return Section(header="[[dataset]]", keys=keys, before=" ".join(understood.split()))


def _group(table: Mapping[str, Any], attack: FirstAttack) -> Section:
    return Section(
        header="[[entities]]",
        keys=_keys(table, attack.remarks),
        before=f"Options that name one of the {table['type']} are attacked.",
    )


def _victim(victim: FirstVictim) -> Section:
    keys = _keys(victim.table, victim.remarks)
    if victim.table["backend"] == "openai":
        if victim.table.get("answer_by") == "generate":
            keys.append(
                Key(
                    "max_new_tokens",
                    128,
                    "more for a model that reasons before it answers",
                    is_off=True,
                )
            )
        keys += [
            Key("price_in", 0.15, "US dollars a million tokens", is_off=True),
            Key("price_out", 0.6, is_off=True),
        ]
    return Section(header="[[victim]]", keys=keys)


def _roles(attack: FirstAttack, victim: FirstVictim, overrides: Sequence[str]) -> list[Section]:
    """Return the models that the attack needs beside the victim: here the victim's own.

    Raises:
        UsageError: the victim writes no text, and no override names another model.
    """
    needed = ["attacker"] if "attacker" in attack.attack.needs else []
    sections = []
    for role in needed:
        who = re.compile(rf"\s*role\.{role}\.(?:backend|model|base_url|target)\s*=")
        if any(map(who.match, overrides)):
            continue
        if not victim.writes_text:
            raise UsageError(
                f"--attack {attack.table['name']}: another model writes its edits, and the victim "
                "cannot: give a model that writes text, or name one as in "
                f"--set role.{role}.backend=openai --set role.{role}.model=NAME "
                f"--set role.{role}.base_url=URL"
            )
        own = {key: victim.table[key] for key in _ROLE_KEYS if key in victim.table}
        sections.append(
            Section(
                header=f"[role.{role}]",
                keys=_keys(own),
                before="The model attacks itself; a stronger model here finds more.",
            )
        )
    return sections


def _attack(attack: FirstAttack) -> Section:
    return Section(
        header="[[attack]]",
        keys=_keys(attack.table),
        before="Others: medstress list attacks. Several [[attack]] tables run side by side.",
    )


def _criterion(data: FirstData) -> Section:
    """Return a criterion, switched off: with it the exit code says whether the victim is good."""
    metric = "asr" if data.kind.is_judged else "pearson_after"
    bound = {"max_high": 0.2} if data.kind.is_judged else {"min_low": 0.8}
    return Section(
        header="[[require]]",
        keys=_keys({"metric": metric, **bound}),
        before="What must hold: otherwise `medstress run` ends with exit code 3.",
        is_off=True,
    )


def _keys(table: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> list[Key]:
    known = {**_REMARKS, **(remarks or {})}
    return [Key(name, value, known.get(name, "")) for name, value in table.items()]
