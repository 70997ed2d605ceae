"""One trial as a row: what the store hands to metrics, report and export."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.core.calls import Prompt
from medstress.core.outcomes import Verdict

NOT_SHOWN = "prompt not shown"
"""Replaces a prompt whose template would have to be executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One finished trial, as exported (docs: schema).

    Counts are of perturbed queries; `n_asked` = `n_paid` + `n_cached` + `n_failed`.

    Rates, diversity, similarity, transfer, universality, rankings and the paper's cases use the
    edit of the *first success*: the columns that begin with `first_success`, `variant_class` and
    `prompt_similarity` (`metrics.counts.success_edits`).

    The *pick* is the first success that no rule, gate or panel refuted if there is one, else the
    first success; the two differ only if the search went on after a refuted success.
    `answer_after`, `score_after`, the edit's columns, `valid`, `validity_reason`, `prompt_after`
    and `listing_after` are of the pick.

    `attack_spec`, `edits`, `first_success_edits`, `n_excluded` and `attempts` are JSON text.
    """

    trial_id: str
    """Content hash of what the trial is."""
    run: str
    """Name of the experiment."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    item_id: str
    """The item's id in its data set."""
    item_hash: str
    """Content hash of the item."""
    unit: str
    """`item`."""
    victim: str
    """Label of the victim."""
    attack: str
    """Label of the attack."""
    attack_spec: str
    """The attack's parameters."""
    arm: str
    """`attack`, or the name of a control."""
    seed: int | None
    """None for deterministic attacks, which run once."""
    repeat: int
    """0 unless the attack runs several times on each item."""
    verdict: Verdict
    """How the trial ended."""
    at: str | None
    """For failed trials: `baseline` or `attack`."""
    n_options: int
    """Number of options of the item."""
    key: str
    """Letter of the right option."""
    answer_before: str | None
    """The victim's letter on the clean item."""
    answer_after: str | None
    """Its letter on the picked candidate."""
    score_before: float | None
    """P(key) on the clean item, softmax over options; None where there are no scores."""
    score_after: float | None
    """P(key) on the picked candidate."""
    n_asked: int
    """Perturbed queries the attack consumed."""
    n_paid: int
    """Of those, the ones that caused at least one computed call."""
    n_cached: int
    """Of those, answered by calls another query had paid for."""
    n_failed: int
    """Of those, not answered."""
    n_unreadable: int
    """Of those, answered unreadably."""
    first_success: int | None
    """Number of the first query that reached the goal, from 1."""
    first_unrefuted_success: int | None
    """The same for the first success that no rule, gate or panel refuted when it was found."""
    first_valid_success: int | None
    """The query of the pick, if a person or a panel vouches for it."""
    first_success_attempt: int | None
    """The attempt of the first success, for attacks that count attempts."""
    first_success_answer: str | None
    """The victim's letter at the first success."""
    first_success_replacement: str | None
    """What the span was replaced with at the first success, in its final case."""
    option: str | None
    """Field of the replaced span."""
    replaced: str | None
    """Original text of the span."""
    replacement: str | None
    """What it was replaced with in the picked candidate, in its final case."""
    variant_class: str | None
    """Class of the replacement at the first success against the key: `different` under the
    default exclusions."""
    edits: str
    """Edits of the picked candidate."""
    edit_characters: int | None
    """Levenshtein distance of span and replacement in characters."""
    edit_tokens: int | None
    """The same over white-space words."""
    words_replaced: int | None
    """White-space words of the replaced span."""
    words_inserted: int | None
    """White-space words of the replacement."""
    valid: bool | None
    """Whether the key still holds after the pick: true only where a person or a panel vouches for
    it, false where one of them or a rule refutes it, else null: unknown."""
    validity_reason: str | None
    """Who says so (`review`, `panel`), the rule or gate that refutes it, or `rule` if
    rules were checked and do not refute it."""
    censored: bool
    """Whether the pick is not valid and the search ended at it, so that more queries might have
    found a valid success."""
    n_excluded: str | None
    """How many names were never drawn, by reason, as JSON; None if nothing was attacked or the
    attack does not say."""
    guess: bool | None
    """P(key) below .5 on the clean item; None without scores."""
    repeats: bool | None
    """Whether every success of this row repeated when asked again alone; None if not asked."""
    prompt_before: Prompt | None
    """The clean prompt as it was sent (successes only): a text, or for a conversation its turns,
    each with `role` and `content`."""
    prompt_after: Prompt | None
    """The perturbed prompt as it was sent (successes only)."""
    error: str | None
    """Why a trial failed or was cut short."""
    prompt_similarity: float | None
    """Cosine of the embedded prompts before and at the first success (where `[analysis]` asks)."""
    document: str | None = None
    """The document that the item is part of, if it is known."""
    attempts: str | None = None
    """What was planned, edited, objected to and answered at each attempt, as JSON, for attacks
    that count attempts."""
    first_success_edits: str | None = None
    """Edits of the first success."""
    first_success_score: float | None = None
    """P(key) at the first success."""
    first_success_prompt: str | None = None
    """The perturbed prompt of the first success with the options listed; `listing_after` is that
    of the pick."""
    first_success_repeats: bool | None = None
    """Whether the first success repeated when asked again alone; None if not asked."""
    letter_mass: float | None = None
    """Probability of all option letters together after the clean prompt; None if the victim does
    not answer by letter."""
    finish_reason: str | None = None
    """`length` if the reply about the clean item was cut off at `max_new_tokens`, so that it is
    unreadable; None if it was not, or if that is unknown."""
    n_length: int = 0
    """Of the unreadable answers under attack, those cut off at `max_new_tokens`."""
    n_probes: int = 0
    """Of the queries asked, probes: they rank spans, change no name and are never a success."""
    n_unchanged: int | None = None
    """Of the queries asked, those that put the original name in again, and so changed nothing."""
    n_ties: int | None = None
    """Answers, the clean item's included, in which two options or more shared the highest score; a
    hash of item and letter broke the tie."""
    chose_edited: bool | None = None
    """Whether the answer on the picked candidate is the option that was edited (true) or another
    one (false); None without a success, a readable answer or an edit of an option."""
    cluster: str | None = None
    """The unit of intervals and tests: the document if it is known; for sentence pairs, those that
    share a sentence (the smallest of their ids); else the item."""
    listing_before: str | None = None
    """The clean question with its options listed, whether or not sent like this (successes only):
    differences and prompt similarity compare listings."""
    listing_after: str | None = None
    """The perturbed question with its options listed (successes only)."""
    corrected: bool | None = None
    """Control arms: whether one edit of an item that is wrong at baseline made the answer right."""
    supported: str | None = None
    """Letter of the option that the passage supports after the edit of the pick, for attacks that
    change the evidence; their pick is the last candidate if nothing succeeded."""
    last_answer: str | None = None
    """Held trials: the letter of the last answer with scores to an edit."""
    last_score: float | None = None
    """P(key) in it."""
    variant_answers: str | None = None
    """The letter of every answer to an edit, null where unreadable, as JSON, for attacks that ask
    variants of all items (probes) and for their controls; letters are those of the original
    options, wherever they stood."""
    sampled: bool | None = None
    """Whether the success is in a random sample that was given to people to judge; None if it is
    no success or no sample of all successes was drawn."""
    evidence: str | None = None
    """What speaks for or against the key after the pick, each piece with `kind`, `source` and
    `valid`, as JSON; None without a success."""
    first_success_evidence: str | None = None
    """The same of the first success, with what refuted it; None where that is the pick."""
