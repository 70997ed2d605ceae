"""MedFuzz: an attacker model edits an item until the target errs.

Reference: Ness et al., "MedFuzz: Exploring the robustness of large language models in medical
question answering", arXiv 2406.06573, 2024, Algorithm 1. Prompts are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.choices import check_flag, check_word
from medstress.attacks.edit_gates import GATES, NAMES, NO_CATEGORY, Draft
from medstress.attacks.item_edits import edits_between, hidden_in
from medstress.attacks.protocol import SearchOn
from medstress.attacks.role_session import RoleSession, votes
from medstress.errors import TrialError, UsageError, did_you_mean
from medstress.items import Candidate, Question
from medstress.outcomes import Prediction, Replaced, parse_goal
from medstress.prompts import DEFAULT, Exemplar, PromptSet, load_prompts
from medstress.prompts.kinds import evidence_told
from medstress.prompts.replies import CategoryVote, Letter, Modification, Plan, Unreadable
from medstress.queries import Predict, Steps, ask, note
from medstress.resources import Resources
from medstress.validity import PANEL

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "medfuzz"
ATTACKER, JUDGE = "attacker", "judge"
N_VOTES = 3
"""Votes of the panel; more than half of them must pick the key (METHODS 2.8)."""
GATE_MODES = ("reject", "mark")
LIMITS = {"attempts": 50, "runs": 100, "max_words": 1_000, "reasoning_tokens": 8_192}
_MAX_SAMPLE = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class MedFuzz:
    """Let an attacker edit an item, again and again, until the target errs.

    The attacker knows the key and keeps its history over all attempts of a run. Each attempt
    edits the original item: a plan, from the second on after a post-mortem of the last attempt;
    the edited item; gates; and the target, asked in three turns of a new conversation, whose
    reasoning, confidences and answer go back to the attacker. An attempt that a gate rejects, or
    whose reply stays unreadable, is lost and asks the target nothing.

    *Differs from the paper*: exactly K attempts, where its pseudo-code can be read as K + 1; items
    that are wrong at baseline are not attacked unless `attack_all`; gates check what the paper
    leaves to the attacker's instructions; what is inserted is kept as edits of the original.
    """

    needs_entities: ClassVar[bool] = False

    attempts: int = 5
    """K: attempts a run."""
    runs: int = 3
    """E: runs an item and seed, each with worked exemplars of its own."""
    exemplars: int = 3
    """Worked questions before the target's case, drawn by item and run."""
    attack_all: bool = False
    """Whether items that are wrong at baseline are attacked too; they stay wrong in every rate."""
    template: str | PromptSet = DEFAULT
    """A shipped set of prompts or a folder."""
    gates: Sequence[str] | None = None
    """Gates that are on; default: all but those that make no sense with the set of prompts."""
    gate_mode: str = "reject"
    """`reject`: what a gate objects to is not asked. `mark`: it is asked, its success is refuted,
    and the search goes on."""
    max_words: int = 80
    """Most words inserted."""
    allow_history: bool = False
    """Whether the kinds of evidence that are history may be inserted."""
    reasoning_tokens: int = 384
    """Most tokens of the target's reasoning."""
    goal: str = "untargeted"
    """`untargeted`, or the option letter that the target shall answer."""
    unreadable_is_success: bool = False
    """Whether an unreadable answer is a success."""

    def __post_init__(self) -> None:
        for key, most in LIMITS.items():
            self._check_whole(key, 1, most)
        self._check_whole("exemplars", 0, 8)
        check_word(NAME, "gate_mode", self.gate_mode, GATE_MODES)
        for key in ("attack_all", "allow_history", "unreadable_is_success"):
            check_flag(NAME, key, getattr(self, key))
        if not isinstance(self.template, str | PromptSet) or not self.template:
            raise UsageError(f"{NAME}: template must be a name or a folder, got {self.template!r}")
        self._check_gates()
        try:
            goal = parse_goal(self.goal)
        except UsageError as error:
            raise UsageError(f"{NAME}: {error}") from None
        if isinstance(goal, Replaced):
            raise UsageError(
                f"{NAME}: goal = 'replaced' is the option that was edited, and {NAME} edits none; "
                "give 'untargeted' or an option letter"
            )

    def _check_whole(self, key: str, least: int, most: int) -> None:
        value = getattr(self, key)
        if type(value) is not int or not least <= value <= most:
            raise UsageError(
                f"{NAME}: {key} must be a whole number from {least} to {most}, got {value!r}"
            )

    def _check_gates(self) -> None:
        if self.gates is None:
            return
        if not isinstance(self.gates, list | tuple) or not all(
            isinstance(name, str) for name in self.gates
        ):
            raise UsageError(f"{NAME}: gates must be a list of names, got {self.gates!r}")
        for name in self.gates:
            if name not in NAMES:
                known = f" (known: {', '.join(NAMES)})"
                raise UsageError(
                    f"{NAME}: gates: unknown gate {name!r}{did_you_mean(name, NAMES) or known}"
                )
        object.__setattr__(self, "gates", tuple(n for n in NAMES if n in self.gates))

    # -- what the experiment needs to know ---------------------------------------------------
    @property
    def stream(self) -> str:
        """The random stream."""
        return NAME

    @property
    def budget(self) -> int:
        """Most queries of one run."""
        return self.attempts

    @property
    def deterministic(self) -> bool:
        """False: the attacker is sampled and the exemplars are drawn."""
        return False

    @property
    def repeats(self) -> int:
        """Trials an item and seed."""
        return self.runs

    @property
    def roles(self) -> Mapping[str, bool]:
        """Roles it asks, and whether it cannot do without."""
        judged = PANEL in self.gates_on or "categories" in self.gates_on
        return {ATTACKER: True} | ({JUDGE: False} if judged else {})

    @property
    def needs_names(self) -> bool:
        """Whether it asks for the names of drugs and diseases in a text."""
        return "evidence" in self.gates_on

    @property
    def search_on(self) -> SearchOn:
        """After which success the search goes on."""
        return SearchOn.INVALID if self.gate_mode == "mark" else SearchOn.NEVER

    @property
    def prompts(self) -> PromptSet:
        """What is said to attacker, target and judge."""
        return load_prompts(self.template) if isinstance(self.template, str) else self.template

    @property
    def gates_on(self) -> tuple[str, ...]:
        """The gates in use, in their order."""
        if self.gates is not None:
            return tuple(self.gates)
        return tuple(name for name in NAMES if name not in self.prompts.without_gates)

    def with_files(self, base: Path) -> MedFuzz:
        """This attack with its prompts read, relative to a folder."""
        if isinstance(self.template, PromptSet):
            return self
        return replace(self, template=load_prompts(self.template, base))

    def draw_exemplars(self, item: Question, rng: Generator) -> tuple[Exemplar, ...]:
        """Draw the worked questions of one run, never the item itself nor one with its answer.

        Raises:
            UsageError: the set of prompts holds too few.
        """
        key = item.options[item.letters.index(item.key)].casefold()
        others = [
            each
            for each in self.prompts.exemplars
            if each.id != item.id
            and each.question.casefold() != item.question.casefold()
            and dict(each.options)[each.answer].casefold() != key
        ]
        if len(others) < self.exemplars:
            raise UsageError(
                f"{NAME}: exemplars = {self.exemplars}, and template {self.prompts.name!r} holds "
                f"{len(others)} that are neither the item nor have its answer: "
                "lower exemplars or add worked questions"
            )
        drawn = rng.choice(len(others), size=self.exemplars, replace=False)
        return tuple(others[i] for i in drawn)

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        prompts = self.prompts
        own = {"template": prompts.name, "prompts": prompts.hash, "gates": list(self.gates_on)}
        return {"name": NAME, **found, **own}

    def label_parameters(self) -> dict[str, Any]:
        """The parameters that tell attacks of this name apart."""
        return {key: value for key, value in self.spec().items() if key != "prompts"}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Why this item cannot be attacked: a goal that it cannot have."""
        if self.goal != "untargeted" and self.goal not in item.letters.replace(item.key, ""):
            return f"the goal {self.goal} is the key or no option"
        return None

    def most_queries(self, item: Question, resources: Resources) -> int:
        """The most queries of one run."""
        return self.attempts

    # -- the attack --------------------------------------------------------------------------
    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see the class.

        Yields:
            Steps to attacker, judge and target, and a note on every attempt.

        Returns:
            The last candidate that succeeded, or None.
        """
        if ATTACKER not in resources.roles:
            raise TrialError(f"{NAME} asks the role 'attacker', which is not configured")
        sample = int(rng.integers(1, _MAX_SAMPLE))
        session = RoleSession(
            ATTACKER, resources.roles[ATTACKER], sample, self.prompts, item.letters, self._rules()
        )
        feedback, pick = None, None
        for attempt in range(1, self.attempts + 1):
            edited = yield from self._edit(session, item, feedback, resources)
            if isinstance(edited, Mapping):
                yield from note({"attempt": attempt, **edited})
                reason = f"the reply with {edited['unreadable']} could not be read"
                feedback = {"kind": "rejected", "attempt": attempt, "reason": reason}
                continue
            plan, draft = edited
            objections, asked = yield from self._judge(draft, resources, sample)
            yield from note({"attempt": attempt, **_told(plan, draft), **asked, **objections})
            found = objections["objections"]
            if found and self.gate_mode == "reject":
                reason = found[0]["reason"]
                feedback = {"kind": "rejected", "attempt": attempt, "reason": reason}
                continue
            query = Predict(draft.candidate, attempt=attempt, **_validity(found, asked))
            (answer,) = yield from ask([query])
            if answer.is_success:
                pick = draft.candidate
            feedback = _feedback(attempt, answer, item)
        return pick

    def _rules(self) -> str:
        return self.prompts.render(
            "attacker_system",
            categories=self.prompts.categories,
            evidence=evidence_told(allow_history=self.allow_history),
            allow_history=self.allow_history,
            max_words=self.max_words,
            attempts=self.attempts,
        )

    def _edit(
        self,
        session: RoleSession,
        item: Question,
        feedback: Mapping[str, Any] | None,
        resources: Resources,
    ) -> Steps[tuple[Plan, Draft] | Mapping[str, Any]]:
        """Plan and edit; what stayed unreadable, where something did."""
        shown = dict(zip(item.letters, item.options, strict=True))
        listing = "\n".join([item.question, *(f"{k}: {text}" for k, text in shown.items())])
        say = self.prompts.render
        known = {"listing": listing, "key": item.key, "key_text": item.key_text}
        plan = yield from session.ask(
            say("attacker_plan", feedback=feedback, **known), Plan, partial(_no_distractor, item)
        )
        if isinstance(plan, Unreadable):
            return {"unreadable": "the plan", "reason": plan.reason}
        options = json.dumps(shown, ensure_ascii=False)
        request = say("attacker_modify", question=item.question, options_json=options)
        made = yield from session.ask(request, Modification, partial(_hidden, item))
        if isinstance(made, Unreadable):
            told = {"plan": plan.plan, "post_mortem": plan.post_mortem}
            return {"unreadable": "the edited item", "reason": made.reason, **told}
        draft = Draft(
            candidate=edits_between(item, made.modified_item),
            options=made.options,
            added=made.added,
            categories=self.prompts.categories,
            max_words=self.max_words,
            allow_history=self.allow_history,
            names_in=resources.names_in,
        )
        return plan, draft

    def _judge(
        self, draft: Draft, resources: Resources, sample: int
    ) -> Steps[tuple[dict[str, Any], dict[str, Any]]]:
        """Which gates object and why, and what the judges said where they were asked."""
        judged = JUDGE in resources.roles
        # Where a judge can say which category fits, the attacker's word counts for nothing.
        told_to_gates = replace(draft, added=()) if judged else draft
        found = {
            name: reason
            for name in self.gates_on
            if name in GATES and (reason := GATES[name](told_to_gates)) is not None
        }
        asked: dict[str, Any] = {}
        if judged:
            if found.get("categories", "").endswith(NO_CATEGORY):
                told = yield from self._ask_category(draft, resources, sample)
                asked["category"] = told
                if told in {category.name for category in self.prompts.categories}:
                    del found["categories"]
            if PANEL in self.gates_on and (not found or self.gate_mode == "mark"):
                letters = yield from self._ask_panel(draft, resources, sample)
                asked["panel"] = letters
                n = letters.count(draft.item.key)
                if n * 2 <= N_VOTES:
                    found[PANEL] = f"only {n} of {N_VOTES} judges still pick the key"
        rows = [{"gate": name, "reason": reason} for name, reason in found.items()]
        return {"objections": rows}, asked

    def _ask_category(self, draft: Draft, resources: Resources, sample: int) -> Steps[str | None]:
        """The category that a judge finds for what was inserted."""
        inserted = "\n".join(f"- {text}" for text in draft.inserted)
        request = self.prompts.render(
            "judge_categories", inserted=inserted, categories=self.prompts.categories
        )
        letters = draft.item.letters
        session = RoleSession(JUDGE, resources.roles[JUDGE], sample, self.prompts, letters)
        vote = yield from session.ask(request, CategoryVote)
        return None if isinstance(vote, Unreadable) else vote.category

    def _ask_panel(
        self, draft: Draft, resources: Resources, sample: int
    ) -> Steps[list[str | None]]:
        """The letters that the judges pick on the edited item; None for one nobody can read."""
        options = tuple(zip(draft.item.letters, draft.item.options, strict=True))
        request = self.prompts.render("judge_key", question=draft.question, options=options)
        decoding, letters = resources.roles[JUDGE], draft.item.letters
        found = yield from votes(JUDGE, decoding, sample, request, Letter, letters, N_VOTES)
        return [None if isinstance(vote, Unreadable) else vote.answer for vote in found]


def _no_distractor(item: Question, plan: Plan) -> str | None:
    """What is wrong with the option that a plan aims at."""
    distractors = [letter for letter in item.letters if letter != item.key]
    if plan.target_option in distractors:
        return None
    return f"target_option: expected the letter of a distractor ({', '.join(distractors)})"


def _hidden(item: Question, made: Modification) -> str | None:
    """What is wrong with the characters of an edit; options are compared byte by byte anyway."""
    found = hidden_in(" ".join([made.modified_item, *(a.text for a in made.added)]), item.question)
    return None if found is None else f"it holds the character {found}, which nobody can see"


def _told(plan: Plan, draft: Draft) -> dict[str, Any]:
    """What the attacker planned and did, for the record."""
    edits = [[e.field, e.start, e.end, e.replacement] for e in draft.candidate.edits]
    return {**plan.model_dump(), "added": [a.model_dump() for a in draft.added], "edits": edits}


def _validity(objections: Sequence[Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the key still holds: only a panel vouches for it, every gate can refute it."""
    if objections:
        return {"valid": False, "reason": objections[0]["gate"]}
    return {"valid": True, "reason": PANEL} if "panel" in asked else {}


def _feedback(attempt: int, answer: Prediction, item: Question) -> dict[str, Any]:
    """What the attacker is told of an attempt that the target saw."""
    confidences = answer.confidences
    shown = confidences and ", ".join(
        f"{letter}: {value:g}" for letter, value in zip(item.letters, confidences, strict=True)
    )
    return {
        "kind": "answered",
        "attempt": attempt,
        "answer": answer.answer,
        "rationale": answer.rationale,
        "confidences": shown,
    }
