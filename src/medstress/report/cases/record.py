"""The record of a case: one trial with everything that a reader needs to judge it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A key of the run and what people call it."""

    key: str
    """As in rows and files."""
    name: str
    """In words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A stretch of what was sent to the model."""

    role: str
    """`prompt` for a single text, else `system`, `user` or `assistant`."""
    text: str
    """Exactly as it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the model gave one possible answer."""

    label: str
    """An option letter, a label, or `similarity`."""
    before: float | None
    """On the clean item: a probability, or the similarity of a pair."""
    after: float | None
    """After the edit; None if that is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A stretch of text and what stood there instead."""

    replaced: str
    """Empty for an insertion."""
    replacement: str
    """Empty for a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An edit that was asked about before the case ended, and the answer to it."""

    query: int
    """Number of the query, from 1."""
    swaps: tuple[Swap, ...]
    """Its edits; at most `MOST_SWAPS`."""
    answer: str | None
    """None if the answer could not be read, or is not kept."""
    score: float | None
    """P(key), or the similarity of a pair."""
    is_refuted: bool = False
    """Whether it was a success that a rule or a panel refuted, so that the search went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an attacker model, and the answer to it."""

    number: int
    """From 0, the clean item."""
    plan: str | None
    """The attacker's plan."""
    objections: tuple[str, ...]
    """Gates that objected, with their reasons; why a reply could not be read."""
    answer: str | None
    """None if the model was not asked, or could not be read."""
    rationale: str | None
    """The model's reasoning."""
    confidences: tuple[float, ...] | None
    """Stated confidence in each option, 1 to 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagging:
    """A sentence with its gold labels and those that the model gave."""

    tokens: tuple[str, ...]
    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    """Empty if they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOutcome:
    """How a control arm of the attack ended on the same item."""

    control: str
    """In words."""
    verdict: str
    """As in rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """One trial as a case."""

    id: str
    """Short and stable; unique in its run."""
    trial_id: str
    """As in rows."""
    attack: Named
    victim: Named
    dataset: Named
    group: Named
    """The entity group."""
    arm: str
    """`attack`, or the name of the control that the arm is."""
    item_id: str
    unit: str
    """`item`, or which entity of the sentence."""
    seed: int | None
    repeat: int
    verdict: str
    """`flipped`, `held` and so on; see `medstress.core.outcomes.Verdict`."""
    error: str | None
    """Why a trial failed or was cut short."""
    entity_type: str | None
    """The semantic type of what was replaced, in words, if it is known."""
    changed_in: str | None
    """The field of the edit: an option letter, `stem` and so on."""
    replaced: str | None
    replacement: str | None
    n_edits: int
    """Edits of the text that is shown; `replaced` and `replacement` are of the first."""
    is_pair: bool
    """Whether a pair of texts was scored: there is a similarity, and no option is right."""
    valid: bool | None
    """Whether the key still holds; None: unknown."""
    validity_reason: str | None
    """Who or what says so."""
    evidence: tuple[str, ...]
    """What speaks for or against the key after a success, each piece in words; of the one that is
    shown, then of the first."""
    key: str
    """The gold answer."""
    answer_before: str | None
    answer_after: str | None
    """To the pick of a success; for a case that held, to the last edit, if it is kept."""
    confidence: float | None
    """Clean P(key); for a pair its clean similarity."""
    confidence_after: float | None
    """The same after the edit."""
    guess: bool | None
    """Clean P(key) below .5."""
    repeats: bool | None
    """Whether the success repeated when asked again alone."""
    n_asked: int
    """Perturbed queries of the trial."""
    first_success: int | None
    """Number of the query that succeeded first."""
    shown_success: int | None
    """Number of the query that is shown; a later one if a rule refutes the first."""
    scores: tuple[Score, ...]
    """Before and after; empty without scores."""
    shown_before: str | None
    """The clean item as people read it, options listed."""
    shown_after: str | None
    """The same after the edit; None if there is none to show."""
    sent_before: tuple[Turn, ...]
    """What was sent to the model about the clean item."""
    sent_after: tuple[Turn, ...]
    """What was sent to it about the edited item."""
    scored_before: tuple[str, ...]
    """Continuations of the prompt whose likelihood was asked for; empty if the model answered."""
    scored_after: tuple[str, ...]
    tried: tuple[Tried, ...]
    """Edits asked about before the one shown; all of them where none succeeded."""
    attempts: tuple[Attempt, ...]
    """For attacks that count attempts."""
    tagged_before: Tagging | None
    """For entities in sentences."""
    tagged_after: Tagging | None
    controls: tuple[ControlOutcome, ...]
    """The attack's controls on the same item."""
    slices: tuple[tuple[str, str], ...]
    """(property, value) where the run has `[slices]`."""
    left_out: tuple[str, ...]
    """Sentences on what this record does not hold, and why."""

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return asdict(self)
