"""Any OpenAI-compatible server: OpenAI's, vLLM, llama.cpp, Ollama, TGI.

A prompt that is plain text goes to the completions endpoint, a conversation to the chat endpoint.
What a server does not take is left out or said otherwise, and the manifest holds it, so that a
resumed run asks as it began.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

import orjson

from medstress.backends import server
from medstress.backends.options import BackendOptions
from medstress.backends.server import Json, ServerTrouble, Then
from medstress.backends.turns import plain, without_system
from medstress.core.calls import (
    LENGTH,
    WITHHELD,
    Answer,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    Reply,
    Score,
    Scored,
)
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash, digest

_ADDED_TOKENS = 64
"""More tokens than a chat template or a start token adds to a prompt."""
_CHARACTERS = 4
"""Characters of a token, where a server counts none."""
_MAX_COUNT = 1 << 31
"""The largest number of tokens that is believed."""
_SPACES = str.maketrans({"\u2581": " ", "\u0120": " "})
"""How some servers write a token's leading space."""
_LEAST = 1e-12
SPACED, BARE = "letters with a space before them", "letters without a space before them"
"""Which form of the letters carried the mass."""
NOT_LISTED = "no option letter is among the likeliest tokens"
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
"""Fields that a server may not know, and what its words then say."""
_TURNS = re.compile(r"system (role|message|prompt|turn)|must alternate|alternating", re.I)
_LACKS = (
    'log probabilities (logprobs), which answer_by = "letter" needs: use answer_by = "generate"',
    'log probabilities of the prompt (echo with logprobs), which answer_by = "text" needs: use '
    'answer_by = "letter"',
)
"""What a server does not return, for letters and for texts."""
_WINDOW, _PROMPTS, _RATIO = 63, 3, 1.25
"""A window has more tokens; how many prompts reach it; how much longer the longest of them is."""
_ANY = 'match_model = "any" (--set victim.match_model=any)'
_OWN = ("victim", "url", "model", "structured")
"""Entries of `endpoint` that answers do not show."""
_SHOWN = 8
"""How many listed names a message shows."""


