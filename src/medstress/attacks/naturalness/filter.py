"""The filter: names that leave an option odder than its limits are never drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING

from medstress.attacks.naturalness.oddity import FORM, GRAMMAR, CaseCopy, oddities
from medstress.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from medstress.core.items import Question
    from medstress.core.text import Edit

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Natural:
    """The largest oddity of an edited option that passes, in two parts.

    The defaults let pass 95 % of clean options, measured on options of one question that differ
    in a name alone (docs/results/naturalness.md).
    """

    grammar: float = 0.4
    """Largest sum over article, number, capitals and repeated words."""
    form: float = 0.95
    """Largest sum over length and form."""

    def passes(
        self, text: str, start: int, end: int, names: Sequence[str], recase: CaseCopy
    ) -> NDArray[np.bool_]:
        """Return whether an option passes with each name, shape (n_names,); see `oddities`."""
        found = oddities(text, start, end, names, recase)
        passed: NDArray[np.bool_] = (self._excess(found, GRAMMAR) <= _ROUNDING) & (
            self._excess(found, FORM) <= _ROUNDING
        )
        return passed

    def reasons(
        self, text: str, start: int, end: int, names: Sequence[str], recase: CaseCopy
    ) -> list[str | None]:
        """Return what weighs most in the part that does not pass, grammar first; None: it passes.

        Returns:
            One of `REASONS` or None for each name.
        """
        import numpy as np

        found = oddities(text, start, end, names, recase)
        reasons: list[str | None] = [None] * len(names)
        for part in (FORM, GRAMMAR):  # grammar last, so that it takes precedence
            heaviest = np.argmax([found[reason] for reason in part], axis=0)
            for i in np.flatnonzero(self._excess(found, part) > _ROUNDING).tolist():
                reasons[i] = part[int(heaviest[i])]
        return reasons

    def allows(self, item: Question, edit: Edit, name: str, recase: CaseCopy) -> bool:
        """Return whether the name of an edit passes."""
        text = item.text_of(edit.field)
        return bool(self.passes(text, edit.start, edit.end, (name,), recase)[0])

    def _excess(self, found: Mapping[str, Floats], part: tuple[str, ...]) -> Floats:
        limit = self.grammar if part is GRAMMAR else self.form
        total: Floats = sum((found[reason] for reason in part[1:]), found[part[0]]) - limit
        return total


_ROUNDING = 1e-9
"""Sums of weights are compared with limits up to rounding."""


def parse_naturalness(value: object, attack: str) -> Natural | None:
    """Return the filter that an experiment file asks for; None for none.

    Args:
        value: true, false, or limits: ``{"grammar": 0.4, "form": 0.95}``, either left out.
        attack: for messages.

    Raises:
        UsageError: the value is none of these.

    >>> parse_naturalness({"grammar": 0}, "swap")
    Natural(grammar=0, form=inf)
    """
    if value is False or value is True:
        return Natural() if value else None
    if isinstance(value, Mapping) and "perplexity_ratio" in value:
        raise UsageError(
            f"{attack}: naturalness: perplexity_ratio is no filter here, because names are chosen "
            "before any model is asked; use grammar and form"
        )
    if not (
        isinstance(value, Mapping)
        and value
        and set(value) <= {"grammar", "form"}
        and all(_is_limit(each) for each in value.values())
    ):
        raise UsageError(
            f"{attack}: naturalness must be true, false or limits of at least 0 such as "
            f"{{grammar = {Natural().grammar}, form = {Natural().form}}}, got {value!r}"
        )
    return Natural(**{"grammar": float("inf"), "form": float("inf"), **value})


def _is_limit(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value) and value >= 0  # type: ignore[operator, arg-type]


def as_written(natural: Natural | None) -> bool | dict[str, float]:
    """Return the filter as it stands in a spec: its finite limits, false without one.

    The limits are written out, so that a run keeps its own if the defaults are measured again.
    """
    if natural is None:
        return False
    return {key: value for key, value in asdict(natural).items() if isfinite(value)}
