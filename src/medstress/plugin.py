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

from medstress.attacks.names import distractor_spans as distractor_spans
from medstress.attacks.names import nearest_span as nearest_span
from medstress.attacks.noise import NoiseResources as NoiseResources
from medstress.attacks.noise import SwapNoise as SwapNoise
from medstress.attacks.protocol import PAIRS as PAIRS
from medstress.attacks.protocol import QUESTIONS as QUESTIONS
from medstress.attacks.protocol import TAGGED as TAGGED
from medstress.attacks.protocol import UNBOUNDED as UNBOUNDED
from medstress.attacks.protocol import Attack as Attack
from medstress.attacks.protocol import Ends as Ends
from medstress.attacks.protocol import Need as Need
from medstress.attacks.protocol import TurnAttack as TurnAttack
from medstress.attacks.protocol import Validity as Validity
from medstress.attacks.protocol import parameters as parameters
from medstress.backends.options import BackendOptions as BackendOptions
from medstress.core.calls import Backend as Backend
from medstress.core.calls import BackendTraits as BackendTraits
from medstress.core.calls import Call as Call
from medstress.core.calls import Choose as Choose
from medstress.core.calls import Chosen as Chosen
from medstress.core.calls import Classify as Classify
from medstress.core.calls import Compare as Compare
from medstress.core.calls import Compared as Compared
from medstress.core.calls import Decoding as Decoding
from medstress.core.calls import Failure as Failure
from medstress.core.calls import Generate as Generate
from medstress.core.calls import Generated as Generated
from medstress.core.calls import Message as Message
from medstress.core.calls import ModelIdentity as ModelIdentity
from medstress.core.calls import Rank as Rank
from medstress.core.calls import Reply as Reply
from medstress.core.calls import Request as Request
from medstress.core.calls import Score as Score
from medstress.core.calls import Scored as Scored
from medstress.core.calls import Tag as Tag
from medstress.core.calls import Tagged as Tagged
from medstress.core.errors import BackendError as BackendError
from medstress.core.errors import BudgetExhausted as BudgetExhausted
from medstress.core.errors import DataError as DataError
from medstress.core.errors import TrialError as TrialError
from medstress.core.errors import UsageError as UsageError
from medstress.core.hashing import content_hash as content_hash
from medstress.core.hashing import file_hash as file_hash
from medstress.core.hashing import rng_for as rng_for
from medstress.core.items import LETTERS as LETTERS
from medstress.core.items import Candidate as Candidate
from medstress.core.items import EditedTexts as EditedTexts
from medstress.core.items import Mention as Mention
from medstress.core.items import Question as Question
from medstress.core.items import Texts as Texts
from medstress.core.outcomes import Goal as Goal
from medstress.core.outcomes import Outcome as Outcome
from medstress.core.outcomes import Prediction as Prediction
from medstress.core.outcomes import Replaced as Replaced
from medstress.core.outcomes import Targeted as Targeted
from medstress.core.outcomes import Untargeted as Untargeted
from medstress.core.queries import Predict as Predict
from medstress.core.queries import Steps as Steps
from medstress.core.queries import ask as ask
from medstress.core.queries import clean_answer as clean_answer
from medstress.core.queries import consult as consult
from medstress.core.queries import note as note
from medstress.core.reading import text_lines as text_lines
from medstress.core.resources import PerturbationSet as PerturbationSet
from medstress.core.resources import Resources as Resources
from medstress.core.sentences import SentencePair as SentencePair
from medstress.core.sentences import TaggedText as TaggedText
from medstress.core.text import Edit as Edit
from medstress.core.text import copy_case as copy_case
from medstress.datasets.named import load_sample as load_sample
from medstress.datasets.sentences import read_rows as read_rows
from medstress.datasets.source import DatasetOptions as DatasetOptions
from medstress.datasets.source import Loaded as Loaded
from medstress.datasets.source import check_keys as check_keys
from medstress.datasets.source import collect as collect
from medstress.datasets.source import required_file as required_file
from medstress.tasks.kinds import Kind as Kind
from medstress.tasks.kinds import choice_from_spec as choice_from_spec
from medstress.tasks.kinds import choice_tasks as choice_tasks
from medstress.tasks.multiple_choice import FLOOR as FLOOR
from medstress.tasks.multiple_choice import from_scores as from_scores
from medstress.tasks.multiple_choice import mark as mark
from medstress.tasks.scores import Resamples as Resamples
from medstress.tasks.scores import Scoring as Scoring
from medstress.tasks.victim import Tasks as Tasks
from medstress.tasks.victim import VictimRequest as VictimRequest
from medstress.testing import ScriptedBackend as ScriptedBackend
from medstress.testing import check_attack as check_attack
from medstress.testing import check_backend as check_backend
from medstress.testing import check_dataset as check_dataset
from medstress.testing import drive as drive
from medstress.testing import planted as planted
from medstress.testing import rule_target as rule_target
from medstress.testing import scripted_attacker as scripted_attacker
from medstress.testing import small_run as small_run
from medstress.testing import tiny_questions as tiny_questions
from medstress.testing import tiny_resources as tiny_resources
