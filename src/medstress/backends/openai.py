"""Any OpenAI-compatible server: OpenAI's, vLLM, llama.cpp, Ollama, TGI.

A prompt that is plain text goes to the completions endpoint, a conversation to the chat endpoint.
What a server does not take is left out or said otherwise, and the manifest holds it, so that a
resumed run asks as it began.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson

from medstress.backends import replies, server
from medstress.backends.options import BackendOptions
from medstress.backends.server import Json, ServerTrouble, Then
from medstress.backends.turns import without_system
from medstress.core.calls import (
    LENGTH,
    WITHHELD,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    Message,
    ModelIdentity,
    Reply,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, digest
from medstress.tasks.reading import without_thoughts

log = logging.getLogger(__name__)

DEFAULT_IN_FLIGHT = 8
ENDS = (None, "", "stop", LENGTH, WITHHELD, "tool_calls")
"""Finish reasons of answers; any other one is a failure."""
_TOP, _FEW = 20, 5
"""Alternatives requested: the most that OpenAI's chat endpoint and vLLM give by default, and the
most that some other servers give."""
_ONLY = 1.0
"""The temperature that some reasoning models insist on."""
_UNKNOWN = re.compile(r"unrecogni|unknown|unexpected|not permitted|\bextra\b|additional prop", re.I)
_NOT = rf"only|unsupported|not support|{_UNKNOWN.pattern}"
_INSISTS = re.compile(
    rf"temperature.{{0,120}}?({_NOT}|must be (set to )?1\b|default|not allowed|deprecated)"
    rf"|({_NOT}).{{0,120}}?temperature",
    re.I | re.S,
)
_RANGE = re.compile(r"between|range|at (most|least)|less than|greater than|[<>]", re.I)
_FIELDS = {
    "seed": re.compile(r"\bseed\b"),
    "response_format": re.compile(r"response_format|json_schema|schema|structured|grammar"),
}
"""Fields that a server may not know, and what then stands in its words."""
_TURNS = re.compile(r"system (role|message|prompt|turn)|must alternate|alternating", re.I)
_NEEDS = {
    False: ("log probabilities (logprobs)", "letter", "generate"),
    True: ("log probabilities of the prompt (echo with logprobs)", "text", "letter"),
}
"""Whether texts are scored -> what a server does not return, which `answer_by` needs it, and which
does not."""
_LEARNED = (
    *("answered_as", "temperature", "left_out", "without_system", "few_alternatives"),
    *("max_completion_tokens", "ignores_schemas", "gives_scores"),
)
"""Entries of `endpoint` that a resumed run takes over."""
_SHOWN = 8
"""How many listed names a message shows."""


class OpenAiBackend(Backend):
    """Answers `generate` and `score` calls by asking a server.

    Args:
        options: which server and model, and how they are asked.
        patience: time limits and retries; by default those of the options.
        limits: rate limits; by default those of the options.

    Raises:
        UsageError: no model or address is given, or a named key is not set.
    """

    def __init__(
        self,
        options: BackendOptions,
        *,
        patience: server.Patience | None = None,
        limits: server.RateLimits | None = None,
    ) -> None:
        if not options.model:
            raise UsageError("backend 'openai' needs model = the name that the server knows")
        url, key = server.address_of(options.base_url), server.key_of(options.api_key_env)
        self._server = server.Server(url, options.model, key, options.api_key_env)
        self._where, self._model = self._server.where, options.model
        self._options, self._omit = options, frozenset(options.omit)
        self._learned: Json = {}
        self._window = replies.Window()
        self._listed: Sequence[str] = ()
        # Each call's key covers the endpoint (text or conversation). Nothing covers the address,
        # because the same model elsewhere is the same model.
        own = [options.extra_body, sorted(options.omit)]
        covered = ["openai", 1, self._model, options.version or "", *(own if any(own) else ())]
        self.identity = ModelIdentity(name=self._model, hash=content_hash(covered))
        # No calls ahead, because unused answers cost money, too.
        workers = options.max_in_flight or DEFAULT_IN_FLIGHT
        calls = frozenset({"generate", "score"})
        self.traits = BackendTraits(calls=calls, workers=workers, structured=options.structured)
        limits = limits or server.RateLimits(options.requests_per_minute, options.tokens_per_minute)
        patience = patience or server.Patience(answer=options.timeout_seconds)
        self._connection = server.Connection(self._server, limits, workers, patience)

    @property
    def counters(self) -> Mapping[str, int]:
        """As the connection's."""
        return dict(self._connection.counters)

    @property
    def endpoint(self) -> Json:
        """The server's address, whether it is sent schemas, and what its answers showed.

        - `answered_as`: the model's name in answers; `name_adds`, what it adds to the requested one
        - `temperature`: `asked`, the experiment's; `sent`, the one that the server accepts instead,
          null if it accepts none and uses its own; `said`, its words
        - `left_out`: fields that it does not know, each with its words
        - `without_system`: its words on why system text is put into the first user turn
        - `few_alternatives`, `max_completion_tokens`: how it is asked for letters and lengths
        - `ignores_schemas`, `gives_scores`: what it has done
        - `reads_at_most`: tokens beyond which it cuts prompts without a word
        """
        name = self._learned.get("answered_as")
        added = replies.additions(name, self._model) if name else None
        return {
            "url": self._server.url,
            "model": self._model,
            "structured": self.traits.structured,
            "answered_as": name,
            **({"name_adds": added} if added else {}),
            **self._learned,
            **({"reads_at_most": self._window.tokens} if self._window.tokens else {}),
        }

    def expect(self, endpoint: Mapping[str, Any]) -> None:
        """Go on as the run began: refuse answers from another model, and know what the answers to
        earlier processes showed."""
        self._learned |= {name: endpoint[name] for name in _LEARNED if endpoint.get(name)}
        self._window.tokens = endpoint.get("reads_at_most") or self._window.tokens

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; wait for rate limits and retries.

        Raises:
            UsageError: the server cannot answer such calls, refuses the key, or serves another
                model.
        """

        async def all_of_them() -> list[Reply]:
            return [await self._answer(call) for call in calls]

        return self._connection.run(all_of_them())

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    async def _answer(self, call: Call) -> Reply:
        if not isinstance(call, Generate | Score):
            return Failure(error=f"the openai back end cannot answer {call.kind!r} calls")
        try:
            if isinstance(call, Generate):
                return await self._generate(call)
            return await (self._letters(call) if call.first_token else self._texts(call))
        except ServerTrouble as trouble:
            if trouble.then is Then.STOP:
                raise UsageError(str(trouble)) from None
            if trouble.then is Then.UNREADABLE:
                return _withheld(call, str(trouble))
            return Failure(error=str(trouble))

    # -- the three kinds of request ----------------------------------------------------------
    async def _generate(self, call: Generate) -> Reply:
        seed = int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1
        fields: Json = {"seed": seed}
        if call.schema:
            form = {"name": "answer", "strict": True, "schema": orjson.loads(call.schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}

        def read(choices: Sequence[Json]) -> Generated:
            text, reasoning = replies.text_of(choices[0])
            if text is None:
                message = choices[0].get("message") or {}
                calls_tool = isinstance(message, dict) and message.get("tool_calls")
                what = "a call of a tool and no text" if calls_tool else "an answer without a text"
                shown = self._server.redacted(orjson.dumps(choices[0]).decode())
                then = Then.ITEM_FAILS if calls_tool else Then.AGAIN
                raise ServerTrouble(f"{self._where} sent {what}: {shown}", then)
            if call.schema and "response_format" not in self._left_out():
                self._note_schema(call.schema, choices[0], text)
            ended = LENGTH if replies.is_cut(choices[0]) else None
            return Generated(text=text, finish_reason=ended, reasoning=reasoning)

        return await self._ask(
            call, [replies.plain(call.prompt)], call.decoding.max_new_tokens, fields, read
        )

    async def _letters(self, call: Score) -> Reply:
        def read(choices: Sequence[Json]) -> Generated | Scored:
            message = choices[0].get("message")
            if isinstance(message, dict) and message.get("refusal"):
                words = self._server.redacted(str(message["refusal"]))
                return _withheld(call, f"{self._model!r} refused to answer: {words}")
            scored = replies.first_token_scores(choices[0].get("logprobs"), call.continuations)
            if scored is None:
                raise self._lacking(texts=False)
            self._learned["gives_scores"] = True
            return Scored(log_probs=scored[0], n_tokens=(1,) * len(scored[0]), note=scored[1])

        return await self._ask(call, [replies.plain(call.prompt)], 1, {"logprobs": _TOP}, read)

    async def _texts(self, call: Score) -> Reply:
        prompt = call.prompt
        if not isinstance(prompt, str):
            raise ServerTrouble(
                'answer_by = "text" needs log probabilities of the prompt, which no server gives '
                'for conversations: use a prompt without a system line, or answer_by = "letter"',
                Then.STOP,
            )
        sent = [prompt, *(prompt + text for text in call.continuations)]

        def read(choices: Sequence[Json]) -> Scored:
            scored = replies.text_scores(choices, sent)
            if scored is None:
                raise self._lacking(texts=True)
            self._learned["gives_scores"] = True
            return Scored(log_probs=scored[0], n_tokens=scored[1])

        fields = {"prompt": sent, "echo": True, "logprobs": 1}
        return await self._ask(call, sent, 0, fields, read)

    # -- what they share ---------------------------------------------------------------------
    def _left_out(self) -> frozenset[str]:
        return self._omit.union(self._learned.get("left_out", ()))

    def _body(self, call: Generate | Score, length: int, fields: Json) -> Json:
        """Return the body of a request, as the server is known to take it."""
        learned, prompt = self._learned, call.prompt
        body: Json = {"model": self._model, "max_tokens": length, **fields}
        body["temperature"] = call.decoding.temperature if isinstance(call, Generate) else 0.0
        if objection := learned.get("temperature"):
            body["temperature"] = objection["sent"]
        if body.get("logprobs") == _TOP and learned.get("few_alternatives"):
            body["logprobs"] = _FEW
        if isinstance(prompt, str):
            body.setdefault("prompt", prompt)
        else:
            turns: Sequence[Message] = [turn for turn in prompt if turn.content]
            turns = without_system(turns) if learned.get("without_system") else turns
            body["messages"] = [{"role": m.role, "content": m.content} for m in turns]
            if learned.get("max_completion_tokens"):
                body["max_completion_tokens"] = body.pop("max_tokens")
            if "logprobs" in body:
                body |= {"logprobs": True, "top_logprobs": body["logprobs"]}
        left_out = self._left_out()
        kept = {k: value for k, value in body.items() if k not in left_out and value is not None}
        return {**kept, **self._options.extra_body}

    async def _ask(
        self,
        call: Generate | Score,
        texts: Sequence[str],
        length: int,
        fields: Json,
        read: Callable[[Sequence[Json]], Generated | Scored],
    ) -> Reply:
        """Make the request of a call, and read its reply.

        Args:
            call: the call.
            texts: the prompts of the request.
            length: the most tokens of each answer.
            fields: what the body holds besides the prompt, its length and the temperature.
            read: returns the answer in the reply's choices, without counts of tokens.
        """

        def answer(reply: Json) -> Generated | Scored:
            choices = self._choices(reply, len(texts))
            if any(choice.get("finish_reason") == WITHHELD for choice in choices):
                reason = f"the content filter of {self._where} withheld the answer"
                answered = _withheld(call, reason)
            else:
                answered = read(choices)
            if (n := replies.counted(reply, "prompt_tokens")) is not None and len(texts) == 1:
                self._window.see(len(texts[0]), n)
            text = answered.text if isinstance(answered, Generated) else ""
            tokens: Any = replies.usage_of(reply, texts, text)
            return replace(answered, **tokens)

        def adapt(trouble: ServerTrouble, sent: Json) -> bool:
            self._learn(trouble, sent)
            if self._body(call, length, fields) != sent:
                return True
            about_scores = "logprobs" in sent and re.search("echo|logprobs", trouble.said)
            if about_scores and trouble.status < 500 and not self._learned.get("gives_scores"):
                raise self._lacking(texts="echo" in sent, said=trouble.said)
            return False

        return await self._connection.ask(
            server.Request(
                path="/completions" if isinstance(call.prompt, str) else "/chat/completions",
                body=lambda: self._body(call, length, fields),
                tokens=replies.most_tokens(texts) + length,
                read=answer,
                adapt=adapt,
            )
        )

    def _learn(self, trouble: ServerTrouble, sent: Json) -> None:
        """Learn from a refusal which fields the server does not know, or wants otherwise."""
        said, learned = trouble.said, self._learned
        roles = [turn["role"] for turn in sent.get("messages", ())]
        may_move = "system" in roles or any(one == other for one, other in pairwise(roles))
        if may_move and trouble.status in (400, 422, 500) and _TURNS.search(said):
            learned.setdefault("without_system", said)
        elif trouble.status not in (400, 422, 501):
            return
        elif "max_completion_tokens" in said:
            learned["max_completion_tokens"] = True
        elif "logprobs" in said and sent.get("top_logprobs", sent.get("logprobs")) == _TOP:
            learned["few_alternatives"] = True
        elif "temperature" in sent and _INSISTS.search(said) and not _RANGE.search(said):
            first = {"asked": sent["temperature"], "sent": _ONLY, "said": said}
            objection = learned.get("temperature", first)
            # Decided by the body, because several requests may be refused at the same time.
            refused = sent["temperature"] == _ONLY or _UNKNOWN.search(said)
            learned["temperature"] = {**objection, "sent": None} if refused else objection
        for name, words in _FIELDS.items():
            if name in sent and words.search(said):
                learned["left_out"] = {name: said, **learned.get("left_out", {})}

    def _lacking(self, *, texts: bool, said: str = "") -> ServerTrouble:
        """Return the error for scores that did not come; if they never did, it stops the run."""
        what, answer_by, instead = _NEEDS[texts]
        words = f" (it says: {said})" if said else ""
        sentence = (
            f"{self._where} (model {self._model!r}) does not return {what}, which answer_by = "
            f'"{answer_by}" needs: use answer_by = "{instead}", or a server that does{words}'
        )
        has_given = self._learned.get("gives_scores")
        return ServerTrouble(sentence, Then.ITEM_FAILS if has_given else Then.STOP)

    def _choices(self, reply: Json, n: int) -> list[Json]:
        """Return the choices of a reply in order, after checking that they are an answer."""
        choices = reply.get("choices") or []
        is_list = isinstance(choices, list) and all(isinstance(one, dict) for one in choices)
        errors = [one["error"] for one in choices if one.get("error")] if is_list else []
        if error := reply.get("error") or next(iter(errors), None):
            # Some routers report with status 200 what went wrong behind them.
            code = str(error.get("code") if isinstance(error, dict) else None)
            status = int(code) if re.fullmatch("[345][0-9][0-9]", code) else 502
            raw = orjson.dumps({"error": error}).decode()
            status = 400 if code == WITHHELD else status
            raise server.trouble_of_status(self._server, status, raw, {}, self._connection.models)
        # A server that ignores `echo` may also ignore the list of prompts and return one choice.
        if not is_list or len(choices) not in (n, 1):
            shown = self._server.redacted(orjson.dumps(reply).decode())
            sentence = f"{self._where} sent {len(choices)} choices, not {n}: {shown}"
            raise ServerTrouble(sentence, Then.AGAIN)
        self._check_name(reply.get("model"))
        for choice in choices:
            if (ended := choice.get("finish_reason")) not in ENDS:
                then = Then.AGAIN if ended in ("error", "abort") else Then.ITEM_FAILS
                shown = self._server.redacted(str(ended))
                raise ServerTrouble(f"{self._where} ended the answer with {shown!r}", then)
        return sorted(choices, key=lambda choice: choice.get("index") or 0)

    def _note_schema(self, schema: str, choice: Json, text: str) -> None:
        """Say once that the server does not follow schemas; its texts are answers like any other.

        A refusal, or a truncated text with a valid beginning, says nothing about the server.
        """
        text, message = without_thoughts(text).strip(), choice.get("message")
        is_refusal = isinstance(message, dict) and message.get("refusal")
        is_begun = replies.is_cut(choice) and text[:1] in ("", "{")
        if is_refusal or is_begun or self._learned.get("ignores_schemas"):
            return
        try:
            follows = set(orjson.loads(text)) == set(orjson.loads(schema)["properties"])
        except (TypeError, ValueError):
            follows = False
        if not follows:
            self._learned["ignores_schemas"] = True
            log.warning(
                "%s (model %r) does not follow the JSON schema it was asked for; replies are read "
                "as text (structured = false leaves the schema out)",
                self._where,
                self._model,
            )

    def _check_name(self, name: Any) -> None:
        """Check the model's name in a reply: the requested one, and always the same.

        Raises:
            ServerTrouble: it is another model's than requested, or than answered before.
        """
        before = self._learned.get("answered_as")
        if not name or not isinstance(name, str) or name == before:
            return  # the same, or the server does not name its model
        if before:
            raise ServerTrouble(
                f"{self._where} answered as {name!r}, and as {before!r} before: the answers of two "
                "models must not be mixed; name the exact version in model",
                Then.STOP,
            )
        if not self._takes(name):
            way = f"set model = {name!r} if that is the one you mean, or "
            if self._listed and name not in self._listed:
                way = ""  # the list would refuse it
            raise ServerTrouble(
                f"{self._where} was asked for the model {self._model!r} and answered as {name!r}: "
                f'{way}match_model = "any" if the server calls the requested model so '
                "(--set victim.match_model=any)",
                Then.STOP,
            )
        self._learned["answered_as"] = name

    def _takes(self, name: str) -> bool:
        """Return whether a name stands for the requested model."""
        if self._options.match_model in (None, "loose"):
            return replies.additions(name, self._model) is not None
        return name == self._model or self._options.match_model == "any"

    def greet(self) -> None:
        """Check that the server is there and lists the model, before anything is charged.

        Raises:
            UsageError: it refuses, or its whole list has no such model; suggests one that it has.
        """
        names = self._listed = self._connection.models if self._connection.greet() else ()
        # `transformers serve` loads any folder, and lists only what is in its cache.
        if not names or self._model.startswith("/"):
            return
        if any(self._takes(name) for name in names):
            return
        described = self._connection.described()
        if described is None or not self._takes(described):
            hint = replies.suggested(self._model, names[: server.MOST_NAMES])
            more = ", ..." if len(names) > _SHOWN else ""
            raise UsageError(
                f"{self._where} lists no model {self._model!r}{hint} (it lists: "
                f"{', '.join(names[:_SHOWN])}{more}); set model to one of these, or match_model = "
                '"any" (--set victim.match_model=any) if it also answers to names that it does not '
                "list"
            )


def _withheld(call: Generate | Score, reason: str) -> Generated | Scored:
    """Return the answer to a call that a filter or the model refuses: unreadable, with why."""
    if isinstance(call, Generate):
        return Generated(text="", finish_reason=WITHHELD, note=reason)
    n = len(call.continuations)
    return Scored(log_probs=(-math.inf,) * n, n_tokens=(1,) * n, note=reason)


def open_backend(options: BackendOptions) -> OpenAiBackend:
    """Connect to the server that `base_url` names.

    Raises:
        UsageError: no model or address is given, a named key is not set, the server refuses, or it
            lists no such model.
    """
    backend = OpenAiBackend(options)
    try:
        if options.greets:
            backend.greet()
    except BaseException:
        backend.close()
        raise
    return backend
