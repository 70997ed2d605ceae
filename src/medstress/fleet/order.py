"""What a worker is told at its start, and what it must have in common with the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.experiment.file.sources import Source
from medstress.experiment.plan.plan import Prepared
from medstress.files.versions import versions

BACK_ENDS = (
    *("accelerate", "bitsandbytes", "gguf", "openai", "peft", "ray", "safetensors"),
    *("sentencepiece", "spacy", "tokenizers", "xllamacpp"),
)
"""Packages of back ends, recognisers and workers that answers may depend on."""
_PACKAGE = Path(__file__).parent.parent
RUN, TUNING, REPORT, TRAINING, ATTACK = "run", "tuning", "report", "training", "attack"
"""The phases of `run`; of `tune`: its split, then the report; of `train`: models, then attacks on
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One phase of a command, as its workers are told of it."""

    text: str
    """The experiment, TOML."""
    name: str
    """Its name in messages."""
    base: str
    """The folder that relative paths start from, the same on every machine."""
    overrides: tuple[str, ...]
    """As the command line's --set."""
    limit: int | None
    """Most items of each data set."""
    n_shards: int
    """How many there are."""
    ship_every: int
    """Calls after which a shard's ledger travels."""
    store: str | None
    """Where ledgers travel to; None: to the driver."""
    lease_seconds: float
    """A worker that gets no answer for so long stops: another may have its shard."""
    renew_seconds: float
    """Seconds between a worker's reports."""
    phase: Mapping[str, Any] = field(default_factory=lambda: {"name": RUN})
    """Its name, and what came out of the phases before it (`medstress.fleet.phases`)."""

    @property
    def source(self) -> Source:
        """The experiment."""
        return Source(text=self.text, name=self.name, base=Path(self.base))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Order:
        """Return an order from JSON values."""
        return cls(**{**told, "overrides": tuple(told["overrides"])})


def environment() -> dict[str, str]:
    """Return the versions that must be the same on all machines.

    What was built for a GPU (`2.13.0+cu130`) and for none (`+cpu`) is one version: the driver
    needs no GPU.
    """
    found = {**versions(), **_installed(BACK_ENDS), "medstress's code": _code()}
    return {name: number.partition("+")[0] for name, number in found.items()}


def _installed(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def _code() -> str:
    """Return a short digest of our own modules: two checkouts may have one version."""
    files = sorted(_PACKAGE.rglob("*.py"))
    return content_hash(
        [[file.relative_to(_PACKAGE).as_posix(), file_hash(file)] for file in files]
    )[-12:]


def check_environment(worker: str, own: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Compare a worker's versions with the driver's.

    Raises:
        UsageError: they differ; names every difference.

    >>> check_environment("worker 2", {"numpy": "2.1"}, {"numpy": "2.1"})
    >>> check_environment("worker 2", {"numpy": "2.1"}, {"numpy": "2.0"})
    Traceback (most recent call last):
    ...
    medstress.core.errors.UsageError: worker 2 has another environment than this machine: numpy \
2.0 there, 2.1 here; install the same versions everywhere, nothing was asked
    """
    named = [
        f"{name} {theirs.get(name, 'missing')} there, {own.get(name, 'missing')} here"
        for name in dict.fromkeys([*own, *theirs])
        if own.get(name) != theirs.get(name)
    ]
    if named:
        raise UsageError(
            f"{worker} has another environment than this machine: {'; '.join(named)}; install "
            "the same versions everywhere, nothing was asked"
        )


def plan_of(prepared: Prepared) -> dict[str, str]:
    """Return digests of what a plan is made of, before any model is opened."""
    settings, portion = prepared.experiment.experiment, prepared.portion
    of_phase = [portion.settings, portion.notes]
    return {
        "data": content_hash(prepared.selected()),
        "entity groups": content_hash({part.label: part.fingerprint for part in prepared.groups}),
        "attacks": content_hash({part.label: part.attack.spec() for part in prepared.attacks}),
        "seeds": content_hash([list(settings.seeds), settings.flip_check]),
        "victims": content_hash(
            [table.model_dump(mode="json") for table in prepared.experiment.victim]
        ),
        **({"choices of phases before": content_hash(of_phase)} if any(of_phase) else {}),
    }


def models_of(prepared: Prepared) -> dict[str, str]:
    """Return digests of the opened victims and roles: their models or functions, and prompts."""
    victims = {f"victim {one.label!r}": content_hash(one.spec()) for one in prepared.victims}
    return {**victims, **{f"role {one.name!r}": one.hash for one in prepared.roles}}
