"""Where the analyses put names in: the span that the last query of a trial chose."""

import json

from medstress.experiment.follow_ups import last_spans
from medstress.store.trials import Substitutions
from planted_trials import NEAR, arm, control, trial


def test_the_span_of_a_trial_is_the_first_of_its_last_substitution():
    trials = [trial(i, at) for i, at in enumerate((arm(), arm(), control()))]
    assert NEAR.draws_names
    numbered = [trial.number for trial in trials]
    queries = [
        (numbered[0], 1, [["A", 0, 4, "x"]]),
        (numbered[0], 2, [["C", 0, 4, "y"], ["B", 0, 2, "z"]]),
        (numbered[0], 3, [["D", 0, 4, ""]]),  # a probe, which deletes
        (numbered[1], 1, [["B", 2, 4, "x"]]),
        (numbered[2], 1, [["A", 0, 4, "x"]]),  # of a control
    ]
    lines = Substitutions.of(trials, ((n, q, json.dumps(edits)) for n, q, edits in queries))
    assert last_spans(lines) == {numbered[0]: ("C", 0, 4), numbered[1]: ("B", 2, 4)}
