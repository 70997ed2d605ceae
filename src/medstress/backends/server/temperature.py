"""Servers that insist on a temperature: some reasoning models accept only 1."""

from __future__ import annotations

import re
from typing import Any

ONLY = 1.0
"""The temperature that such servers accept."""
_INSISTS = re.compile(
    r"temperature.{0,120}?(only|unsupported|not support|must be (set to )?1\b|default"
    r"|not allowed|deprecated)|(unsupported|not support|only).{0,120}?temperature",
    re.IGNORECASE | re.DOTALL,
)
_RANGE = re.compile(r"between|range|at (most|least)|less than|greater than|[<>]", re.IGNORECASE)


class Temperature:
    """The temperature sent to a server, and the server's objection to it.

    Attributes:
        objection: `asked`, the experiment's temperature; `sent`, the one the server accepts
            instead, null if it accepts none and uses its own; `said`, its words. None while it has
            not objected.
    """

    def __init__(self) -> None:
        self.objection: dict[str, Any] | None = None

    def field(self, wanted: float) -> dict[str, float]:
        """Return the fields to add to a request's body."""
        if self.objection is None:
            return {"temperature": wanted}
        sent = self.objection["sent"]
        return {} if sent is None else {"temperature": sent}

    def refused(self, said: str, sent: dict[str, Any]) -> None:
        """Adapt to an error: if the server insists on a temperature, use the one it accepts.

        Args:
            said: the server's words.
            sent: the refused body.
        """
        if "temperature" not in sent or not _INSISTS.search(said) or _RANGE.search(said):
            return
        # Decided by the body, because several requests may be refused at the same time.
        known = self.objection or {"asked": sent["temperature"], "sent": ONLY, "said": said}
        self.objection = {**known, "sent": ONLY if sent["temperature"] != ONLY else None}
