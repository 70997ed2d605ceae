"""Which items choose the exponent n."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.core.hashing import digest


def split_position(key: Sequence[object]) -> float:
    """Return a pseudo-random position in [0, 1); below the tuning share, n is chosen on the item.

    Args:
        key: JSON values that identify the item.
    """
    return int.from_bytes(digest(["tune", *key])[:8], "big") / 2**64
