"""Any OpenAI-compatible server: OpenAI's, vLLM, llama.cpp, Ollama, TGI.

A prompt that is plain text goes to the completions endpoint, a conversation to the chat endpoint.
One call is one request, so that the server and the ledger count the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from medstress.backends.options import BackendOptions
from medstress.backends.server.address import address_of, key_of
from medstress.backends.server.connection import Connection, FirstRequest, Patience
from medstress.backends.server.errors import Server, ServerTrouble, Then
from medstress.backends.server.model_names import AnsweringModel, MatchModel
from medstress.backends.server.rate_limits import RateLimits
from medstress.backends.server.replies import (
    is_cut,
    most_tokens,
    plain,
    reasoning_of,
    text_of,
    usage_of,
)
from medstress.backends.server.schemas import SchemaWatch, response_format
from medstress.backends.server.scores import first_token_scores, text_scores
from medstress.backends.server.temperature import Temperature
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    Prompt,
    Reply,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, digest

T = TypeVar("T", Generated, Scored)

DEFAULT_IN_FLIGHT = 8
_LENGTH_KEY, _OTHER_LENGTH_KEY = "max_tokens", "max_completion_tokens"
_TOP = 20
"""Alternatives requested: the most that OpenAI's chat endpoint and vLLM give by default."""
_FEW = 5
"""The most that some other servers give."""


