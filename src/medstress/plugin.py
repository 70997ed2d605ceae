"""All that a plug-in imports: attacks, back ends and data sets of your own.

A plug-in is an installed package with an entry point. Its group says what it adds:

* `medstress.attacks`: a class that inherits `Attack` and is decorated with `parameters`, so that
  its fields are the keys of an `[[attack]]` table, checked by pydantic. It declares what it is by
  class attributes or properties (`name`, `budget`, ...); `obstacle` says which items it leaves
  alone, and `run` is a generator that asks the victim:
  `(answer,) = yield from ask([Predict(candidate)])`. `check_attack` tests it without a model.
* `medstress.backends`: a function from `BackendOptions`, the keys of a `[[victim]]` table, to a
  `Backend`: an object with `identity`, `traits` (`BackendTraits`) and `answer`, which turns calls
  (`Score`, `Generate`, ...) into replies (`Scored`, `Generated`, ..., or a `Failure`).
  `check_backend` tests it.
* `medstress.datasets`: a function from `DatasetOptions`, the keys of a `[[dataset]]` table, to
  `Loaded` questions, or to `LoadedTexts`: `TaggedText`s, `SentencePair`s or `LabelledPair`s.
  `check_dataset` tests it.

A `UsageError` is always a sentence for the user, who can fix what it says. The pages "Writing an
attack", "Writing a back end" and "Your own data" have complete examples.
"""

from __future__ import annotations

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
    Turns,
    Validity,
    parameters,
)
from medstress.attacks.spans import distractor_spans, nearest_span
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
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.errors import BackendError, BudgetExhausted, DataError, TrialError, UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Goal, Outcome, Prediction, Replaced, Targeted, Untargeted
from medstress.core.queries import Predict, Steps, ask, clean_answer, consult, note
from medstress.core.resources import PerturbationSet, Resources
from medstress.core.seeding import rng_for
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit, copy_case
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    LoadedTexts,
    check_keys,
    collect,
    required_file,
)
from medstress.files.reading import text_lines
from medstress.kinds.nli.item import LabelledPair
from medstress.testing import (
    ScriptedBackend,
    check_attack,
    check_backend,
    check_dataset,
    rule_target,
    scripted_attacker,
    tiny_questions,
    tiny_resources,
)

__all__ = [
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
    "Ends",
    "Failure",
    "Generate",
    "Generated",
    "Goal",
    "LabelledPair",
    "Loaded",
    "LoadedTexts",
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
    "Resources",
    "Score",
    "Scored",
    "ScriptedBackend",
    "SentencePair",
    "Steps",
    "SwapNoise",
    "Tag",
    "Tagged",
    "TaggedText",
    "Targeted",
    "TrialError",
    "TurnAttack",
    "Turns",
    "Untargeted",
    "UsageError",
    "Validity",
    "ask",
    "check_attack",
    "check_backend",
    "check_dataset",
    "check_keys",
    "clean_answer",
    "collect",
    "consult",
    "content_hash",
    "copy_case",
    "distractor_spans",
    "file_hash",
    "nearest_span",
    "note",
    "parameters",
    "required_file",
    "rng_for",
    "rule_target",
    "scripted_attacker",
    "text_lines",
    "tiny_questions",
    "tiny_resources",
]
