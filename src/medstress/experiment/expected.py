"""What a dry run expects of a model: measured in an earlier run, or else usual values.

Where nothing is known, half of the questions are right at first, an edit in ten flips a right
answer, and a harmless edit flips half as many. MedFuzz, which learns from what held, flips
two thirds within its attempts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.protocol import Attack
from medstress.backends.replies import most_tokens, plain
from medstress.core.calls import Call, Choose, Classify, Compare, Generate, Rank, Score, Tag
from medstress.core.items import Question
from medstress.core.queries import ATTACKER, JUDGE
from medstress.experiment.plan.plan import Prepared
from medstress.store.counts import EarlierAnswers, earlier_answers
from medstress.store.database import FILE
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnyTask, Task
from medstress.tasks.victim import Victim

WEIGHT = 8
"""Trials and queries that the usual values weigh as much as, beside measured ones."""
FALLEN = 2 / 3
"""Share of the right answers that all attempts of MedFuzz flip. With half right at first a third of
all items fall, the middle between a sixth and two thirds."""
OWN_SECONDS = 0.01
"""Time of the product itself for each call of a conversation."""
SHORT, REASONED = 2, 600
"""Tokens of a written answer: a letter with a space or full stop, or after reasoning."""
TURN, CONFIDENCES = 200, 40
"""Tokens of a conversation: its reasoning, and its confidences as JSON."""
LONG = 256
"""A limit from which an answer is taken to hold reasoning: twice the default."""
CHARACTERS_PER_TOKEN = 4
_MOST_FOLDERS = 50
_REASONS = re.compile(
    r"(?:^|[/_:.-])(?:o[134]|gpt-5|gpt-oss|r1|qwq|magistral)(?![a-z0-9])|reason|think", re.I
)
"""Names of models that reason unasked."""


PLAN, INSERTED, VOTE = 150, 80, 60
"""Tokens of an attacker's plan, of its insertions, and of a judge's answer."""
REQUEST = 250
"""Tokens of a shipped text that asks a role for something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What is expected of one model."""

    accuracy: float = 0.5
    """Share of questions that are right at first."""
    flips: float = 0.1
    """Share of an attack's edits that flip a right answer."""
    control_flips: float = 0.05
    """The same of harmless edits."""
    tokens_in: float | None = None
    """Tokens read by a call; None: from the prompt's characters."""
    tokens_out: float | None = None
    """Tokens written by a call; None: usual lengths."""
    calls_per_second: float | None = None
    """With all workers busy; None if it was never measured."""
    source: str = "assumed"
    """Where the values come from."""

    def sentence(self, written: float, if_long: float, n_queries: float) -> str:
        """Say what the estimate of a model rests on.

        Args:
            written: tokens that it is expected to write.
            if_long: the same if every answer takes `max_new_tokens`.
            n_queries: expected queries.
        """
        text = (
            f"{self.accuracy * 100:.0f} % of the questions right at first, an edit flips "
            f"{self.flips * 100:.0f} % of them ({self.source})"
        )
        if if_long <= written or not n_queries:
            return text
        return (
            f"{text}; uncertain: {written / n_queries:,.3g} tokens written a query, up to "
            f"{if_long / n_queries:,.3g} if it reasons or explains its answers"
        )


def usual_of(victim: Victim, prepared: Prepared, folder: Path | None) -> Usual:
    """Return what is expected of a model; of one that is not open, what is usual.

    It is measured in the run folder, or else in its newest neighbour that asked the same model in
    the same way.
    """
    if victim.backend is None:
        return _unmeasured(prepared)
    model, task = victim.backend.identity.hash, victim.task.spec()
    workers = victim.backend.traits.workers
    for place in _run_folders(folder):
        if (earlier := earlier_answers(place, model, task)) is not None:
            return _measured(earlier, prepared, place, workers)
    return _unmeasured(prepared)


def _unmeasured(prepared: Prepared) -> Usual:
    """Return what is usual for the attacks of an experiment."""
    attacks = [part.attack for part in prepared.attacks if not part.attack.is_control]
    attempts = [one.attempts for one in attacks if isinstance(one, MedFuzz)]
    if not attempts or len(attempts) < len(attacks):
        return Usual()
    return Usual(flips=1 - (1 - FALLEN) ** (1 / max(attempts)))


