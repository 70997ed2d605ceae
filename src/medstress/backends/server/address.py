"""Reads a server's address from the experiment file and its key from the environment."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from medstress.backends.server.known_keys import remember_key
from medstress.core.errors import UsageError


def address_of(url: str | None) -> str:
    """Return the checked base address; messages never show one that may contain a password."""
    wanted = 'base_url = "http://127.0.0.1:8000/v1" or "https://api.openai.com/v1"'
    if not url:
        raise UsageError(f"backend 'openai' needs the address of a server: {wanted}")
    refusal = UsageError(f"base_url is not an address; expected e.g. {wanted}")
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "host").encode("idna")
    except ValueError:
        raise refusal from None
    if not url.isprintable() or " " in url or "\\" in url:
        raise refusal
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "base_url holds more than an address (a name, password or query): give the key in an "
            'environment variable and name that in api_key_env = "..."'
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        error = UsageError(f"base_url = {url!r}: expected e.g. {wanted}")
        host = url if "/" in url else f"{url}/v1"
        raise error if "://" in url else error.with_flag("--base-url", f"http://{host}")
    return url.rstrip("/")


def key_of(name: str | None) -> str | None:
    """Return the key from the environment; no message contains it."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise UsageError(
            f"api_key_env = {name!r}: that environment variable is not set; set it to the key"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"the key in the environment variable {name} has spaces or other characters that no "
            "key has; set it to the key alone"
        )
    remember_key(key)
    return key
