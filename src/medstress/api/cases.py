"""Cases of a run from Python: one trial each, as attributes, text or an output of a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.report.cases.building import cases_of
from medstress.report.cases.finding import find_trial
from medstress.report.cases.lines import case_lines
from medstress.report.cases.record import CaseRecord
from medstress.report.cases.words import verdict_words
from medstress.results.formats import decimal, plural, shorten
from medstress.results.load import StoredRun, open_run
from medstress.results.names import Names, names_of
from medstress.results.rows import trial_rows
from medstress.results.table import Format, Table, as_row, columns

_SHOWN = 20
"""Rows of a list that a notebook shows."""
_AT_ONCE = 50
"""Cases that are built from one opening of the folder."""
_FACTORS = ("attack", "victim", "dataset", "group")


class Case(CaseRecord):
    """One trial: what was changed, what was sent, what was answered.

    The attributes are those of `medstress case --json`; `print(case)` shows what `medstress case`
    prints.
    """

    __slots__ = ()

    @classmethod
    def of(cls, record: CaseRecord) -> Case:
        """Return a record as a case."""
        return cls(**{each.name: getattr(record, each.name) for each in fields(record)})

    def __repr__(self) -> str:
        """Name the case in one line."""
        return f"<Case {self.id}: {verdict_words(self.verdict)}, item {self.item_id!r}>"

    def __str__(self) -> str:
        """Return the lines of `medstress case`."""
        return "\n".join("".join(text for _, text in line) for line in case_lines(self))

    def _repr_html_(self) -> str:
        from medstress.api.notebook import lines_html

        return lines_html(case_lines(self))


class Cases(Sequence[Case]):
    """Cases of a run, each built from the folder when it is asked for; misled ones come first."""

    def __init__(self, folder: Path, trials: Sequence[TrialRow], ids: Sequence[str], names: Names):
        self._folder, self._trials, self._names = folder, trials, names
        self.ids = tuple(ids)
        """The short ids, which `run.case` takes."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._trials)

    @overload
    def __getitem__(self, index: int) -> Case: ...

    @overload
    def __getitem__(self, index: slice) -> Cases: ...

    def __getitem__(self, index: int | slice) -> Case | Cases:
        """Return one case, or some as another list."""
        if isinstance(index, slice):
            return Cases(self._folder, self._trials[index], self.ids[index], self._names)
        (case,) = self._built([self._trials[index]])
        return case

    def __iter__(self) -> Iterator[Case]:
        """Yield every case."""
        for start in range(0, len(self), _AT_ONCE):
            yield from self._built(self._trials[start : start + _AT_ONCE])

    def _built(self, trials: Sequence[TrialRow]) -> list[Case]:
        with open_run(self._folder) as run:
            found = cases_of(run)
            known = {trial.trial_id: trial for trial in found.trials}
            return [Case.of(found.record(known.get(t.trial_id, t))) for t in trials]

    def __repr__(self) -> str:
        """Say how many there are, and the first ids."""
        first = ", ".join(self.ids[:5]) + (", ..." if len(self) > 5 else "")
        return f"<{plural(len(self), 'case')}: {first}>" if self else "<no cases>"

    def _repr_html_(self) -> str:
        from medstress.api.notebook import block, shown_table

        return block(shown_table(self._table()))

    def _table(self) -> Table:
        left = len(self) - _SHOWN
        return Table(
            name="cases",
            caption=plural(len(self), "case"),
            columns=columns(
                *(Format.TEXT, "Case", "Outcome", "Item", "Attack", "Victim", "Change", "Key"),
                *("Answer", "P(key)", "Key still right"),
            ),
            rows=tuple(map(self._row, self.ids[:_SHOWN], self._trials[:_SHOWN])),
            notes=(f"The first {_SHOWN}; the rest: cases[{_SHOWN}:].",) if left > 0 else (),
        )

    def _row(self, short: str, trial: TrialRow) -> Any:
        swap = trial.replaced is not None and trial.replacement is not None
        return as_row(
            short,
            verdict_words(trial.verdict.value),
            shorten(trial.item_id, 40),
            self._names.of("attack", trial.attack),
            self._names.of("victim", trial.victim),
            f"{trial.replaced} → {trial.replacement}" if swap else None,
            trial.key,
            _to(trial.answer_before, trial.answer_after or trial.last_answer),
            _to(*(None if v is None else decimal(v) for v in _confidences(trial))),
            None if trial.valid is None else "yes" if trial.valid else "no",
        )


def _confidences(trial: TrialRow) -> tuple[float | None, float | None]:
    after = trial.last_score if trial.score_after is None else trial.score_after
    return trial.score_before, after


def _to(before: str | None, after: str | None) -> str | None:
    return before if after is None else f"{before or '–'} → {after}"


def chosen_cases(
    run: StoredRun, folder: Path, verdict: str | None, controls: bool, **wanted: str | None
) -> Cases:
    """Return the cases of an open run that are asked for.

    Args:
        run: the run.
        folder: where it is.
        verdict: how they ended; None: anyhow.
        controls: whether cases of control arms are among them; those of one that `attack` names
            always are.
        wanted: `attack`, `victim`, `dataset`, `group`: a key or a name in words; None: any.

    Raises:
        UsageError: the run has no such attack, victim, data set or group, or there is no such
            verdict.
    """
    known = [each.value for each in Verdict]
    if verdict is not None and verdict not in known:
        hint = did_you_mean(str(verdict), known) or f" (known: {', '.join(known)})"
        raise UsageError(f"verdict = {verdict!r}: a case cannot end like this{hint}")
    names, ids = names_of(run.manifest), cases_of(run).ids
    attack = wanted["attack"]
    found = [
        row
        for row in trial_rows(run)
        if controls or row.arm == "attack" or attack in _called("attack", row.attack, names)
    ]
    for factor in _FACTORS:
        if (asked := wanted[factor]) is not None:
            found = _of(found, factor, asked, names)
    if verdict is not None:
        found = [row for row in found if row.verdict.value == verdict]
    ranked = sorted(found, key=lambda row: row.verdict is not Verdict.FLIPPED)
    return Cases(folder, ranked, [ids[row.trial_id] for row in ranked], names)


def _of(rows: list[TrialRow], factor: str, asked: str, names: Names) -> list[TrialRow]:
    keys = dict.fromkeys(getattr(row, factor) for row in rows)
    fitting = [key for key in keys if asked in _called(factor, key, names)]
    if not fitting and keys:
        hint = did_you_mean(asked, keys)
        raise UsageError(
            f"{factor} = {asked!r}: this run has none of this name{hint} (there are: "
            f"{', '.join(keys)})"
        )
    return [row for row in rows if getattr(row, factor) in fitting]


def _called(factor: str, key: str, names: Names) -> tuple[str, str]:
    """Return what a value of a factor may be called."""
    return key, names.of(factor, key)


def one_case(run: StoredRun, case_id: str) -> Case:
    """Return the case with this trial id, short id, beginning of one, or item id.

    Raises:
        UsageError: none or several fit; the message lists up to five candidates.
    """
    found = cases_of(run)
    return Case.of(found.record(find_trial(found, str(case_id)), most_tried=None))
