"""What a verification found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from medstress.core.words import plural
from medstress.store.chain import Break


@dataclass(slots=True, kw_only=True)
class Verification:
    """What was checked, what agrees, and the first thing that does not."""

    what: str
    """The folder."""
    broken: Break | None = None
    """The first thing that does not agree."""
    root: str | None = None
    """The root, with all reviews; None if there is none or it does not hold."""
    roots: list[str] = field(default_factory=list)
    """Every root that it once had."""
    root_note: str | None = None
    """Why there is no root."""
    asked_root: str | None = None
    """The root that was kept elsewhere, if one was given and it is one of them."""
    added: dict[str, int] = field(default_factory=dict)
    """What was added since that root: table -> rows."""
    n_redrawn: int = 0
    """Trials whose attack ran again here, and asked what is stored."""
    n_judged: int = 0
    """Trials and follow-ups that were replayed on the stored edits."""
    why: Counter[str] = field(default_factory=Counter)
    """Why an attack did not run again, or counts not -> how many."""
    n_follow_ups: int = 0
    """Follow-ups that were planned again and replayed."""
    not_judged: Counter[str] = field(default_factory=Counter)
    """Why nothing can be said of trials -> how many."""
    not_compared: list[str] = field(default_factory=list)
    """What should have been compared and could not be, as sentences."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say."""

    @property
    def holds(self) -> bool:
        """Whether everything agrees and nothing that should have been judged was not."""
        return self.broken is None and not (self.not_judged or self.not_compared)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found["broken"] = None if self.broken is None else asdict(self.broken)
        return {"format": 2, "verified": self.holds, **found}

    def sentences(self) -> Iterator[str]:
        """Yield what people read."""
        if self.broken is not None:
            yield f"does not agree: {self.broken}"
            return
        if self.root is not None:
            yield f"root {self.root}"
        if self.root_note is not None:
            yield self.root_note
        if self.asked_root is not None:
            rows = [plural(n, f"row of {table}", f"rows of {table}") for table, n in self._new()]
            since = f"since then were added: {', '.join(rows)}" if rows else "nothing was added"
            yield f"it had the root {self.asked_root}; {since}"
        if self.n_redrawn:
            n = plural(self.n_redrawn, "trial")
            yield f"{n} redrawn: the attack ran again here and asked what is stored"
        if self.n_judged:
            yield f"{plural(self.n_judged, 'trial')} judged on the stored edits:"
            for reason, n_trials in self.why.most_common():
                yield f"  {n_trials:,}: {reason}"
        if self.n_follow_ups:
            n = plural(self.n_follow_ups, "follow-up")
            yield f"{n} planned and replayed"
        yield from self.notes
        yield from self.doubts()

    def doubts(self) -> Iterator[str]:
        """Yield what should have been judged or compared, and was not."""
        for sentence in self.not_compared:
            yield f"not judged: {sentence}"
        for reason, n_trials in self.not_judged.items():
            yield f"not judged: {plural(n_trials, 'trial')}: {reason}"

    def _new(self) -> list[tuple[str, int]]:
        return [(table, n) for table, n in self.added.items() if n]
