"""All that a plug-in imports: attacks, back ends and data sets of your own.

A plug-in is an installed package with an entry point. Its group says what it adds:

* `medstress.attacks`: a class that inherits `Attack` and is decorated with `parameters`, so that
  its fields are the keys of an `[[attack]]` table, checked by pydantic. It declares what it is by
  class attributes or properties (`name`, `budget`, ...); `obstacle` says which items it leaves
  alone, and `run` is a generator that asks the victim:
  `(answer,) = yield from ask([Predict(candidate)])`. `check_attack` tests it without a model,
  `drive` runs it by hand, and `small_run` in the engine against a `planted` model.
* `medstress.backends`: a function from `BackendOptions`, the keys of a `[[victim]]` table, to a
  `Backend`: an object with `identity`, `traits` (`BackendTraits`) and `answer`, which turns calls
  (`Score`, `Generate`, ...) into replies (`Scored`, `Generated`, ..., or a `Failure`).
  `check_backend` tests it.
* `medstress.datasets`: a function from `DatasetOptions`, the keys of a `[[dataset]]` table, to
  `Loaded` items: questions, `TaggedText`s or `SentencePair`s. `check_dataset` tests it.
* `medstress.kinds`: a `Kind`: a class of items (`Texts` with fields of its own), a function that
  reads them like those above, one that makes the tasks of a victim, and the scores of whole data
  sets (`Scoring`).

A `UsageError` is always a sentence for the user, who can fix what it says. `examples/plugin` is a
package with an attack, a back end and a kind; the pages "Writing an attack" and "Writing a back
end" quote it.
"""

from __future__ import annotations

from medstress.attacks.names import distractor_spans, nearest_span
from medstress.attacks.noise import NoiseResources, SwapNoise
from medstress.attacks.protocol import (
    PAIRS,
    QUESTIONS,
    TAGGED,
    UNBOUNDED,
    Attack,
    Ends,
    Need,
    TurnAttack,
    Validity,
    parameters,
)
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    Backend,
    BackendTraits,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Compared,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    ModelIdentity,
    Rank,
    Reply,
    Request,
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.errors import BackendError, BudgetExhausted, DataError, TrialError, UsageError
from medstress.core.hashing import content_hash, file_hash, rng_for
from medstress.core.items import LETTERS, Candidate, EditedTexts, Mention, Question, Texts
from medstress.core.outcomes import Goal, Outcome, Prediction, Replaced, Targeted, Untargeted
from medstress.core.queries import Predict, Steps, ask, clean_answer, consult, note
from medstress.core.reading import text_lines
from medstress.core.resources import PerturbationSet, Resources
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit, copy_case
from medstress.datasets.named import load_sample
from medstress.datasets.sentences import read_rows
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    required_file,
)
from medstress.tasks.kinds import Kind, choice_from_spec, choice_tasks
from medstress.tasks.multiple_choice import FLOOR, from_scores, mark
from medstress.tasks.scores import Resamples, Scoring
from medstress.tasks.victim import Tasks, VictimRequest
from medstress.testing import (
    ScriptedBackend,
    check_attack,
    check_backend,
    check_dataset,
    drive,
    planted,
    rule_target,
    scripted_attacker,
    small_run,
    tiny_questions,
    tiny_resources,
)

__all__ = [
    "FLOOR",
    "LETTERS",
    "PAIRS",
    "QUESTIONS",
    "TAGGED",
    "UNBOUNDED",
    "Attack",
    "Backend",
    "BackendError",
    "BackendOptions",
    "BackendTraits",
    "BudgetExhausted",
    "Call",
    "Candidate",
    "Choose",
    "Chosen",
    "Classify",
    "Compare",
    "Compared",
    "DataError",
    "DatasetOptions",
    "Decoding",
    "Edit",
    "EditedTexts",
    "Ends",
    "Failure",
    "Generate",
    "Generated",
    "Goal",
    "Kind",
    "Loaded",
    "Mention",
    "Message",
    "ModelIdentity",
    "Need",
    "NoiseResources",
    "Outcome",
    "PerturbationSet",
    "Predict",
    "Prediction",
    "Question",
    "Rank",
    "Replaced",
    "Reply",
    "Request",
    "Resamples",
    "Resources",
    "Score",
    "Scored",
    "Scoring",
    "ScriptedBackend",
    "SentencePair",
    "Steps",
    "SwapNoise",
    "Tag",
    "Tagged",
    "TaggedText",
    "Targeted",
    "Tasks",
    "Texts",
    "TrialError",
    "TurnAttack",
    "Untargeted",
    "UsageError",
    "Validity",
    "VictimRequest",
    "ask",
    "check_attack",
    "check_backend",
    "check_dataset",
    "check_keys",
    "choice_from_spec",
    "choice_tasks",
    "clean_answer",
    "collect",
    "consult",
    "content_hash",
    "copy_case",
    "distractor_spans",
    "drive",
    "file_hash",
    "from_scores",
    "load_sample",
    "mark",
    "nearest_span",
    "note",
    "parameters",
    "planted",
    "read_rows",
    "required_file",
    "rng_for",
    "rule_target",
    "scripted_attacker",
    "small_run",
    "text_lines",
    "tiny_questions",
    "tiny_resources",
]
