"""Reads how often a vLLM server found the beginning of a prompt in its cache.

Sources: https://docs.vllm.ai/en/stable/usage/metrics/ lists the counters
`vllm:prefix_cache_queries` ("in terms of number of queried tokens") and `vllm:prefix_cache_hits`
("in terms of number of cached tokens"). In the text of `/metrics` a counter's name ends in `_total`
(https://prometheus.github.io/client_python/instrumenting/counter/).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from medstress.backends.server.errors import ServerTrouble

QUERIES, HITS = "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"
_LINE = re.compile(
    r"^(vllm:prefix_cache_(?:queries|hits))(?:_total)?(?:\{[^\n]*\})?[ \t]+([0-9.eE+]+)", re.M
)
_MOST = 1 << 62


class PrefixCache:
    """Counts of one server since `start`; they grow by what all its users ask.

    Args:
        read: returns the text of the server's metrics; may raise `ServerTrouble`.
    """

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._last: tuple[int, int] | None = None
        self._since = (0, 0)

    def start(self) -> None:
        """Note where the server's counters stand; without them, nothing is counted."""
        self._last = self._now()

    def counts(self) -> tuple[int, int] | None:
        """Return tokens looked up and tokens found since `start`; None if they are not reported.

        A server that does not answer now leaves the counts as they were. One that was restarted
        counts from 0 again.
        """
        if self._last is None:
            return None
        now = self._now()
        if now is not None:
            restarted = now[0] < self._last[0]
            from_queries, from_hits = (0, 0) if restarted else self._last
            queries, hits = self._since
            self._since = queries + now[0] - from_queries, hits + max(now[1] - from_hits, 0)
            self._last = now
        return self._since

    def _now(self) -> tuple[int, int] | None:
        try:
            return read_counts(self._read())
        except ServerTrouble:
            return None


def read_counts(text: str) -> tuple[int, int] | None:
    """Return the tokens looked up and found, over all engines; None if they are not there.

    >>> read_counts('vllm:prefix_cache_queries_total{engine="0"} 96.0\\n'
    ...             'vllm:prefix_cache_queries_total{engine="1"} 4.0\\n'
    ...             'vllm:prefix_cache_hits_total{engine="0"} 64.0\\n')
    (100, 64)
    >>> read_counts("python_info 1.0") is None
    True
    """
    sums: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        try:
            sums[name] = sums.get(name, 0.0) + float(value)
        except ValueError:
            return None
    if sums.keys() != {QUERIES, HITS} or not all(0 <= each < _MOST for each in sums.values()):
        return None
    return int(sums[QUERIES]), int(sums[HITS])
