"""What a request carries besides its prompt: which item it belongs to, and which purchase it is.

*Affinity.* A router in front of several servers sends requests with the same name to the same one,
whose prefix cache then holds what the prompts of an item share. The name is a hash of the item,
never its text. Where routers look for it, by their documentation:

* vllm-router, policy `consistent_hash`: the header `X-Session-ID` first, or `user` in the body
  (vllm-project/router, docs/load_balancing/README.md, "Hash Key Priority"). The policy
  `cache_aware` reads the prompt and needs no name.
* SGLang's router and its successor, the Shepherd Model Gateway, policies `consistent_hashing` and
  `manual`: the header `X-SMG-Routing-Key` (lightseekorg/smg,
  docs/concepts/routing/load-balancing.md, "Routing Headers").
* vLLM's production stack, `--routing-logic session`: the header that `--session-key` names
  (vllm-project/production-stack, src/vllm_router/README.md, "Routing Logic Options").
* OpenAI and Mistral: `prompt_cache_key` in the body, which OpenAI says replaces `user`
  (https://developers.openai.com/api/docs/guides/prompt-caching,
  https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching).

*Idempotency.* A server that knows idempotency keys answers a repeated request from what it stored
and charges it once (draft-ietf-httpapi-idempotency-key-header-07). OpenAI has `Idempotency-Key` for
agents' sessions and environments only (openai 3.52.0, `types/beta/agents`), and its client sends
none elsewhere (`_base_client.py`: `_idempotency_header = None`). We found none documented for the
completions of vLLM, SGLang, llama.cpp, Ollama or TGI. Gateways and proxies in front of them may
know it, so the header is named by the user.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.calls import Origin
from medstress.core.errors import UsageError
from medstress.core.hashing import digest

AFFINITY_HEADERS = ("X-Session-ID", "X-SMG-Routing-Key")
"""The headers sent by default: of vllm-router and of SGLang's router."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_RESERVED = {
    *("accept", "accept-encoding", "authorization", "connection", "content-length"),
    *("content-type", "cookie", "expect", "host", "te", "transfer-encoding", "upgrade"),
    "user-agent",
}
_OWN_FIELDS = {
    *("echo", "logprobs", "max_completion_tokens", "max_tokens", "messages", "model", "n"),
    *("prompt", "response_format", "seed", "stream", "temperature", "top_logprobs"),
}
_NOWHERE = Origin(item="", key=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request as it is sent."""

    item: str
    """The affinity: a hash of the item or, if that is unknown, of the prompt."""
    body: Mapping[str, Any]
    """The JSON."""
    key: bytes
    """The call's cache key; empty if it is unknown."""


class Labels:
    """Labels requests with their item and their purchase.

    Args:
        headers: names of the headers that carry the item; None: `AFFINITY_HEADERS`.
        field: name of the field of the body that carries it, too; None for no field.
        idempotency: name of the header that carries the purchase; None sends none.

    Attributes:
        run: distinguishes this run's purchases from those of all others; random, kept in the
            manifest.

    Raises:
        UsageError: a name is none, or is taken by HTTP or the request itself.
    """

    def __init__(
        self,
        headers: Sequence[str] | None = None,
        field: str | None = None,
        idempotency: str | None = None,
    ) -> None:
        headers = AFFINITY_HEADERS if headers is None else headers
        for key, name in [
            *(("affinity_headers", each) for each in headers),
            *([("idempotency_header", idempotency)] if idempotency else []),
        ]:
            if not _HEADER.fullmatch(name) or name.lower() in _RESERVED:
                raise UsageError(
                    f"{key}: expected a header of your own such as "
                    f"{'X-Session-ID' if key[0] == 'a' else 'Idempotency-Key'}, got {name!r}"
                )
        if field is not None and (not _FIELD.fullmatch(field) or field in _OWN_FIELDS):
            raise UsageError(
                f"affinity_field: expected a field such as user or prompt_cache_key, got {field!r}"
            )
        self._headers = tuple(headers)
        self._field = field
        self._idempotency = idempotency
        self.run = uuid.uuid4().hex

    @property
    def headers(self) -> frozenset[str]:
        """Names of all headers that requests may carry."""
        return frozenset([*self._headers, *filter(None, [self._idempotency])])

    @property
    def has_keys(self) -> bool:
        """Whether requests carry idempotency keys."""
        return self._idempotency is not None

    def labelled(self, body: Mapping[str, Any], origin: Origin | None) -> Sent:
        """Return a request with its item."""
        item, key = (origin or _NOWHERE).item, (origin or _NOWHERE).key
        if not item:
            return Sent(item=digest(dict(body)).hex(), body=body, key=key)
        named = item.rpartition(":")[2]  # without the name of the hash
        fields = {self._field: named} if self._field else {}
        return Sent(item=named, body={**body, **fields}, key=key)

    def of(self, sent: Sent, n_replies: int) -> dict[str, str]:
        """Return the headers of a request.

        The idempotency key covers run, call, repetition and body. A request that is repeated since
        nobody knows whether it was answered has the same key. One that is repeated since its reply
        was of no use has another, or the same reply would come again. So has one with another body,
        which a server must refuse under the same key.

        Args:
            sent: the request.
            n_replies: replies that came whole and were of no use.
        """
        headers = dict.fromkeys(self._headers, sent.item) if sent.key else {}
        if self._idempotency and sent.key:
            purchase = [self.run, sent.key.hex(), n_replies, dict(sent.body)]
            headers[self._idempotency] = digest(purchase).hex()
        return headers
