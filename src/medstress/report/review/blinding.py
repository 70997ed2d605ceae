"""Codes in place of names: they look random, and only the run folder can tell what they stand for.

A code is a keyed hash of what the case shows, so the same text has the same code in every room, and
who has the page but not the key cannot find out the trial by trying.
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

DIGITS = 12
"""Hexadecimal digits of a code: two of 10,000 cases are alike with a probability of 2e-7."""


def code(key: bytes, *what: Any) -> str:
    """Return the code of something that JSON can hold.

    >>> code(b"secret", "case", 1) == code(b"secret", "case", 1) != code(b"other", "case", 1)
    True
    """
    text = json.dumps(what, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), sha256).hexdigest()[:DIGITS]
