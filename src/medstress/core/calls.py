"""Calls to a back end, and their answers.

A call is one frozen, hashable request that knows nothing of attacks or items. An answer is what the
back end returns for it. Every request to a model is one of these calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

from medstress.core.frozen import fast_init
from medstress.core.hashing import canonical_json, digest
from medstress.core.items import Item


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    """`system`, `user` or `assistant`."""
    content: str


LENGTH, WITHHELD = "length", "content_filter"
"""The `finish_reason` of a truncated text, and of one that a content filter withheld."""

Prompt: TypeAlias = str | tuple[Message, ...]
"""Plain text, or a conversation that the back end renders with the model's chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How text is generated."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    """0 is greedy."""
    thoughts: tuple[str, str] | None = field(default=None, compare=False)
    """Opening and closing mark of thoughts, on top of the usual ones, which are cut from what a
    role writes. Not part of the call."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue the prompt with text."""

    prompt: Prompt
    decoding: Decoding = Decoding()
    sample: int = 0
    """Index among several samples of one prompt; seeds the sampling if the temperature is not 0.
    `Request.addressed` sets it from the request's own index, which is in the cache key."""
    schema: str | None = None
    """The JSON schema of the text, as canonical JSON: an object whose properties are all required,
    with no others allowed. None: any text. Only back ends that declare `structured` get a schema;
    for the others the prompt must describe the format."""
    is_over: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)
    """Says of a text so far that no more of it is read, so that a back end may stop. Not part of
    the call, because a longer text reads the same. None: the text is wanted whole."""
    kind = "generate"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        decoding = [self.decoding.max_new_tokens, self.decoding.temperature]
        parts = [self.kind, _canonical_prompt(self.prompt), decoding]
        return parts if self.schema is None else [*parts, self.schema]


@fast_init
@dataclass(frozen=True, slots=True)
class Score:
    """Return log probabilities (natural log) of continuations of one prompt."""

    prompt: Prompt
    continuations: tuple[str, ...]
    first_token: bool = False
    """True: score only the first token at which tokenise(prompt + continuation) departs from
    tokenise(prompt); continuations that share that token are scored over all their tokens
    (METHODS 1.2, letters). False: sum over all tokens that differ from the prompt's."""
    kind = "score"

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        prompt = _canonical_prompt(self.prompt)
        return [self.kind, prompt, list(self.continuations), self.first_token]


class _Plain:
    """Base of calls whose fields, in order, are what defines them."""

    __slots__: tuple[str, ...] = ()
    kind: ClassVar[str]

    def canonical(self) -> list[Any]:
        """The parts that define this call, as JSON values."""
        return [self.kind, *(getattr(self, name) for name in self.__slots__)]


@dataclass(frozen=True, slots=True)
class Rank(_Plain):
    """Return log probabilities (natural log) of options, from a head that scores each pair."""

    prompt: str
    """The question: the first text of every pair."""
    options: tuple[str, ...]
    """The second texts; a softmax normalises the values of all pairs."""
    kind = "rank"


@fast_init
@dataclass(frozen=True, slots=True)
class Choose(_Plain):
    """Answer a complete multiple-choice prompt; for victims that are functions, not models."""

    prompt: str
    letters: str
    kind = "choose"


@dataclass(frozen=True, slots=True)
class Tag(_Plain):
    """Label every token of a sentence: named-entity recognition."""

    tokens: tuple[str, ...]
    """Words and punctuation as the data set splits them; never empty."""
    kind = "tag"


@dataclass(frozen=True, slots=True)
class Compare(_Plain):
    """Score the similarity of two texts; their order may matter, as for a cross-encoder."""

    text_a: str
    text_b: str
    kind = "compare"


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
class _Counted:
    """Base of answers: the tokens that one took."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(_Counted):
    """The answer to `Generate`."""

    text: str
    """The generated text, including reasoning in tags if the model writes it that way."""
    finish_reason: str | None = None
    """`LENGTH` if the text was truncated at `max_new_tokens`; `WITHHELD` if a content filter keeps
    it, so that the text is empty; None if it ended, if its reader needed no more, or if that is
    unknown."""
    reasoning: str | None = None
    """Reasoning that a server returns apart from the text."""
    note: str | None = None
    """Why there is no text to read."""

    @property
    def is_cut(self) -> bool:
        """Whether the text was truncated."""
        return self.finish_reason == LENGTH


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(_Counted):
    """The answer to `Score`, `Rank` or `Classify`."""

    log_probs: tuple[float, ...]
    """One value per continuation, option or label, natural log."""
    n_tokens: tuple[int, ...]
    """The number of tokens each value sums over; for `Rank`, the tokens of the pair."""
    note: str | None = None
    """Which form of the letters carried the mass in a server's list (METHODS 1.2), or why there are
    no values."""


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(_Counted):
    """The answer to `Choose` or `Classify`: a text to parse, a letter or label, or scores."""

    text: str | None = None
    answer: str | None = None
    scores: tuple[float, ...] | None = None
    """One value per letter or label, on any scale; the largest wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(_Counted):
    """The answer to `Tag`."""

    labels: tuple[str, ...]
    """One IOB label per token, with the model's own types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(_Counted):
    """The answer to `Compare`."""

    score: float
    """Larger is more similar; the scale is the model's. Finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The back end could not answer a call; the trial that made it ends as failed."""

    error: str


Answer: TypeAlias = Generated | Scored | Chosen | Tagged | Compared
Reply: TypeAlias = Answer | Failure


