"""Verify a run folder: digests, plan, every trial judged again, and the kept summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medstress.analyses.run import Run
from medstress.analyses.summary import summary as summary_of
from medstress.audit.asked import AskedQuery, Readings, queries_of
from medstress.audit.attacks import NotJudgedError, attack_of, resources_of
from medstress.audit.counting import (
    Arm,
    arm_of,
    count_break,
    identity_breaks,
    plan_breaks,
    trial_break,
)
from medstress.audit.judging import OddError, StoredVerdict, check_trial
from medstress.audit.kept import kept_break
from medstress.audit.verification import Verification
from medstress.core.outcomes import Prediction, Verdict
from medstress.core.text import WHOLE
from medstress.store.chain import Break
from medstress.store.load import StoredRun, open_run
from medstress.store.missing import no_run
from medstress.store.probes import Probes
from medstress.store.reader import StoredTrial
from medstress.store.review_store import reviews_digests, with_reviews
from medstress.store.root import checked_root
from medstress.store.run_store import FILE
from medstress.store.whole_check import Whole, check_whole, verdict_row

IN_PROGRESS = "the run, or a test or explanation of it, is not complete"


def verify_folder(
    folder: Path, *, root: str | None = None, synonyms: Path | None = None
) -> Verification:
    """Check everything that a run folder says of itself.

    Args:
        folder: the run.
        root: a root that was kept elsewhere; any that the folder once had will do.
        synonyms: the user's list of synonyms, if the experiment names one.

    Raises:
        StoreError: the folder holds no run, or one that cannot be read.
        UsageError: the list of synonyms cannot be read.
    """
    if not (folder / FILE).is_file():
        raise no_run(folder)
    found = Verification(what=str(folder))
    root = None if root is None else checked_root(root)
    whole = check_whole(folder)
    if (broken := whole.broken) is None:
        with open_run(folder, check="form") as run:
            _describe(found, run, whole, root)
            broken = found.broken or next(_breaks(run, found, synonyms), None)
    found.broken = broken
    if broken is not None:
        found.root, found.asked_root = None, None
    return found


def _describe(found: Verification, run: StoredRun, whole: Whole, root: str | None) -> None:
    """Say which roots there are, and whether the one that was asked for is among them."""
    kept, digests = run.root(), [None, *reviews_digests(run.folder)]
    if whole.broken is None:
        found.root = None if kept is None else with_reviews(kept, digests[-1])
        found.root_note = IN_PROGRESS if kept is None else None
    if whole.n_open:
        found.notes.append(
            f"{whole.n_open} calls of trials that go on: they have no digest until a trial ends"
        )
    now = dict(whole.last)
    for earlier in whole.roots:
        for n, reviews in enumerate(digests):
            known = with_reviews(earlier.root, reviews)
            found.roots.append(known)
            if known == root and found.asked_root is None:
                found.asked_root = known
                found.added = {name: now[name] - earlier.last[name] for name in now}
                found.added["reviews"] = len(digests) - 1 - n
    if root is not None and found.asked_root is None:
        had = f"only {', '.join(dict.fromkeys(found.roots))}" if found.roots else "no root at all"
        found.broken = Break(table="manifest", row=0, expected=f"root {root}", found=had)


def _breaks(run: StoredRun, found: Verification, synonyms: Path | None) -> Iterator[Break]:
    yield from plan_breaks(run.manifest)
    judge, n_ended = _Judge(run, synonyms), Counter[Arm]()
    for trial in run.trials():
        n_ended[arm_of(trial)] += 1
        if (differ := trial_break(run, trial)) is not None:
            yield _at(run, trial, "trials", *differ)
        try:
            found.n_early += judge.check(trial)
        except OddError as error:
            yield _at(run, trial, None, error.expected, error.found)
        except NotJudgedError as error:
            found.not_judged[str(error)] += 1
        else:
            found.n_judged += 1
    found.n_analyses = sum(1 for _ in run.inquiries())
    if (broken := count_break(run, n_ended)) is not None:
        yield broken
    summary = summary_of(Run.open(run.folder))
    for sentence in identity_breaks([*summary["results"], *summary["by_seed"]]):
        yield Break(table="summary", row=0, expected="sums that add up", found=sentence)
    yield from kept_break(run, summary, found)


def _at(run: StoredRun, trial: StoredTrial, table: str | None, expected: str, found: str) -> Break:
    """Name the row of a trial."""
    name, row = verdict_row(run.folder, trial.trial)
    if table is not None:
        name, row = table, trial.trial
    return Break(table=name, row=row, expected=expected, found=found)


class _Judge:
    """Judges the trials of one run again."""

    def __init__(self, run: StoredRun, synonyms: Path | None) -> None:
        self._run, self._readings = run, Readings(run.manifest)
        self._resources = resources_of(run.manifest, synonyms)
        self._attacks: dict[str, Any] = {}
        self._probes = Probes(run)

    def check(self, trial: StoredTrial) -> bool:
        """See `check_trial`; return whether the trial held with fewer queries than its budget."""
        item = self._run.items()[trial.item][1]
        unit = item.of_unit(trial.result.get("unit", WHOLE))
        attack = self._attack(trial)
        place = (trial.victim, trial.dataset)
        in_turns = attack.traits.in_turns

        def read(asked: AskedQuery) -> Prediction | None:
            try:
                return self._readings.prediction(place, unit, asked, in_turns=in_turns)
            except Exception:  # noqa: BLE001 - what failed then fails again, and was no answer
                return None

        check_trial(
            StoredVerdict(
                item=unit,
                attack=attack,
                resources=self._resources[trial.group],
                verdict=Verdict(trial.verdict),
                result=trial.result,
                queries=queries_of(self._run.consumed(trial.trial)),
                read=read,
                is_probe=lambda number, asked: self._probes.marks(
                    trial.trial, number, asked.edits_text
                ),
            )
        )
        has_held = trial.verdict in (Verdict.HELD, Verdict.MEASURED)
        return has_held and trial.result.get("n_asked", 0) < attack.traits.budget

    def _attack(self, trial: StoredTrial) -> Any:
        known = self._attacks.get(trial.spec)
        if known is None:
            try:
                known = attack_of(json.loads(trial.spec))
            except NotJudgedError as error:
                known = error
            self._attacks[trial.spec] = known
        if isinstance(known, NotJudgedError):
            raise known
        return known.on_trial(trial.seed, trial.repeat)
