"""Parquet files, and folders that the package `datasets` saved (`save_to_disk`): Arrow streams.

Both may say what the numbers of a column stand for (`ClassLabel`): parquet files of the Hugging
Face hub in their metadata, folders in `dataset_info.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.datasets.tables.parquet_footer import counts
from medstress.datasets.tables.table import Row, Table
from medstress.files.bounded import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ROWS,
    check_most,
    read_data,
    read_json_data,
)
from medstress.files.reading import loading, reading

if TYPE_CHECKING:
    from polars import DataFrame, Series

_INFO, _STATE, _SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"


def read_parquet(path: Path) -> Table:
    """Read a parquet file.

    Raises:
        DataError: polars cannot read it.
    """
    rows = tuple((f"row {n}", row) for n, row in enumerate(parquet_rows(path), start=1))
    return Table(path=path, rows=rows, names=_all_names(_features(path)))


def parquet_rows(path: Path) -> list[Row]:
    """Return the rows of a parquet file, by column name.

    Raises:
        DataError: polars cannot read the file.
    """
    import polars

    data = read_data(path)
    with loading(
        lambda why: f"{path}: expected a parquet file, but reading it fails: {why}", DataError
    ):
        # From memory: polars would read a path such as "part[1].parquet" as a pattern.
        schema = polars.read_parquet_schema(BytesIO(data))
        check_most(path, len(schema), MAX_COLUMNS, "columns", "leave some out")
        n_rows, n_values = counts(data)
        check_most(path, n_rows, MAX_ROWS, "rows")
        check_most(path, n_values, MAX_CELLS, "values")
        return _rows(path, polars.read_parquet(BytesIO(data)))


def is_saved(path: Path) -> bool:
    """Return whether `path` is a folder that `datasets` saved: one split, or several."""
    return path.is_dir() and any((path / name).is_file() for name in (_STATE, _SPLITS, _INFO))


def saved_split(path: Path, split: str | None) -> Path:
    """Return the folder of one split of a saved data set.

    Raises:
        UsageError: it has several and `split` names none of them.
    """
    if not (path / _SPLITS).is_file():
        return path
    listed = read_json_data(path / _SPLITS)
    names = listed.get("splits") if isinstance(listed, dict) else None
    found = [name for name in names or () if isinstance(name, str) and _inside(path, name).is_dir()]
    if split is None and len(found) == 1:
        return _inside(path, found[0])
    if split in found:
        return _inside(path, str(split))
    raise UsageError(
        f"{path}: expected split = one of {', '.join(found)}, got {split!r}"
        f"{did_you_mean(split or '', found)}"
    )


def read_saved(path: Path) -> Table:
    """Read the folder of one split.

    Raises:
        DataError: it has no Arrow files, or they cannot be read.
    """
    import polars

    files = _arrow_files(path)
    rows: list[Row] = []
    for file in files:
        data = read_data(file)
        with loading(
            lambda why, file=file: (  # type: ignore[misc]
                f"{file}: expected an Arrow stream as `datasets` saves it, but reading it fails: "
                f"{why}"
            ),
            DataError,
        ):
            rows += _rows(file, polars.read_ipc_stream(BytesIO(data)))
    info = read_json_data(path / _INFO) if (path / _INFO).is_file() else {}
    features = info.get("features") if isinstance(info, dict) else None
    names = _all_names(features if isinstance(features, dict) else {})
    named = tuple((f"row {n}", row) for n, row in enumerate(rows, start=1))
    return Table(path=path, rows=named, names=names)


def _rows(path: Path, frame: DataFrame) -> list[Row]:
    """Return the rows of a frame, in which equal texts may be stored once: in Python each is new.

    Raises:
        DataError: too many columns, rows or texts.
    """
    check_most(path, frame.width, MAX_COLUMNS, "columns", "leave some out")
    check_most(path, frame.height, MAX_ROWS, "rows")
    check_most(path, sum(map(_size, frame.get_columns())), MAX_BYTES, "bytes of text")
    return frame.to_dicts()


def _size(column: Series) -> int:
    """Return the bytes of the texts in a column, those in lists and objects included."""
    import polars

    if isinstance(column.dtype, polars.List | polars.Array):
        return 8 * len(column) + _size(column.explode())
    if isinstance(column.dtype, polars.Struct):
        return sum(map(_size, column.struct.unnest().get_columns()))
    if isinstance(column.dtype, polars.Categorical | polars.Enum):
        # Each once: as texts, a category of megabytes would be copied for every row.
        each, n = column.drop_nulls().value_counts(name="n").get_columns()
        return int((each.cast(polars.String).str.len_bytes().cast(polars.Int64) * n).sum())
    is_text = isinstance(column.dtype, polars.String)
    return int(column.str.len_bytes().sum()) if is_text else 8 * len(column)


def with_names(rows: Sequence[Row], names: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return rows in which numbers, also in lists, are what they stand for."""
    return [
        {column: _named(value, names.get(column, ())) for column, value in row.items()}
        for row in rows
    ]


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(part, names) for part in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return names[value] if is_number and 0 <= value < len(names) else value


def _arrow_files(path: Path) -> list[Path]:
    """Return the files of a split in the order of its rows."""
    found: list[Path] = []
    if (path / _STATE).is_file():
        state = read_json_data(path / _STATE)
        entries = state.get("_data_files") if isinstance(state, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            name = entry.get("filename") if isinstance(entry, dict) else None
            if isinstance(name, str):
                found.append(_inside(path, name))
    found = found or sorted(path.glob("*.arrow"))
    missing = next((file for file in found if not file.is_file()), None)
    if missing is not None or not found:
        raise DataError(
            f"{path}: expected the files that {_STATE} lists, got no "
            f"{missing.name if missing else '.arrow file'}; copy the whole folder"
        )
    return found


def _inside(folder: Path, name: str) -> Path:
    return folder / Path(name).name


def _features(path: Path) -> Mapping[str, Any]:
    """Return the columns' descriptions in the metadata of a parquet file of the hub."""
    import polars

    with loading(lambda why: f"{path}: cannot read the parquet metadata: {why}", DataError):
        metadata = polars.read_parquet_metadata(path).get("huggingface")
    with reading(
        lambda why: f"{path}: cannot read the hub's label names in its metadata: {why}",
        DataError,
        (AttributeError, TypeError),
    ):
        features = json.loads(metadata)["info"]["features"] if metadata else {}
        return dict(features)


def _all_names(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found = {column: tuple(_names(feature)) for column, feature in features.items()}
    return {column: names for column, names in found.items() if names}


def _names(feature: Any) -> list[str]:
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    if not isinstance(feature, dict):
        return []
    inner = feature.get("feature", feature)
    names = inner.get("names") if isinstance(inner, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []
