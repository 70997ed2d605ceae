"""MedFuzz: an attacker model edits an item until the target errs.

Reference: Ness et al., "MedFuzz: Exploring the robustness of large language models in medical
question answering", arXiv 2406.06573, 2024, Algorithm 1. Prompts are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from medstress.attacks.names import GoalText
from medstress.attacks.protocol import Need, TurnAttack, parameters
from medstress.core.errors import TrialError, UsageError
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Prediction, parse_goal
from medstress.core.queries import ATTACKER, JUDGE, Predict, Steps, ask, clean_answer, note
from medstress.core.resources import Resources
from medstress.core.text import comparison_key, edit_rows
from medstress.tasks.prompt_sets import (
    DEFAULT_SET,
    Exemplar,
    PromptSet,
    draw_exemplars,
    exemplars_from,
    load_prompts,
)

if TYPE_CHECKING:
    from numpy.random import Generator

    from medstress.attacks.medfuzz.gates import Objection
    from medstress.attacks.medfuzz.roles import Written

NAME = "medfuzz"
MAX_SAMPLE = 2**31


@parameters
class MedFuzz(TurnAttack):
    """Let an attacker edit an item, again and again, until the target errs.

    The attacker knows the key and keeps its history over all attempts of a run. Each attempt
    edits the original item: a plan, from the second on after a post-mortem of the last attempt;
    the insertions; gates; and the target, asked in three turns of a new conversation, whose
    reasoning, confidences and answer go back to the attacker. An attempt that a gate rejects, or
    whose reply stays unreadable, is lost and asks the target nothing.

    *Differs from the paper*: exactly K attempts, where its pseudo-code can be read as K + 1; items
    that are wrong at baseline are not attacked unless `attack_all`; gates check what the paper
    leaves to the attacker's instructions; what is inserted is kept as edits of the original.
    """

    name = NAME
    control = "neutral_insertion"

    attempts: Annotated[int, Field(ge=1, le=50)] = 5
    """K: attempts per run."""
    runs: Annotated[int, Field(ge=1, le=100)] = 3
    """E: runs per item and seed, each with its own worked exemplars."""
    exemplars: Annotated[int, Field(ge=0, le=8)] = 3
    """Worked questions before the target's case, drawn per item and run."""
    exemplars_from: str | None = None
    """A JSONL file to draw them from, such as MedQA's train split; default: the shipped ones."""
    attack_all: bool = False
    """Whether items that are wrong at baseline are attacked too; they stay wrong in every rate."""
    template: str | PromptSet = DEFAULT_SET
    """Name of a shipped set of prompts, or a folder with `attacker.md` and `rules.toml`."""
    max_words: Annotated[int, Field(ge=1, le=1_000)] = 80
    """Most words that may be inserted."""
    allow_history: bool = False
    """Whether evidence from the patient's history may be inserted."""
    reasoning_tokens: Annotated[int, Field(ge=1, le=8_192)] = 384
    """Most tokens of the target's reasoning."""
    goal: GoalText = "untargeted"
    """`untargeted`, or the option letter that counts as success."""
    unreadable_is_success: bool = False
    """Whether an unreadable answer is a success."""

    def __post_init__(self) -> None:
        if self.goal == "replaced":
            raise UsageError(
                f"{NAME}: goal = 'replaced' is the option that was edited, and {NAME} edits none; "
                "give 'untargeted' or an option letter"
            )

    @property
    def budget(self) -> int:
        """One query an attempt."""
        return self.attempts

    @property
    def repeats(self) -> int:
        """Runs per item and seed."""
        return self.runs

    @property
    def needs(self) -> frozenset[Need]:
        """An attacker and turns; a judge is asked where there is one."""
        return frozenset({"attacker", "judge", "turns"})

    @property
    def success(self) -> Goal:
        """The goal of the file."""
        return parse_goal(self.goal, unreadable=self.unreadable_is_success)

    @property
    def every_item(self) -> bool:
        """Whether items that are wrong on the clean prompt are attacked too."""
        return self.attack_all

    @property
    def prompts(self) -> PromptSet:
        """What the attacker is told, the rules of its edits, and the worked questions."""
        return load_prompts(self.template) if isinstance(self.template, str) else self.template

    def with_files(self, base: Path) -> MedFuzz:
        """Return this attack with its prompts and worked questions read, relative to a folder."""
        prompts, file = self.template, self.exemplars_from
        if isinstance(prompts, str):
            prompts = load_prompts(prompts, base)
        if file is not None:
            rows = exemplars_from(base / Path(file).expanduser(), file, self.exemplars)
            prompts = replace(prompts, exemplars=rows)
        return replace(self, template=prompts)

    def turns(self, item: Question, rng: Generator) -> tuple[Exemplar, ...]:
        """Draw the worked questions of one run."""
        return draw_exemplars(self.prompts.exemplars, self.exemplars, item, rng)

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values, with the content hash of the prompts."""
        prompts, file = self.prompts, self.exemplars_from
        return {
            "name": NAME,
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "template": prompts.name,
            "prompts": prompts.hash,
            "exemplars_from": None if file is None else Path(file).name,
        }

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: `spec` without the hash of the prompts."""
        return {key: value for key, value in self.spec().items() if key != "prompts"}

    def rules(self) -> str:
        """Return what the attacker is told first."""
        return self.prompts.instructions(
            max_words=self.max_words, attempts=self.attempts, allow_history=self.allow_history
        )

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the goal cannot be reached on this item, or None."""
        if self.goal != "untargeted" and self.goal not in item.letters.replace(item.key, ""):
            return f"the goal {self.goal} is the key or no option"
        return None

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see the class.

        Yields:
            Steps to attacker, judge and target, and a note on every attempt.

        Returns:
            The candidate that succeeded, or None.
        """
        from medstress.attacks.medfuzz.roles import Attacker, RoleSession
        from medstress.tasks.replies import Unreadable

        if ATTACKER not in resources.roles:
            raise TrialError(f"{NAME} asks the role 'attacker': add a [role.attacker] table")
        sample = int(rng.integers(1, MAX_SAMPLE))
        attacker = Attacker(
            item=item,
            rules=self.prompts.rules,
            session=RoleSession(
                ATTACKER, resources.roles[ATTACKER], sample, item.letters, self.rules()
            ),
            aim=None if self.goal == "untargeted" else self.goal,
        )
        listed = {comparison_key(one.name) for one in self.prompts.rules.categories}
        clean = yield from clean_answer()
        rows = [_row("original", item, clean, "nothing")]
        outcome = ""
        for attempt in range(1, self.attempts + 1):
            table = "\n".join([_heading(item), *rows])
            first = yield from attacker.plan(attempt, outcome, table)
            plan, written = (None, first) if isinstance(first, Unreadable) else first
            if written is None:
                written = yield from attacker.write(attempt)
            planned = {} if plan is None else plan.model_dump()
            if isinstance(written, Unreadable):
                what = "the insertions" if planned else "the plan"
                lost = {"unreadable": what, "lost": written.cause, "reason": written.reason}
                yield from note({"attempt": attempt, **planned, **lost})
                outcome = f"Attempt {attempt} is lost: {what} could not be used: {written.reason}."
                rows.append(f"{attempt} | lost: {written.cause}")
                continue
            objected, judged = yield from self._judged(written, sample, resources)
            named = [one.category for one in written.added if one.category.strip()]
            unlisted = [name for name in named if comparison_key(name) not in listed]
            record = {
                **planned,
                "added": [one.model_dump() for one in written.added],
                **({"unlisted": unlisted} if unlisted else {}),
                "edits": edit_rows(written.candidate.edits),
                "objections": [{"gate": one.gate, "reason": one.reason} for one in objected],
            }
            yield from note({"attempt": attempt, **record, **judged})
            shown = " / ".join(edit.replacement.strip() for edit in written.candidate.edits)
            if objected:
                reason = "; ".join(one.reason for one in objected)
                outcome = f"Attempt {attempt} was not shown to the model: {reason}."
                rows.append(f"{attempt} | not shown to the model | {shown}")
                continue
            query = Predict(written.candidate, attempt=attempt)
            (answer,) = yield from ask([query], keeps_open=True)
            if answer.is_success:
                yield from self._voted(attempt, written.candidate, sample, resources)
                return written.candidate
            outcome = self._outcome(attempt, answer)
            rows.append(_row(str(attempt), item, answer, shown))
        return None

    def _voted(
        self, attempt: int, candidate: Candidate, sample: int, resources: Resources
    ) -> Steps[None]:
        """Note what a judge answers before and after a successful edit; it gates nothing."""
        from medstress.attacks.medfuzz.roles import CLEAN_SAMPLE, key_vote

        judge, item = resources.roles.get(JUDGE), candidate.item
        if judge is None:
            return
        clean = yield from key_vote(JUDGE, judge, item, item.question, CLEAN_SAMPLE)
        vote = yield from key_vote(JUDGE, judge, item, candidate.question, sample)
        yield from note({"attempt": attempt, "clean_vote": clean, "key_vote": vote})

    def _judged(
        self, written: Written, sample: int, resources: Resources
    ) -> Steps[tuple[tuple[Objection, ...], Mapping[str, Any]]]:
        """Return which gates object and why, and who judged evidence."""
        from medstress.attacks.medfuzz.gates import Draft, Objection, objections
        from medstress.attacks.medfuzz.roles import evidence
        from medstress.tasks.replies import Unreadable

        rules = self.prompts.rules
        draft = Draft(
            candidate=written.candidate,
            options=written.options,
            rules=rules,
            max_words=self.max_words,
            allow_history=self.allow_history,
        )
        judge = resources.roles.get(JUDGE)
        by_rule = objections(draft, by_list=judge is None)
        if judge is None or by_rule:
            return by_rule, {"evidence_by": "list"} if judge is None else {}
        item = written.candidate.item
        inserted = [edit.replacement.strip() for edit in written.candidate.edits]
        forbidden = rules.not_allowed(allow_history=self.allow_history)
        rules = rules.model_copy(update={"forbidden": forbidden})
        judged = yield from evidence(JUDGE, judge, item, inserted, rules, sample)
        if isinstance(judged, Unreadable):
            unread = {"evidence_by": "list", "judge": {"unreadable": judged.reason}}
            return objections(draft, by_list=True), unread
        record = {"evidence_by": "judge", "judge": {"objects": list(judged.words)}}
        if not judged.words:
            return (), record
        words = ", ".join(map(repr, judged.words))
        return (Objection("evidence", f"a judge finds clinical evidence in it ({words})"),), record

    def _outcome(self, attempt: int, answer: Prediction) -> str:
        """Say what the target made of an attempt."""
        if answer.answer is None:
            head = f"Attempt {attempt}: the model's answer could not be read."
        elif self.goal in ("untargeted", answer.answer):
            head = f"Attempt {attempt}: the model answered {answer.answer}."
        else:
            head = f"Attempt {attempt}: the model answered {answer.answer}, not {self.goal}."
        return f"{head} Its reasoning:\n{answer.rationale or '(none)'}"


def _heading(item: Question) -> str:
    letters = [f"{one} (right)" if one == item.key else one for one in item.letters]
    return " | ".join(["attempt", *letters, "answer", "inserted"])


def _row(name: str, item: Question, answer: Prediction, shown: str) -> str:
    """Return a line of the table of confidences; with a known P(key) it has that too."""
    numbers = answer.confidences or (None,) * len(item.letters)
    cells = ["-" if one is None else f"{one:g}" for one in numbers]
    letter = answer.answer or "unreadable"
    if answer.scores is not None:
        odds = dict(zip(item.letters, map(math.exp, answer.scores), strict=True))
        letter += f" (P({item.key}) = {odds[item.key] / sum(odds.values()):.2f})"
    return " | ".join([name, *cells, letter, shown])
