"""Where a table or a key stands in an experiment file, for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence


class Where:
    """Finds the line of a table or key in the file's text, or its --set, for messages."""

    def __init__(self, file: str, text: str, overrides: Sequence[str] = ()) -> None:
        self.file = file
        self._set = {}
        for target in (each.partition("=")[0] for each in overrides):
            parts = [part.strip() for part in target.split(".")]
            self._set[parts[0], parts[-1]] = f"--set {target.strip()}"
        self.used: dict[str, list[int]] = {}
        self._lines = text.splitlines()
        self._headers: dict[str, list[int]] = {}

    def place_of(self, table: str, index: int) -> int:
        """Return the number, counting all entries, of the index-th entry that is switched on."""
        used = self.used.get(table, [])
        return used[index] if index < len(used) else index

    def table(self, table: str) -> str:
        """Return the place of the first header of a table."""
        return self._place(self._header(table, 0))

    def key(self, table: str, key: str, index: int) -> str:
        """Return the place of a key in the index-th entry of a table."""
        if (table, key) in self._set:
            return self._set[table, key]
        header = self._header(table, index)
        if header is None:
            return f"{self.file}, [{table}]"
        for number in range(header + 1, len(self._lines)):
            line = self._lines[number]
            if re.match(r"\s*\[\[?[A-Za-z]", line):
                break
            if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
                return self._place(number)
        return self._place(header)

    def _header(self, table: str, index: int) -> int | None:
        if table not in self._headers:
            pattern = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*[\].]")
            self._headers[table] = [i for i, line in enumerate(self._lines) if pattern.match(line)]
        lines = self._headers[table]
        return lines[index] if index < len(lines) else None

    def _place(self, number: int | None) -> str:
        return self.file if number is None else f"{self.file}, line {number + 1}"
