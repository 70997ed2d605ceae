"""A checker judges the successes of a finished run, and its words are stored as evidence.

What it says of each success is a finding of the trial, under the checker's hash, in the chain and
the root of the run. Nothing is asked twice: pairs that were judged are read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.checking.checkers import Checker, NamePair, UnansweredError
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.rows import TrialRow
from medstress.metrics.measured import is_rule_refuted
from medstress.results.checks import ENTRY, entry_of
from medstress.results.formats import plural
from medstress.results.load import StoredRun, open_run
from medstress.results.reviewed import is_judgeable
from medstress.results.rows import trial_rows
from medstress.store.codec import decode_edits
from medstress.store.run_store import RunStore
from medstress.store.views import CHECKS

CIRCLE = (
    "its attack excluded or refuted names by tables and wording that this checker is or includes, "
    "and what an attack excluded by a table cannot be corrected by the same table"
)
Words = dict[NamePair, bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A success whose pick edits options."""

    row: int
    """Of the trial, in the folder."""
    pairs: tuple[NamePair, ...]
    """The key and each option that the edits change."""
    found: Mapping[str, Any]
    """What checkers said before, by hash: one word for each pair."""
    in_circle: bool
    """Whether its attack excluded or refuted names by tables and wording."""


def successes(run: StoredRun) -> list[Success]:
    """Return the successes of a run that no rule refuted and whose picks edit options.

    Raises:
        UsageError: there is none.
    """
    rows = {row.trial_id: row for row in trial_rows(run) if is_judgeable(row)}
    rows = {name: row for name, row in rows.items() if not is_rule_refuted(row)}
    items, found = run.items(), []
    for trial in run.trials():
        row, item = rows.get(trial.trial_id), items[trial.item][1]
        if row is None or not isinstance(item, Question):
            continue
        edited = item.candidate(decode_edits(row.edits))
        options = zip(item.letters, item.options, edited.options, strict=True)
        names = [new for letter, old, new in options if old != new and letter != item.key]
        if names:
            found.append(
                Success(
                    row=trial.trial,
                    pairs=tuple((item.key_text, name) for name in names),
                    found=trial.result.get(CHECKS, {}),
                    in_circle=_is_in_circle(row),
                )
            )
    if not found:
        raise UsageError(
            f"{run.folder}: no success of this run that rules let pass edits an option, so a "
            "checker of names has nothing to judge; name a run of multiple-choice questions"
        )
    return found


def _is_in_circle(row: TrialRow) -> bool:
    """Whether the attack knows which names it never draws, or of which class a name is."""
    return row.n_excluded is not None or row.variant_class is not None


def check_successes(
    folder: Path,
    checker: Checker,
    measured: Mapping[str, Any] | None,
    note: Callable[[str], None],
) -> list[str]:
    """Let a checker judge the successes of a run and store what it says.

    Args:
        folder: the run; it is locked meanwhile.
        checker: judges pairs of names.
        measured: its errors on labelled pairs (`read_measured`); None: not given. Those that the
            run has of the same checker are kept.
        note: receives what is being done.

    Returns:
        Sentences on what was done.

    Raises:
        UsageError: there is nothing to judge, or the checker is what the attacks excluded by.
        BackendError: a judge failed; what it said before is stored.
    """
    with open_run(folder) as run:
        if not run.manifest.get("complete"):
            raise UsageError(
                f"{folder}: the run is not complete; finish it first, so that its successes do not "
                "change"
            )
        all_of_them = successes(run)
    open_ = [one for one in all_of_them if not (checker.has_tables and one.in_circle)]
    if not open_:
        raise UsageError(
            f"--checker: {checker.name!r} cannot judge any success of {folder}: {CIRCLE}; use a "
            "judge, an embedding or a function of yours"
        )
    key = checker.hash
    known = {p: w for one in open_ for p, w in zip(one.pairs, one.found.get(key, ()), strict=False)}
    left = [one for one in open_ if key not in one.found]
    n_asked = _judge(folder, checker, left, known, measured, note)
    words = [_word(one, known) for one in open_]
    told = ", ".join(f"{words.count(value)} {name}" for value, name in _WORDS.items())
    said = [
        f"checker {checker.name}: {plural(len(open_), 'success', 'successes')}, "
        f"{len(open_) - len(left)} judged before, {plural(n_asked, 'pair')} asked now; {told}"
    ]
    if not any(word is not None for word in words):
        said.append("it places none of them, so it tells nothing of their validity")
    if n_out := len(all_of_them) - len(open_):
        said.append(f"{plural(n_out, 'success', 'successes')} left out: {CIRCLE}")
    return said


_WORDS = {True: "with the key still right", False: "with a second right answer", None: "not placed"}
"""What a checker says of a success -> in words."""


def _word(one: Success, known: Words) -> bool | None:
    said = [known[pair] for pair in one.pairs]
    return False if True in said else None if None in said else True


def _judge(
    folder: Path,
    checker: Checker,
    left: Sequence[Success],
    known: Words,
    measured: Mapping[str, Any] | None,
    note: Callable[[str], None],
) -> int:
    """Ask about what is left; every chunk is committed before the next is asked."""
    n_asked, key = 0, checker.hash
    with RunStore(folder) as store:
        entry = entry_of(store.manifest(), checker.name, key, measured)
        store.write_manifest({ENTRY: entry})
        store.commit()
        for chunk, new in _chunks(left, known, checker.chunk):
            note(
                f"checker: {plural(n_asked, 'pair')} of {plural(len(left), 'success', 'successes')}"
            )
            try:
                known.update(zip(new, checker.check(new), strict=True))
            except UnansweredError as error:
                known.update(error.found)
                _store(store, key, [one for one in chunk if known.keys() >= set(one.pairs)], known)
                raise
            n_asked += len(new)
            _store(store, key, chunk, known)
        store.keep_root()
    return n_asked


def _chunks(
    left: Sequence[Success], known: Words, size: int
) -> Iterator[tuple[list[Success], list[NamePair]]]:
    """Yield successes with the pairs that are asked for them, as many as go at once."""
    chunk: list[Success] = []
    new: dict[NamePair, None] = {}
    for one in left:
        chunk.append(one)
        new |= {pair: None for pair in one.pairs if pair not in known}
        if size and len(new) >= size:
            yield chunk, [*new]
            chunk, new = [], {}
    if chunk:
        yield chunk, [*new]


def _store(store: RunStore, key: str, chunk: Sequence[Success], known: Words) -> None:
    values = ((one.row, {**one.found, key: [known[pair] for pair in one.pairs]}) for one in chunk)
    store.write_findings(CHECKS, values)
    store.commit()
