"""The user's function or class as a victim, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from medstress.backends.options import BackendOptions
from medstress.backends.python.awaiting import Awaiter
from medstress.backends.python.sentence_functions import (
    NOUNS,
    function_input,
    read_label,
    read_labels,
    read_score,
    read_scores,
)
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
    Reply,
    Tag,
)
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.core.hashing import content_hash
from medstress.files.functions import Loaded, describe_error, load_module, source_hashes

DEFAULT_BATCH_SIZE = 32
WHAT = "python victim"
"""The name of a target in messages."""

PythonVictim = Callable[[list[Any]], Any]
"""Receives prompts that list the options, or conversations as lists of ``{"role", "content"}``.
Returns one answer for each, in order: a text, or for a prompt exactly ``{"answer": "A"}`` or
``{"scores": {"A": 0.7, ...}}``. It may be a coroutine function, and answers may be awaitables,
which are awaited concurrently. For entities and sentence pairs see `sentence_functions`."""
C = TypeVar("C", bound=Call)
METHOD = "answer"
"""The method of a class that is called; without it the instance itself is called."""


_ITEM_CALLS = (Choose, Tag, Compare, Classify)
"""Calls that go to the function together, apart from conversations."""
KINDS = {
    "multiple_choice": "choose",
    "ner": "tag",
    "similarity": "compare",
    "classification": "classify",
}
"""The kind of call that a function answers, by task."""


_AGAIN = "mend the function and run again"
"""What to do if nothing is stored yet that a changed function would not fit."""


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
        about_items = [call for call in calls if isinstance(call, _ITEM_CALLS)]
        conversations = [call for call in calls if isinstance(call, Generate)]
        replies = iter(self._answer_items(about_items) if about_items else ())
        texts = iter(self._converse(conversations) if conversations else ())
        found = [next(texts if isinstance(call, Generate) else replies) for call in calls]
        self._has_answered = True
        return found

    def _answer_items(self, calls: Sequence[Choose | Tag | Compare | Classify]) -> list[Reply]:
        answers = self._called([function_input(call) for call in calls])
        return self._read_all(answers, calls, self._read, NOUNS[calls[0].kind])

    def _converse(self, calls: Sequence[Generate]) -> list[Reply]:
        answers = self._called([_conversation(call.prompt) for call in calls])
        return self._read_all(answers, calls, self._read_text, "conversation")

    def _called(self, inputs: list[Any]) -> Any:
        try:
            return self._awaiter.settle(self._function(inputs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PermanentBackendError(
                f"python victim {self.identity.name!r} raised {describe_error(error)}"
            ) from error

    def _read_all(
        self, answers: Any, calls: Sequence[C], read: Callable[[Any, C], Reply], noun: str
    ) -> list[Reply]:
        try:
            return self._checked(answers, calls, read, noun)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's objects may do anything
            self._refuse(f"returned something that cannot be read ({describe_error(error)})")

    def _checked(
        self, answers: Any, calls: Sequence[C], read: Callable[[Any, C], Reply], noun: str
    ) -> list[Reply]:
        if hasattr(answers, "tolist"):
            answers = answers.tolist()  # an array or a tensor
        n = len(calls)
        if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
            self._refuse(
                f"returned {type(answers).__name__}; expected a list, one answer per {noun}"
            )
        if len(answers) != n:
            self._refuse(
                f"returned {len(answers)} answers for {n} {noun}s; expected one answer per {noun}, "
                "in the same order"
            )
        return [read(answer, call) for answer, call in zip(answers, calls, strict=True)]

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

    def _read(self, answer: Any, call: Choose | Tag | Compare | Classify) -> Reply:
        if isinstance(answer, BaseException):
            raised = f"python victim {self.identity.name!r} raised {describe_error(answer)}"
            return Failure(error=raised)
        if isinstance(call, Tag):
            return read_labels(answer, call, self._refuse)
        if isinstance(call, Compare):
            return read_score(answer, self._refuse)
        if isinstance(call, Classify):
            return read_label(answer, call, self._refuse)
        letters = call.letters
        if isinstance(answer, str):
            try:
                answer.encode()
            except UnicodeEncodeError:
                self._refuse(f"returned {answer!r}, which is not valid Unicode text")
            # A function may return the prompt with the answer. Only the answer is stored, so that
            # it can be read again without the prompt.
            return Chosen(text=answer.removeprefix(call.prompt))
        if isinstance(answer, Mapping) and len(answer) == 1 and "answer" in answer:
            letter = answer["answer"]
            if not isinstance(letter, str) or len(letter) != 1 or letter not in letters:
                self._refuse(
                    f"returned the answer {letter!r}; expected one of {', '.join(letters)}"
                )
            return Chosen(answer=letter)
        if not isinstance(answer, Mapping) or len(answer) != 1 or "scores" not in answer:
            self._refuse(
                f"returned {answer!r}; expected a text, or exactly {{'answer': 'A'}} or "
                "{'scores': {'A': 0.7, ...}}"
            )
        return Chosen(scores=read_scores(answer["scores"], letters, self._refuse))

    def _read_text(self, answer: Any, _: Generate) -> Reply:
        """Read the answer to a conversation, which must be a text."""
        reply = self._read(answer, Choose("", ""))
        if isinstance(reply, Chosen):
            if reply.text is None:
                self._refuse(f"returned {answer!r} for a conversation; expected a text")
            return Generated(text=reply.text)
        return reply

    def _refuse(self, what: str) -> NoReturn:
        stored = "earlier answers are stored: mend the function and start over with --fresh, or "
        hint = f"{stored}resume if the victim has a version" if self._has_answered else _AGAIN
        raise UsageError(f"python victim {self.identity.name!r} {what}; {hint}")


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


def _conversation(prompt: Prompt) -> list[dict[str, str]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": turn.role, "content": turn.content} for turn in prompt]


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
            owner = victim = _instance(victim, target)
    method = getattr(victim, METHOD, None)
    if callable(method) and not inspect.isroutine(victim):
        victim = method
    if not callable(victim):
        what = f"{name} has neither a method {METHOD!r} nor __call__"
        if owner is None:
            what = f"{where} has no function {name!r}"
        raise UsageError(f"python victim {target!r}: {what}")
    return victim, owner


def _instance(kind: type[Any], target: str) -> Any:
    try:
        return kind()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"python victim {target!r}: making a {kind.__name__} without arguments raised "
            f"{describe_error(error)}"
        ) from error


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
