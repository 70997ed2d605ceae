"""Build the records of a run's cases from its rows and from what its folder keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from medstress.core.calls import Prompt
from medstress.core.controls import BETWEEN, CONTROLS
from medstress.core.evidence import read
from medstress.core.outcomes import Verdict
from medstress.core.rows import NOT_SHOWN, TrialRow
from medstress.core.text import WHOLE
from medstress.metrics.attempt_records import entries
from medstress.metrics.counts import pick_success
from medstress.report.cases.choosing import short_ids
from medstress.report.cases.record import (
    Attempt,
    CaseRecord,
    ControlOutcome,
    Named,
    Score,
    Turn,
)
from medstress.report.cases.stored import MOST_TRIED, Kept, StoredCases
from medstress.report.cases.words import evidence_words
from medstress.results.formats import plural
from medstress.results.load import StoredRun
from medstress.results.names import Names, attack_words, names_of
from medstress.results.rows import trial_rows
from medstress.store.codec import decode_edits

Place = tuple[str, ...]

NO_FOLDER = "the run folder was not at hand: only what the success itself shows is here"
TEMPLATE = f"{NOT_SHOWN}: the run folder keeps a template of it, which is not executed"


def is_pair(trial: TrialRow) -> bool:
    """Return whether a trial is of a pair of sentences with a similarity score."""
    return trial.n_options == 0 and trial.unit == WHOLE


class Cases:
    """The cases of a run, each built when it is asked for."""

    def __init__(
        self, trials: Sequence[TrialRow], names: Names, stored: StoredCases | None = None
    ) -> None:
        """Know the trials.

        Args:
            trials: all rows of the run.
            names: what people call its parts.
            stored: reads its folder; without it a record holds what the row holds.
        """
        self.trials, self.names, self._stored = trials, names, stored

    @cached_property
    def ids(self) -> dict[str, str]:
        """Trial id -> short id."""
        whole = [trial.trial_id for trial in self.trials]
        return dict(zip(whole, short_ids(whole), strict=True))

    def named(self, factor: str, key: str) -> Named:
        """Return a key with its name in words; `factor` as for `Names.of`."""
        return Named(key=key, name=self.names.of(factor, key))

    def slices(self, trial: TrialRow) -> tuple[tuple[str, str], ...]:
        """Return the slices that a trial's item is in."""
        return () if self._stored is None else self._stored.slices(trial)

    def record(self, trial: TrialRow, most_tried: int | None = MOST_TRIED) -> CaseRecord:
        """Build the record of one trial.

        Args:
            trial: one of `trials`.
            most_tried: how many edits that failed it holds at most; None: all.
        """
        kept = _of_row(trial) if self._stored is None else self._stored.kept(trial, most_tried)
        last = kept.last if trial.answer_after is None else None
        is_alone = trial.verdict is Verdict.MEASURED and kept.n_tried == 1
        return CaseRecord(
            id=self.ids[trial.trial_id],
            trial_id=trial.trial_id,
            attack=self.named("attack", trial.attack),
            victim=self.named("victim", trial.victim),
            dataset=self.named("dataset", trial.dataset),
            group=self.named("group", trial.group),
            arm=trial.arm,
            item_id=trial.item_id,
            unit=trial.unit,
            seed=trial.seed,
            repeat=trial.repeat,
            verdict=trial.verdict.value,
            error=trial.error,
            entity_type=kept.entity_type,
            changed_in=trial.option,
            replaced=trial.replaced,
            replacement=trial.replacement,
            n_edits=len(decode_edits(trial.edits)),
            is_pair=is_pair(trial),
            valid=trial.valid,
            validity_reason=trial.validity_reason,
            evidence=_evidence(trial),
            key=trial.key,
            answer_before=trial.answer_before,
            answer_after=last[0] if last else trial.answer_after,
            confidence=trial.score_before,
            confidence_after=last[1] if last else trial.score_after,
            guess=trial.guess,
            repeats=trial.repeats,
            n_asked=trial.n_asked,
            first_success=trial.first_success,
            shown_success=pick_success(trial),
            scores=kept.scores,
            shown_before=kept.shown_before,
            shown_after=kept.shown_after,
            sent_before=_turns(kept.sent_before),
            sent_after=_turns(kept.sent_after),
            scored_before=kept.scored_before,
            scored_after=kept.scored_after,
            # The only query of what is merely measured is the one that is shown.
            tried=() if is_alone else kept.tried,
            attempts=attempts_of(trial),
            tagged_before=kept.tagged_before,
            tagged_after=kept.tagged_after,
            controls=self._controls_of(trial),
            slices=self.slices(trial),
            left_out=tuple(_left_out(trial, kept, has_folder=self._stored is not None)),
        )

    @cached_property
    def _controls(self) -> dict[Place, list[TrialRow]]:
        found: dict[Place, list[TrialRow]] = defaultdict(list)
        for trial in self.trials:
            if trial.arm != "attack":
                found[_place(trial, trial.attack.rpartition(BETWEEN)[0])].append(trial)
        return found

    def _controls_of(self, trial: TrialRow) -> tuple[ControlOutcome, ...]:
        """Return each control's outcome, with the trial's seed where the control has it."""
        by_name: dict[str, list[TrialRow]] = defaultdict(list)
        for control in self._controls.get(_place(trial, trial.attack), ()):
            by_name[control.arm].append(control)
        return tuple(
            ControlOutcome(
                control=attack_words({"name": name}),
                verdict=next((c for c in arms if c.seed == trial.seed), arms[0]).verdict.value,
            )
            for name, arms in sorted(by_name.items(), key=lambda each: _control_order(each[0]))
        )


