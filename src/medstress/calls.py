"""Calls: single requests to a back end, and their answers.

A call is frozen and hashable and says nothing about attacks or items; an answer is what a
back end returns for it. Everything a model is ever asked goes through these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from medstress.frozen import quickly_made
from medstress.hashing import digest


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    """`system`, `user` or `assistant`."""
    content: str


LENGTH = "length"
"""The `finish_reason` of a text that was cut off."""

Prompt: TypeAlias = str | tuple[Message, ...]
"""Plain text, or a conversation that the back end renders with the model's chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How text is generated."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    """0 is greedy."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue the prompt with text."""

    prompt: Prompt
    decoding: Decoding = Decoding()
    sample: int = 0
    """Which of several samples of one prompt; seeds the sampling where the temperature is not 0.
    Set by `Request.addressed`, which the cache key covers."""
    schema: str | None = None
    """The JSON schema that the text has to follow, as canonical JSON; an object whose properties
    are all required and that allows no others. None: any text. Only back ends that declare
    `structured` are sent one; for the others the prompt has to say what is wanted."""
    options: tuple[str, ...] = field(default=(), compare=False)
    """Texts of the options of which one is looked for in the text: a back end may stop where
    `option_letters.is_decided`. No part of the call, since the longer text reads the same."""
    is_read_whole: bool = field(default=False, compare=False)
    """Whether an answer that ended where the first edition's parsers needed no more would be too
    short: part of the key, so that none is taken out of an older cache."""
    wants_end: bool = field(default=False, compare=False)
    """Whether it has to be known if the text came to its end: part of the key, so that none is
    taken out of a cache that was filled before `Generated.finish_reason` was."""
    kind = "generate"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        decoding = [self.decoding.max_new_tokens, self.decoding.temperature]
        parts = [self.kind, _canonical_prompt(self.prompt), decoding]
        return parts if self.schema is None else [*parts, self.schema]


@quickly_made
@dataclass(frozen=True, slots=True)
class Score:
    """Log probabilities (natural log) of continuations of one prompt."""

    prompt: Prompt
    continuations: tuple[str, ...]
    first_token: bool = False
    """True: of each continuation only the first token by which tokenise(prompt + continuation)
    departs from tokenise(prompt), and the whole sequence for those that share that token
    (METHODS 1.2, letters). False: the sum over all tokens that differ from the prompt's."""
    kind = "score"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        prompt = _canonical_prompt(self.prompt)
        return [self.kind, prompt, list(self.continuations), self.first_token]


@dataclass(frozen=True, slots=True)
class Rank:
    """Log probabilities (natural log) of options, from a head that values them one by one."""

    prompt: str
    """The question: the first text of every pair."""
    options: tuple[str, ...]
    """The second texts; the values of all pairs are normalised by a softmax."""
    kind = "rank"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, self.prompt, list(self.options)]


@quickly_made
@dataclass(frozen=True, slots=True)
class Choose:
    """Answer a whole multiple-choice prompt; for victims that are functions, not models."""

    prompt: str
    letters: str
    kind = "choose"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, self.prompt, self.letters]


@dataclass(frozen=True, slots=True)
class Tag:
    """Label every token of a sentence: named-entity recognition."""

    tokens: tuple[str, ...]
    """Words and signs as the data set cuts them; never empty."""
    kind = "tag"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, list(self.tokens)]


@dataclass(frozen=True, slots=True)
class Compare:
    """Say how similar two texts are; their order counts, as it may for a cross-encoder."""

    text_a: str
    text_b: str
    kind = "compare"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, self.text_a, self.text_b]


@dataclass(frozen=True, slots=True)
class Classify:
    """Say which label holds of two texts; answered by `Chosen`, or by `Scored` in their order."""

    text_a: str
    text_b: str
    labels: tuple[str, ...]
    """As the victim calls them."""
    kind = "classify"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, [self.text_a, self.text_b], list(self.labels)]