class OpenAiBackend(Backend):
    """Answers `generate` and `score` calls by asking a server.

    Args:
        options: which server and model, and how they are asked.
        patience: time limits and retries; by default those of the options.

    Raises:
        UsageError: no model or address is given, or a named key is not set.
    """

    def __init__(self, options: BackendOptions, patience: server.Patience | None = None) -> None:
        if not options.model:
            raise UsageError("backend 'openai' needs model = the name that the server knows")
        url, key = server.address_of(options.base_url), server.key_of(options.api_key_env)
        self._server = server.Server(url, options.model, key, options.api_key_env)
        self._where, self._model = self._server.where, options.model
        self._options = options
        self._learned: Json = {}
        self._most, self._lengths = 0, set[int]()
        # Each call's key covers the endpoint (text or conversation). Nothing covers the address,
        # because the same model elsewhere is the same model.
        own = [options.extra_body, sorted(options.omit)]
        covered = ["openai", 1, self._model, options.version or "", *(own if any(own) else ())]
        self.identity = ModelIdentity(name=self._model, hash=content_hash(covered))
        # No calls ahead, because unused answers cost money, too.
        workers = options.max_in_flight or DEFAULT_IN_FLIGHT
        calls = frozenset({"generate", "score"})
        self.traits = BackendTraits(calls=calls, workers=workers, structured=options.structured)
        limits = server.RateLimits(options.requests_per_minute, options.tokens_per_minute)
        patience = patience or server.Patience(answer=options.timeout_seconds)
        self._connection = server.Connection(self._server, limits, workers, patience)

    @property
    def counters(self) -> Mapping[str, int]:
        """As the connection's."""
        return dict(self._connection.counters)

    @property
    def endpoint(self) -> Json:
        """The server's address, whether it is sent schemas, and what its answers showed.

        - `answered_as`: the model's name in answers
        - `temperature`: `asked`, the experiment's; `sent`, the one that the server accepts instead,
          null if it accepts none and uses its own; `said`, its words
        - `left_out`: fields that it does not know, each with its words
        - `without_system`: its words on why system text is put into the first user turn
        - `few_alternatives`, `max_completion_tokens`: how it is asked for letters and lengths
        - `gives_scores`: whether it has given any
        - `reads_at_most`: tokens beyond which it cuts prompts without a word
        """
        return {
            "url": self._server.url,
            "model": self._model,
            "structured": self.traits.structured,
            "answered_as": None,
            **{name: value for name, value in self._learned.items() if value},
        }

    def expect(self, endpoint: Mapping[str, Any]) -> None:
        """Go on as the run began: refuse answers from another model, and know what the answers to
        earlier processes showed."""
        self._learned |= {name: endpoint[name] for name in endpoint.keys() - _OWN}

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; wait for rate limits and retries.

        Raises:
            UsageError: the server cannot answer such calls, refuses the key, or serves another
                model.
        """
        return [self._connection.run(self._answer(call)) for call in calls]

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    async def _answer(self, call: Call) -> Reply:
        """Make the request of a call, and read its reply."""
        if not isinstance(call, Generate | Score):
            return Failure(error=f"the openai back end cannot answer {call.kind!r} calls")
        texts = texts_of(call)

        def read(reply: Json) -> Answer:
            answered = self._read(call, texts, self._choices(reply, len(texts)))
            n_in, n_out = counted(reply, "prompt_tokens"), counted(reply, "completion_tokens")
            if n_in is None:
                n_in = sum(map(len, texts)) // _CHARACTERS
            elif len(texts) == 1:
                self._see(len(texts[0]), n_in)
            if n_out is None:
                n_out = len(answered.text) // _CHARACTERS if isinstance(answered, Generated) else 0
            return replace(answered, tokens_in=n_in, tokens_out=n_out)

        # No tokenizer makes more tokens than a text has bytes.
        most = sum(len(text.encode()) + _ADDED_TOKENS for text in texts)
        most += call.decoding.max_new_tokens if isinstance(call, Generate) else call.first_token
        path = "/completions" if isinstance(call.prompt, str) else "/chat/completions"

        async def once(is_repeated: bool) -> Answer:
            while True:
                sent = self._body(call, texts)
                try:
                    return await self._connection.once(path, sent, most, read, is_repeated)
                except ServerTrouble as trouble:
                    self._learn(trouble, sent)
                    if self._body(call, texts) == sent:
                        lacks = "logprobs" in sent and re.search("logprobs|echo", trouble.said)
                        if lacks and trouble.status < 500 and not self._learned.get("gives_scores"):
                            raise self._lacking("echo" in sent, trouble.said) from None
                        raise
                is_repeated = False

        try:
            return await self._connection.ask(once)
        except ServerTrouble as trouble:
            if trouble.then == "stop":
                raise UsageError(str(trouble)) from None
            if trouble.then == "unreadable":
                return _withheld(call, str(trouble))
            return Failure(error=str(trouble))

    def _read(self, call: Generate | Score, texts: list[str], choices: list[Json]) -> Answer:
        """Return the answer in the choices of a reply, without counts of tokens."""
        if any(choice.get("finish_reason") == WITHHELD for choice in choices):
            return _withheld(call, f"the content filter of {self._where} withheld the answer")
        message = choices[0].get("message") or {}
        if isinstance(call, Generate):
            text, reasoning = text_of(choices[0])
            calls_tool = not text and message.get("tool_calls")
            if text is None or calls_tool:
                what = "a call of a tool and no text" if calls_tool else "an answer without a text"
                shown = self._server.redacted(orjson.dumps(choices[0]).decode())
                then: Then = "item_fails" if calls_tool else "again"
                raise ServerTrouble(f"{self._where} sent {what}: {shown}", then)
            ended = LENGTH if choices[0].get("finish_reason") == LENGTH else None
            return Generated(text=text, finish_reason=ended, reasoning=reasoning)
        if refusal := message.get("refusal"):
            words = self._server.redacted(str(refusal))
            return _withheld(call, f"{self._model!r} refused to answer: {words}")
        if call.first_token:
            scored = first_token_scores(choices[0].get("logprobs"), call.continuations)
        else:
            scored = text_scores(choices, texts)
        if scored is None:
            raise self._lacking(not call.first_token)
        self._learned["gives_scores"] = True
        return scored

    def _body(self, call: Generate | Score, texts: list[str]) -> Json:
        """Return the body of a call's request, as the server is known to take it."""
        learned, prompt = self._learned, call.prompt
        body: Json = {"model": self._model, "max_tokens": 1, "temperature": 0.0, "prompt": prompt}
        if isinstance(call, Generate):
            body["max_tokens"] = call.decoding.max_new_tokens
            body["temperature"] = call.decoding.temperature
            body["seed"] = int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1
            if call.schema:
                form = {"name": "answer", "strict": True, "schema": orjson.loads(call.schema)}
                body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif call.first_token:
            body["logprobs"] = _FEW if learned.get("few_alternatives") else _TOP
        else:
            body |= {"prompt": texts, "max_tokens": 0, "echo": True, "logprobs": 1}
        if objection := learned.get("temperature"):
            body["temperature"] = objection["sent"]
        if not isinstance(prompt, str):
            turns = tuple(turn for turn in prompt if turn.content)
            turns = without_system(turns) if learned.get("without_system") else turns
            body["messages"] = [{"role": m.role, "content": m.content} for m in turns]
            del body["prompt"]
            if learned.get("max_completion_tokens"):
                body["max_completion_tokens"] = body.pop("max_tokens")
            if "logprobs" in body:
                body |= {"logprobs": True, "top_logprobs": body["logprobs"]}
        left_out = {*self._options.omit, *learned.get("left_out", ())}
        kept = {k: value for k, value in body.items() if k not in left_out and value is not None}
        return {**kept, **self._options.extra_body}

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

    def _see(self, n_characters: int, n_tokens: int) -> None:
        """Notice a server that cuts long prompts without a word, as Ollama does beyond `num_ctx`.

        Its counts of tokens stop at the window while prompts grow: the highest count is that of
        several prompts whose lengths differ far more than those of equally many tokens do.
        """
        if n_tokens > self._most:
            self._most, self._lengths = n_tokens, set()
        if n_tokens == self._most > max(self._learned.get("reads_at_most") or 0, _WINDOW):
            self._lengths.add(n_characters)
            is_cut = max(self._lengths) >= _RATIO * min(self._lengths)
            is_window = is_cut and len(self._lengths) >= _PROMPTS
            self._learned["reads_at_most"] = n_tokens if is_window else None

    def _lacking(self, texts: bool, said: str = "") -> ServerTrouble:
        """Return the error for scores that did not come; if they never did, it stops the run."""
        words = f" (it says: {said})" if said else ""
        named = f"{self._where} (model {self._model!r})"
        sentence = f"{named} does not return {_LACKS[texts]}, or a server that does{words}"
        then: Then = "item_fails" if self._learned.get("gives_scores") else "stop"
        return ServerTrouble(sentence, then)

    def _choices(self, reply: Json, n: int) -> list[Json]:
        """Return the choices of a reply in order, after checking that they are an answer."""
        choices = reply.get("choices") or []
        # A server that ignores `echo` may also ignore the list of prompts and return one choice.
        if len(choices) not in (n, 1):
            shown = self._server.redacted(orjson.dumps(reply).decode())
            sentence = f"{self._where} sent {len(choices)} choices, not {n}: {shown}"
            raise ServerTrouble(sentence, "again")
        self._check_name(reply.get("model"))
        for choice in choices:
            if (ended := choice.get("finish_reason")) not in ENDS:
                then: Then = "again" if ended in ("error", "abort") else "item_fails"
                shown = self._server.redacted(str(ended))
                raise ServerTrouble(f"{self._where} ended the answer with {shown!r}", then)
        return sorted(choices, key=lambda choice: choice.get("index") or 0)

    def _check_name(self, name: Any) -> None:
        """Check the model's name in a reply: the requested one, and always the same.

        Raises:
            ServerTrouble: it is another model's than requested, or than answered before.
        """
        before = self._learned.get("answered_as")
        if not name or not isinstance(name, str) or name == before:
            return  # the same, or the server does not name its model
        if before:
            sentence = f"answered as {name!r}, and as {before!r} before: the answers of two models "
            sentence += "must not be mixed; name the exact version in model"
        elif not self._takes(name):
            sentence = f"was asked for the model {self._model!r} and answered as {name!r}: set "
            sentence += f"model = {name!r} if you mean that one, or {_ANY} if the server calls the "
            sentence += "requested model so"
        else:
            self._learned["answered_as"] = name
            return
        raise ServerTrouble(f"{self._where} {sentence}", "stop")

    def _takes(self, name: str) -> bool:
        """Return whether a name means the requested model."""
        match, model = self._options.match_model or "loose", self._model
        return name == model or match == "any" or (match == "loose" and is_same_model(name, model))

    def greet(self) -> None:
        """Check that the server is there and lists the model, before anything is charged.

        Raises:
            UsageError: it refuses, or its whole list has no such model; suggests one that it has.
        """
        names = self._connection.greet()
        # `transformers serve` loads any folder, and lists only what is in its cache.
        if not names or self._model.startswith("/") or any(map(self._takes, names)):
            return
        # Never a model of another size.
        size, *sizes = (re.findall(r"\d+", x.rpartition("/")[2]) for x in (self._model, *names))
        alike = [name for name, one in zip(names, sizes, strict=True) if one == size]
        hint = did_you_mean(self._model, alike[: server.MOST_NAMES])
        more = ", ..." if len(names) > _SHOWN else ""
        raise UsageError(
            f"{self._where} lists no model {self._model!r}{hint} (it lists: "
            f"{', '.join(names[:_SHOWN])}{more}); set model to one of these, or {_ANY} if it "
            "also answers to names that it does not list"
        )