def cases_of(run: StoredRun) -> Cases:
    """Return the cases of an open run; cached with it."""
    return run.once(_cases_of)


def _cases_of(run: StoredRun) -> Cases:
    return Cases(trial_rows(run), names_of(run.manifest), StoredCases(run))


def _place(trial: TrialRow, attack: str) -> Place:
    place = (trial.dataset, trial.group, trial.victim, attack, trial.item_id, trial.unit)
    return (*place, str(trial.repeat))


def _control_order(name: str) -> tuple[int, str]:
    return (CONTROLS.index(name) if name in CONTROLS else len(CONTROLS), name)


def _of_row(trial: TrialRow) -> Kept:
    """Return what a row alone holds."""
    known = trial.score_before, trial.score_after
    return Kept(
        entity_type=None,
        scores=()
        if known == (None, None)
        else (Score(label=trial.key, before=known[0], after=known[1]),),
        last=(trial.last_answer, trial.last_score) if trial.last_answer else None,
        shown_before=trial.listing_before,
        shown_after=trial.listing_after,
        sent_before=trial.prompt_before,
        sent_after=trial.prompt_after,
        scored_before=(),
        scored_after=(),
        tried=(),
        n_tried=0,
        tagged_before=None,
        tagged_after=None,
    )


def _evidence(trial: TrialRow) -> tuple[str, ...]:
    """Return what speaks for or against the key after the pick, then after the first success."""
    name = trial.first_success_replacement or "the first edit"
    return (
        *map(evidence_words, read(trial.evidence)),
        *(
            f"of the first success, {name}: {evidence_words(each)}"
            for each in read(trial.first_success_evidence)
        ),
    )


def _turns(prompt: Prompt | None) -> tuple[Turn, ...]:
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (Turn(role="prompt", text=prompt),)
    return tuple(Turn(role=turn.role, text=turn.content) for turn in prompt)


def attempts_of(trial: TrialRow) -> tuple[Attempt, ...]:
    """Return a trial's attempts: the attacker's notes and the model's answers, one each."""
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries(trial):
        if entry.get("attempt") is not None:
            found[int(entry["attempt"])].append(entry)
    return tuple(_attempt(number, notes) for number, notes in sorted(found.items()))


def _attempt(number: int, notes: Sequence[Mapping[str, Any]]) -> Attempt:
    known: dict[str, Any] = {}
    objections: list[str] = []
    for note in notes:
        known |= {key: note[key] for key in _NOTED if note.get(key) is not None}
        objections += [f"{each['gate']}: {each['reason']}" for each in note.get("objections", ())]
        if "unreadable" in note:
            objections.append(f"unreadable: {note['unreadable']}: {note['reason']}")
    stated = known.get("confidences")
    return Attempt(
        number=number,
        plan=known.get("plan"),
        objections=tuple(objections),
        answer=known.get("answer"),
        rationale=known.get("rationale"),
        confidences=tuple(stated) if stated else None,
    )


_NOTED = ("plan", "answer", "rationale", "confidences")


def _left_out(trial: TrialRow, kept: Kept, *, has_folder: bool) -> list[str]:
    said = []
    if not has_folder and kept.shown_before is None:
        said.append(NO_FOLDER)
    elif kept.shown_before is None:
        said.append(TEMPLATE)
    fewer = kept.n_tried - len(kept.tried)
    if fewer:
        said.append(f"{plural(fewer, 'earlier edit')} that failed: medstress case shows all")
    return said
