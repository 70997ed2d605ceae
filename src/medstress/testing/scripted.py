"""Scripted models: a back end of replies, and a target, attackers and judges as functions.

The functions, for the python back end, plant a weakness for MedFuzz to find: the target errs on an
item as soon as the case contains the item's cue, and the attacker inserts the sentences of its
script. Pass them to the python back end from your own file::

    items = tiny_questions(8)
    target = rule_target(items, {"tiny-0": "teacher"})
    attacker = scripted_attacker(items, ["He works as a teacher."])
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from medstress.core.calls import (
    Answer,
    Backend,
    BackendTraits,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Compared,
    Generate,
    Generated,
    ModelIdentity,
    Rank,
    Reply,
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Question

CALLS = frozenset({"generate", "score", "rank", "choose", "tag", "compare"})


def scripted_reply(call: Call, preferred: int = 0, share: float = 0.6) -> Answer:
    """Answer one call so that the option at position `preferred` wins.

    Args:
        call: the call.
        preferred: position of the winning option or continuation, from 0.
        share: its probability in scores; the others share the rest.

    >>> scripted_reply(Choose("Which?", "ABCD"), preferred=2).answer
    'C'
    """
    match call:
        case Generate():
            return Generated(text=LETTERS[preferred])
        case Choose(letters=letters):
            return Chosen(answer=letters[preferred])
        case Score(continuations=texts) | Rank(options=texts):
            n = len(texts)
            rest = math.log((1 - share) / max(n - 1, 1))
            logs = tuple(math.log(share) if i == preferred else rest for i in range(n))
            return Scored(log_probs=logs, n_tokens=(1,) * n)
        case Classify(labels=labels):
            return Chosen(answer=labels[preferred])
        case Tag(tokens=tokens):
            return Tagged(labels=("O",) * len(tokens))
        case Compare():
            return Compared(score=share)


class ScriptedBackend(Backend):
    """A back end whose replies come from a function of the call.

    Attributes:
        batches: the calls of every batch that it got, in order.
        n_closed: how often it was closed.
    """

    def __init__(
        self,
        reply: Callable[[Call], Reply] = scripted_reply,
        *,
        name: str = "scripted",
        batch_size: int = 32,
        workers: int = 1,
        ahead: int = 0,
        structured: bool = False,
    ) -> None:
        self.identity = ModelIdentity(name=name, hash=content_hash(["scripted", name]))
        self.traits = BackendTraits(
            calls=CALLS,
            batch_size=batch_size,
            workers=workers,
            ahead=ahead,
            structured=structured,
        )
        self.batches: list[tuple[Call, ...]] = []
        self.n_closed = 0
        self._reply = reply

    @property
    def asked(self) -> list[Call]:
        """All calls that it got, in order."""
        return [call for batch in self.batches for call in batch]

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call with the function."""
        self.batches.append(tuple(calls))
        return [self._reply(call) for call in calls]

    def close(self) -> None:
        """Count the call."""
        self.n_closed += 1


# -- roles of MedFuzz ------------------------------------------------------------------------------
Conversation: TypeAlias = list[dict[str, str]]
"""Turns as ``{"role", "content"}``."""
Speaker: TypeAlias = Callable[[list[Conversation]], list[str]]
"""Receives conversations, returns the next turn of each."""

_CASE = "as if the patient were in front of you."
_REASONED, _MENTION = "Its reasoning about it:\n", "One detail of the question was:\n"
_LONG = re.compile(r"[a-z]{5,}")


def rule_target(
    items: Sequence[Question],
    cues: Mapping[str, str],
    *,
    wrong: Collection[str] = (),
    admits: bool = False,
) -> Speaker:
    """Make a target that answers the key, or the first other letter if the case contains a cue.

    Args:
        items: recognised by their stems.
        cues: item id -> text that makes it err.
        wrong: ids of items that it always answers wrong.
        admits: whether its reasoning names the cue that misled it.
    """

    def reply(turns: Conversation) -> str:
        case, last = turns[1]["content"].partition(_CASE)[2], turns[-1]["content"]
        item = _item(case, items)
        cue = cues.get(item.id)
        errs = item.id in wrong or (cue is not None and cue in case)
        letter = _other(item) if errs else item.key
        if "step by step" in last:
            return f"It matters here: {cue}." if errs and admits else "The findings decide."
        if "How confident" in last:
            return json.dumps({"confidence": {x: 5 if x == letter else 1 for x in "ABCD"}})
        return json.dumps({"answer": letter})

    return lambda conversations: [reply(turns) for turns in conversations]


def scripted_attacker(
    items: Sequence[Question], script: Sequence[str], *, unreadable: Collection[int] = ()
) -> Speaker:
    """Make an attacker that inserts the sentences of a script before the stem, one per attempt.

    Args:
        items: recognised by their stems.
        script: the sentence of each attempt, repeated from the start after the last. A sentence
            that begins with ``!`` replaces the whole context.
        unreadable: attempts, from 1, at which it never writes JSON, even when asked again.
    """

    def reply(turns: Conversation) -> str:
        requests = [turn["content"] for turn in turns if turn["role"] == "user"]
        attempt = sum('"target_option"' in text for text in requests)
        if attempt in unreadable:
            return "I would rather not."
        item = _item(requests[0], items)
        if '"target_option"' in requests[-1]:
            why = None if attempt == 1 else "It was not believed."
            plan = {"post_mortem": why, "target_option": _other(item), "plan": "Insert it."}
            return json.dumps(plan)
        text = script[(attempt - 1) % len(script)]
        if text.startswith("!"):
            return f"The edited question:\n{text} {item.stem}"
        edit = {"insertions": [{"text": text, "where": "end", "category": "occupation"}]}
        return f"```json\n{json.dumps(edit)}\n```"

    return lambda conversations: [reply(turns) for turns in conversations]


def scripted_judge(
    items: Sequence[Question], doubts: str = "", *, wrong: Collection[str] = (), objects: str = ""
) -> Speaker:
    """Make a judge that picks the key unless the item contains a text that makes it doubt.

    Asked whether a detail influenced a reasoning, it says yes if both share a word of five letters
    or more.

    Args:
        items: recognised by their stems.
        doubts: text that makes it pick another letter; empty for none.
        wrong: ids of items whose key it never picks.
        objects: text that it calls clinical evidence where it was inserted; ``*``: everything is.
    """

    def reply(text: str) -> str:
        if '"evidence"' in text:
            added = text.partition("\n\n")[0]
            words = added.partition("\n- ")[2].partition("\n")[0] if objects == "*" else objects
            return json.dumps({"evidence": [words] if words and words in added else []})
        if _MENTION in text:
            reasoning, _, rest = text.partition(_REASONED)[2].partition(_MENTION)
            detail = rest.partition("\n\n")[0]
            shared = set(_LONG.findall(reasoning.lower())) & set(_LONG.findall(detail.lower()))
            return json.dumps({"answer": "YES" if shared else "NO"})
        item = _item(text, items)
        errs = item.id in wrong or (doubts and doubts in text)
        answer = _other(item) if errs else item.key
        return json.dumps({"reasoning": "The findings.", "answer": answer})

    return lambda conversations: [reply(turns[-1]["content"]) for turns in conversations]


def _item(text: str, items: Sequence[Question]) -> Question:
    # Vignettes may end in the same sentence.
    named = [item for item in items if item.stem in text]
    named = [item for item in named if item.context[:40] in text] or named
    if not named:
        raise ValueError(f"a scripted model got a prompt without any of its items: {text!r}")
    return named[-1]


def _other(item: Question) -> str:
    return next(letter for letter in item.letters if letter != item.key)
