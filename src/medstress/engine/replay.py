"""Replay a trial, inquiry or study on its stored answers: the scheduler without a back end.

The work is driven through `RunningWork`, as a run that resumes drives it. So what comes out are the
rows of `exchanges` that a run would write now, and the result; both must be the stored ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isclose
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson

from medstress.attacks.names import LeavesOut
from medstress.attacks.protocol import Attack, Validity
from medstress.core.calls import (
    Backend,
    BackendTraits,
    Call,
    Chosen,
    Decoding,
    Generate,
    Message,
    ModelIdentity,
    Reply,
    Request,
    Score,
    StoredCall,
)
from medstress.core.errors import TrialError
from medstress.core.hashing import canonical_json, digest
from medstress.core.outcomes import Goal, Replaced, Verdict
from medstress.core.queries import Ask, Consult, Note, Predict, Steps
from medstress.core.text import edit_rows, edits_of
from medstress.core.validity import RULE
from medstress.engine.work import DEFECT, VICTIM, OutOfTimeError, Purpose, Result, RunningWork, Work

if TYPE_CHECKING:
    from numpy.random import Generator as Draws

RELATIVE, ABSOLUTE = 1e-9, 1.1e-6
"""By so much may numbers differ that another machine's libraries computed; scores are rounded."""


class Differs(Exception):
    """What is stored is not what the stored answers lead to.

    Attributes:
        call: place of the call in the trial, from 0; None if the result differs.
        expected: what the answers lead to.
        found: what is stored.
    """

    def __init__(self, call: int | None, expected: object, found: object) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.call, self.expected, self.found = call, str(expected), str(found)


class NotHereError(Exception):
    """A rule reads what the folder does not hold."""


