"""Servers that insist on a temperature: some models that reason take no other than 1."""

from __future__ import annotations

import re
from typing import Any

ONLY = 1.0
"""What servers that insist on a temperature allow."""
_INSISTS = re.compile(
    r"temperature.{0,120}?(only|unsupported|not support|must be (set to )?1\b|default"
    r"|not allowed|deprecated)|(unsupported|not support|only).{0,120}?temperature",
    re.IGNORECASE | re.DOTALL,
)
_RANGE = re.compile(r"between|range|at (most|least)|less than|greater than|[<>]", re.IGNORECASE)


class Temperature:
    """What a server is sent as the temperature, and what it has said of it.

    Attributes:
        told: `asked`, what the experiment wants; `sent`, what the server takes instead, null where
            it takes none and goes by its own; `said`, its words. None while it has not objected.
    """

    def __init__(self) -> None:
        self.objection: dict[str, Any] | None = None

    def field(self, wanted: float) -> dict[str, float]:
        """What to add to a request's body."""
        if self.objection is None:
            return {"temperature": wanted}
        sent = self.objection["sent"]
        return {} if sent is None else {"temperature": sent}

    def refused(self, said: str, sent: dict[str, Any]) -> None:
        """Take in an error: where it insists on a temperature, go on with what it allows.

        Args:
            said: the server's words.
            sent: the body it refused.
        """
        if "temperature" not in sent or not _INSISTS.search(said) or _RANGE.search(said):
            return
        # By what was sent, since several requests may be refused at the same time.
        known = self.objection or {"asked": sent["temperature"], "sent": ONLY, "said": said}
        self.objection = {**known, "sent": ONLY if sent["temperature"] != ONLY else None}