Call: TypeAlias = Generate | Score | Rank | Choose | Tag | Compare | Classify


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The answer to `Generate`."""

    text: str
    """What was said, with thoughts in tags where the model writes them so."""
    finish_reason: str | None = None
    """`LENGTH` where the text was cut off at `max_new_tokens`; None: it came to its end, or its
    reader needed no more, or nobody knows."""
    reasoning: str | None = None
    """Thoughts that a server gives beside the text."""
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether the text was cut off before its end."""
        return self.finish_reason == LENGTH


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The answer to `Score`, `Rank` or `Classify`."""

    log_probs: tuple[float, ...]
    """One value a continuation, option or label, natural log."""
    n_tokens: tuple[int, ...]
    """Tokens each value is a sum over; for `Rank` those of the pair that was read."""
    tokens_in: int = 0
    tokens_out: int = 0


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The answer to `Choose` or `Classify`: a text to parse, a letter or label, or scores."""

    text: str | None = None
    answer: str | None = None
    scores: tuple[float, ...] | None = None
    """One value a letter or label, any scale; the largest wins."""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """The answer to `Tag`."""

    labels: tuple[str, ...]
    """One label a token, in IOB style with the model's own types."""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The answer to `Compare`."""

    score: float
    """Larger is more similar; the scale is the model's. Finite."""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that could not be answered; ends the trial that asked as failed."""

    error: str


Answer: TypeAlias = Generated | Scored | Chosen | Tagged | Compared
Reply: TypeAlias = Answer | Failure


FROM_CACHE = 0
"""In place of the trial that paid for an answer: it was taken from the shared cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """What must be equal for two answers to count as the same model's."""

    name: str
    """As shown to people."""
    hash: str
    """Content hash of weights, dtype and library version, or of a function's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTraits:
    """What a back end declares of itself; all but `calls` has a default."""

    calls: frozenset[str]
    """The calls it answers: of `generate`, `score`, `rank`, `choose`, `tag`, `compare`,
    `classify`."""
    batch_size: int = 1
    """The most calls handed over at once."""
    workers: int = 1
    """Threads that may call `answer` at the same time."""
    ahead: int = 0
    """Calls worth computing early for one trial; 0 where an unused call costs the user.
    Unless it is 0, what a trial asks whatever comes is computed early as far as a batch goes."""
    structured: bool = False
    """Whether texts of `Generate` follow the schema of their call; others are sent no schema."""
    in_turns: bool = True
    """Whether a conversation can be held in turns; else it is asked as one text."""
    labels: tuple[str, ...] = ()
    """The labels that answers to `tag` or `classify` may hold, where they are known."""
    parameters: int | None = None
    """Parameters of the model, where they were counted."""


class Backend(ABC):
    """Anything that answers calls; blocking.

    A back end sets `identity` and `traits` and writes `answer`; the rest has a default.
    """

    identity: ModelIdentity
    """Part of every cache key; settled before the first call."""
    traits: BackendTraits
    """What it answers, and how it wants to be asked."""

    @abstractmethod
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; same length. Called from `traits.workers` threads.

        Raises:
            UsageError: the model broke its contract and the run cannot go on.
            BackendError: the whole batch failed.
        """

    def close(self) -> None:  # noqa: B027 - many hold nothing
        """Release what is held; called once."""

    @property
    def counters(self) -> Mapping[str, int]:
        """What it has counted so far, for the manifest: tokens, requests."""
        return {}

    @property
    def endpoint(self) -> Mapping[str, Any] | None:
        """What is asked over a network, for the manifest; None where nothing is."""
        return None

    def expect(self, endpoint: Mapping[str, Any]) -> None:  # noqa: B027
        """Go on as the `endpoint` that the manifest of a resumed run holds."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Request:
    """A call together with what tells its repetitions apart."""

    call: Call
    sample: int = 0
    """0 for deterministic calls; sampled calls, the repeat control and the flip check carry
    their own index, or they would read back one stored answer."""

    @property
    def addressed(self) -> Call:
        """The call as a back end gets it: a sampled one knows which sample it is."""
        if self.sample and isinstance(self.call, Generate):
            return replace(self.call, sample=self.sample)
        return self.call

    def fitted(self, backend: Backend) -> Request:
        """The request as a back end can take it: without a schema that it would not follow."""
        if (
            isinstance(self.call, Generate)
            and self.call.schema is not None
            and not backend.traits.structured
        ):
            return replace(self, call=replace(self.call, schema=None))
        return self

    def key(self, model: ModelIdentity) -> bytes:
        """The cache key, 16 bytes: who is asked, what, and which repetition."""
        whole = ["whole"] if getattr(self.call, "is_read_whole", False) else []
        ends = ["ends"] if getattr(self.call, "wants_end", False) else []
        return digest([model.hash, self.call.canonical(), self.sample, *whole, *ends])


def _canonical_prompt(prompt: Prompt) -> str | list[list[str]]:
    if isinstance(prompt, str):
        return prompt
    return [[message.role, message.content] for message in prompt]
