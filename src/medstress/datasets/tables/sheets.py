"""Excel files (.xlsx), read by openpyxl: one sheet, whose first row with content is the header.

Nothing is guessed: merged cells, formulas without a stored value, errors, and numbers shown as
percentages make their row a bad row, since what one sees in the sheet is not what the cell holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.datasets.tables.delimited import check_no_title, checked_header
from medstress.datasets.tables.table import Row, RowOrError, Table
from medstress.files.bounded import check_most, read_data
from medstress.files.extras import importing
from medstress.files.reading import loading

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet


MAX_CELLS = 500_000
"""Cells of a sheet: openpyxl takes 20 seconds and half a gigabyte for as many."""
_MAX_PARTS, _MAX_BYTES = 10_000, 128 << 20
"""Files in a .xlsx, which is a zip file, and their bytes once unpacked."""
_MEND = "delete what lies outside the table, or save it as .csv"
_PART = b"PK\x01\x02"
_ENDS = (b" ", b">", b"/", b"\t", b"\n", b"\r")
_CELL = [begin + end for begin in (b"<c", b":c") for end in _ENDS]
_TEXT = [begin + end for begin in (b"<si", b":si") for end in _ENDS]
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s([^>]*)")
_AREA = re.compile(rb"ref=\"([A-Z]{1,3}[0-9]{1,7}:[A-Z]{1,3}[0-9]{1,7})\"")


def read_sheet(path: Path, sheet: str | None) -> Table:
    """Read one sheet of a .xlsx file.

    Args:
        path: the file.
        sheet: the sheet's name; None: the only one with content.

    Raises:
        UsageError: openpyxl is not installed, or the sheet is not there or not settled.
        DataError: not an Excel file, or a header that is merged or names a column twice.
    """
    with importing("reading Excel files", "xlsx"):
        from openpyxl import load_workbook
    data = read_data(path)
    with loading(
        lambda why: f"{path}: expected an Excel file (.xlsx), but reading it fails: {why}",
        DataError,
    ):
        _check_parts(path, data)
        stored = load_workbook(BytesIO(data), data_only=True)
        written = load_workbook(BytesIO(data))
    chosen = _chosen(path, stored.worksheets, sheet)
    _check_area(path, chosen)
    rows = tuple(_rows(path, chosen, written[chosen.title]))
    told = f"sheet {chosen.title!r}" if len(stored.worksheets) > 1 else ""
    return Table(path=path, rows=rows, told=told)


def _check_parts(path: Path, data: bytes) -> None:
    """Refuse a file that unpacks to too much, before openpyxl makes an object of every cell.

    Raises:
        DataError: too many bytes, cells or texts.
    """
    from openpyxl.utils import range_boundaries

    check_most(path, data.count(_PART), _MAX_PARTS, "files within it", _MEND)
    n_bytes = n_cells = n_texts = 0
    with ZipFile(BytesIO(data)) as parts:
        for info in parts.infolist():
            with parts.open(info) as stream:
                content = stream.read(_MAX_BYTES - n_bytes + 1)
            n_bytes += len(content)
            check_most(path, n_bytes, _MAX_BYTES, "bytes once unpacked", _MEND)
            n_cells += sum(map(content.count, _CELL))
            n_texts += sum(map(content.count, _TEXT))
            for merged in _MERGED.findall(content) if b"mergeCell" in content else ():
                if (area := _AREA.search(merged)) is None:
                    raise DataError(f"{path}: expected merged cells as in A1:B2; unmerge them")
                left, top, right, bottom = range_boundaries(area[1].decode())
                n_cells += (right - left + 1) * (bottom - top + 1)
            check_most(path, max(n_cells, n_texts), MAX_CELLS, "cells", _MEND)


def _check_area(path: Path, sheet: Worksheet) -> None:
    """Refuse a sheet with a cell far from the others: openpyxl makes all cells in between."""
    n = sheet.max_row * sheet.max_column
    check_most(path, n, MAX_CELLS, f"cells in sheet {sheet.title!r}", _MEND)


def _chosen(path: Path, sheets: list[Worksheet], name: str | None) -> Worksheet:
    titles = [sheet.title for sheet in sheets]
    if name is not None:
        found = next((sheet for sheet in sheets if sheet.title == name), None)
        if found is None:
            raise UsageError(
                f"{path}: expected sheet = one of {', '.join(map(repr, titles))}, got {name!r}"
                f"{did_you_mean(name, titles)}"
            )
        return found
    for one in sheets:
        _check_area(path, one)
    filled = [sheet for sheet in sheets if _has_content(sheet)]
    if len(filled) > 1:
        names = ", ".join(repr(sheet.title) for sheet in filled)
        raise UsageError(
            f"{path}: expected one sheet with content, got {len(filled)} ({names}); choose one "
            f"with sheet = {_quoted(filled[0].title)}"
        )
    if not filled:
        raise DataError(f"{path}: expected a sheet with rows, got none; give a file with rows")
    return filled[0]


def _rows(path: Path, stored: Worksheet, written: Worksheet) -> Iterator[tuple[str, RowOrError]]:
    merged = {
        row: str(area)
        for area in stored.merged_cells.ranges
        for row in range(area.min_row, area.max_row + 1)
    }
    header: list[str] | None = None
    for number, cells in enumerate(stored.iter_rows(), start=1):
        place, formulas = f"row {number}", written[number]
        if all(_value(cell) is None for cell in formulas):
            if number in merged and header is not None:
                yield place, _merged(merged[number])
            continue
        if header is None:
            titled = [str(_value(cell)) for cell in cells if _value(cell) is not None]
            check_no_title(path, place, titled, _n_filled(written, number + 1))
            if number in merged:
                raise DataError(f"{path}, {place}: {_merged(merged[number])}")
            titles = ["" if _value(cell) is None else str(_value(cell)) for cell in cells]
            while not titles[-1]:
                titles.pop()
            header = checked_header(path, place, titles)
        elif number in merged:
            yield place, _merged(merged[number])
        else:
            yield place, _row(header, cells, formulas)


def _n_filled(sheet: Worksheet, start: int) -> int:
    """Return the number of filled cells in the first row with any, from a row on."""
    rows = sheet.iter_rows(min_row=start, values_only=True)
    counts = (sum(value is not None for value in row) for row in rows)
    return next((n for n in counts if n), 0)


def _row(header: list[str], cells: Any, formulas: Any) -> RowOrError:
    for cell, formula in zip(cells, formulas, strict=True):
        at = cell.coordinate
        if cell.data_type == "e":
            return DataError(f"cell {at}: expected a value, got the error {cell.value}; mend it")
        if formula.data_type == "f" and cell.value is None:
            return DataError(
                f"cell {at}: expected a value, got the formula {formula.value} without one; open "
                "and save the file in a spreadsheet program, or write the value"
            )
        if isinstance(cell.value, int | float) and "%" in str(cell.number_format):
            return DataError(
                f"cell {at}: expected text, got the number {cell.value} shown as a percentage; "
                "format the cell as text and write what it should say"
            )
    values = [_value(cell) for cell in cells]
    if any(value is not None for value in values[len(header) :]):
        return DataError(
            f"expected {len(header)} cells as in the header, got more; give each column a name"
        )
    row: Row = dict(zip(header, [*values, *[None] * len(header)], strict=False))
    return row


def _value(cell: Any) -> Any:
    value = cell.value
    if isinstance(value, str):
        return value.strip() or None
    return value


def _has_content(sheet: Worksheet) -> bool:
    return any(value is not None for row in sheet.iter_rows(values_only=True) for value in row)


def _merged(area: str) -> DataError:
    return DataError(
        f"expected one value in each cell, got the merged cells {area}; unmerge them and fill "
        "each one"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
