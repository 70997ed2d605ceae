"""The user's function or class as a victim, sync or async.

Questions: ``list[str]``, prompts that list the options, to one answer each: a text, or exactly
``{"answer": "A"}`` or ``{"scores": {"A": 0.7, ...}}``. Conversations are lists of
``{"role", "content"}``, answered by a text. Entities: ``list[list[str]]``, the words of each
sentence, to ``list[list[str]]``, one IOB or IOBES label per word (without types: B, I, O). Pairs:
``list[tuple[str, str]]`` to ``list[float]``, or, if pairs have labels, to labels or ``{"scores":
{label: p}}``. The function may be a coroutine function, and answers may be awaitables, which are
awaited concurrently.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    Failure,
    Generate,
    Generated,
    Message,
    ModelIdentity,
    Reply,
    Tag,
    Tagged,
)
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.core.hashing import content_hash
from medstress.core.label_schemes import in_iob2, scheme_of
from medstress.core.words import shorten
from medstress.files.functions import Loaded, describe_error, load_module, source_hashes

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
        self._awaiter = Awaiter()
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
            One reply per call; if the function returned awaitables, one that raises fails alone.

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
            answers = self._awaiter.settle(self._function([_input(call) for call in calls]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PermanentBackendError(
                f"python victim {self.identity.name!r} raised {describe_error(error)}"
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
        """Close the user's instance if it has `close`, the event loop and the module."""
        close = getattr(self._owner, "close", None)
        if callable(close):
            # All answers are stored by now, and an error here would hide how the run ended.
            with suppress(Exception):
                self._awaiter.settle(close())
        self._awaiter.close()
        if self.loaded is not None:
            self.loaded.close()

    def _read(self, answer: Any, call: Call) -> Reply:
        if isinstance(answer, BaseException):
            raised = f"python victim {self.identity.name!r} raised {describe_error(answer)}"
            return Failure(error=raised)
        match call:
            case Tag():
                return self._labels(answer, call)
            case Compare():
                return self._score(answer)
            case Classify() if isinstance(answer, str):
                return Chosen(answer=answer) if answer in call.labels else Chosen(text=answer)
            case Classify():
                if not isinstance(answer, Mapping) or set(answer) != {"scores"}:
                    self._refuse(
                        f"returned {answer!r} for a pair; expected a label such as "
                        f"{call.labels[0]!r}, or exactly {{'scores': {{{call.labels[0]!r}: 0.7, "
                        "...}}"
                    )
                return Chosen(scores=self._scores(answer["scores"], call.labels))
            case Generate() if not isinstance(answer, str):
                self._refuse(f"returned {answer!r} for a conversation; expected a text")
        if isinstance(answer, str):
            try:
                answer.encode()
            except UnicodeEncodeError:
                self._refuse(f"returned {answer!r}, which is not valid Unicode text")
            if isinstance(call, Generate):
                return Generated(text=answer)
        assert isinstance(call, Choose)
        if isinstance(answer, str):
            # A function may return the prompt with the answer. Only the answer is stored, so that
            # it can be read again without the prompt.
            return Chosen(text=answer.removeprefix(call.prompt))
        if isinstance(answer, Mapping) and set(answer) == {"answer"}:
            letter = answer["answer"]
            if not isinstance(letter, str) or len(letter) != 1 or letter not in call.letters:
                self._refuse(
                    f"returned the answer {letter!r}; expected one of {', '.join(call.letters)}"
                )
            return Chosen(answer=letter)
        if not isinstance(answer, Mapping) or set(answer) != {"scores"}:
            self._refuse(
                f"returned {answer!r}; expected a text, or exactly {{'answer': 'A'}} or "
                "{'scores': {'A': 0.7, ...}}"
            )
        return Chosen(scores=self._scores(answer["scores"], call.letters))

    def _labels(self, answer: Any, call: Tag) -> Tagged:
        n = len(call.tokens)
        if isinstance(answer, str) or not isinstance(answer, Sequence):
            self._refuse(
                f"returned {answer!r} for a sentence; expected a list of {n} IOB labels, one per "
                "word"
            )
        if len(answer) != n:
            self._refuse(
                f"returned {len(answer)} labels for the {n} words of "
                f"{shorten(' '.join(call.tokens), 60)!r}; expected one per word"
            )
        for label in answer:
            if not isinstance(label, str) or not _LABEL.fullmatch(label):
                self._refuse(
                    f"returned the label {label!r}; expected IOB labels: 'O', or 'B-' or 'I-' and "
                    "a type, such as 'B-Chemical', or 'B' and 'I' alone"
                )
        return Tagged(labels=in_iob2(answer, scheme_of(answer) or "iob2"))

    def _score(self, answer: Any) -> Compared:
        try:
            value = math.nan if isinstance(answer, str | bytes) else float(answer)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            self._refuse(f"returned the score {answer!r} for a pair; expected a finite number")
        return Compared(score=value)

    def _scores(self, scores: Any, names: Sequence[str]) -> tuple[float, ...]:
        """Read one probability for each name, in their order."""
        if not isinstance(scores, Mapping) or set(scores) != set(names):
            self._refuse(
                f"returned the scores {scores!r}; expected one for each of {', '.join(names)}"
            )
        try:
            values = tuple(float(scores[name]) for name in names)
        except (TypeError, ValueError, OverflowError):
            values = (math.nan,)
        if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values):
            self._refuse(
                f"returned the scores {dict(scores)!r}; expected finite probabilities >= 0 that "
                "are not all 0"
            )
        return values

    def _refuse(self, what: str) -> NoReturn:
        hint = (
            "earlier answers are stored: mend the function and start over with --fresh, or resume "
            "if the victim has a version"
            if self._has_answered
            else "mend the function and run again"
        )
        raise UsageError(f"python victim {self.identity.name!r} {what}; {hint}")


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
            raise UsageError(
                f"python victim {target!r}: {where} has no function {name!r}"
            ) from None
        if inspect.isclass(victim):
            try:
                owner = victim = victim()
            except (Exception, SystemExit) as error:
                raise UsageError(
                    f"python victim {target!r}: making a {part} without arguments raised "
                    f"{describe_error(error)}"
                ) from error
    method = getattr(victim, METHOD, None)
    if callable(method) and not inspect.isroutine(victim):
        victim = method
    if not callable(victim):
        lacks = "has neither a method 'answer' nor __call__"
        raise UsageError(
            f"python victim {target!r}: "
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
                f"python victim {target!r} has no source file to hash; give it a version, e.g. "
                'version = "1"'
            )
        packages = () if loaded is None else loaded.packages
        state = ["source", *files, *packages]
    module = getattr(function, "__module__", None) if loaded is None else loaded.label
    name = target.rpartition(":")[2]
    return ModelIdentity(name=target, hash=content_hash(["python", module, name, *state]))


