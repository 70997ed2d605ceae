"""What servers reply: texts, reasoning, usage, scores, and the names of the models that answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.calls import LENGTH, Prompt
from medstress.core.errors import did_you_mean

_ADDED_TOKENS = 64
"""More tokens than a chat template or a start token adds to a prompt."""
_CHARACTERS_PER_TOKEN = 4
_MAX_COUNT = 1 << 31
"""The largest number of tokens that is believed."""
_SPACES = str.maketrans({"\u2581": " ", "\u0120": " "})
"""How some servers write a token's leading space."""
_LEAST = 1e-12
SPACED, BARE = "letters with a space before them", "letters without a space before them"
"""Which form of the letters carried the mass."""
NOT_LISTED = "no option letter is among the likeliest tokens"


# -- texts -----------------------------------------------------------------------------------
def text_of(choice: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the text of a choice, None if there is none, and the reasoning that is apart from it.

    A refusal counts as a text. If a model reached `max_new_tokens` while it was reasoning, the text
    is empty. vLLM, llama.cpp and DeepSeek call the reasoning `reasoning_content`, Ollama and
    OpenRouter `reasoning`; Mistral sends the content in parts, with reasoning of type `thinking`.
    """
    message = choice.get("message")
    if not isinstance(message, Mapping):
        message = {"content": choice.get("text")}
    content = message.get("content")
    thoughts = [_joined(message.get("reasoning_content") or message.get("reasoning"))]
    if isinstance(content, list):
        apart = [part for part in content if part.get("type") in ("thinking", "reasoning")]
        thoughts.append(_joined(apart))
        texts = [part for part in content if part not in apart]
        content = _joined(texts) if texts else None
    reasoning = "\n".join(filter(None, thoughts)) or None
    if not isinstance(content, str):
        content = message.get("refusal")
    if not isinstance(content, str):
        is_silent = (reasoning or is_cut(choice)) and not message.get("tool_calls")
        content = "" if is_silent else None
    return content, reasoning


def is_cut(choice: Mapping[str, Any]) -> bool:
    """Return whether the server reports that it truncated the text."""
    return choice.get("finish_reason") == LENGTH


def _joined(value: Any) -> str:
    """Return the text of a part, or of several."""
    if isinstance(value, Mapping):
        value = value.get("text") or value.get("thinking") or value.get("reasoning")
    if isinstance(value, list):
        return "".join(map(_joined, value))
    return value if isinstance(value, str) else ""


# -- tokens ----------------------------------------------------------------------------------
def plain(prompt: Prompt) -> str:
    """Return a prompt as one text, for counting."""
    return prompt if isinstance(prompt, str) else "\n".join(m.content for m in prompt)


def most_tokens(texts: Sequence[str]) -> int:
    """Return an upper bound of tokens: no tokenizer makes more tokens than a text has bytes."""
    return sum(len(text.encode()) + _ADDED_TOKENS for text in texts)


def counted(reply: Mapping[str, Any], key: str) -> int | None:
    """Return a number of tokens that a server reports; None without one."""
    usage = reply.get("usage")
    value = usage.get(key) if isinstance(usage, Mapping) else None
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None


def usage_of(reply: Mapping[str, Any], sent: Sequence[str], text: str) -> dict[str, int]:
    """Return tokens in and out, from the server or else estimated from the characters."""
    n_in, n_out = counted(reply, "prompt_tokens"), counted(reply, "completion_tokens")
    return {
        "tokens_in": sum(map(len, sent)) // _CHARACTERS_PER_TOKEN if n_in is None else n_in,
        "tokens_out": len(text) // _CHARACTERS_PER_TOKEN if n_out is None else n_out,
    }


class Window:
    """Notices a server that cuts long prompts without a word, as Ollama does beyond `num_ctx`.

    Its counts of tokens stop at the window while prompts grow: the highest count is that of several
    prompts whose lengths differ far more than those of equally many tokens do.

    Attributes:
        tokens: the window, where there is one.
    """

    LEAST, PROMPTS, RATIO = 64, 3, 1.25
    """The smallest window; how many prompts reach it; how much longer the longest of them is."""

    def __init__(self) -> None:
        self.tokens: int | None = None
        self._most = 0
        self._lengths: set[int] = set()

    def see(self, n_characters: int, n_tokens: int) -> None:
        """Notice a prompt of so many characters that the server counted as so many tokens."""
        if n_tokens > max(self._most, self.tokens or 0):
            self._most, self._lengths, self.tokens = n_tokens, set(), None
        if n_tokens == self._most >= self.LEAST:
            self._lengths.add(n_characters)
            is_cut = max(self._lengths) >= self.RATIO * min(self._lengths)
            self.tokens = n_tokens if is_cut and len(self._lengths) >= self.PROMPTS else None


# -- scores ----------------------------------------------------------------------------------
def first_token_scores(
    logprobs: Any, continuations: Sequence[str]
) -> tuple[tuple[float, ...], str] | None:
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
        The scores, and which form carried the mass; None if the server returned no log
        probabilities.

    >>> listed = {"top_logprobs": [{" A": -0.5, "A": -4.0, "B": -1.5, " the": -3.0}]}
    >>> scores, form = first_token_scores(listed, (" A", " B", " C"))
    >>> [round(value, 2) for value in scores], form
    ([-0.5, -1.5, -4.0], 'letters with a space before them')
    """
    listed = _listed(logprobs)
    if not listed:
        return None
    letters = [text.removeprefix(" ") for text in continuations]
    spaced, bare = ([listed.get(lead + x, -math.inf) for x in letters] for lead in (" ", ""))
    best = [max(two) for two in zip(spaced, bare, strict=True)]
    if max(best) == -math.inf:
        return tuple(best), NOT_LISTED
    rest = 1.0 - sum(map(math.exp, listed.values()))
    bound = min(min(listed.values()), math.log(max(rest, _LEAST)))
    # Just below the bound, so that a listed letter wins a tie.
    bound = math.nextafter(bound, -math.inf)
    form = SPACED if sum(map(math.exp, spaced)) > sum(map(math.exp, bare)) else BARE
    return tuple(bound if value == -math.inf else value for value in best), form


def text_scores(
    choices: Sequence[Mapping[str, Any]], sent: Sequence[str]
) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
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
        logprobs = choice.get("logprobs")
        named = logprobs if isinstance(logprobs, Mapping) else {}
        tokens, values = named.get("tokens") or (), named.get("token_logprobs") or ()
        # A server that ignores `echo` returns generated text instead.
        is_echo = str(choice.get("text")).rstrip().endswith(text.rstrip()[-40:])
        if not tokens or len(tokens) != len(values) or not is_echo:
            return None
        alone = alone or tokens
        n = next(
            (i for i, pair in enumerate(zip(alone, tokens, strict=False)) if pair[0] != pair[1]),
            len(alone),
        )
        added.append(values[n:])
    if len(added) != len(sent) or not all(added[1:]):
        return None
    if not all(isinstance(value, int | float) for values in added[1:] for value in values):
        return None
    return tuple(min(math.fsum(v), 0.0) for v in added[1:]), tuple(map(len, added[1:]))


def _listed(logprobs: Any) -> dict[str, float]:
    """Return token -> log probability for the alternatives of the first token.

    Servers use two shapes: `top_logprobs` (completions) and `content` (chat; llama.cpp for both).
    """
    named = logprobs if isinstance(logprobs, Mapping) else {}
    pairs = list(((named.get("top_logprobs") or [{}])[0] or {}).items())
    if content := named.get("content"):
        tops = content[0].get("top_logprobs") or ()
        pairs = [(entry.get("token"), entry.get("logprob")) for entry in tops]
    listed: dict[str, float] = {}
    for token, value in pairs:
        if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value):
            name = token.translate(_SPACES)
            listed[name] = max(listed.get(name, -math.inf), min(float(value), 0.0))
    return listed


