"""Conversations with MedFuzz's roles: what an attacker writes, and what a judge says.

An attempt has two turns of the attacker: post-mortem and plan, then the insertions. A reply that
cannot be used is asked for once more, with the exact reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import Field, field_validator

from medstress.attacks.medfuzz.edits import (
    EditError,
    edits_between,
    hidden_in,
    inserted,
    words_of,
)
from medstress.core.calls import WITHHELD, Decoding, Generate, Generated, Message
from medstress.core.items import Candidate, Question
from medstress.core.queries import JUDGE, Steps, consult
from medstress.core.text import comparison_key
from medstress.tasks.prompt_sets import Rules, lettered, say
from medstress.tasks.reading import DEFAULT, letter_read, without_thoughts
from medstress.tasks.replies import (
    LONGEST,
    Reply,
    Unreadable,
    Vote,
    objects_in,
    read_reply,
    schema_of,
)

MOST_INSERTIONS = 100
"""Most insertions in one attempt."""
_QUOTES = '"“”'
_LIKE = 0.6
"""Share of the question's words from which on a text is that question, written again."""
_OF_WHOLES = ("not only insertions", "another question", "same edit", "hidden character")
"""What may be wrong with a whole question that comes where a plan was asked for."""
_SHORTEST_PLAN = 8
"""Fewest words of a plan in prose; what is shorter is a refusal."""
CLEAN_SAMPLE = 6_000_000
"""Sample index of the vote on a clean item. All trials use the same, so that an item has one vote,
whatever the number of victims, runs and attempts."""
_NOTHING = re.compile(
    r"\W*(?:none|nothing|no|n/a)\b(?:[\w ,']{0,60}\b(?:evidence|found|of them|words?)\b)?\W*",
    re.IGNORECASE,
)
"""A reply in prose that objects to nothing."""
_YES_NO = re.compile(r"\A\W*(yes|no)\b|\b(yes|no)\W*\Z", re.IGNORECASE)
_QUOTED = re.compile(r'["“]([^"“”]*\w[^"“”]*)["”]')
_DENIES = re.compile(r"\b(?:no|not|none|neither|nothing)\b|n['’]t\b", re.IGNORECASE)
"""Words with which a judge may say of quoted words that they are no evidence."""
_LIST = re.compile(r"\[[^\[\]{}]*\]")
REFUSAL = re.compile(
    r"\W*(?:I(?:.m| am) (?:\w+ )?(?:sorry|unable|not able)|sorry\W+(?:but|I)|as an AI"
    r"|I (?:can.?t|can ?not|won.t|will not))\b",
    re.IGNORECASE,
)
"""How a refusal begins that fills the form: no insertion about a patient does."""
_MARKED = re.compile(r"\*\*|</?\w{1,10}>|\[(?:\w{1,10}: ?)?|\]")
"""What models put around words that they inserted: bold type, tags, brackets."""
_HEADING = re.compile(r"\s(?:#+\s*question|[\s*\[]*question\W*:)\W*$", re.IGNORECASE)
"""A heading between a case and the sentence that asks."""
_LEAD = re.compile(
    r'.*\{\s*"\w+"\s*:\s*"?'
    r"|[^.?:>]{0,80}(?:question|item|text|vignette|case|version|edited|modified|revised|rewritten)"
    r'[^.?:>]{0,20}[:>][\s"`]*',
    re.IGNORECASE,
)
"""What introduces a question on its own line: the beginning of JSON that is none, or a heading."""

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


