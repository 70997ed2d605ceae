"""A victim that takes its replies from a file, for tests, examples and trying things out.

The file is JSON Lines: ``{"pattern": "scurvy", "reply": "A"}``. The first rule whose regular
expression matches in the prompt gives the reply, so the order of calls does not matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from medstress.backends.options import BackendOptions
from medstress.core.calls import (
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
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS

_SHARE = 0.6
"""Probability of the replied letter in scores; the other letters share the rest."""
_FORM = '{"pattern": "a regular expression", "reply": "the answer"}'


class Rule(BaseModel):
    """One line of the file: the reply to prompts that contain a pattern."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    pattern: re.Pattern[str]
    """Searched anywhere in the prompt; a dot also matches line ends."""
    reply: str | None = None
    """A text; for scores, the letter with the highest probability."""
    scores: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=2)] | None = None
    """Probabilities of the options in order, before normalisation."""
    error: Annotated[str, Field(min_length=1)] | None = None
    """The message of the failure, if the call should fail."""

    @field_validator("pattern", mode="before")
    @classmethod
    def _regular(cls, value: str) -> re.Pattern[str]:
        try:
            return re.compile(value, re.DOTALL)
        except (TypeError, re.error) as error:
            raise ValueError(f"not a regular expression: {error}") from error

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if [self.reply, self.scores, self.error].count(None) != 2:
            raise ValueError("expected exactly one of reply, scores and error")
        return self

    @property
    def text(self) -> str:
        """The reply, or the letter with the highest score."""
        if self.reply is not None or self.scores is None:
            return self.reply or ""
        return LETTERS[self.scores.index(max(self.scores))]


class RuleBackend(Backend):
    """Answers every kind of call from a list of rules.

    Args:
        name: the name shown to users.
        rules: the first that matches is used.
        batch_size: the largest number of calls given to `answer` at once.
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
                return Generated(text=rule.text)
            case Choose(letters=letters):
                if rule.scores is not None and len(rule.scores) == len(letters):
                    return Chosen(scores=rule.scores)
                return Chosen(text=rule.text)
            case Score(continuations=options) | Rank(options=options):
                return self._scored(rule, len(options))

    def _scored(self, rule: Rule, n: int) -> Reply:
        values, letter = rule.scores, rule.text.strip()
        if values is None and letter in [*LETTERS[:n]]:
            rest = (1 - _SHARE) / max(n - 1, 1)
            values = tuple(_SHARE if one == letter else rest for one in LETTERS[:n])
        if values is None or len(values) != n or not sum(values):
            shown = repr(letter) if values is None else list(values)
            return Failure(
                error=f"a rule of {self.identity.name!r} replies {shown}; this way of answering "
                f"needs one of {n} letters, or {n} scores that are not all 0"
            )
        logs = (math.log(max(value / sum(values), 1e-12)) for value in values)
        return Scored(log_probs=tuple(logs), n_tokens=(1,) * n)


def open_backend(options: BackendOptions) -> RuleBackend:
    """Read the file that `model` names.

    Raises:
        UsageError: the file is missing, or a line is not a rule.
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
        raise UsageError(f"backend 'scripted': {path} has no line {_FORM}")
    return RuleBackend(path.stem, rules, options.batch_size or 256)


def _rule(line: str, path: Path, number: int) -> Rule:
    try:
        return Rule.model_validate_json(line)
    except ValidationError as failure:
        error = failure.errors()[0]
        where = "".join(f"{part}: " for part in error["loc"][:1])
        raise UsageError(
            f"backend 'scripted': {path}, line {number}: {where}{error['msg']}; expected {_FORM}"
        ) from failure


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\n\n".join(m.content for m in prompt)
