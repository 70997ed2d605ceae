"""Which trials are explained: successes and as many failures, or those that are named."""

from dataclasses import replace

import pytest

from medstress.core.arms import Arm
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.core.validity import REVIEW
from medstress.experiment.explain import Selection, choose
from planted_trials import arm, control, trial


def won(number: int, at: Arm, *, refused: bool = False) -> Trial:
    """Return a success."""
    reviewed = (False, REVIEW) if refused else (None, None)
    return trial(
        number,
        at,
        verdict=Verdict.FLIPPED,
        flipped_at=1,
        valid=reviewed[0],
        reason=reviewed[1],
    )


def ids(trials: list[Trial]) -> list[str]:
    return [one.id for one in trials]


def run() -> list[Trial]:
    """Three successes, one of them refused by people, seven failures, and controls that won."""
    probed = trial(10, arm())
    return [
        *(won(i, arm()) for i in range(2)),
        won(2, arm(), refused=True),
        *(trial(i, arm()) for i in range(3, 10)),
        replace(probed, queries=probed.queries._replace(probes=probed.queries.asked)),
        *(won(i, control()) for i in range(5)),
    ]


def test_all_successes_and_as_many_failures_of_their_arm():
    trials = run()
    chosen = choose(trials, Selection())
    lost = [one for one in chosen if one.first is None]
    assert [one.id for one in chosen if one.first is not None] == ids(trials[:2])
    assert len(lost) == 2
    assert set(ids(lost)) <= set(ids(trials[3:10]))
    assert chosen == [one for one in trials if one in chosen]


def test_a_trial_is_named_by_its_id_its_beginning_or_its_item():
    trials = run()
    first = trials[0]
    for name in (first.id, first.item.id):  # controls of the item have succeeded too
        assert choose(trials, Selection(trials=(name,))) == [first]


@pytest.mark.parametrize("name", ["", "zzz", "t"])
def test_a_name_that_fits_none_or_several_is_refused(name, said):
    with pytest.raises(UsageError) as error:
        choose(run(), Selection(trials=(name,)))
    said(str(error.value), "--trial")
