"""Sets of names that take little memory: millions of trials put in the same few thousand names."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Set
from sys import getsizeof

_BYTES = 4
"""Of a number in a list."""


class KnownNames:
    """Numbers of names, in the order in which they came first."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        """Number -> name."""

    def number(self, name: str) -> int:
        """Return the number of a name; a new one is added."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def set_of(self, names: Iterable[str]) -> NameSet:
        """Return a set of names."""
        return NameSet(self, sorted(set(map(self.number, names))))


class NameSet(Set[str]):
    """An unchanging set of names.

    Of v known names with n in the set it takes the smaller of v / 8 and 4 n bytes.

    >>> known = KnownNames()
    >>> one, other = known.set_of(["aspirin", "heparin"]), known.set_of(["heparin"])
    >>> len(one), sorted(one | other), "insulin" in one
    (2, ['aspirin', 'heparin'], False)
    """

    __slots__ = ("_known", "_numbers")

    def __init__(self, known: KnownNames, numbers: list[int]) -> None:
        """Take numbers in ascending order, each once."""
        self._known = known
        self._numbers: int | bytes
        if numbers and numbers[-1] < 8 * _BYTES * len(numbers):
            bits = bytearray(numbers[-1] // 8 + 1)
            for number in numbers:
                bits[number // 8] |= 1 << number % 8
            self._numbers = int.from_bytes(bits, "little")
        else:
            self._numbers = array("I", numbers).tobytes()

    @property
    def n_bytes(self) -> int:
        """Bytes that the names take here."""
        return getsizeof(self._numbers)

    def numbers(self) -> list[int]:
        """Return the numbers of the names, ascending."""
        if isinstance(self._numbers, bytes):
            return array("I", self._numbers).tolist()
        digits = bin(self._numbers)[:1:-1]
        return [at for at, digit in enumerate(digits) if digit == "1"]

    def __len__(self) -> int:
        if isinstance(self._numbers, bytes):
            return len(self._numbers) // _BYTES
        return self._numbers.bit_count()

    def __iter__(self) -> Iterator[str]:
        names = self._known.names
        return (names[number] for number in self.numbers())

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)

    def __or__(self, other: Set[str]) -> NameSet:  # type: ignore[override]
        if not isinstance(other, NameSet) or other._known is not self._known:
            return self._known.set_of((*self, *other))
        return NameSet(self._known, sorted({*self.numbers(), *other.numbers()}))