# -- names -----------------------------------------------------------------------------------
_ADDED = re.compile(
    r"(?P<date>[-@](?:"
    r"20\d\d(?:-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?)?"  # 2024, 2024-08, 2024-08-06
    r"|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|[23]\d(?:0[1-9]|1[0-2])"  # 0613, 2411
    r")(?![\w.]))|(?P<suffix>(?:"
    r":latest|\.(?:gguf|bin|safetensors)|-\d{5}-of-\d{5}|@[\w.]+"  # the last: a revision
    r"|[-._:](?:gguf|ggml|awq|gptq|exl2|mlx|bnb|fp?(?:8|16|32)|bf16|nf4|(?:nv|mx)?fp4|int[48]"
    r"|[48]-?bit|w\d+a\d+|i?q\d(?:_[a-z0-9]+)*))(?![a-z0-9]))",
    re.I,
)
"""A date, or a suffix: a tag, file type, shard, revision or quantisation."""


def additions(name: str, requested: str) -> dict[str, str] | None:
    """Return what a name adds to the requested one; None if it is another model's.

    The parts are `path`, `suffix` (a tag, file type or quantisation) and `date`. A size, a variant
    such as `-mini`, or a version is none of them.

    >>> additions("gpt-4o-2024-08-06", "gpt-4o")
    {'date': '-2024-08-06'}
    >>> additions("hf.co/who/Llama-3.2-3B-GGUF:Q4_K_M", "llama-3.2-3b")
    {'path': 'hf.co/who/', 'suffix': '-GGUF:Q4_K_M'}
    >>> additions("gpt-4o", "gpt-4") is additions("llama-70b", "llama-7b") is None
    True
    """
    full, wanted = name.casefold(), requested.casefold()
    if full == wanted:
        return {}
    # An alias such as `-latest` may be answered by the dated name that it stands for.
    alias = re.sub(r"[-:]latest$", "", wanted)
    for start in (0, *(match.end() for match in re.finditer(r"[/\\]", full))):
        for base in dict.fromkeys((wanted, alias)):
            # A letter that folds to two would shift the parts.
            if base and full.startswith(base, start) and len(full) == len(name):
                added = _added(name[start + len(base) :])
                if added is not None and (base == wanted or "date" in added):
                    return ({"path": name[:start]} if start else {}) | added
    return None


def _added(rest: str) -> dict[str, str] | None:
    """Split what follows a name into suffixes and dates; None if anything else is in it."""
    parts = list(_ADDED.finditer(rest))
    if "".join(part[0] for part in parts) != rest:
        return None
    added = {kind: "".join(part[kind] or "" for part in parts) for kind in ("suffix", "date")}
    return {kind: text for kind, text in added.items() if text}


def suggested(requested: str, names: Sequence[str]) -> str:
    """Return a suggestion for a name that a server does not list; never a model of another size.

    >>> suggested("qwen-7b-AWQ", ["org/qwen-70b", "org/qwen-7b:latest"])
    "; did you mean 'org/qwen-7b:latest'?"
    >>> suggested("qwen-7b", ["qwen-70b"])
    ''
    """

    def bare(name: str) -> str:
        """Return a name without its path, suffixes and dates."""
        last = name.casefold().rsplit("/", 1)[-1]
        return next((last[:i] for i in range(1, len(last)) if _added(last[i:])), last)

    for name in names:
        if additions(name, requested) is not None or bare(name) == bare(requested):
            return f"; did you mean {name!r}?"
    size = re.findall(r"\d+", bare(requested))
    return did_you_mean(requested, [x for x in names if re.findall(r"\d+", bare(x)) == size])
