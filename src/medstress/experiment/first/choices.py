"""What a first experiment is made of, as the user gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values of a first experiment; a value of None stands for what fits."""

    data: str
    """A file, a folder, a data set of `medstress list datasets`, or `owner/name` on the hub."""
    model: str
    """A folder, a `.gguf` file, `file.py:function`, `mock`, `smollm2`, the name that the server at
    `base_url` knows, or a hub id."""
    base_url: str | None = None
    """The address of a server."""
    api_key_env: str | None = None
    """The environment variable that holds the server's key."""
    entities: tuple[str, ...] | None = None
    """Groups: of `drugs`, `diseases`; default both."""
    attack: str | None = None
    """Name of an attack; default: what fits the data."""
    budget: int | None = None
    """Perturbed queries per item; default: the attack's."""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Field -> its column in the data."""
    answer_base: int | None = None
    """The number of the first option where answers are numbers."""