class Awaiter:
    """One event loop for all batches, so that clients opened by a coroutine stay usable.

    It runs in its own thread, because a notebook already runs a loop in the calling thread.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def settle(self, value: Any) -> Any:
        """Await a value if it is awaitable, then the awaitable members of a list.

        Members are awaited concurrently; one that raises is replaced by its exception.
        """
        if inspect.isawaitable(value):
            value = self._run(_awaited(value))
        if _has_awaitables(value):
            value = self._run(_gathered(value))
        return value

    def close(self) -> None:
        """Stop the loop and its thread if they were started."""
        if self._runner is not None and self._thread is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
        self._runner = self._thread = None

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if self._runner is None or self._thread is None:
            self._runner = asyncio.Runner()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="medstress-coroutines")
        return self._thread.submit(self._runner.run, coroutine).result()


def _has_awaitables(value: Any) -> bool:
    try:
        return isinstance(value, list | tuple) and any(map(inspect.isawaitable, value))
    except Exception:  # noqa: BLE001 - a user's list class; the reader refuses it later
        return False


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _gathered(values: Sequence[Any]) -> list[Any]:
    places = [i for i, value in enumerate(values) if inspect.isawaitable(value)]
    results = await asyncio.gather(*(values[i] for i in places), return_exceptions=True)
    settled = list(values)
    for place, value in zip(places, results, strict=True):
        if isinstance(value, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
            raise value
        settled[place] = value
    return settled
