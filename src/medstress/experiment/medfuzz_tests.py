"""The stages that test the successes of MedFuzz and ask what its reasonings say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from medstress.analyses.families import settings_key
from medstress.analyses.run import Run
from medstress.analyses.significance import ADJUSTED
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.engine.inquiry import Study
from medstress.engine.work import Purpose
from medstress.experiment.file.config import SignificanceTable
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.significance.mentions import mention_studies
from medstress.experiment.significance.plan import (
    Family,
    Tools,
    families,
    most_conversations,
)
from medstress.experiment.stages import Stage
from medstress.store.reader import RunReader


def _reasonings(bench: Prepared, run: Run) -> list[Study]:
    table = bench.experiment.test
    attacked = [trial for trial in run.trials if not trial.arm.is_control]
    is_wanted = table is None or table.faithfulness
    return mention_studies(attacked, tools_of(bench)) if is_wanted else []


def _judged(bench: Prepared, run: Run) -> Iterator[str]:
    if n := len(_reasonings(bench, run)):
        yield f"faithfulness: the judge is asked about the reasonings of {n} trials"


FAITHFULNESS = Stage(
    name="faithfulness",
    works=_reasonings,
    words=_judged,
    purposes=frozenset({Purpose.JUDGE}),
    is_whole=True,
)
"""Judges are asked whether a reasoning names the insertion."""


def _tests(bench: Prepared, run: Run) -> list[Study]:
    return [one.study() for one in families_of(bench, run) if one.buys_control]


def _outlook(bench: Prepared, run: Run) -> Iterator[str]:
    refused = [one.item.id for one in run.trials if not one.arm.is_control and one.is_refused]
    if refused:
        yield f"tests: left out because experts find them not valid: {', '.join(refused)}"
    ended, own = run.folder.read(RunReader.answered_follow_ups), families_of(bench, run)
    if not own:
        yield f"tests: {nothing_tested(bench, run)}"
    for family in own:
        is_done = family.buys_control and family.study().id in ended
        yield from [f"{family.name}: tested before"] if is_done else family.words()


def _adjusted(bench: Prepared, run: Run) -> Mapping[str, Any]:
    table = _table(bench)
    key = settings_key(table.model_dump())
    return {ADJUSTED: {**run.manifest.get(ADJUSTED, {}), key: table.adjust}}


SIGNIFICANCE = Stage(
    name="significance",
    works=_tests,
    words=_outlook,
    entries=_adjusted,
    most=lambda _, study: most_conversations(study),
    purposes=frozenset({Purpose.TEST}),
)
"""Successes are tested, family by family."""


def families_of(bench: Prepared, run: Run) -> list[Family]:
    """Return the families of a run that have a success."""
    return families(run.trials, tools_of(bench), _table(bench))


def nothing_tested(bench: Prepared, run: Run) -> str:
    """Say why there is nothing to test."""
    if families_of(bench, run):
        return "max_calls buys no control"
    if run.is_complete:
        return "there is no success to test"
    return (
        "there is no success to test yet, and the run is not complete: repeat the command that "
        "began it, with a higher limit if a limit stopped it"
    )


def tools_of(bench: Prepared, muted: Collection[str] = ()) -> Tools:
    """Return the parts of an experiment that tests need, without the attacks `muted`."""
    attacks = {part.label: part.attack for part in bench.attacks if part.label not in muted}
    return Tools(
        victims={victim.label: victim for victim in bench.victims},
        attacks={label: one for label, one in attacks.items() if isinstance(one, MedFuzz)},
        roles={part.name: part.decoding for part in bench.roles},
        items={(part.label, item.id): item for part in bench.datasets for item in part.questions},
    )


def _table(bench: Prepared) -> SignificanceTable:
    assert bench.experiment.test is not None
    return bench.experiment.test