class RoleSession:
    """One conversation, kept over many questions.

    Args:
        role: who is asked, such as `attacker`.
        decoding: how it generates.
        sample: index of this conversation among those that begin alike; unused at temperature 0.
        letters: of the item's options.
        system: the conversation's first turn; empty for none.
    """

    def __init__(
        self, role: str, decoding: Decoding, sample: int, letters: str, system: str = ""
    ) -> None:
        self._role, self._decoding, self._letters = role, decoding, letters
        self._sample = sample if decoding.temperature > 0 else 0
        self._turns = [Message("system", system)] if system else []

    def ask(
        self,
        text: str,
        kind: type[R],
        objection: Callable[[R], Unreadable | str | None] | None = None,
    ) -> Steps[R | Unreadable]:
        """Say something and read the JSON of the reply; ask once more if it cannot be used.

        Args:
            text: what is said.
            kind: the form of the reply.
            objection: says what is wrong with a reply of this form, or None.
        """
        return (yield from self.read(text, kind, lambda reply: read_reply(reply, kind, objection)))

    def read(
        self, text: str, kind: type[Reply], reader: Callable[[str], T | Unreadable]
    ) -> Steps[T | Unreadable]:
        """Say something and read the reply by a reader; ask once more if it cannot be used."""
        result = yield from self._say(text, kind, reader)
        if isinstance(result, Unreadable):
            result = yield from self._say(say("repair", reason=result.reason), kind, reader)
        return result

    def _say(
        self, text: str, kind: type[Reply], reader: Callable[[str], T | Unreadable]
    ) -> Steps[T | Unreadable]:
        self._turns.append(Message("user", text))
        schema = schema_of(kind, self._letters)
        call = Generate(tuple(self._turns), self._decoding, schema=schema)
        (answer,) = yield from consult(self._role, [call], self._sample)
        assert isinstance(answer, Generated)
        self._turns.append(Message("assistant", without_thoughts(answer.text) or "(nothing)"))
        return _read(answer, self._role, self._decoding, reader)


def yes_votes(
    role: str, decoding: Decoding, sample: int, texts: Sequence[str], letters: str
) -> Steps[list[bool | None]]:
    """Ask several yes-or-no questions at once, each in its own conversation.

    Equal questions are samples of one another; at temperature 0 their replies are equal.

    Returns:
        The answers; None for one that says neither, or both.
    """
    schema = schema_of(Vote, letters)
    calls = [Generate((Message("user", text),), decoding, schema=schema) for text in texts]
    answers = yield from consult(role, calls, sample if decoding.temperature > 0 else 0)
    return [_yes_in(answer) for answer in answers if isinstance(answer, Generated)]


def _yes_in(answer: Generated) -> bool | None:
    """Return the answer of a vote, in JSON or as the word that opens or ends a whole reply."""
    vote = read_reply(answer.text, Vote)
    if isinstance(vote, Unreadable) and (vote.cause != "no JSON" or answer.is_cut):
        return None
    said = without_thoughts(answer.text).strip() if isinstance(vote, Unreadable) else vote.answer
    words = {word.casefold() for pair in _YES_NO.findall(said) for word in pair if word}
    return words == {"yes"} if len(words) == 1 else None


def _read(
    answer: Generated, role: str, decoding: Decoding, reader: Callable[[str], T | Unreadable]
) -> T | Unreadable:
    result = reader(answer.text)
    # A judgement that was cut off says nothing, but for a whole object.
    is_lost = isinstance(result, Unreadable) or (role == JUDGE and not any(objects_in(answer.text)))
    if is_lost and answer.is_cut:
        return Unreadable(
            f"it was cut off at {decoding.max_new_tokens:,} tokens ([role.{role}] max_new_tokens): "
            "be shorter, and write nothing but the JSON object",
            "cut off",
        )
    if isinstance(result, Unreadable) and answer.finish_reason == WITHHELD:
        return Unreadable("a content filter withheld it", "withheld")
    return result


# The attacker.


class Plan(Reply):
    """The attacker's plan of one attempt."""

    post_mortem: str | None = None
    """Why the last attempt failed; None at the first."""
    target_option: str = ""
    """The letter it wants answered."""
    plan: Annotated[str, Field(min_length=1)]
    """One paragraph."""


class Insertion(Reply):
    """What the attacker inserts."""

    text: str
    """The words."""
    where: str
    """The words of the question right before it, or `start` or `end`."""
    category: str = ""
    """As the attacker names it."""


