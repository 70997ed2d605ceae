"""The user's function or class as a victim.

Questions: ``list[str]``, prompts that list the options, to one answer each: a text, or exactly
``{"answer": "A"}`` or ``{"scores": {"A": 0.7, ...}}``. Conversations are lists of
``{"role", "content"}``, answered by a text. Entities: ``list[list[str]]``, the words of each
sentence, to ``list[list[str]]``, one IOB or IOBES label per word (without types: B, I, O). Pairs:
``list[tuple[str, str]]`` to ``list[float]``, or, if pairs have labels, to labels or ``{"scores":
{label: p}}``.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from medstress.backends.options import BackendOptions
from medstress.core.calls import (
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
    Message,
    ModelIdentity,
    Reply,
    Tag,
    Tagged,
)
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.core.functions import Loaded, describe_error, load_module, source_hashes
from medstress.core.hashing import content_hash
from medstress.core.sentences import in_iob2, scheme_of

DEFAULT_BATCH_SIZE = 32
WHAT = "python victim"
"""The name of a target in messages."""
METHOD = "answer"
"""The method of a class that is called; without it the instance itself is called."""
KINDS = {
    "multiple_choice": "choose",
    "ner": "tag",
    "similarity": "compare",
    "classification": "classify",
}
"""The kind of call that a function answers, by task."""
_NOUNS = {
    "choose": "prompt",
    "tag": "sentence",
    "compare": "pair",
    "classify": "pair",
    "generate": "conversation",
}
"""What one answer is for, by kind of call."""
_GIVEN = {
    "tag": "sentences, each a list of words",
    "compare": "pairs of texts",
    "classify": "pairs of texts",
    "generate": 'conversations, each a list of {"role", "content"}',
}
"""What a function is given besides prompts, by kind of call."""
_LABEL = re.compile(r"O|[BIESLU](?:-\S+)?")

PythonVictim: TypeAlias = Callable[[list[Any]], Any]
"""Receives a list of inputs and returns one answer for each, in order."""


class PythonBackend(Backend):
    """Answers with a function: `choose` calls, and `generate` calls about conversations; `tag`,
    `compare` or `classify` calls where that is the task."""

    def __init__(
        self,
        function: PythonVictim,
        identity: ModelIdentity,
        batch_size: int | None = None,
        owner: Any = None,
        task: str = "multiple_choice",
        loaded: Loaded | None = None,
        version: str | None = None,
    ) -> None:
        self._function = function
        self._owner = owner
        self.loaded = loaded
        """The target's module, on `sys.path` until the back end is closed."""
        self.version = version
        """The user's version of the function, which replaces the hash of its source."""
        self._has_answered = False
        self.identity = identity
        kind = KINDS[task]
        # No calls ahead, because unused answers would still cost the user's model a query.
        self.traits = BackendTraits(
            calls=frozenset({kind, "generate"} if kind == "choose" else {kind}),
            batch_size=batch_size or DEFAULT_BATCH_SIZE,
        )

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call; the function is called once for prompts and once for conversations.

        Returns:
            One reply per call.

        Raises:
            PermanentBackendError: the function raised.
            UsageError: it returned the wrong number of answers, or answers of the wrong form.
        """
        replies: dict[int, Reply] = {}
        for is_conversation in (False, True):
            chosen = {
                i: call
                for i, call in enumerate(calls)
                if isinstance(call, Generate) is is_conversation
            }
            if chosen:
                replies.update(zip(chosen, self._answered(list(chosen.values())), strict=True))
        self._has_answered = True
        return [replies[i] for i in range(len(calls))]

    def _answered(self, calls: Sequence[Call]) -> list[Reply]:
        noun = _NOUNS[calls[0].kind]
        try:
            answers = self._function([_input(call) for call in calls])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            given = f"; it was given {_GIVEN[calls[0].kind]}" if calls[0].kind in _GIVEN else ""
            raise PermanentBackendError(
                f"python model {self.identity.name!r} raised {describe_error(error)}{given}"
            ) from error
        try:
            if hasattr(answers, "tolist"):
                answers = answers.tolist()  # an array or a tensor
            if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
                self._refuse(
                    f"returned {type(answers).__name__}; expected a list, one answer per {noun}"
                )
            if len(answers) != len(calls):
                self._refuse(
                    f"returned {len(answers)} answers for {len(calls)} {noun}s; expected one "
                    f"answer per {noun}, in the same order"
                )
            return [self._read(answer, call) for answer, call in zip(answers, calls, strict=True)]
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's objects may do anything
            self._refuse(f"returned something that cannot be read ({describe_error(error)})")

    def close(self) -> None:
        """Close the user's instance if it has `close`, and the module."""
        close = getattr(self._owner, "close", None)
        if callable(close):
            # All answers are stored by now, and an error here would hide how the run ended.
            with suppress(Exception):
                close()
        if self.loaded is not None:
            self.loaded.close()

    def _read(self, answer: Any, call: Call) -> Reply:
        match call:
            case Tag():
                return self._labels(answer, len(call.tokens))
            case Compare():
                with suppress(TypeError, ValueError, OverflowError):
                    value = math.nan if isinstance(answer, str | bytes) else float(answer)
                    if math.isfinite(value):
                        return Compared(score=value)
                self._refuse(f"returned {answer!r} for a pair; expected a finite number")
            case Generate() if not isinstance(answer, str):
                self._refuse(f"returned {answer!r} for a conversation; expected a text")
        if isinstance(answer, str):
            try:
                answer.encode()
            except UnicodeEncodeError:
                self._refuse(f"returned {answer!r}, which is not valid Unicode text")
            if isinstance(call, Generate):
                return Generated(text=answer)
        assert isinstance(call, Choose | Classify)
        names: Sequence[str] = call.letters if isinstance(call, Choose) else call.labels
        is_choice = isinstance(call, Choose)
        if isinstance(answer, str):
            if isinstance(call, Choose):
                # A function may return the prompt with the answer. Only the answer is stored, so
                # that it can be read again without the prompt.
                return Chosen(text=answer.removeprefix(call.prompt))
            return Chosen(answer=answer) if answer in names else Chosen(text=answer)
        keys = set(answer) if isinstance(answer, Mapping) else set()
        if is_choice and keys == {"answer"} and answer["answer"] in [*names]:
            return Chosen(answer=answer["answer"])
        if keys == {"scores"}:
            return Chosen(scores=self._scores(answer["scores"], names))
        one = f"{{'answer': {names[0]!r}}}" if is_choice else "a label"
        return self._refuse(
            f"returned {answer!r}; expected a text, {one}, or {{'scores': {{{names[0]!r}: 0.7, "
            f"...}}}}, of {', '.join(names)}"
        )

    def _labels(self, answer: Any, n: int) -> Tagged:
        if hasattr(answer, "tolist"):
            answer = answer.tolist()
        is_list = isinstance(answer, Sequence) and not isinstance(answer, str)
        if not is_list or len(answer) != n:
            got = f"{len(answer)} labels" if is_list else repr(answer)
            self._refuse(f"returned {got} for a sentence of {n} words; expected one label per word")
        for label in answer:
            if not isinstance(label, str) or not _LABEL.fullmatch(label):
                self._refuse(
                    f"returned the label {label!r}; expected IOB labels: 'O', or 'B-' or 'I-' and "
                    "a type, such as 'B-Chemical', or 'B' and 'I' alone"
                )
        return Tagged(labels=in_iob2(answer, scheme_of(answer) or "iob2"))

    def _scores(self, scores: Any, names: Sequence[str]) -> tuple[float, ...]:
        """Read one probability for each name, in their order."""
        values: tuple[float, ...] = ()
        if isinstance(scores, Mapping) and set(scores) == set(names):
            with suppress(TypeError, ValueError, OverflowError):
                values = tuple(float(scores[name]) for name in names)
        if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values):
            self._refuse(
                f"returned the scores {scores!r}; expected finite probabilities, not all 0, one "
                f"for each of {', '.join(names)}"
            )
        return values

    def _refuse(self, what: str) -> NoReturn:
        hint = (
            "earlier answers are stored: mend the function and start over with --fresh, or resume "
            "if the victim has a version"
            if self._has_answered
            else "mend the function and run again"
        )
        raise UsageError(f"python model {self.identity.name!r} {what}; {hint}")


