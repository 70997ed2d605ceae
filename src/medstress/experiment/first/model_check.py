"""Whether the model of a first experiment is there, before its file is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.backends.server.address import address_of, key_of
from medstress.backends.server.connection import Connection
from medstress.backends.server.errors import Server
from medstress.backends.server.rate_limits import RateLimits
from medstress.experiment.first.victim import is_on_the_hub_only


def check_model(table: Mapping[str, Any], base: Path) -> str:
    """Check that the model of a `[[victim]]` table is there, as far as nothing is fetched.

    Args:
        table: the victim's keys.
        base: the folder of the experiment file.

    Returns:
        What could not be checked; empty if everything was.

    Raises:
        UsageError: the server cannot be reached, or lists no such model.
    """
    if table["backend"] == "openai":
        key = table.get("api_key_env")
        if key is not None and not os.environ.get(key, "").strip():
            return f"the server was not asked whether it has the model, as {key} is not set"
        _ask_server(table, base)
    elif is_on_the_hub_only(table, base):
        return (
            f"{table['model']} is not on this machine: the run fetches it from the Hugging Face "
            "hub; for the model of a server give its address: --base-url http://127.0.0.1:8000/v1"
        )
    return ""


def listed_models(base_url: str, api_key_env: str | None) -> tuple[str, ...]:
    """Return the models that a server lists.

    Raises:
        UsageError: the server cannot be reached or refuses the key, or the key is not set.
    """
    server = Server(
        url=address_of(base_url), model="", key=key_of(api_key_env), key_env=api_key_env
    )
    connection = Connection(server, RateLimits(None, None), max_in_flight=1)
    try:
        return connection.greet().names
    finally:
        connection.close()


def _ask_server(table: Mapping[str, Any], base: Path) -> None:
    from medstress.backends.server.openai import open_backend

    options = BackendOptions(
        base=base,
        model=table["model"],
        base_url=table["base_url"],
        api_key_env=table.get("api_key_env"),
    )
    open_backend(options).close()
