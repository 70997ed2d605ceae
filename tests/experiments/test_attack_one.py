"""`attack_one` says what a run folder would, and writes none."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.analyses.exported import trial_rows
from medstress.analyses.run import Run
from medstress.api import one as api
from medstress.attacks import Attack
from medstress.attacks.discrete_zoo.attack import DiscreteZoo
from medstress.core.items import Candidate, Question
from medstress.core.queries import Ask, Predict
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.store.reader import read
from medstress.store.run_store import RunStore
from medstress.testing import tiny_questions

(QUESTION,) = tiny_questions(1)
NAMES = "".join(f"name{n}statin\nname{n}mab\n" for n in range(5))


def right(prompts: list[str]) -> list[str]:
    return [QUESTION.key for _ in prompts]


def weak(prompts: list[str]) -> list[str]:
    return ["C" if "mab" in prompt else QUESTION.key for prompt in prompts]


def wrong(prompts: list[str]) -> list[str]:
    return ["B" for _ in prompts]


def mute(prompts: list[str]) -> list[str]:
    return ["no letter" if "statin" in prompt else QUESTION.key for prompt in prompts]


def failing(prompts: list[str]) -> list[str]:
    if any("name3statin" in prompt.lower() for prompt in prompts):
        raise RuntimeError("away")
    return [QUESTION.key for _ in prompts]


def scored(prompts: list[str]) -> list[dict[str, Any]]:
    shares = {"A": 0.5, "B": 0.2, "C": 0.2, "D": 0.1}
    turned = {"A": 0.2, "B": 0.2, "C": 0.5, "D": 0.1}
    return [{"scores": turned if "mab" in prompt else shares} for prompt in prompts]


@dataclass(frozen=True)
class Stubborn(Attack):
    """Asks the same name twice, then one at which some victims fail."""

    name = "stubborn"
    budget = 4
    is_random = False

    def obstacle(self, item: Question, resources: Any) -> str | None:
        return None

    def run(self, item: Question, rng: Any, resources: Any) -> Any:
        span = next(mention for mention in item.mentions if mention.field != item.key)
        names = ("name1statin", "name1statin", "name3statin", "name1mab")
        yield Ask(tuple(Predict(Candidate(item=item).edit(span, name)) for name in names))


CASES: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "held": (right, ms.attacks.EntitySubstitution(sampler="random", budget=4), 0),
    "flipped": (weak, ms.attacks.EntitySubstitution(sampler="random", budget=8), 0),
    "another seed": (weak, ms.attacks.EntitySubstitution(sampler="random", budget=8), 3),
    "nearest": (weak, ms.attacks.EntitySubstitution(sampler="nearest", budget=8), 0),
    "all": (weak, ms.attacks.EntitySubstitution(sampler="exhaustive"), 0),
    "already wrong": (wrong, ms.attacks.EntitySubstitution(sampler="random", budget=4), 0),
    "unreadable": (mute, ms.attacks.EntitySubstitution(sampler="random", budget=8), 0),
    "failed": (failing, ms.attacks.EntitySubstitution(sampler="exhaustive"), 0),
    "repeated": (weak, Stubborn(), 0),
    "repeated and failed": (failing, Stubborn(), 0),
    "scores": (scored, DiscreteZoo(budget=20), 1),
}

VERDICTS = {
    "held": "held",
    "already wrong": "already_wrong",
    "unreadable": "held",
    "failed": "failed",
    "repeated and failed": "failed",
}
"""Of the others: flipped."""


def stored(trial: Trial, folder: Path) -> dict[str, Any]:
    """The row of a trial that was written to a run folder and read back."""
    with RunStore(folder) as store:
        victim = {"task": trial.victim.task.spec(), "prompt": trial.victim.prompt}
        store.write_manifest(
            {
                "config": {"experiment": {"controls": False, "name": "attack_one"}},
                "victims": {trial.victim.label: victim},
                "records": {},
            }
        )
        Scheduler(store).run([trial], 1)
    run = Run.open(folder)
    (row,) = read(folder, lambda reader: list(trial_rows(run, reader)))
    return dict(row)


@pytest.mark.parametrize("case", CASES)
def test_it_says_what_a_run_folder_says_and_writes_none(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "names.txt").write_text(NAMES)
    trials: list[Trial] = []
    real = api._run_one

    def kept(trial: Trial) -> dict[str, Any]:
        trials.append(trial)
        # No folder can be made while it runs.
        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", refused)
            return real(trial)

    monkeypatch.setattr(api, "_run_one", kept)
    victim, attack, seed = CASES[case]
    entities = {"type": "T121", "vocabulary": "names.txt", "embedding": "ngram"}
    row = ms.attack_one(QUESTION, victim, attack, entities=entities, seed=seed)
    (trial,) = trials
    again = stored(trial, tmp_path / "run")
    assert row == again
    assert row["n_asked"] == row["n_paid"] + row["n_cached"] + row["n_failed"]
    if case.startswith("repeated"):
        assert row["n_cached"] == 1
    assert row["verdict"] == VERDICTS.get(case, "flipped")


def refused(self: Path, *_: Any, **__: Any) -> None:
    raise AssertionError(f"{self} was made")