def _input(call: Call) -> Any:
    """Return what the function receives for one call."""
    match call:
        case Choose():
            return call.prompt
        case Tag():
            return list(call.tokens)
        case Compare() | Classify():
            return call.text_a, call.text_b
        case Generate(prompt=prompt):
            turns = (Message("user", prompt),) if isinstance(prompt, str) else prompt
            return [{"role": turn.role, "content": turn.content} for turn in turns]
    raise UsageError(f"a python victim cannot answer {call.kind!r} calls")


def open_backend(options: BackendOptions) -> PythonBackend:
    """Load the function named by `target`.

    Raises:
        UsageError: there is no target, or its file, module or function does not exist.
    """
    target = options.target
    if not target or ":" not in target:
        raise UsageError(
            f'backend \'python\' needs target = "module:function" or "file.py:function", '
            f"got {target!r}"
        )
    loaded = load_module(target, options.base, WHAT)
    try:
        function, owner = _resolve(loaded.module, target)
        identity = _identity(function, target, options.version, loaded)
    except BaseException:
        loaded.close()
        raise
    return PythonBackend(
        function, identity, options.batch_size, owner, options.task, loaded, options.version
    )


def _resolve(module: Any, target: str) -> tuple[PythonVictim, Any]:
    """Return the function of a target, and the instance made for it if the target is a class."""
    where, _, name = target.rpartition(":")
    victim, owner = module, None
    for part in name.split("."):
        try:
            victim = getattr(victim, part)
        except AttributeError:
            raise UsageError(f"python model {target!r}: {where} has no function {name!r}") from None
        if inspect.isclass(victim):
            try:
                owner = victim = victim()
            except (Exception, SystemExit) as error:
                raise UsageError(
                    f"python model {target!r}: making a {part} without arguments raised "
                    f"{describe_error(error)}"
                ) from error
    method = getattr(victim, METHOD, None)
    if callable(method) and not inspect.isroutine(victim):
        victim = method
    if not callable(victim):
        lacks = "has neither a method 'answer' nor __call__"
        raise UsageError(
            f"python model {target!r}: "
            + (f"{where} has no function {name!r}" if owner is None else f"{name} {lacks}")
        )
    return victim, owner