class Insertions(Reply):
    """The attacker's edit of the item, in any order."""

    insertions: Annotated[tuple[Insertion, ...], Field(min_length=1, max_length=MOST_INSERTIONS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An attacker's edit of an item."""

    candidate: Candidate
    """The edited item."""
    options: Mapping[str, str]
    """As the attacker returned them; the item's own if it returned none."""
    added: tuple[Insertion, ...]
    """What it inserted; without places and categories if it wrote the whole question."""


Planned: TypeAlias = tuple[Plan | None, Written | None]
"""What the first turn of an attempt gave: one of the two."""


@dataclass(kw_only=True)
class Attacker:
    """The attacker of one run on one item: one conversation over all attempts."""

    item: Question
    rules: Rules
    session: RoleSession
    aim: str | None
    """The option letter that counts; None: any wrong one."""
    _attempts: dict[tuple[str, ...], int] = field(default_factory=dict)
    """The words of every edited question -> the attempt that wrote it."""

    def plan(self, attempt: int, outcome: str, table: str) -> Steps[Planned | Unreadable]:
        """Ask for post-mortem and plan.

        Args:
            attempt: its number, from 1.
            outcome: what became of the last attempt.
            table: the confidences so far.

        Returns:
            The plan; or the edit, if the attacker writes it at once.
        """
        item, aim = self.item, "Choose the wrong option that is easiest to make tempting."
        if self.aim is not None:
            aim = f"Aim at option {self.aim}: no other answer counts."
        elif attempt > 1:
            aim = "Choose the wrong option to aim at, the same or another one."
        if attempt == 1:
            options = lettered(zip(item.letters, item.options, strict=True))
            shown = f"{item.question}\n{options}"
            text = say(
                "attacker_plan", listing=shown, key=item.key, key_text=item.key_text, aim=aim
            )
        else:
            text = say("attacker_again", outcome=outcome, table=table, key=item.key, aim=aim)

        def read(said: str) -> Planned | Unreadable:
            plan = self._plan_in(said)
            if isinstance(plan, Plan):
                return plan, None
            written = self._edit_in(said)
            if isinstance(written, Written):
                return None, written
            # A question that it wrote at once is told what is wrong with it as one.
            return written if written.cause in _OF_WHOLES and '"plan"' not in said else plan

        planned = yield from self.session.read(text, Plan, read)
        if not isinstance(planned, Unreadable):
            self._keep(attempt, planned[1])
        return planned

    def write(self, attempt: int) -> Steps[Written | Unreadable]:
        """Ask for the insertions of the plan."""
        names = ", ".join(one.name for one in self.rules.categories)
        text = say("attacker_insertions", question=self.item.question, categories=names)
        result = yield from self.session.read(text, Insertions, self._edit_in)
        self._keep(attempt, result)
        return result

    def _keep(self, attempt: int, result: Written | Unreadable | None) -> None:
        if isinstance(result, Written):
            self._attempts[_key(result.candidate)] = attempt

    def _plan_in(self, text: str) -> Plan | Unreadable:
        wrong = [letter for letter in self.item.letters if letter != self.item.key]
        allowed = wrong if self.aim is None else [self.aim]

        def target(option: str) -> str | None:
            letter = letter_read(DEFAULT, option, self.item.options)
            return letter if letter in allowed else None

        def objection(plan: Plan) -> str | None:
            if target(plan.target_option):
                return None
            return f"target_option: expected the letter of a wrong option ({', '.join(allowed)})"

        plan = read_reply(text, Plan, objection)
        if isinstance(plan, Plan):
            return plan.model_copy(update={"target_option": target(plan.target_option)})
        prose = " ".join(without_thoughts(text).split())
        if plan.cause != "no JSON" or len(prose.split()) < _SHORTEST_PLAN:
            return plan
        named = [
            letter
            for letter, option in zip(self.item.letters, self.item.options, strict=True)
            if letter in allowed
            and (
                re.search(rf"\b(?i:option|distractor|answer|choice)\W{{0,6}}{letter}\b", prose)
                or re.search(rf"\b{re.escape(option)}(?!\w)", prose, re.IGNORECASE)
            )
        ]
        if len(named) != 1:
            return plan
        return Plan(plan=prose[:LONGEST], target_option=named[0])

    def _edit_in(self, text: str) -> Written | Unreadable:
        """Read insertions, or the whole question with insertions, from JSON or prose."""
        item = self.item
        own = dict(zip(item.letters, item.options, strict=True))

        def written(reply: Insertions) -> Written | Unreadable:
            texts = " ".join(one.text for one in reply.insertions)
            places = [(one.where, one.text) for one in reply.insertions]
            return self._checked(texts, lambda: inserted(item, places), reply.insertions, own)

        def objection(reply: Insertions) -> Unreadable | None:
            result = written(reply)
            return result if isinstance(result, Unreadable) else None

        reply = read_reply(text, Insertions, objection)
        if isinstance(reply, Insertions):
            return written(reply)
        if reply.cause not in ("no JSON", "wrong form"):
            return reply
        whole, options = self._whole_in(text)
        before, stem, after = whole.rpartition(item.stem)
        whole = f"{_HEADING.sub(' ', before)}{stem}{after}"
        share = self._share(whole)
        if share >= _LIKE:
            return self._checked(whole, lambda: edits_between(item, whole), None, options or own)
        if "?" in whole and len(whole.split()) >= _SHORTEST_PLAN and '"insertions"' not in text:
            return Unreadable(
                "it is another question: only insert words into the original one",
                "another question",
            )
        return reply

    def _checked(
        self,
        text: str,
        make: Callable[[], Candidate],
        added: tuple[Insertion, ...] | None,
        options: Mapping[str, str],
    ) -> Written | Unreadable:
        """Return an edit if it can be made, no character is hidden in it, and it is a new one."""
        if hidden := hidden_in(text, self.item.question):
            return Unreadable(
                f"it holds the character {hidden}, which nobody can see", "hidden character"
            )
        try:
            candidate = make()
        except EditError as error:
            return Unreadable(str(error), error.cause)
        if not candidate.edits:
            return Unreadable("it inserts nothing", "nothing inserted")
        if any(REFUSAL.match(edit.replacement) for edit in candidate.edits):
            return Unreadable("it inserts a refusal", "refusal")
        if earlier := self._attempts.get(_key(candidate)):
            return Unreadable(
                f"it is the same edit as in attempt {earlier}: write another one", "same edit"
            )
        if added is None:
            texts = [edit.replacement.strip() for edit in candidate.edits]
            added = tuple(Insertion(text=text, where="") for text in texts)
        return Written(candidate=candidate, options=options, added=added)

    def _whole_in(self, text: str) -> tuple[str, Mapping[str, str] | None]:
        """Return the text of a reply that may be the whole question, and the options with it."""
        prose = without_thoughts(text)[-LONGEST:]
        for outer in reversed(list(objects_in(prose))):
            inner = [outer, *(one for one in outer.values() if isinstance(one, dict))]
            strings = [[text for text in one.values() if isinstance(text, str)] for one in inner]
            # The original may be there too: of texts with the same words the longest is the edit.
            texts = sorted((text for one in strings for text in one), key=len, reverse=True)
            texts += ["\n".join(one) for one in strings]
            if any(texts):
                given = (one["options"] for one in inner if isinstance(one.get("options"), dict))
                return self._unlisted(max(texts, key=self._share)), next(given, None)
        whole, own = self._unlisted(prose).strip("` "), self.item.question
        # What comes before the line in which the question begins introduces it.
        start = self._start_in(whole)
        line = whole.rfind("\n", 0, start) + 1
        lead = _LEAD.match(whole, line, start)
        whole = whole[lead.end() if lead else line :].replace("\n", " ")
        whole = whole if own[0] in _QUOTES else whole.lstrip(_QUOTES)
        whole = whole if own[-1] in _QUOTES else whole.rstrip(_QUOTES)
        end = whole.rfind(self.item.stem)
        return whole if end < 0 else whole[: end + len(self.item.stem)], None

    def _unlisted(self, text: str) -> str:
        """Return a text without marks of what is new, and lines that list options or nothing."""
        own = self.item.question
        lines = (text if _MARKED.search(own) else _MARKED.sub("", text)).splitlines()
        option = re.compile(r"\W{0,4}[A-J]\W{0,2}[.:)]")
        kept = [line for line in lines if line.strip() in own or not option.match(line)]
        return "\n".join(line for line in kept if line.strip(" `"))

    def _start_in(self, text: str) -> int:
        """Return the last place from which on a text has all words of the question; 0 for none."""
        words = words_of(text)
        at = len(words)
        for own in reversed(words_of(self.item.question)):
            at = next((i for i in range(at - 1, -1, -1) if words[i].text == own.text), -1)
            if at < 0:
                return 0
        return words[at].start

    def _share(self, text: str) -> float:
        """Return the share of the question's words that a text has."""
        words = {word.text for word in words_of(self.item.question)}
        return len(words & {word.text for word in words_of(text)}) / len(words)


def _key(candidate: Candidate) -> tuple[str, ...]:
    words = words_of(candidate.question)
    return tuple(word.text.casefold() for word in words if word.text[0].isalnum())


# The judge: what it calls evidence in an edit, and which option it picks after it.


class JudgedEvidence(Reply):
    """What a judge objects to."""

    evidence: tuple[str, ...]
    """Words that were added."""

    @field_validator("evidence", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        texts = value if isinstance(value, list | tuple) else [value or ""]
        if not all(isinstance(text, str) for text in texts):
            return value
        return tuple(text for text in texts if text.strip() and not _NOTHING.fullmatch(text))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it calls evidence; empty if it objects to nothing."""
        return self.evidence


def evidence(
    role: str,
    decoding: Decoding,
    item: Question,
    inserted: Sequence[str],
    rules: Rules,
    sample: int,
) -> Steps[JudgedEvidence | Unreadable]:
    """Ask a judge which of the inserted words are clinical evidence.

    Args:
        role: whom to ask.
        decoding: how it generates.
        item: the original.
        inserted: what an edit adds.
        rules: its `forbidden` is what counts as evidence.
        sample: index of this conversation among those that begin alike.

    Returns:
        The words, all of them among those that were inserted, or why the reply cannot be used.
    """
    added = comparison_key(" ".join(inserted))

    def objection(reply: JudgedEvidence) -> str | None:
        for words in reply.words:
            if (key := comparison_key(words)) and key not in added:
                return f"evidence: {words!r} is not among the added words; quote them exactly"
        return None

    def read(said: str) -> JudgedEvidence | Unreadable:
        reply = read_reply(said, JudgedEvidence, objection)
        if not isinstance(reply, Unreadable) or reply.cause != "no JSON":
            return reply
        prose = without_thoughts(said).strip()
        if _NOTHING.fullmatch(prose):
            return JudgedEvidence(evidence=())
        for bracketed in reversed(_LIST.findall(prose)):
            with suppress(ValueError):
                bare = json.dumps({"evidence": json.loads(bracketed)})
                return read_reply(bare, JudgedEvidence, objection)
        opens = _YES_NO.match(prose)
        quoted = [one for one in _QUOTED.findall(prose) if comparison_key(one) in added]
        if opens is not None and (opens[1] or "").casefold() == "yes":
            return JudgedEvidence(evidence=tuple(quoted or inserted))
        if quoted and not _DENIES.search(prose):
            return JudgedEvidence(evidence=tuple(quoted))
        return reply

    text = say(
        "judge_evidence",
        inserted="\n".join(f"- {one}" for one in inserted),
        question=item.question,
        options=_options(item),
        forbidden="\n".join(f"- {one.name}: {one.description}" for one in rules.forbidden),
    )
    session = RoleSession(role, decoding, sample, item.letters)
    return (yield from session.read(text, JudgedEvidence, read))


def key_vote(
    role: str, decoding: Decoding, item: Question, question: str, sample: int
) -> Steps[str | None]:
    """Return the option letter that a judge picks, or None if its reply cannot be read.

    Args:
        role: whom to ask.
        decoding: how it generates.
        item: has the options.
        question: context and stem, with or without an edit.
        sample: index of this conversation among those that begin alike.
    """

    def read(said: str) -> str | Unreadable:
        vote = read_reply(said, Vote)
        text = said if isinstance(vote, Unreadable) else vote.answer
        letter = letter_read(DEFAULT, text, item.options)
        if letter is None:
            return Unreadable(f"answer: expected one of the letters {', '.join(item.letters)}")
        return letter

    session = RoleSession(role, decoding, sample, item.letters)
    text = say("judge_key", question=question, options=_options(item))
    letter = yield from session.read(text, Vote, read)
    return None if isinstance(letter, Unreadable) else letter


def _options(item: Question) -> str:
    return lettered(zip(item.letters, item.options, strict=True))
