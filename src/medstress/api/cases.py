"""One case of a run from Python: attributes, text, or an output of a notebook."""

from __future__ import annotations

from dataclasses import fields

from medstress.analyses.run import Run
from medstress.report import cases


class Case(cases.Case):
    """One trial: what was changed, what was sent, what was answered.

    `print(case)` shows what `medstress case` prints.
    """

    def __str__(self) -> str:
        """Return the lines of `medstress case`."""
        from medstress.report.case_text import case_lines

        return "\n".join("".join(text for _, text in line) for line in case_lines(self))

    def __repr__(self) -> str:
        """Name the case in one line."""
        return f"<Case {self.id}: {self.line.outcome}, item {self.line.item!r}>"

    def _repr_html_(self) -> str:
        from medstress.api.notebook import block, preformatted

        return block(preformatted(str(self)))


def one_case(run: Run, case_id: str) -> Case:
    """Return the case with this trial id, short id, beginning of one, or item id.

    Raises:
        UsageError: none or several fit; the message lists some.
    """
    known = cases.Cases(run)
    (case,) = known.cases([known.find(str(case_id))], most_tried=None)
    return Case(**{part.name: getattr(case, part.name) for part in fields(case) if part.init})
