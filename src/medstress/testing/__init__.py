"""Conformance suites and small building blocks for tests of attacks, back ends and tasks.

Call `check_attack`, `check_backend`, `check_dataset` and `check_task` from your own tests; they
raise AssertionError with one sentence. Nothing here needs a model or a network.
"""

from medstress.testing.checks import Driven as Driven
from medstress.testing.checks import check_attack as check_attack
from medstress.testing.checks import check_backend as check_backend
from medstress.testing.checks import check_dataset as check_dataset
from medstress.testing.checks import check_task as check_task
from medstress.testing.checks import drive as drive
from medstress.testing.models import REPLACEMENTS as REPLACEMENTS
from medstress.testing.models import TINY_TYPE as TINY_TYPE
from medstress.testing.models import PerturbationTable as PerturbationTable
from medstress.testing.models import PromptVictim as PromptVictim
from medstress.testing.models import ScriptedBackend as ScriptedBackend
from medstress.testing.models import planted as planted
from medstress.testing.models import rule_target as rule_target
from medstress.testing.models import scripted_attacker as scripted_attacker
from medstress.testing.models import scripted_judge as scripted_judge
from medstress.testing.models import scripted_reply as scripted_reply
from medstress.testing.models import small_run as small_run
from medstress.testing.models import tiny_questions as tiny_questions
from medstress.testing.models import tiny_resources as tiny_resources
