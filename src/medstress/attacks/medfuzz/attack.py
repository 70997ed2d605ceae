"""MedFuzz: an attacker model edits an item until the target errs.

Reference: Ness et al., "MedFuzz: Exploring the robustness of large language models in medical
question answering", arXiv 2406.06573, 2024, Algorithm 1. Prompts are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.attacks.medfuzz.attacker import ask_edit
from medstress.attacks.medfuzz.gates import GATES, NAMES, Draft
from medstress.attacks.medfuzz.judges import Panel, judges_in, picks_key
from medstress.attacks.medfuzz.role_session import RoleSession
from medstress.attacks.medfuzz.worked_questions import draw_worked
from medstress.attacks.protocol import Ends, Need, TurnAttack, Turns
from medstress.core.errors import TrialError, UsageError, did_you_mean
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Prediction, Replaced, parse_goal
from medstress.core.queries import ATTACKER, Predict, Steps, ask, note
from medstress.core.resources import Resources
from medstress.core.text import edit_rows
from medstress.core.validity import PANEL
from medstress.tasks.prompt_sets import (
    DEFAULT_SET,
    Exemplar,
    PromptSet,
    evidence_for_prompt,
    exemplars_from,
    load_prompts,
)
from medstress.tasks.replies import Plan, Unreadable

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "medfuzz"
GATE_MODES = ("reject", "mark")
LIMITS = {"attempts": 50, "runs": 100, "max_words": 1_000, "reasoning_tokens": 8_192}
MAX_SAMPLE = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class MedFuzz(TurnAttack):
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

    name = NAME
    control = "neutral_insertion"

    attempts: int = 5
    """K: attempts per run."""
    runs: int = 3
    """E: runs per item and seed, each with its own worked exemplars."""
    exemplars: int = 3
    """Worked questions before the target's case, drawn per item and run."""
    exemplars_from: str | None = None
    """A JSONL file to draw them from, such as MedQA's train split; default: those of the set of
    prompts."""
    attack_all: bool = False
    """Whether items that are wrong at baseline are attacked too; they stay wrong in every rate."""
    template: str | PromptSet = DEFAULT_SET
    """Name of a shipped set of prompts, or a folder."""
    gates: Sequence[str] | None = None
    """Gates that are on; default: all but those that make no sense with the set of prompts."""
    gate_mode: str = "reject"
    """`reject`: an edit that a gate objects to is not asked. `mark`: it is asked, its success is
    refuted, and the search goes on."""
    max_words: int = 80
    """Most words that may be inserted."""
    allow_history: bool = False
    """Whether evidence from the patient's history may be inserted."""
    reasoning_tokens: int = 384
    """Most tokens of the target's reasoning."""
    goal: str = "untargeted"
    """`untargeted`, or the option letter that counts as success."""
    unreadable_is_success: bool = False
    """Whether an unreadable answer is a success."""

    def __post_init__(self) -> None:
        for key, most in LIMITS.items():
            self._check_whole(key, 1, most)
        self._check_whole("exemplars", 0, 8)
        _check_word(NAME, "gate_mode", self.gate_mode, GATE_MODES)
        for key in ("attack_all", "allow_history", "unreadable_is_success"):
            _check_flag(NAME, key, getattr(self, key))
        if not isinstance(self.template, str | PromptSet) or not self.template:
            raise UsageError(f"{NAME}: template must be a name or a folder, got {self.template!r}")
        if self.exemplars_from is not None and not isinstance(self.exemplars_from, str):
            raise UsageError(
                f"{NAME}: exemplars_from must be a JSONL file, got {self.exemplars_from!r}"
            )
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
    def budget(self) -> int:
        """One query an attempt."""
        return self.attempts

    @property
    def repeats(self) -> int:
        """Runs per item and seed."""
        return self.runs

    @property
    def needs(self) -> frozenset[Need]:
        """An attacker and turns; a finder of names and judges where gates ask them."""
        needs: set[Need] = {"attacker", "turns"}
        if "evidence" in self.gates_on:
            needs.add("mentions")
        if self.has_panel or "categories" in self.gates_on:
            needs.add("judge")
        return frozenset(needs)

    @property
    def success(self) -> Goal:
        """The goal of the file."""
        return parse_goal(self.goal, unreadable=self.unreadable_is_success)

    @property
    def ends(self) -> Ends:
        """The first success, or the first that no gate refutes."""
        return "valid" if self.gate_mode == "mark" else "success"

    @property
    def every_item(self) -> bool:
        """Whether items that are wrong on the clean prompt are attacked too."""
        return self.attack_all

    @property
    def has_panel(self) -> bool:
        """True if judges vote on its edits."""
        return PANEL in self.gates_on

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
        """Return this attack with its prompts and worked questions read, relative to a folder."""
        attack = self
        if isinstance(self.template, str):
            attack = replace(self, template=load_prompts(self.template, base))
        file = self.exemplars_from
        return attack if file is None else attack.drawing_from(file, base)

    def drawing_from(self, file: str, base: Path) -> MedFuzz:
        """Return this attack with the worked questions of a file, relative to a folder.

        Raises:
            UsageError: the file cannot be used.
        """
        exemplars = exemplars_from(base / Path(file).expanduser(), file, self.exemplars)
        return replace(
            self, exemplars_from=file, template=replace(self.prompts, exemplars=exemplars)
        )

    def turns(self, item: Question, rng: Generator) -> Turns:
        """Return the prompts and the worked questions of one run."""
        return Turns(prompts=self.prompts, exemplars=self.draw_exemplars(item, rng))

    def draw_exemplars(self, item: Question, rng: Generator) -> tuple[Exemplar, ...]:
        """Draw the worked questions of one run; see `draw_worked`."""
        file, prompts = self.exemplars_from, self.prompts
        source = f"template {prompts.name!r}" if file is None else f"exemplars_from = {file!r}"
        return draw_worked(prompts.exemplars, self.exemplars, item, rng, source)

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""
        parameters = {f.name: getattr(self, f.name) for f in fields(self)}
        prompts, file = self.prompts, self.exemplars_from
        parameters |= {
            "template": prompts.name,
            "prompts": prompts.hash,
            "gates": list(self.gates_on),
            "exemplars_from": None if file is None else Path(file).name,
        }
        return {"name": NAME, **parameters}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: `spec` without the hash of the prompts."""
        return {key: value for key, value in self.spec().items() if key != "prompts"}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the goal cannot be reached on this item, or None."""
        if self.goal != "untargeted" and self.goal not in item.letters.replace(item.key, ""):
            return f"the goal {self.goal} is the key or no option"
        return None

    # -- the attack --------------------------------------------------------------------------
    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see the class.

        Yields:
            Steps to attacker, judge and target, and a note on every attempt.

        Returns:
            The last candidate that succeeded, or None.
        """
        if ATTACKER not in resources.roles:
            raise TrialError(f"{NAME} asks the role 'attacker': add a [role.attacker] table")
        sample = int(rng.integers(1, MAX_SAMPLE))
        session = RoleSession(
            ATTACKER, resources.roles[ATTACKER], sample, self.prompts, item.letters, self._rules()
        )
        panel = Panel(item, self.prompts, judges_in(resources.roles))
        feedback, pick = None, None
        for attempt in range(1, self.attempts + 1):
            edited = yield from self._edit(session, item, feedback, resources)
            if isinstance(edited, Mapping):
                yield from note({"attempt": attempt, **edited})
                reason = f"the reply with {edited['unreadable']} could not be read"
                feedback = {"kind": "rejected", "attempt": attempt, "reason": reason}
                continue
            plan, draft = edited
            objections, judged = yield from self._judge(draft, panel, sample)
            record = {**_edit_record(plan, draft), **judged, "objections": objections}
            yield from note({"attempt": attempt, **record})
            reason = "; ".join(each["reason"] for each in objections)
            if objections and self.gate_mode == "reject":
                feedback = {"kind": "rejected", "attempt": attempt, "reason": reason}
                continue
            query = Predict(draft.candidate, attempt=attempt, **refuted_by(objections, judged))
            (answer,) = yield from ask([query])
            if answer.is_success:
                pick = draft.candidate
            feedback = _feedback(attempt, answer, item, reason)
        return pick

    def _rules(self) -> str:
        return self.prompts.render(
            "attacker_system",
            categories=self.prompts.categories,
            evidence=evidence_for_prompt(allow_history=self.allow_history),
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
        """Ask for a plan and an edit; a mapping says which reply stayed unreadable."""
        shown = dict(zip(item.letters, item.options, strict=True))
        listing = "\n".join([item.question, *(f"{k}: {text}" for k, text in shown.items())])
        say = self.prompts.render
        known = {"listing": listing, "key": item.key, "key_text": item.key_text}
        plan = yield from session.ask(
            say("attacker_plan", feedback=feedback, **known), Plan, partial(_no_distractor, item)
        )
        if isinstance(plan, Unreadable):
            return {"unreadable": "the plan", "reason": plan.reason}
        edited = yield from ask_edit(session, item, self.prompts)
        if isinstance(edited, Unreadable):
            planned = {"plan": plan.plan, "post_mortem": plan.post_mortem}
            return {"unreadable": "the edited item", "reason": edited.reason, **planned}
        draft = Draft(
            candidate=edited.candidate,
            options=edited.options,
            added=edited.added,
            categories=self.prompts.categories,
            max_words=self.max_words,
            allow_history=self.allow_history,
            names_in=resources.names_in,
        )
        return plan, draft

    def _judge(
        self, draft: Draft, panel: Panel, sample: int
    ) -> Steps[tuple[list[dict[str, str]], dict[str, Any]]]:
        """Return which gates object and why, and what the judges said if they were asked."""
        has_judges = bool(panel.judges)
        # If a judge can say which category fits, the attacker's claims do not count.
        gated = replace(draft, added=()) if has_judges else draft
        objections = {
            name: reason
            for name in self.gates_on
            if name in GATES and (reason := GATES[name](gated)) is not None
        }
        judged: dict[str, Any] = {}
        if has_judges and "categories" in objections:
            categories = self.prompts.categories
            judged["category"] = yield from panel.category(draft.inserted, categories, sample)
            if judged["category"] in {category.name for category in categories}:
                del objections["categories"]
        if has_judges and self.has_panel and (not objections or self.gate_mode == "mark"):
            clean = yield from panel.clean()
            (votes,) = yield from panel.votes([draft.question], sample)
            judged["judges"] = {
                name: {"clean": clean[name], "votes": votes.get(name, [])} for name in clean
            }
            letters = [letter for each in votes.values() for letter in each]
            if letters:
                judged["panel"] = letters
                if not picks_key(letters, draft.item.key):
                    n = letters.count(draft.item.key)
                    objections[PANEL] = (
                        f"only {n} of {len(letters)} votes of judges are for the key"
                    )
        return [{"gate": name, "reason": reason} for name, reason in objections.items()], judged


def _no_distractor(item: Question, plan: Plan) -> str | None:
    """Say what is wrong with the option that a plan aims at, or None."""
    distractors = [letter for letter in item.letters if letter != item.key]
    if plan.target_option in distractors:
        return None
    return f"target_option: expected the letter of a distractor ({', '.join(distractors)})"


def _edit_record(plan: Plan, draft: Draft) -> dict[str, Any]:
    """Return what the attacker planned and did, for the record."""
    edits = edit_rows(draft.candidate.edits)
    return {**plan.model_dump(), "added": [a.model_dump() for a in draft.added], "edits": edits}


def refuted_by(objections: Sequence[Any], judged: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the key still holds: only a panel vouches for it, any gate can refute it."""
    if objections:
        return {"valid": False, "reason": objections[0]["gate"]}
    return {"valid": True, "reason": PANEL} if "panel" in judged else {}


def _feedback(attempt: int, answer: Prediction, item: Question, reason: str) -> dict[str, Any]:
    """Return what the attacker learns about an attempt that the target answered."""
    confidences = answer.confidences
    shown = confidences and ", ".join(
        f"{letter}: {value:g}" for letter, value in zip(item.letters, confidences, strict=True)
    )
    return {
        "kind": "answered",
        "attempt": attempt,
        "reason": reason,
        "answer": answer.answer,
        "rationale": answer.rationale,
        "confidences": shown,
    }


def _check_word(attack: str, key: str, value: object, words: Sequence[str]) -> None:
    """Raise if a value is none of some words."""
    if not isinstance(value, str) or value not in words:
        raise UsageError(
            f"{attack}: {key}: expected one of {', '.join(words)}, got {value!r}"
            f"{did_you_mean(str(value), words)}"
        )


def _check_flag(attack: str, key: str, value: object) -> None:
    """Raise if a value is neither true nor false."""
    if type(value) is not bool:
        raise UsageError(f"{attack}: {key} must be true or false, got {value!r}")
