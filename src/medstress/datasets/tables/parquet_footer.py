"""How many rows and values a parquet file holds, read from its footer before anything is unpacked.

A kilobyte can hold a hundred million equal values. The footer is a struct in Thrift's compact
protocol: each field is its number, its type and its value.
"""

from __future__ import annotations

import struct
from typing import Any

MAX_FOOTER = 16 << 20
"""Bytes of a footer."""
_ROWS, _GROUPS, _CHUNKS, _CHUNK, _VALUES = 3, 4, 1, 3, 5
"""Numbers of fields: of the file, a group of rows, a chunk of a column and what describes it."""
_TRUE, _BYTE, _DOUBLE, _TEXT, _LISTS, _STRUCT = 1, 3, 7, 8, (9, 10), 12


def counts(data: bytes) -> tuple[int, int]:
    """Return the number of rows, and of the values in all columns.

    Raises:
        ValueError: no footer, or too large a one.
        LookupError, TypeError: a footer of another form.
    """
    length = struct.unpack_from("<I", data, len(data) - 8)[0]
    if not data.endswith(b"PAR1") or not 0 < length <= min(MAX_FOOTER, len(data) - 8):
        raise ValueError(f"expected a footer of at most {MAX_FOOTER:,} bytes")
    file = _Reader(data[len(data) - 8 - length : -8]).struct()
    chunks = [chunk for group in file[_GROUPS] for chunk in group[_CHUNKS]]
    return int(file[_ROWS]), sum(int(chunk[_CHUNK][_VALUES]) for chunk in chunks)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self) -> dict[int, Any]:
        """Read fields up to the stop byte."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._number()
            fields[number] = head & 15 == _TRUE if head & 15 <= 2 else self._value(head & 15)
        return fields

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _number(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in _LISTS:
            head = self._byte()
            n = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15) for _ in range(n)]
        if kind in (_TEXT, _DOUBLE):
            length = self._unsigned() if kind == _TEXT else 8
            self._at += length
            return None
        return self._byte() if kind <= _BYTE else self._number()