class Recorded(Backend):
    """In place of a model that is not here: it has an identity, and no answer.

    Args:
        identity: of the model.
        traits: what of them decides which calls are made.
        starts: text -> where its tokens begin; None: unknown.
    """

    def __init__(
        self,
        identity: ModelIdentity,
        traits: BackendTraits,
        starts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.identity, self.traits, self._starts = identity, traits, starts

    def token_starts(self, text: str) -> Sequence[int] | None:
        """Return the stored places."""
        return None if self._starts is None else self._starts.get(text, ())

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Refuse: a replay asks nothing."""
        raise AssertionError("a replay asks nothing")


def replay(
    work: Work,
    calls: Sequence[StoredCall],
    backends: Mapping[str, Backend],
    *,
    overtime: str | None = None,
    is_open: bool = False,
    as_stored: bool = False,
) -> Result | None:
    """Run a work on its stored answers, and compare every row that it would write.

    Args:
        work: as the run would plan it; its attack is the real one, or `StoredAttack`.
        calls: what it consumed, in order.
        backends: of the other roles, by name.
        overtime: why time ended it; None if it did not.
        is_open: whether it goes on after these calls.
        as_stored: take the prompts of the model's stored requests as they are, because the
            template is not here.

    Returns:
        The result; None if it goes on.

    Raises:
        Differs: a call differs, is missing or is left over.
    """
    running, at = RunningWork(work, 0, {}), 0
    while (result := running.step()) is None:
        call_round = running.call_round
        backend = work.victim.backend if call_round.role == VICTIM else backends[call_round.role]
        requests = running.fit(backend)
        stored = calls[at : at + len(requests)]
        if len(stored) < len(requests):
            if is_open:
                return None
            if overtime is None or stored:
                raise Differs(at + len(stored), "a further call", "none")
            result = running.cut_short(OutOfTimeError(overtime))
            break
        takes = as_stored and call_round.role == VICTIM
        if takes:
            pairs = enumerate(zip(requests, stored, strict=True), at)
            keys = [_stored_key(r, backend.identity, one, i) for i, (r, one) in pairs]
        else:
            keys = [request.key(backend.identity) for request in requests]
        running.expect(keys)
        running.replies = [_reply(one, takes) for one in stored]
        running.record()
        for i, (row, one) in enumerate(zip(running.take_unwritten(), stored, strict=True)):
            _, _, role, purpose, query, call, key, edits, flags, request, error = row
            written = (role, purpose, query, call, edits, flags, request, error)
            actual = (
                *(one.role, one.purpose, one.query, one.call, one.edits, one.flags),
                *(request if takes and (one.request or not request) else one.request, one.error),
            )
            if written != actual:
                raise Differs(at + i, *_first_other(written, actual))
            if key != one.key:
                raise Differs(at + i, f"key {key.hex()}", one.key.hex())
        at += len(requests)
    if at != len(calls):
        raise Differs(at, "no further call", f"{calls[at].purpose} of {calls[at].role}")
    return result


_PLACE = re.compile(r" \([^()]*, line \d+\)$")
"""Where a plug-in failed, which another version of it moves."""
_COLUMNS = ("role", "purpose", "query", "call", "edits", "flags", "request", "error")
_SHOWN = 120


def _first_other(written: tuple[Any, ...], actual: tuple[Any, ...]) -> tuple[str, str]:
    name, one, other = next(
        (name, one, other)
        for name, one, other in zip(_COLUMNS, written, actual, strict=True)
        if one != other
    )
    return f"{name} {_short(one)}", _short(other)


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _reply(one: StoredCall, takes: bool) -> Reply:
    """Return the reply to a call, without the prompt that some functions return in front of it."""
    reply = one.reply
    if takes and isinstance(reply, Chosen) and reply.text is not None and one.request is not None:
        return replace(reply, text=reply.text.removeprefix(str(orjson.loads(one.request)[0][1])))
    return reply


def _stored_key(request: Request, model: ModelIdentity, one: StoredCall, at: int) -> bytes:
    """Return the key of a stored request; all but its prompt must be as the task asks.

    A request that is not stored follows from a prompt that is not here, and so does its key.

    Raises:
        Differs: it is another call.
    """
    if one.request is None:
        return one.key
    call, sample = orjson.loads(one.request)
    kind, _, *rest = orjson.loads(request.stored)[0]
    if [call[0], _bare(call[2:]), sample] != [kind, _bare(rest), request.sample]:
        raise Differs(at, f"{kind} with sample {request.sample}", _short(one.request))
    return digest([model.hash, call, sample])


def _bare(value: Any) -> Any:
    """Return JSON without the spaces that tell a conversation's answers from those of one text."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return value.strip() if isinstance(value, str) else value


def compare(
    result: Result, verdict: str, stored: Mapping[str, Any], taken: frozenset[str] = frozenset()
) -> None:
    """Compare a result with the stored one, but for the entries that are taken as they are.

    Raises:
        Differs: something differs.
    """
    if result.verdict.value != verdict:
        raise Differs(None, result.verdict.value, verdict)
    record = orjson.loads(orjson.dumps(result.as_record()))
    for name in sorted((record.keys() | stored.keys()) - taken):
        one, other = record.get(name), stored.get(name)
        if name == "note" and str(one).startswith(DEFECT):
            one, other = (_PLACE.sub("", str(note)) for note in (one, other))
        if not alike(one, other):
            expected = canonical_json(one)
            raise Differs(None, f"{name} {_short(expected)}", _short(_json(other)))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def alike(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, numbers up to rounding on another machine."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other)


TAKEN = frozenset({"n_excluded", "evidence", "first_evidence"})
"""Entries of a result that follow from names and tables, which a folder does not hold."""


def _of_attack(name: str) -> Any:
    """Return a property of `StoredAttack` that is the attack's own."""
    return property(attrgetter(f"of.{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttack(LeavesOut, Attack):
    """Yields the queries, calls and notes of one stored trial; goal and rules are the attack's."""

    of: Attack
    """The attack, rebuilt from its parameters; it is asked for rules, never for queries."""
    calls: Sequence[StoredCall]
    """What the trial consumed."""
    verdict: str
    """As stored."""
    result: Mapping[str, Any]
    """As stored; what no answer says is taken from it."""

    stream, budget, needs, fields, ends, is_judged, every_item, is_control, is_copy = map(
        _of_attack,
        (
            *("stream", "budget", "needs", "fields", "ends", "is_judged", "every_item"),
            *("is_control", "is_copy"),
        ),
    )

    def spec(self) -> dict[str, Any]:
        """Return that of the attack."""
        return self.of.spec()

    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Return the stored reason: names and distances decide it, unless a call failed."""
        is_barred = self.verdict == Verdict.NOT_ATTACKABLE and not any(c.error for c in self.calls)
        return self.result.get("note") if is_barred else None

    def goal_for(self, item: Any) -> Goal:
        """Return that of the attack; which options count for a control is stored."""
        goal, letters = self.of.goal_for(item), self.result.get("counted")
        if isinstance(goal, Replaced) and letters is not None:
            return replace(goal, options=frozenset(letters))
        return goal

    def asks_copy_of(self, item: Any) -> bool:
        """Return that of the attack; not for an item that was too long to be asked about."""
        is_asked = self.verdict != Verdict.NOT_ATTACKABLE or bool(self.calls)
        return is_asked and self.of.asks_copy_of(item)

    def validity(self, candidate: Any, resources: Any) -> Validity | None:
        """Judge by the attack's rules; by what is stored where they read what is not here."""
        try:
            return self.of.validity(candidate, resources)
        except NotHereError:
            pass
        result, edits = self.result, edit_rows(candidate.edits)
        if edits == result.get("edits", []):
            return Validity(
                valid=result.get("valid"),
                reason=result.get("validity_reason"),
                variant_class=result.get("variant_class"),
            )
        # The search went on after it, so it was refuted.
        return Validity(valid=False, reason=RULE, variant_class=result.get("variant_class"))

    def n_excluded(self, candidate: Any, resources: Any) -> Mapping[str, int] | None:
        """Count by the attack's rules; the stored numbers where they read what is not here."""
        if isinstance(self.of, LeavesOut):
            with suppress(NotHereError):
                return self.of.n_excluded(candidate, resources)
        counts: Mapping[str, int] | None = self.result.get("n_excluded")
        return counts

    def run(self, item: Any, rng: Draws, resources: Any) -> Steps[Any]:
        """Yield the stored steps in order.

        Raises:
            TrialError: the trial failed, and no answer says why.
        """
        calls = [one for one in self.calls if one.purpose == Purpose.ATTACK]
        lost = any(one.error for one in calls)
        yield from self._steps(item, calls)
        note = self.result.get("note")
        if note is not None and note == self.result.get("overtime"):
            yield Ask((Predict(item.candidate()),))  # time ended it as it waited
        elif note is not None and self.verdict != Verdict.NOT_ATTACKABLE and not lost:
            raise TrialError(note)
        return None

    def _steps(self, item: Any, calls: Sequence[StoredCall]) -> Steps[None]:
        notes, at = [one for one in self.result.get("records", ()) if one.get("query") != 0], 0
        while at < len(calls):
            yield from _own_notes(notes)
            one, start = calls[at], at
            if one.role == VICTIM:
                yield Ask((self._query(item, one),), keeps_open=True)
                while at < len(calls) and (calls[at].role, calls[at].query) == (VICTIM, one.query):
                    at += 1
                if notes and notes[0].get("query") == one.query:
                    notes.pop(0)  # a turn of the conversation, which the trial notes itself
                continue
            # A step is one round, whose calls count from 0.
            while at < len(calls) and (calls[at].role, calls[at].call) == (one.role, at - start):
                at += 1
            requests = [orjson.loads(each.request or "null") for each in calls[start:at]]
            if None in requests:
                raise TrialError(f"the request to the role {one.role!r} is missing")
            asked = tuple(call_of(call) for call, _ in requests)
            yield Consult(one.role, asked, requests[0][1])
        yield from _own_notes(notes)

    def _query(self, item: Any, one: StoredCall) -> Predict:
        edits = edits_of(orjson.loads(one.edits)) if one.edits else ()
        return Predict(item.candidate(edits), **(orjson.loads(one.flags) if one.flags else {}))


def _own_notes(notes: list[Mapping[str, Any]]) -> Steps[None]:
    """Yield the attack's notes up to the next turn of a conversation."""
    while notes and "query" not in notes[0]:
        yield Note(canonical_json(notes.pop(0)))


def call_of(parts: Sequence[Any]) -> Call:
    """Return the call to another role that `Call.canonical` describes.

    Raises:
        TrialError: other roles are not asked so.
    """
    kind, prompt, *rest = parts
    text = prompt if isinstance(prompt, str) else tuple(Message(*turn) for turn in prompt)
    if kind == Score.kind:
        return Score(text, tuple(rest[0]), first_token=rest[1])
    if kind != Generate.kind:
        raise TrialError(f"no other role is asked to {kind}")
    tokens, temperature = rest[0]
    decoding = Decoding(max_new_tokens=tokens, temperature=temperature)
    return Generate(text, decoding, schema=rest[1] if len(rest) > 1 else None)