FROM_CACHE = 0
"""In place of the paying trial if an answer came from the shared cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model answered: equal identities mean the same model."""

    name: str
    """The name shown to users."""
    hash: str
    """Content hash of weights, dtype and library version, or of a function's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendTraits:
    """What a back end declares about itself; all fields but `calls` have defaults."""

    calls: frozenset[str]
    """Kinds of calls it answers, by the names of their classes: `generate`, `score`, ..."""
    batch_size: int = 1
    """The largest number of calls given to `answer` at once."""
    workers: int = 1
    """The number of threads that may call `answer` at the same time."""
    ahead: int = 0
    """Calls to compute early for a trial, to fill batches; 0 if an unused one costs money."""
    structured: bool = False
    """Whether `Generate` follows the call's schema; else none is sent."""
    in_turns: bool = True
    """Whether it takes a conversation in turns; if not, it gets one text."""
    labels: tuple[str, ...] = ()
    """The labels that answers to `tag` or `classify` may contain, if known."""
    parameters: int | None = None
    """The model's number of parameters, if counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How much a model reads at once."""

    tokens: int
    """Tokens of prompt and reply together."""
    count: Callable[[Sequence[Prompt]], list[int]]
    """Counts the tokens of prompts."""


class Backend(ABC):
    """Answers calls; blocks until they are answered.

    A subclass sets `identity` and `traits` and implements `answer`; the rest has defaults.
    """

    identity: ModelIdentity
    """Part of every cache key; fixed before the first call."""
    traits: BackendTraits
    """Which calls it answers, and in what batches. `structured` and `in_turns`, which decide what
    is asked, are fixed before the first call."""

    @abstractmethod
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Return one reply per call, in order. Called from `traits.workers` threads.

        Raises:
            UsageError: the model broke its contract and the run cannot continue.
            BackendError: the whole batch failed.
        """

    def close(self) -> None:  # noqa: B027 - many hold nothing
        """Release all resources; called once."""

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts so far for the manifest, such as tokens and requests."""
        return {}

    @property
    def window(self) -> Window | None:
        """How much the model reads at once; None if that is unknown or has no limit."""
        return None

    def too_long(self, calls: Sequence[Call]) -> list[str | None]:
        """Return why each call is longer than the model reads, without computing anything.

        None for a call that fits, and where that is unknown.
        """
        return [None] * len(calls)

    def token_starts(self, text: str) -> Sequence[int] | None:
        """Return where the model's tokens begin in a text, in characters; None if unknown."""
        return None

    @property
    def endpoint(self) -> Mapping[str, Any] | None:
        """The server it asks and what its answers showed of it, if that decides how later ones are
        asked for or read. The manifest has it before an answer that it decided. None: no server."""
        return None

    def expect(self, endpoint: Mapping[str, Any]) -> None:  # noqa: B027
        """Take over the `endpoint` in the manifest of a resumed run."""


@fast_init
@dataclass(frozen=True, slots=True)
class Request:
    """A call with the index of its repetition."""

    call: Call
    sample: int = 0
    """0 for deterministic calls. Sampled calls, the repeat control and the flip check each have
    their own index, so that the cache does not return one stored answer for all."""

    @property
    def addressed(self) -> Call:
        """The call for the back end; a sampled `Generate` carries its index."""
        if self.sample and isinstance(self.call, Generate):
            return replace(self.call, sample=self.sample)
        return self.call

    def fitted(self, backend: Backend) -> Request:
        """Return the request for a back end; drop the schema if it would not follow one."""
        if (
            isinstance(self.call, Generate)
            and self.call.schema is not None
            and not backend.traits.structured
        ):
            return replace(self, call=replace(self.call, schema=None))
        return self

    @property
    def stored(self) -> str:
        """All that a key is over but the model, as a ledger keeps it: `[call, sample]` as JSON."""
        return canonical_json([self.call.canonical(), self.sample])

    def key(self, model: ModelIdentity) -> bytes:
        """Return the cache key, 16 bytes, of model, call and repetition."""
        return digest([model.hash, self.call.canonical(), self.sample])


def _canonical_prompt(prompt: Prompt) -> str | list[list[str]]:
    if isinstance(prompt, str):
        return prompt
    return [[message.role, message.content] for message in prompt]


# -- What a ledger is given and gives back --------------------------------------------------------
PlannedTrial: TypeAlias = tuple[str, int, str, Item, int, int]
"""A trial that is about to begin: (trial_id, row of its arm, dataset, item, repeat, place)."""
Exchange: TypeAlias = tuple[
    int, int, str, str, int | None, int, bytes, str | None, str | None, str | None, str | None
]
"""(trial, seq, role, purpose, query, call, key, edits, flags, request, error)"""


class BegunTrial(NamedTuple):
    """A trial that begins, or begins again."""

    row: int
    """Its row."""
    is_finished: bool
    """Whether it has a verdict."""
    journal: dict[int, tuple[bytes, str | None]]
    """Calls consumed before an interrupt: seq -> (key, error); empty for a finished trial."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One call that a trial, inquiry or study consumed: a row of `exchanges`, with its answer."""

    role: str
    purpose: str
    query: int | None
    call: int
    key: bytes
    edits: str | None
    """Of the first call of a perturbed query, as JSON."""
    flags: str | None
    """Of the first call of a query: what it says of itself, as JSON."""
    request: str | None
    """`[call, sample]` as JSON, where item, edits and prompt do not determine it."""
    error: str | None
    answer: Answer | None
    """None if it was not answered."""

    @property
    def reply(self) -> Reply:
        """What the one who asked was sent."""
        if self.error is not None or self.answer is None:
            return Failure(error=self.error or "the answer is missing")
        return self.answer