def _withheld(call: Generate | Score, reason: str) -> Answer:
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


# -- texts -----------------------------------------------------------------------------------
def texts_of(call: Generate | Score) -> list[str]:
    """Return the prompts of a call's request; for scored texts the prompt, then one with each text.

    Raises:
        UsageError: texts after a conversation are to be scored.
    """
    text = plain(call.prompt)
    if isinstance(call, Generate) or call.first_token:
        return [text]
    if not isinstance(call.prompt, str):
        sentence = "no server gives log probabilities of texts after a conversation"
        raise UsageError(f'{sentence}: use answer_by = "letter"')
    return [text, *(text + more for more in call.continuations)]


def text_of(choice: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the text of a choice, None if there is none, and the reasoning that is apart from it.

    A refusal counts as a text. If a model reached `max_new_tokens` while it was reasoning, the text
    is empty. vLLM, llama.cpp and DeepSeek call the reasoning `reasoning_content`, Ollama and
    OpenRouter `reasoning`; Mistral sends the content in parts, with reasoning of type `thinking`.
    """
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {"content": choice.get("text")}
    content, refusal = message.get("content"), message.get("refusal")
    parts = content if isinstance(content, list) else [content]
    apart = [p for p in parts if isinstance(p, dict) and p.get("type") in ("thinking", "reasoning")]
    thoughts = [message.get("reasoning_content") or message.get("reasoning"), *apart]
    reasoning = "\n".join(filter(None, map(_joined, thoughts))) or None
    said = [p.get("text") if isinstance(p, dict) else p for p in parts if p not in apart]
    texts = [text for text in said if isinstance(text, str)]
    if texts or isinstance(refusal, str):
        return "".join(texts) if texts else refusal, reasoning
    is_silent = reasoning or choice.get("finish_reason") == LENGTH
    return "" if is_silent and not message.get("tool_calls") else None, reasoning


def _joined(value: Any) -> str:
    """Return the text of a part, or of several."""
    if isinstance(value, Mapping):
        value = value.get("text") or value.get("thinking") or value.get("reasoning")
    if isinstance(value, list):
        return "".join(map(_joined, value))
    return value if isinstance(value, str) else ""


# -- tokens ----------------------------------------------------------------------------------
def counted(reply: Mapping[str, Any], key: str) -> int | None:
    """Return a number of tokens that a server reports; None without one."""
    usage = reply.get("usage")
    value = usage.get(key) if isinstance(usage, Mapping) else None
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None


# -- scores ----------------------------------------------------------------------------------
def first_token_scores(logprobs: Any, continuations: Sequence[str]) -> Scored | None:
    """Return scores of letters from the likeliest first tokens of an answer (METHODS 1.2).

    A letter's score is the log probability of the better of its forms with and without a leading
    space in the list.

    A letter outside the list is less likely than every listed token, and its probability is at most
    the mass that the list leaves over. It gets that upper bound. (METHODS 1.2 does not cover this
    case, and a missing letter would make the whole answer unreadable.) So the likeliest letter is
    always right, while P of missing letters and the total mass of letters are upper bounds. If no
    letter is in the list at all, nothing is known: each gets minus infinity, which is read as
    unreadable.

    Returns:
        The scores, with a note which form carried the mass; None if the server returned no log
        probabilities.

    >>> listed = {"top_logprobs": [{" A": -0.5, "A": -4.0, "B": -1.5, " the": -3.0}]}
    >>> scored = first_token_scores(listed, (" A", " B", " C"))
    >>> [round(value, 2) for value in scored.log_probs], scored.note
    ([-0.5, -1.5, -4.0], 'letters with a space before them')
    """
    named = logprobs if isinstance(logprobs, Mapping) else {}
    # Of completions; then of conversations, and of llama.cpp in both.
    pairs = list(((named.get("top_logprobs") or [{}])[0] or {}).items())
    if content := named.get("content"):
        tops = content[0].get("top_logprobs") or ()
        pairs = [(one.get("token"), one.get("logprob")) for one in tops]
    listed: dict[str, float] = {}
    for token, value in pairs:
        if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value):
            name = token.translate(_SPACES)
            listed[name] = max(listed.get(name, -math.inf), min(float(value), 0.0))
    if not listed:
        return None
    letters = [text.removeprefix(" ") for text in continuations]
    spaced, bare = ([listed.get(lead + x, -math.inf) for x in letters] for lead in (" ", ""))
    best = [max(two) for two in zip(spaced, bare, strict=True)]
    form = SPACED if sum(map(math.exp, spaced)) > sum(map(math.exp, bare)) else BARE
    if max(best) == -math.inf:
        form = NOT_LISTED
    else:
        rest = 1.0 - sum(map(math.exp, listed.values()))
        bound = min(min(listed.values()), math.log(max(rest, _LEAST)))
        # Just below the bound, so that a listed letter wins a tie.
        bound = math.nextafter(bound, -math.inf)
        best = [bound if value == -math.inf else value for value in best]
    return Scored(log_probs=tuple(best), n_tokens=(1,) * len(best), note=form)


def text_scores(choices: Sequence[Mapping[str, Any]], sent: Sequence[str]) -> Scored | None:
    """Return the log probability of each continuation, and its number of tokens.

    Args:
        choices: the echo of the prompt alone, then of the prompt with each continuation.
        sent: these texts.

    Returns:
        Sums and counts over the tokens that each continuation adds to the prompt; None if the
        server did not return the log probabilities of what it was sent.
    """
    added: list[Sequence[float]] = []
    alone: Sequence[str] = ()
    for choice, text in zip(choices, sent, strict=False):
        named = choice.get("logprobs") or {}
        tokens, values = named.get("tokens") or (), named.get("token_logprobs") or ()
        # A server that ignores `echo` returns generated text instead.
        is_echo = str(choice.get("text")).rstrip().endswith(text.rstrip()[-40:])
        if not tokens or len(tokens) != len(values) or not is_echo:
            return None
        alone = alone or tokens
        shared = takewhile(lambda two: two[0] == two[1], zip(alone, tokens, strict=False))
        added.append(values[len(list(shared)) :])
    of_texts = added[1:]
    are_numbers = [isinstance(value, int | float) for values in of_texts for value in values]
    if len(added) != len(sent) or not all(of_texts) or not all(are_numbers):
        return None
    sums = tuple(min(math.fsum(values), 0.0) for values in of_texts)
    return Scored(log_probs=sums, n_tokens=tuple(map(len, of_texts)))


# -- names -----------------------------------------------------------------------------------
_ADDED = (
    r"(?:[-@](?:"
    r"20\d\d(?:-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?)?"  # 2024, 2024-08, 2024-08-06
    r"|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|[23]\d(?:0[1-9]|1[0-2])"  # 0613, 2411
    r")(?![\w.])"
    r"|(?::latest|\.(?:gguf|bin|safetensors)|-\d{5}-of-\d{5}|@[\w.]+"  # the last: a revision
    r"|[-._:](?:gguf|ggml|awq|gptq|exl2|mlx|bnb|fp?(?:8|16|32)|bf16|nf4|(?:nv|mx)?fp4|int[48]"
    r"|[48]-?bit|w\d+a\d+|i?q\d(?:_[a-z0-9]+)*))(?![a-z0-9]))"
)
"""A date, or a suffix: a tag, file type, shard, revision or quantisation."""


def is_same_model(name: str, requested: str) -> bool:
    """Return whether a name is the requested one, maybe with a path, suffixes and a date.

    A size, a variant such as `-mini`, or a version is none of them.

    >>> is_same_model("gpt-4o-2024-08-06", "gpt-4o"), is_same_model("llama-70b", "llama-7b")
    (True, False)
    >>> is_same_model("hf.co/who/Llama-3.2-3B-GGUF:Q4_K_M", "llama-3.2-3b")
    True
    """
    full, wanted = name.casefold(), requested.casefold()
    # An alias such as `-latest` may be answered by the dated name that it means.
    alias = re.sub(r"[-:]latest$", "", wanted)
    ends = [full, *(full[match.end() :] for match in re.finditer(r"[/\\]", full))]
    return wanted in ends or any(
        base and end.startswith(base) and re.fullmatch(f"{_ADDED}+", end[len(base) :])
        for end in ends
        for base in (wanted, alias)
    )