def _run_folders(folder: Path | None) -> Iterator[Path]:
    """Yield a run's folder and its neighbours that hold runs, the newest first."""
    if folder is None:
        return
    others = [path.parent for path in folder.parent.glob(f"*/{FILE}") if path.parent != folder]
    others.sort(key=lambda path: (path / FILE).lstat().st_mtime, reverse=True)
    yield from (folder, *others[:_MOST_FOLDERS])


def _measured(earlier: EarlierAnswers, prepared: Prepared, folder: Path, workers: int) -> Usual:
    def share(n: int, of: int, usual: float) -> float:
        """Return a share that few counts leave near the usual one."""
        return (n + WEIGHT * usual) / (of + WEIGHT)

    usual, n = _unmeasured(prepared), earlier.n_calls
    in_turns = any("turns" in part.attack.needs for part in prepared.attacks)
    is_alike = earlier.in_turns == in_turns and n > 0 and earlier.tokens_in > 0
    is_same_data = {part.loaded.source_hash for part in prepared.datasets} == earlier.datasets
    own = OWN_SECONDS if in_turns else 0.0
    (asked, of_controls), (lost, by_controls) = earlier.asked, earlier.flipped
    return Usual(
        accuracy=share(earlier.n_right, earlier.n_right + earlier.n_lost, usual.accuracy),
        flips=share(lost, asked, usual.flips),
        control_flips=share(by_controls, of_controls, usual.control_flips),
        tokens_in=earlier.tokens_in / n if is_alike and is_same_data else None,
        tokens_out=earlier.tokens_out / n if is_alike else None,
        calls_per_second=1 / (earlier.seconds / workers / n + own) if earlier.seconds else None,
        source=f"measured over {n:,} calls in {folder}",
    )


