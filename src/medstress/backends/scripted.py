"""A victim whose replies stand in a file: for tests, examples and dry practice.

The file is JSON Lines: ``{"pattern": "scurvy", "reply": "A"}``. The first rule whose regular
expression is found in the prompt gives the reply, so the order of asking does not matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from medstress.backends.options import BackendOptions
from medstress.calls import (
    Backend,
    BackendTraits,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    Prompt,
    Rank,
    Reply,
    Score,
    Scored,
    Tag,
)
from medstress.errors import UsageError
from medstress.hashing import content_hash
from medstress.items import LETTERS

_SHARE = 0.6
"""Probability of the letter that is replied, where scores are wanted; the rest is shared."""
_FORM = '{"pattern": "a regular expression", "reply": "the answer"}'


class _Line(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pattern: str
    reply: str | None = None
    scores: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2)] | None = None
    error: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("pattern")
    @classmethod
    def _regular(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is replied to prompts that hold a pattern."""

    pattern: re.Pattern[str]
    """Searched for anywhere in the prompt; a dot matches line ends too."""
    reply: str | None = None
    """A text; where scores are wanted, the letter that gets most."""
    scores: tuple[float, ...] | None = None
    """Probabilities of the options in order, before they are normalised."""
    error: str | None = None
    """The call fails with this."""


class RuleBackend(Backend):
    """Answers every kind of call from a list of rules.

    Args:
        name: as shown to people.
        rules: the first that matches counts.
        batch_size: calls handed over at once.
    """

    def __init__(self, name: str, rules: Sequence[Rule], batch_size: int = 256) -> None:
        content = [[r.pattern.pattern, r.reply, r.scores, r.error] for r in rules]
        self.identity = ModelIdentity(name=name, hash=content_hash(["scripted", 1, content]))
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score", "rank", "choose"}),
            batch_size=batch_size,
        )
        self._rules = tuple(rules)

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call; one that no rule matches fails."""
        return [self._answer(call) for call in calls]

    def _answer(self, call: Call) -> Reply:
        if isinstance(call, Tag | Compare | Classify):
            return Failure(error=f"{self.identity.name!r} has rules for prompts, not for sentences")
        prompt = _text(call.prompt)
        rule = next((rule for rule in self._rules if rule.pattern.search(prompt)), None)
        if rule is None:
            shown = prompt if len(prompt) <= 80 else f"{prompt[:77]}..."
            return Failure(error=f"no rule of {self.identity.name!r} matches the prompt {shown!r}")
        if rule.error is not None:
            return Failure(error=rule.error)
        match call:
            case Generate():
                return Generated(text=_told(rule))
            case Choose(letters=letters):
                if rule.scores is not None and len(rule.scores) == len(letters):
                    return Chosen(scores=rule.scores)
                return Chosen(text=_told(rule))
            case Score(continuations=options) | Rank(options=options):
                return self._scored(rule, len(options))

    def _scored(self, rule: Rule, n: int) -> Reply:
        values = rule.scores
        if values is None:
            told = _told(rule).strip()
            if told not in LETTERS[:n] or len(told) != 1:
                return Failure(
                    error=f"the reply {told!r} of {self.identity.name!r} is no option letter, and "
                    "this way of answering needs one, or scores"
                )
            rest = (1 - _SHARE) / max(n - 1, 1)
            values = tuple(_SHARE if letter == told else rest for letter in LETTERS[:n])
        if len(values) != n or not sum(values):
            return Failure(
                error=f"a rule of {self.identity.name!r} has the scores {list(values)} for {n} "
                "options; expected one each, not all 0"
            )
        logs = (math.log(max(value / sum(values), 1e-12)) for value in values)
        return Scored(log_probs=tuple(logs), n_tokens=(1,) * n)


def open_backend(options: BackendOptions) -> RuleBackend:
    """Read the file that `model` names.

    Raises:
        UsageError: there is none, or a line is no rule.
    """
    if not options.model:
        raise UsageError(f"backend 'scripted' needs model = a .jsonl file of lines {_FORM}")
    path = options.base / Path(options.model).expanduser()
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"backend 'scripted': cannot read {path}: {error}") from error
    rules = [_rule(line, path, i) for i, line in enumerate(lines, 1) if line.strip()]
    if not rules:
        raise UsageError(f"backend 'scripted': {path} holds no line {_FORM}")
    return RuleBackend(path.stem, rules, options.batch_size or 256)


def _rule(line: str, path: Path, number: int) -> Rule:
    place = f"backend 'scripted': {path}, line {number}"
    try:
        found = _Line.model_validate_json(line)
    except ValidationError as failure:
        error: Any = failure.errors()[0]
        where = "".join(f"{part}: " for part in error["loc"][:1])
        raise UsageError(f"{place}: {where}{error['msg']}; expected {_FORM}") from failure
    given = [value for value in (found.reply, found.scores, found.error) if value is not None]
    if len(given) != 1:
        raise UsageError(f"{place}: expected exactly one of reply, scores and error")
    scores = None if found.scores is None else tuple(found.scores)
    pattern = re.compile(found.pattern, re.DOTALL)
    return Rule(pattern=pattern, reply=found.reply, scores=scores, error=found.error)


def _told(rule: Rule) -> str:
    if rule.reply is not None:
        return rule.reply
    assert rule.scores is not None
    return LETTERS[rule.scores.index(max(rule.scores))]


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\n\n".join(m.content for m in prompt)
