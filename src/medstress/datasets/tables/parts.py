"""A table in several files, as the Hugging Face hub holds large ones.

Its parts are ``test-00000-of-00002.parquet`` and so on, or, where the hub converted them,
``test/0000.parquet``. All of them together go by a pattern: ``test-*-of-00002.parquet``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from medstress.core.errors import DataError

_PART = re.compile(
    r"(?P<before>.*)(?P<n>\d{5})(?P<after>-of-(?P<of>\d{5})\.(?:parquet|jsonl?|csv))"
)
_CONVERTED = re.compile(r"(?P<before>(?:.*/)?)(?P<n>\d{4})(?P<after>\.parquet)")
MARK = "*"


def joined_parts(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the tables among files: the pattern of its parts, or a name, and its files.

    Raises:
        DataError: a part is missing.

    >>> joined_parts(["test/0001.parquet", "a.csv", "test/0000.parquet"])
    {'test/*.parquet': ['test/0000.parquet', 'test/0001.parquet'], 'a.csv': ['a.csv']}
    """
    found: dict[str, list[str]] = {}
    for name in names:
        part = _match(name)
        found.setdefault(f"{part['before']}{MARK}{part['after']}" if part else name, []).append(
            name
        )
    return {_checked(pattern, files): sorted(files) for pattern, files in found.items()}


def parts_of(path: Path) -> list[Path]:
    """Return the files that a pattern of `joined_parts` stands for, in order; none if it is none.

    Raises:
        DataError: a part is missing.
    """
    before, mark, after = path.name.partition(MARK)
    if not mark or path.exists() or not path.parent.is_dir():
        return []
    names = [
        file.name
        for file in path.parent.iterdir()
        if file.name.startswith(before) and file.name.endswith(after) and _match(file.name)
    ]
    return [path.parent / name for name in joined_parts(names).get(path.name, ())]


def _match(name: str) -> re.Match[str] | None:
    return _PART.fullmatch(name) or _CONVERTED.fullmatch(name)


def _checked(pattern: str, files: Sequence[str]) -> str:
    matches = [match for name in files if (match := _match(name))]
    numbers = sorted(int(match["n"]) for match in matches)
    if not matches:
        return pattern
    of = matches[0].groupdict().get("of")
    n = numbers[-1] + 1 if of is None else int(of)
    if numbers != list(range(n)):
        missing = next((each for each in range(n) if each not in numbers), n)
        name = PurePosixPath(pattern).name.replace(MARK, str(missing).zfill(len(matches[0]["n"])))
        raise DataError(
            f"expected all {n} parts of {pattern}, got {len(numbers)}, without {name}; copy that "
            "file too"
        )
    return pattern