def wrap_function(
    function: PythonVictim, version: str | None = None, task: str = "multiple_choice"
) -> PythonBackend:
    """Return a back end for a function object, for use from Python."""
    name = getattr(function, "__qualname__", type(function).__name__)
    identity = _identity(function, name, version)
    return PythonBackend(function, identity, task=task, version=version)


def _identity(
    function: Any, target: str, version: str | None, loaded: Loaded | None = None
) -> ModelIdentity:
    """Hash the function's name with its version, or with all of the user's source behind it.

    The hash covers the name of the file or module, so that functions of two files differ whatever
    their versions, but no folders, so that a project can be moved.
    """
    if version is not None:
        state = ["version", version]
    else:
        owner = getattr(function, "__self__", function)
        # A method may come from another file than the object's class. An object passed from Python
        # may hold anything, so its class would not be enough.
        files = source_hashes(function, loaded, type(owner) if loaded is not None else None)
        if not files:
            raise UsageError(
                f"python model {target!r} has no source file to hash; give it a version, e.g. "
                'version = "1"'
            )
        packages = () if loaded is None else loaded.packages
        state = ["source", *files, *packages]
    module = getattr(function, "__module__", None) if loaded is None else loaded.label
    name = target.rpartition(":")[2]
    return ModelIdentity(name=target, hash=content_hash(["python", module, name, *state]))
