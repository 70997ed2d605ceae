"""Paraphrases: other words for the same facts, of our own lexicon or of a role."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from medstress.attacks.controls.harmless import Budget, Control
from medstress.attacks.controls.rewording import Original, Rewording, rewording_of
from medstress.attacks.protocol import parameters
from medstress.attacks.variants import whole
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.items import Candidate, Question
from medstress.core.queries import LOOKAHEAD, Predict, Steps, ask_in_turn, consult
from medstress.core.resources import Resources
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

if TYPE_CHECKING:
    from numpy.random import Generator

ROLE = "paraphraser"
AT_ONCE = 8
"""Paraphrases asked of the role at once after the first one."""
LONGEST = 3
"""A paraphrase of more than this many times the words of the question is dropped."""
_LAST_SAMPLE = 2**31


@parameters
class Paraphrase(Control):
    """Ask the question in other words.

    Phrases of clinical vignettes and exam questions are replaced by others that say the same, and
    lead-ins such as "It is recorded that" come before sentences where that changes too little.
    Every variant differs from the question in at least a fifth of its words (word-level edit
    distance over words) and keeps its numbers in their order, denials, sides, sexes, ages, times
    and the names of drugs and diseases; a variant that does not is not asked. Options and
    passage stay.

    Where the experiment has a `[role.paraphraser]`, it writes the variants; one that fails the same
    check is replaced by one of the lexicon.
    """

    name = "paraphrase"
    fields = frozenset({"context", "stem"})
    needs = frozenset({"mentions", "paraphraser"})
    lack = "the lexicon cannot change a fifth of its words"

    budget: Budget = 8
    """Variants asked, 1 to 1,000."""

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield all variants, in random order."""
        return _rewording(item, resources).variants(rng)

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return _rewording(item, resources).n

    def ask(
        self,
        item: Question,
        rng: Generator,
        resources: Resources,
        most: int,
        edited: Collection[str] = (),
    ) -> Steps[Candidate | None]:
        """See `Control.ask`; the variants are written by the role if there is one."""
        if ROLE not in resources.roles:
            return (yield from super().ask(item, rng, resources, most))
        sample = int(rng.integers(1, _LAST_SAMPLE))
        original = Original(item.question, _rewording(item, resources).names)
        spare = map(Predict, self.variants(item, rng, resources))
        decoding = resources.roles[ROLE]
        return (yield from ask_written(item, decoding, sample, original, spare, most))


def _rewording(item: Question, resources: Resources) -> Rewording:
    names = () if resources.names_in is None else tuple(resources.names_in(item.question))
    return rewording_of(item, names)


class Reworded(Reply):
    """The question in other words."""

    context: str = ""
    """What stands before the sentence that asks."""
    question: Annotated[str, Field(min_length=1)]
    """The sentence that asks."""


def ask_written(
    item: Question,
    decoding: Decoding,
    first_sample: int,
    original: Original,
    spare: Iterator[Predict],
    most: int,
) -> Steps[Candidate | None]:
    """Ask up to `most` paraphrases that a role writes, until one reaches the goal.

    Args:
        item: the question.
        decoding: how the role generates.
        first_sample: index of the first paraphrase among samples of the role; unused at
            temperature 0.
        original: checks the paraphrases.
        spare: paraphrases in place of those that are unreadable, repeat another or fail the check.
        most: how many.
    """
    prompt = _template().format(context=item.context, question=item.stem)
    schema = schema_of(Reworded, item.letters)
    call = Generate((Message("user", prompt),), decoding, schema=schema)
    is_sampled = decoding.temperature > 0
    n_asked, sample = 0, first_sample if is_sampled else 0
    seen: set[tuple[str, str]] = set()
    while n_asked < most:
        # One first: it is often enough. What is asked does not depend on how many are asked.
        n = min(AT_ONCE if n_asked else 1, most - n_asked)
        # At temperature 0 all replies would be the first one.
        calls = [call] * (n if is_sampled else not n_asked)
        answers = (yield from consult(ROLE, calls, sample)) if calls else ()
        sample += n
        queries: list[Predict] = []
        for answer in answers:
            assert isinstance(answer, Generated)
            candidate = _candidate(item, answer.text, original)
            if candidate is not None and (candidate.context, candidate.stem) not in seen:
                seen.add((candidate.context, candidate.stem))
                queries.append(Predict(candidate))
            else:
                queries += islice(spare, 1)
        queries += islice(spare, n - len(queries))
        if not queries:
            return None
        n_asked += n
        reached: Candidate | None = yield from ask_in_turn(queries, LOOKAHEAD)
        if reached is not None:
            return reached
    return None


def _candidate(item: Question, written: str, original: Original) -> Candidate | None:
    """Return the paraphrase of a reply; None if it cannot be used."""
    reply = read_reply(written, Reworded)
    if isinstance(reply, Unreadable) or bool(reply.context) != bool(item.context):
        return None
    text = f"{reply.context} {reply.question}" if reply.context else reply.question
    if len(text.split()) > LONGEST * len(original.words) or not original.is_kept_in(text):
        return None
    texts = {"context": reply.context} if item.context else {}
    texts["stem"] = reply.question
    edits = tuple(whole(item, name, new) for name, new in texts.items())
    return Candidate(item=item, edits=edits)


@lru_cache(maxsize=1)
def _template() -> str:
    path = files("medstress.attacks.controls") / "data" / "paraphraser.txt"
    return path.read_text("utf-8").strip()