class OpenAiBackend(Backend):
    """Answers `generate` and `score` calls by asking a server.

    Args:
        connection: the connection to the server.
        max_in_flight: the most requests at the same time.
        version: distinguishes what the model's name does not, such as a quantisation.
        structured: whether to send a call's schema to the server.
        match: which answering model is taken for the requested one.
        listed: all models that the server lists; empty if that is not known.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        max_in_flight: int = DEFAULT_IN_FLIGHT,
        version: str | None = None,
        structured: bool = True,
        match: MatchModel = MatchModel.LOOSE,
        listed: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._server = connection.server
        model = self._server.model
        # Each call's key covers the endpoint (text or conversation). Nothing covers the address,
        # because the same model elsewhere is the same model.
        self.identity = ModelIdentity(
            name=model, hash=content_hash(["openai", 1, model, version or ""])
        )
        # No calls ahead, because unused answers cost money, too.
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score"}),
            workers=max_in_flight,
            structured=structured,
        )
        self._answering = AnsweringModel(self._server, match, listed)
        self._first = FirstRequest()
        self._has_scored = False
        self._schemas = SchemaWatch(connection.server)
        self._n_top = _TOP
        self._length_key = _LENGTH_KEY
        self._temperature = Temperature()

    @property
    def counters(self) -> dict[str, int]:
        """As the connection's."""
        return self._connection.counters

    @property
    def endpoint(self) -> dict[str, Any]:
        """The server's address, whether it is sent schemas, and what its answers showed.

        That is the model's name with what it adds to the requested one, what the server said about
        the temperature if it objected, and what it has done or does not take.
        """
        learned: dict[str, Any] = {
            "temperature": self._temperature.objection,
            "follows_schemas": self._schemas.has_followed,
            "gives_scores": self._has_scored,
            "few_alternatives": self._n_top != _TOP,
            "max_completion_tokens": self._length_key != _LENGTH_KEY,
        }
        return {
            "url": self._server.url,
            "model": self._server.model,
            "structured": self.traits.structured,
            **self._answering.describe(),
            **{name: value for name, value in learned.items() if value},
        }

    def expect(self, endpoint: Mapping[str, Any]) -> None:
        """Go on as the run began: refuse answers from another model, and know what the answers to
        earlier processes showed."""
        self._answering.name = endpoint.get("answered_as") or self._answering.name
        self._temperature.objection = endpoint.get("temperature") or self._temperature.objection
        self._schemas.has_followed |= endpoint.get("follows_schemas") is True
        self._has_scored |= endpoint.get("gives_scores") is True
        if endpoint.get("few_alternatives"):
            self._n_top = _FEW
        if endpoint.get("max_completion_tokens"):
            self._length_key = _OTHER_LENGTH_KEY

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; wait for rate limits and retries.

        Raises:
            UsageError: the server cannot answer such calls, refuses the key, or serves another
                model.
        """
        return [self._answer(call) for call in calls]

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def _answer(self, call: Call) -> Reply:
        try:
            return self._first.then(lambda: self._answered(call))
        except ServerTrouble as trouble:
            if trouble.then is Then.STOP:
                raise UsageError(str(trouble)) from None
            return Failure(error=str(trouble))

    def _answered(self, call: Call) -> Reply:
        match call:
            case Generate():
                return self._generate(call)
            case Score(first_token=True):
                return self._letters(call)
            case Score():
                return self._texts(call)
        return Failure(error=f"the openai back end cannot answer {call.kind!r} calls")

    # -- the three kinds of request ----------------------------------------------------------
    def _generate(self, call: Generate) -> Generated:
        length = call.decoding.max_new_tokens
        seed = int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1

        def body() -> dict[str, Any]:
            return {
                **self._body(call.prompt, length),
                **self._temperature.field(call.decoding.temperature),
                "seed": seed,
                **response_format(call.schema),
            }

        def read(reply: dict[str, Any]) -> Generated:
            (choice,) = self._choices(reply, 1)
            text = text_of(choice)
            if text is None:
                raise ServerTrouble(f"{self._server.where} sent an empty choice", Then.AGAIN)
            if call.schema:
                self._schemas.check(call.schema, choice, text)
            tokens_in, tokens_out = usage_of(reply, [plain(call.prompt)], text)
            return Generated(
                text=text,
                finish_reason=LENGTH if is_cut(choice) else None,
                reasoning=reasoning_of(choice),
                tokens_in=tokens_in,
                tokens_out=tokens_out,
            )

        most = most_tokens([plain(call.prompt)]) + length
        return self._ask(call.prompt, body, read, most)

    def _letters(self, call: Score) -> Scored:
        def body() -> dict[str, Any]:
            chat = not isinstance(call.prompt, str)
            wanted = {"logprobs": True, "top_logprobs": self._n_top} if chat else {}
            return {
                **self._body(call.prompt, 1),
                **self._temperature.field(0.0),
                **(wanted or {"logprobs": self._n_top}),
            }

        def read(reply: dict[str, Any]) -> Scored:
            (choice,) = self._choices(reply, 1)
            message = choice.get("message")
            if isinstance(message, dict) and message.get("refusal"):
                raise ServerTrouble(
                    f"{self._server.model!r} refused to answer, so there is no log "
                    "probability of any letter",
                    Then.ITEM_FAILS,
                )
            scores = first_token_scores(choice.get("logprobs"), call.continuations)
            if scores is None:
                raise self._lacking("log probabilities (logprobs)", "letter", "generate")
            tokens_in, tokens_out = usage_of(reply, [plain(call.prompt)], "x")
            self._has_scored = True
            return Scored(
                log_probs=scores,
                n_tokens=(1,) * len(scores),
                tokens_in=tokens_in,
                tokens_out=tokens_out,
            )

        most = most_tokens([plain(call.prompt)]) + 1
        return self._ask(call.prompt, body, read, most)

    def _texts(self, call: Score) -> Scored:
        prompt = call.prompt
        if not isinstance(prompt, str):
            raise ServerTrouble(
                'answer_by = "text" needs log probabilities of the prompt, which no server gives '
                'for conversations: use a prompt without a system line, or answer_by = "letter"',
                Then.STOP,
            )
        sent = [prompt, *(prompt + text for text in call.continuations)]

        def body() -> dict[str, Any]:
            return {
                "model": self._server.model,
                "prompt": sent,
                "max_tokens": 0,
                "echo": True,
                "logprobs": 1,
                **self._temperature.field(0.0),
            }

        def read(reply: dict[str, Any]) -> Scored:
            choices = reply.get("choices")
            # A server that ignores `echo` may also ignore the list and return one choice.
            n = len(sent) if isinstance(choices, list) and len(choices) != 1 else 1
            scored = text_scores(self._choices(reply, n), prompt, call.continuations)
            if scored is None:
                raise self._lacking(
                    "log probabilities of the prompt (echo with logprobs)", "text", "letter"
                )
            tokens_in, tokens_out = usage_of(reply, sent, "")
            self._has_scored = True
            return Scored(
                log_probs=scored[0],
                n_tokens=scored[1],
                tokens_in=tokens_in,
                tokens_out=tokens_out,
            )

        return self._ask(prompt, body, read, most_tokens(sent))

    # -- what they share ---------------------------------------------------------------------
    def _body(self, prompt: Prompt, length: int) -> dict[str, Any]:
        if isinstance(prompt, str):
            return {"model": self._server.model, "prompt": prompt, "max_tokens": length}
        messages = [{"role": m.role, "content": m.content} for m in prompt if m.content]
        return {"model": self._server.model, "messages": messages, self._length_key: length}

    def _ask(
        self,
        prompt: Prompt,
        body: Callable[[], dict[str, Any]],
        read: Callable[[dict[str, Any]], T],
        most_tokens: int,
    ) -> T:
        """Send a request; if the server rejects a field, adapt the request and send it again."""
        path = "/completions" if isinstance(prompt, str) else "/chat/completions"
        while True:
            sent = body()
            try:
                return self._connection.ask(path, sent, most_tokens, read)
            except ServerTrouble as trouble:
                if not trouble.rejected:
                    raise
                self._adapt(trouble.said, sent)
                if body() == sent:
                    raise self._refused(trouble, sent) from None

    def _adapt(self, said: str, sent: dict[str, Any]) -> None:
        """Adapt to a server's names for the length, its number of alternatives and its
        temperature."""
        self._temperature.refused(said, sent)
        if _OTHER_LENGTH_KEY in said:
            self._length_key = _OTHER_LENGTH_KEY
        elif "logprobs" in said:
            self._n_top = _FEW

    def _refused(self, trouble: ServerTrouble, sent: dict[str, Any]) -> ServerTrouble:
        """Return the error for a refused request; a feature that never worked stops the run."""
        if about_schemas := self._schemas.refused(trouble, sent):
            return about_schemas
        refused = "echo" in trouble.said or "logprobs" in trouble.said
        if trouble.then is not Then.ITEM_FAILS or self._has_scored or not refused:
            return trouble
        if "echo" in sent:
            lacking = self._lacking(
                "log probabilities of the prompt (echo with logprobs)", "text", "letter"
            )
        elif "logprobs" in sent:
            lacking = self._lacking("log probabilities (logprobs)", "letter", "generate")
        else:
            return trouble
        return ServerTrouble(f"{lacking} (it says: {trouble.said})", lacking.then)

    def _lacking(self, what: str, answer_by: str, instead: str) -> ServerTrouble:
        sentence = (
            f"{self._server.where} (model {self._server.model!r}) does not return {what}, which "
            f'answer_by = "{answer_by}" needs: use answer_by = "{instead}", or a server that does'
        )
        return ServerTrouble(sentence, Then.ITEM_FAILS if self._has_scored else Then.STOP)

    def _choices(self, reply: dict[str, Any], n: int) -> list[dict[str, Any]]:
        """Return the choices of a reply in order, after checking which model answered."""
        choices = reply.get("choices")
        if (
            not isinstance(choices, list)
            or len(choices) != n
            or not all(isinstance(choice, dict) for choice in choices)
        ):
            raise ServerTrouble(f"{self._server.where} sent an empty choice", Then.AGAIN)
        self._answering.check(reply.get("model"))
        if any(choice.get("finish_reason") == "content_filter" for choice in choices):
            raise ServerTrouble(
                f"the content filter of {self._server.where} held the answer back", Then.ITEM_FAILS
            )
        return sorted(choices, key=lambda choice: choice.get("index") or 0)


def open_backend(options: BackendOptions) -> OpenAiBackend:
    """Connect to the server that `base_url` names.

    Raises:
        UsageError: no model or address is given, a named key is not set, the server refuses, or it
            lists no such model.
    """
    if not options.model:
        raise UsageError("backend 'openai' needs model = the name that the server knows")
    server = Server(
        url=address_of(options.base_url),
        model=options.model,
        key=key_of(options.api_key_env),
        key_env=options.api_key_env,
    )
    in_flight = options.max_in_flight or DEFAULT_IN_FLIGHT
    connection = Connection(
        server,
        RateLimits(options.requests_per_minute, options.tokens_per_minute),
        max_in_flight=in_flight,
        patience=Patience(answer=options.timeout_seconds),
    )
    match = MatchModel(options.match_model or MatchModel.LOOSE)
    try:
        listed: Sequence[str] = ()
        if options.greets:
            listing = connection.greet()
            listed = listing.names if listing.is_whole else ()
            AnsweringModel(server, match, listed).check_listed(connection.described)
    except BaseException:
        connection.close()
        raise
    return OpenAiBackend(
        connection,
        max_in_flight=in_flight,
        version=options.version,
        structured=options.structured,
        match=match,
        listed=listed,
    )
