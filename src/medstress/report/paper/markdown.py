"""Text that Markdown shows as it stands."""

from __future__ import annotations

import re

from medstress.report.formats import undirected

_SPECIAL = re.compile(r"[\\`*_{\[|~#$&]|(?<=:)(?=//)|(?<=\bwww)(?=\.)")
_BEGINS_BLOCK = re.compile(r"(\d*)([.)>+-])")


def escape(text: str) -> str:
    r"""Write text in one line, so that Markdown shows it as it stands: no element, link or list.

    >>> print(escape("a|b < c, [x](y), https://z"))
    a\|b &lt; c, \[x](y), https:\//z
    """
    line = " ".join(undirected(text).split())
    found = _SPECIAL.sub(lambda each: f"\\{each[0]}", line).replace("<", "&lt;")
    begun = _BEGINS_BLOCK.match(found)
    return f"{begun[1]}\\{found[begun.end(1) :]}" if begun else found
