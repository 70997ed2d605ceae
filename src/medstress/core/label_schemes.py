"""Read the label schemes of entities as IOB2, the scheme of everything else here.

IOB2: B- begins an entity, I- continues it. IOBES (BIOES, and BILOU with L for E and U for S): E-
ends an entity of several tokens, S- is one of a single token. IO: a token has the type of its
entity or O, so two neighbouring entities of one type cannot be told apart and are read as one.
Labels are bare where they name no type, as B, I and O do.

References:
    Ratinov and Roth, "Design challenges and misconceptions in named entity recognition", CoNLL
    2009 (the schemes); Tjong Kim Sang and De Meulder, CoNLL 2003 (an I- that continues nothing).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from medstress.core.errors import DataError
from medstress.core.items import OUTSIDE

Scheme: TypeAlias = Literal["iob2", "iobes", "io"]
SCHEMES: tuple[Scheme, ...] = ("iob2", "iobes", "io")
_PREFIXES: dict[str, str] = {"iob2": "BI", "iobes": "BIESLU", "io": ""}
_GO_ON = frozenset("IEL")
_ALONE_OR_LAST = frozenset("ELSU")
_EXPECTED = {
    "iob2": "an IOB label (O, B-TYPE or I-TYPE)",
    "iobes": "an IOBES label (O, B-TYPE, I-TYPE, E-TYPE or S-TYPE)",
    "io": "an IO label (O, TYPE or I-TYPE)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Labels of one sentence in IOB2, up to the first that its scheme does not allow."""

    labels: tuple[str, ...]
    """In IOB2; all of them if there is no complaint."""
    complaint: str | None = None
    """What was expected and what came."""
    place: int = 0
    """The token that the complaint is about, from 0."""
    can_repair: bool = False
    """Whether the complaint is about an order of labels that `repair` reads leniently."""
    repaired: tuple[int, ...] = ()
    """Tokens whose label was repaired, from 0."""


def read_labels(labels: Sequence[str], scheme: Scheme, *, repair: bool = False) -> Reading:
    """Read the labels of a sentence.

    Args:
        labels: one a token.
        scheme: how they are written.
        repair: begin an entity at a label that continues none, and end one that no label ends.

    >>> read_labels(["B-Drug", "E-Drug", "S-Drug", "O"], "iobes").labels
    ('B-Drug', 'I-Drug', 'B-Drug', 'O')
    >>> read_labels(["Drug", "Drug", "O", "Gene"], "io").labels
    ('B-Drug', 'I-Drug', 'O', 'B-Gene')
    >>> read_labels(["O", "I-Drug"], "iob2").complaint
    "expected 'B-Drug' at the beginning of an entity, got 'I-Drug' after 'O'"
    """
    read: list[str] = []
    repaired: list[int] = []
    before, going = OUTSIDE, ""
    for place, label in enumerate([*labels, OUTSIDE]):  # the last O ends what is still open
        prefix, type_ = _parts(label, scheme)
        at = min(place, len(labels) - 1)
        if type_ is None:
            complaint = f"expected {_EXPECTED[scheme]}, got {label!r}"
            return Reading(labels=tuple(read), complaint=complaint, place=at)
        goes_on = type_ == going != "" and (scheme == "io" or prefix in _GO_ON)
        if scheme == "iobes" and going and not goes_on:
            got = repr(label) if place < len(labels) else "the end of the sentence"
            complaint = f"expected 'I-{going}' or 'E-{going}' after {before!r}, got {got}"
        elif prefix in _GO_ON and not goes_on:
            begin = f"{'B' if prefix == 'I' else 'S'}-{type_}"
            complaint = f"expected {begin!r} at the beginning of an entity, got {label!r}"
            complaint += f" after {before!r}"
        else:
            complaint = ""
        if complaint and not repair:
            return Reading(labels=tuple(read), complaint=complaint, place=at, can_repair=True)
        if complaint:
            repaired.append(at)
        read.append(f"{'I' if goes_on else 'B'}-{type_}" if type_ else OUTSIDE)
        before, going = label, "" if prefix in _ALONE_OR_LAST else type_
    return Reading(labels=tuple(read[:-1]), repaired=tuple(repaired))