def expected(
    attack: Attack, n: int, usual: Usual, *, is_control: bool = False
) -> tuple[float, float]:
    """Return the queries that a trial is expected to ask, and the probability of a success.

    A search ends at its first success, unless it asks every query; an item that is wrong at first
    is left alone, unless it is every item that is asked, or the attack is a control.
    """
    flips = usual.control_flips if is_control else usual.flips
    never = (1 - flips) ** n
    until = (1 - never) / flips if flips else float(n)
    if attack.ends == "all":
        until = float(n)
    of_wrong = 0.0
    if attack.is_copy:
        of_wrong = float(n)
    elif attack.every_item:
        of_wrong = until
    elif attack.is_control and "turns" not in attack.needs:
        of_wrong = float(min(n, 1))
    right = usual.accuracy
    return right * until + (1 - right) * of_wrong, right * (1 - never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Calls and tokens of one query about an unchanged item."""

    calls: int = 1
    """The most calls."""
    about_calls: int = 1
    """Calls, if no reply has to be repaired."""
    about_in: float = 0.0
    """Tokens read, from the number of characters."""
    about_out: float = 0.0
    """Tokens written, from the kind of answer."""
    most_in: float = 0
    """Bound of tokens read: a text has at most as many as bytes. Infinite if it has no bound."""
    most_out: int = 0
    """Bound of tokens written."""
    places: int = 0
    """Most places where the text of one option occurs."""
    may_explain: bool = False
    """Whether an answer may be as long as allowed."""


def size_of(task: AnyTask, item: Any, model: str) -> Size:
    """Measure a query about an unchanged item, from the calls that it makes first.

    Args:
        task: the model's task.
        item: the item.
        model: the model's name, which may say that it reasons.
    """
    flow = task.flow(item.candidate())
    calls = [request.call for request in next(flow)]
    flow.close()
    is_question = item.kind == Question.kind
    n = cast(Task, task).n_calls(len(item.options)) if is_question else len(calls)
    read, most, usual, places = zip(*(_of_call(call, model) for call in calls), strict=True)
    about_in = (
        sum(len(text) for texts in read for text in texts) / len(calls) / CHARACTERS_PER_TOKEN
    )
    about_calls, most_out, about_out = n, n * max(most), n * max(usual)
    later = 0
    if isinstance(task, Conversation):
        # Three turns; later ones read the earlier again, and may be longer than the first.
        thoughts = min(TURN, task.decoding.max_new_tokens)
        about_calls, about_in = 3, about_in + (2 * thoughts + CONFIDENCES) / 3
        about_out = thoughts + CONFIDENCES + (1 if task.by_letter else SHORT)
        most_out = task.most_written
        later = (n - 1) * (task.most_written + CHARACTERS_PER_TOKEN * REQUEST)
    # What functions and taggers make of texts has no bound.
    is_prompt = all(isinstance(call, Generate | Choose | Rank | Score) for call in calls)
    return Size(
        calls=n,
        about_calls=about_calls,
        about_in=about_calls * about_in,
        about_out=about_out,
        most_in=n * max(map(most_tokens, read)) + later if is_prompt else math.inf,
        most_out=most_out,
        places=n * max(places),
        may_explain=any(isinstance(call, Generate) for call in calls),
    )


OF_ROLE = Size(about_in=600, about_out=PLAN, most_in=math.inf)
"""A call to a role whose texts are unknown."""


def role_sizes(
    attack: MedFuzz, item: Question, attempts: float, writes: Mapping[str, int]
) -> tuple[Size, Size]:
    """Return the mean call to attacker and judge in a trial of MedFuzz.

    The attacker's conversation holds its instructions and all earlier attempts, with what the
    target said; the judge reads the item, an insertion and a reasoning.

    Args:
        attack: the attack.
        item: the item.
        attempts: how many are expected.
        writes: role -> its `max_new_tokens`; there need not be a judge.
    """
    attacker_tokens, judge_tokens = writes[ATTACKER], writes.get(JUDGE, 0)
    rules = attack.prompts.instructions(
        max_words=attack.max_words, attempts=attack.attempts, allow_history=attack.allow_history
    )
    listed = " ".join([item.question, *item.options])
    read, question = (len(text) / CHARACTERS_PER_TOKEN for text in (rules, listed))
    most_read, most_question = len(rules.encode()), len(listed.encode())
    said, asks = min(TURN, attack.reasoning_tokens), CHARACTERS_PER_TOKEN * REQUEST
    per_attempt = question + 2 * REQUEST + said + PLAN + INSERTED
    most_per_attempt = (
        2 * most_question + 4 * (attacker_tokens + asks) + attack.reasoning_tokens + asks
    )
    to_attacker = Size(
        about_in=read + question + REQUEST + max(attempts - 1, 0) / 2 * per_attempt,
        about_out=min((PLAN + INSERTED) / 2, attacker_tokens),
        most_in=most_read + attack.attempts * most_per_attempt,
        most_out=attacker_tokens,
    )
    to_judge = Size(
        about_in=question + REQUEST + said,
        about_out=min(VOTE, judge_tokens),
        most_in=most_read + most_question + attacker_tokens + attack.reasoning_tokens + asks,
        most_out=judge_tokens,
    )
    return to_attacker, to_judge


def _of_call(call: Call, model: str) -> tuple[list[str], int, int, int]:
    """Return the texts that a call reads, the most and the usual tokens that it writes, and the
    places of one option in the texts."""
    match call:
        case Generate():
            most = call.decoding.max_new_tokens
            return [plain(call.prompt)], most, written(model, most), 1
        case Choose():
            return [call.prompt], 0, 0, 1
        case Rank():
            return [call.prompt + option for option in call.options], 0, 0, len(call.options)
        case Score(first_token=True):
            return [plain(call.prompt) + max(call.continuations, key=len)], 1, 1, 1
        case Score():  # an option occurs in the prompt, and as the continuation
            texts = [plain(call.prompt) + text for text in ("", *call.continuations)]
            return texts, 0, 0, 2 * len(texts)
        case Tag():
            return [" ".join(call.tokens)], 0, 0, 0
        case Compare() | Classify():
            return [call.text_a, call.text_b], 0, 0, 0


def written(model: str, max_new_tokens: int) -> int:
    """Return the usual tokens of one written answer.

    >>> written("gpt-4o", 128), written("gpt-4o", 2), written("deepseek-r1", 2048)
    (2, 2, 600)
    """
    is_long = max_new_tokens >= LONG or _REASONS.search(model) is not None
    return min(REASONED if is_long else SHORT, max_new_tokens)
