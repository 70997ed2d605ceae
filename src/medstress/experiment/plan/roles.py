"""Roles other than the victim, such as MedFuzz's attacker: checks, and their back ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path

from medstress.attacks.protocol import ROLES
from medstress.backends.options import ANSWER_SECONDS, BackendOptions
from medstress.core import registry
from medstress.core.calls import Backend, Decoding
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.core.queries import ATTACKER, JUDGE
from medstress.experiment.file.config import RolesTable, RoleTable, SignificanceTable, VictimTable
from medstress.experiment.plan.parts import AttackPart, GroupPart, backend_options
from medstress.tasks.victim import Victim

_OPTIONS = {field.name for field in fields(BackendOptions)} - {"base", "timeout_seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """One role with its open back end."""

    name: str
    """`attacker`, `paraphraser` or `judge`."""
    backend: Backend
    """Answers its calls."""
    decoding: Decoding
    """How it generates."""
    table: RoleTable
    """Its table in the experiment file."""
    is_shared: bool
    """True if a victim or another role has the same back end, and closes it."""

    @property
    def hash(self) -> str:
        """Hash of model and decoding."""
        decoding = [self.decoding.max_new_tokens, self.decoding.temperature]
        return content_hash([self.backend.identity.hash, decoding])

    @property
    def label(self) -> str:
        """Its name in the experiment file."""
        return f"role.{self.name}"


def tables_of(roles: RolesTable | None) -> dict[str, RoleTable]:
    """Return the roles that are switched on, by name."""
    if roles is None:
        return {}
    tables = {ATTACKER: roles.attacker, "paraphraser": roles.paraphraser, JUDGE: roles.judge}
    return {name: table for name, table in tables.items() if table and table.use}


def check_roles(
    roles: RolesTable | None,
    attacks: Sequence[AttackPart],
    test: SignificanceTable | None = None,
) -> None:
    """Check that attacks have the roles that they need, and that every role is asked.

    Args:
        roles: the experiment's roles.
        attacks: the experiment's attacks.
        test: `[test]`, which may ask a judge about reasonings.

    Raises:
        UsageError: a role is missing or is never asked; the message names it.
    """
    known, used = tables_of(roles), set()
    if test is not None and test.faithfulness:
        used.add(JUDGE)
    for part in attacks:
        used |= part.attack.needs & ROLES
        if ATTACKER in part.attack.needs and ATTACKER not in known:
            raise UsageError(
                f"attack {part.label!r} asks the role {ATTACKER!r}: add a table [role.{ATTACKER}] "
                "with the keys of a victim, such as backend and model"
            )
    if idle := [name for name in known if name not in used]:
        raise UsageError(
            f"[role.{idle[0]}]: no attack of this experiment asks the role {idle[0]!r}; leave the "
            "table out"
        )


def with_roles(groups: Sequence[GroupPart], roles: RolesTable | None) -> list[GroupPart]:
    """Tell the attacks of every group which roles they can ask."""
    decodings = {name: decoding_of(table) for name, table in tables_of(roles).items()}
    return [replace(group, resources=replace(group.resources, roles=decodings)) for group in groups]


def open_roles(
    roles: RolesTable | None,
    base: Path,
    note: Callable[[str], None],
    victims: Sequence[tuple[VictimTable, Victim]] = (),
    timeout_seconds: float = ANSWER_SECONDS,
    *,
    greets: bool = True,
) -> list[RolePart]:
    """Open every role's back end; `greets` says whether servers have to be there.

    A role shares the back end of a victim or role with the same options, so that a model is loaded
    once and a server's limits hold for all calls to it.

    Raises:
        UsageError: a back end cannot be opened or generates no text.
    """
    parts: list[RolePart] = []
    backends = [(own, victim.backend) for own, victim in victims]
    with ExitStack() as opened:
        for name, table in tables_of(roles).items():
            note(f"role {name} ({table.backend})")
            same = [
                backend
                for own, backend in backends
                if backend_options(own) == backend_options(table)
            ]
            if same:
                backend = same[0]
            else:
                given = table.model_dump(include=_OPTIONS)
                options = BackendOptions(
                    base=base, timeout_seconds=timeout_seconds, greets=greets, **given
                )
                backend = registry.open_backend(table.backend, options)
                opened.callback(backend.close)
                backends.append((table, backend))
            if "generate" not in backend.traits.calls:
                raise UsageError(
                    f"[role.{name}]: backend {table.backend!r} generates no text, but a role "
                    "writes replies"
                )
            parts.append(
                RolePart(
                    name=name,
                    backend=backend,
                    decoding=decoding_of(table),
                    table=table,
                    is_shared=bool(same),
                )
            )
        opened.pop_all()
    return parts


def decoding_of(table: RoleTable) -> Decoding:
    """Return how a role generates."""
    return Decoding(max_new_tokens=table.max_new_tokens, temperature=table.temperature)