def type_of(label: str, scheme: Scheme) -> str | None:
    """Return the type that a label names, empty for O; None if it is no label of the scheme.

    >>> type_of("B-Drug", "iob2"), type_of("O", "iob2"), type_of("Drug", "iob2")
    ('Drug', '', None)
    """
    return _parts(label, scheme)[1]


def are_bare(labels: Iterable[str], scheme: Scheme) -> bool:
    """Return whether labels beside O are marks without a type.

    >>> are_bare(["O", "B", "I"], "iob2"), are_bare(["O", "B-Drug"], "iob2"), are_bare(["O"], "io")
    (True, False, False)
    """
    marks = set(labels) - {OUTSIDE}
    return bool(marks) and marks <= set(_PREFIXES[scheme] or "I")


def scheme_of(labels: Iterable[str]) -> Scheme | None:
    """Return the scheme of a model's labels; None if they mix several or fit none.

    >>> scheme_of(["O", "B-Drug", "I-Drug"]), scheme_of(["O", "Drug"]), scheme_of(["O", "B", "I"])
    ('iob2', 'io', 'iob2')
    """
    known = set(labels)
    has_outside = OUTSIDE in known
    known -= {OUTSIDE}
    if are_bare(known, "iobes"):
        return "iob2" if are_bare(known, "iob2") else "iobes"
    if not known or any(label.split() != [label] for label in known):
        return None
    if any(label[1:2] == "-" and label[0] in "ESLU" for label in known):
        return "iobes" if all(_parts(label, "iobes")[1] for label in known) else None
    marked = [label[:2] in ("B-", "I-") and label[2:] != "" for label in known]
    if all(marked):
        return "iob2"
    return "io" if has_outside and not any(marked) else None


def check_scheme(labels: Iterable[str], scheme: Scheme, source: object) -> None:
    """Raise if labels given as IO are evidently written in another scheme.

    Args:
        labels: all labels of a file.
        scheme: what the user says they are written in.
        source: the file, for the message.

    Raises:
        DataError: all labels but O have a prefix, and not the I- that IO may have, or are bare.

    >>> check_scheme(["O", "I-Drug"], "io", "a.iob")
    """
    known = set(labels) - {OUTSIDE}
    looks = scheme_of(known) if scheme == "io" else None
    begins = sorted(label for label in known if label[:2] != "I-" and label != "I")
    if looks in ("iob2", "iobes") and begins:
        advice = "leave out scheme" if looks == "iob2" else 'set scheme = "iobes"'
        raise DataError(
            f'{source}: scheme = "io" expects labels that are types (Drug), or I- and a type, got '
            f"{begins[0]!r} and no label without a prefix; {advice}, or write 'I-{begins[0]}' if "
            f"{begins[0]!r} is the name of a type"
        )


def in_iob2(labels: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return a model's labels, which need not be well formed, in IOB2; bare ones stay bare.

    Labels in IOB2 stay as they are: whoever reads them judges an I- that continues nothing.

    >>> in_iob2(["B", "E", "S", "O"], "iobes")
    ('B', 'I', 'B', 'O')
    """
    if scheme == "iob2":
        return tuple(labels)
    if are_bare(labels, scheme):
        typed = [label if label == OUTSIDE else f"{label}-_" for label in labels]
        return tuple(label[0] for label in in_iob2(typed, scheme))
    return read_labels(labels, scheme, repair=True).labels


def _parts(label: str, scheme: Scheme) -> tuple[str, str | None]:
    """Return prefix and type of a label; the type is empty for O, and None if it is no label."""
    if label == OUTSIDE:
        return "", ""
    if label.split() != [label]:
        return "", None
    if scheme == "io":
        return "", (label[2:] if label[:2] == "I-" else label) or None
    has_prefix = label[1:2] == "-" and label[0] in _PREFIXES[scheme]
    return label[0], (label[2:] or None) if has_prefix else None
