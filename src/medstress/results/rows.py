"""Build trial rows from a stored run; prompts are derived from item, edits and template."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias, cast

from medstress.core.clusters import clusters_by_dataset, document_of
from medstress.core.errors import StoreError
from medstress.core.evidence import Evidence, after_success, as_text
from medstress.core.items import FOLLOW_UP, Edited, Item, Question
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.text import WHOLE, edit_distance, edit_rows, edits_of
from medstress.engine.requests import Purpose
from medstress.kinds import kind_of
from medstress.metrics.counts import pick_success
from medstress.results.load import StoredRun, reviews_of
from medstress.results.review_rows import with_review, with_samples
from medstress.results.reviewed import believed, settled
from medstress.store.prompts import Prompts, more_prompts, most_shown, stored_prompt
from medstress.store.reader import StoredTrial
from medstress.store.review_store import stored_rooms
from medstress.store.reviews import KEY_RIGHT

_FIRST = (
    "first_success",
    "first_unrefuted_success",
    "first_valid_success",
    "first_success_attempt",
    "first_success_answer",
    "first_success_replacement",
    "first_success_edits",
    "first_success_score",
    "first_success_evidence",
)
_SHOWN = (
    *("prompt_before", "listing_before", "prompt_after", "listing_after", "first_success_prompt"),
)
Requests: TypeAlias = Callable[[int, str, int], list[str]]
"""(number of a trial, purpose, query) -> its calls that are stored in full, as JSON."""
_LOST = (Verdict.FAILED.value, Verdict.CUT_SHORT.value)


def trial_rows(run: StoredRun) -> Sequence[TrialRow]:
    """Return all finished trials as rows, in the plan's order; cached with the open run."""
    return run.once(_trial_rows)


def _trial_rows(run: StoredRun) -> list[TrialRow]:
    manifest = run.manifest
    prompts, items = Prompts(manifest), run.items()
    clusters = clusters_by_dataset(items.values())
    name = manifest["config"]["experiment"]["name"]
    embedder = manifest.get("similarity", {}).get("hash")
    reviewed = settled(believed(run.once(reviews_of)), KEY_RIGHT)
    rows, room = [], most_shown(run.folder)
    for trial in run.trials():
        item = items[trial.item][1]
        row = trial_row(name, trial, item, prompts, clusters[trial.dataset][item.id], run.requests)
        # Prompts are rendered anew for each row, so a forged small folder could use up all memory.
        rendered = {row.prompt_after, row.listing_after, row.first_success_prompt}
        room -= sum(len(each) for each in rendered if isinstance(each, str))
        if room < 0:
            raise more_prompts(run.folder)
        row = replace(row, prompt_similarity=prompt_similarity(trial, embedder))
        rows.append(with_review(row, reviewed.get(row.trial_id)))
    return with_samples(rows, stored_rooms(run.folder).values())


def prompt_similarity(trial: StoredTrial, embedder: str | None) -> float | None:
    """Return the similarity of the first success by an embedder's hash; None if not computed."""
    stored, value = trial.result.get("prompt_similarity", (None, None))
    return cast("float", value) if stored and stored == embedder else None


def trial_row(
    run: str,
    trial: StoredTrial,
    stored: Any,
    prompts: Prompts,
    cluster: str,
    requests: Requests,
) -> TrialRow:
    """Return a finished trial as a row, before reviews.

    Args:
        run: name of the experiment.
        trial: the stored trial.
        stored: its stored item.
        prompts: prompts of the run's victims.
        cluster: name of the item's cluster, such as its document.
        requests: gives the calls of a query that are stored in full.
    """
    row = _row(run, trial, stored, prompts, cluster)
    # Conversations, and prompts that no form can reproduce, are stored in full.
    is_stored = (
        row.attempts is not None
        or f'"{FOLLOW_UP}"' in row.edits
        or not prompts.has_form(trial.victim, trial.dataset)
    )
    return (
        _as_sent(row, requests, trial.trial)
        if row.verdict is Verdict.FLIPPED and is_stored
        else row
    )


def _row(run: str, trial: StoredTrial, stored: Any, prompts: Prompts, cluster: str) -> TrialRow:
    result = trial.result
    item = stored.of_unit(result.get("unit", WHOLE))
    before, after = result.get("before"), result.get("after")
    candidate = item.candidate(edits_of(result.get("edits", [])))
    score = _score(item, before)
    n_options = len(item.letters)
    _check_counts(trial)
    excluded, records = result.get("n_excluded"), result.get("records")
    shown: dict[str, Any] = dict.fromkeys(_SHOWN)
    if trial.verdict == Verdict.FLIPPED.value:
        shown = _shown(trial, item, candidate, prompts)
    return TrialRow(
        trial_id=trial.trial_id,
        run=run,
        dataset=trial.dataset,
        group=trial.group,
        item_id=item.id,
        item_hash=item.hash,
        unit=result.get("unit", WHOLE),
        victim=trial.victim,
        attack=trial.attack,
        attack_spec=trial.spec,
        arm=_arm(trial.spec),
        seed=trial.seed,
        repeat=trial.repeat,
        verdict=Verdict(trial.verdict),
        at=result.get("at"),
        n_options=n_options,
        key=item.gold,
        answer_before=before[0] if before else None,
        answer_after=after[0] if after else None,
        score_before=score,
        score_after=_score(item, after),
        n_asked=result.get("n_asked", 0),
        n_paid=trial.n_paid,
        n_cached=trial.n_cached,
        n_failed=trial.n_failed,
        n_unreadable=result.get("n_unreadable", 0),
        **_first_successes(item, result),
        **_edit_fields(item, candidate),
        variant_class=result.get("variant_class"),
        valid=result.get("valid"),
        validity_reason=result.get("validity_reason"),
        censored=bool(result.get("censored")),
        n_excluded=json.dumps(excluded) if excluded is not None else None,
        guess=None if score is None or not n_options else score < 0.5,
        repeats=result.get("repeats"),
        first_success_repeats=result.get("first_repeats", result.get("repeats")),
        **shown,
        error=result.get("note") if trial.verdict in _LOST else None,
        prompt_similarity=None,
        document=document_of(item.metadata),
        cluster=cluster,
        evidence=_evidence(trial),
        attempts=json.dumps(records, ensure_ascii=False) if records else None,
        letter_mass=before[2] if before else None,
        finish_reason=before[4] if before and len(before) > 4 else None,
        n_length=result.get("n_length", 0),
        n_probes=len(result.get("probes", ())),
        n_unchanged=result.get("n_unchanged"),
        n_ties=result.get("n_ties"),
        **_last(item, result.get("last")),
        corrected=result.get("corrected"),
        variant_answers=json.dumps(result["answers"]) if result.get("answers") else None,
        supported=result.get("supported"),
        chose_edited=_chose_edited(trial.verdict, item, candidate, after),
    )


def _evidence(trial: StoredTrial) -> str | None:
    """Return what speaks for or against the key after a success; None without one."""
    if trial.verdict != Verdict.FLIPPED.value:
        return None
    result = trial.result
    reason = result.get("validity_reason")
    valid = result.get("valid")
    return as_text(after_success(_pieces(result.get("evidence")), reason, valid))


def _pieces(stored: Sequence[Any] | None) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(kind=kind, source=source, valid=valid) for kind, source, valid in stored or ()
    )


def _last(item: Item, last: list[Any] | None) -> dict[str, Any]:
    """Return the columns of the last answer of a held trial to a question; empty without one."""
    if not last or not isinstance(item, Question):
        return {}
    return {"last_answer": last[0], "last_score": _score(item, last)}


@lru_cache(maxsize=256)
def _arm(spec: str) -> str:
    """Return `attack`, or the name of a control that stands beside an attack."""
    parameters = json.loads(spec)
    return str(parameters["name"]) if "control_of" in parameters else "attack"


def _chose_edited(
    verdict: str, item: Item, candidate: Edited, after: Sequence[Any] | None
) -> bool | None:
    """Return whether a success chose an edited option; None if that is unknown."""
    if verdict != Verdict.FLIPPED.value:
        return None
    edited = kind_of(item).edited_options(item, candidate.edits)
    return after[0] in edited if edited and after and after[0] else None


def _check_counts(trial: StoredTrial) -> None:
    """Check a trial's counts against the ledger.

    Raises:
        StoreError: the trial counts more queries than the ledger has.
    """
    asked, first = trial.result.get("n_asked", 0), trial.result.get("first_success")
    in_ledger = trial.n_paid + trial.n_cached + trial.n_failed
    if not 0 <= asked <= in_ledger:
        raise StoreError(
            f"trial {trial.trial_id} counts {asked} queries, but the ledger has {in_ledger}; the "
            "run was damaged or changed"
        )
    if first is not None and not 1 <= first <= asked:
        raise StoreError(
            f"trial {trial.trial_id} has query {first} of {asked} as its first success; the run "
            "was damaged or changed"
        )


def _shown(trial: StoredTrial, item: Item, pick: Edited, prompts: Prompts) -> dict[str, Any]:
    """Return the prompts of a success: before, after the pick, and at the first success."""
    edits = trial.result.get("first_edits")
    if stored := trial.result.get("listings"):
        # Folders with two prompts lack the one of a first success that is not the pick.
        first = stored[2] if len(stored) > 2 else None if edits else stored[1]
        return dict(zip(_SHOWN, (stored[0], stored[0], stored[1], stored[1], first), strict=True))
    before = prompts.clean(trial.victim, trial.dataset, item)
    after = prompts.shown(trial.victim, trial.dataset, pick)
    first = after[1]
    if edits:
        first = prompts.listing(trial.victim, trial.dataset, item.candidate(edits_of(edits)))
    return dict(zip(_SHOWN, (*before, *after, first), strict=True))


def _as_sent(row: TrialRow, requests: Requests, trial: int) -> TrialRow:
    """Return a success with the prompts that were sent, if its calls are stored in full."""
    before = stored_prompt(requests(trial, Purpose.BASELINE.value, 0))
    after = stored_prompt(requests(trial, Purpose.ATTACK.value, pick_success(row) or 0))
    if after is None:
        return row
    return replace(row, prompt_before=before or row.prompt_before, prompt_after=after)


def _first_successes(item: Item, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the first success and of the first success that nothing refutes."""
    if result.get("first_success") is None:
        return dict.fromkeys(_FIRST)
    # The first success is stored separately only if it is not the pick.
    answer = result.get("first_after", result.get("after"))
    edits = result.get("first_edits", result.get("edits"))
    found = _pieces(result.get("first_evidence"))
    return {
        "first_success": result["first_success"],
        "first_unrefuted_success": result.get("first_unrefuted_success"),
        "first_valid_success": result.get("first_valid_success"),
        "first_success_attempt": result.get("first_success_attempt"),
        "first_success_answer": answer[0] if answer else None,
        "first_success_replacement": edits[0][3] if edits else None,
        "first_success_edits": json.dumps(edits, ensure_ascii=False) if edits else None,
        "first_success_score": _score(item, answer),
        "first_success_evidence": as_text(found) if found else None,
    }


def _edit_fields(item: Item, candidate: Edited) -> dict[str, Any]:
    """Return the fields of the first edit: what was replaced by what, and their distance."""
    fields: dict[str, Any] = dict.fromkeys(
        (
            "option",
            "replaced",
            "replacement",
            "edit_characters",
            "edit_tokens",
            "words_replaced",
            "words_inserted",
        )
    )
    fields["edits"] = json.dumps(edit_rows(candidate.edits), ensure_ascii=False)
    if candidate.edits:
        edit = candidate.edits[0]
        old = item.replaced(edit)
        old_words, new_words = old.split(), edit.replacement.split()
        fields |= {
            "option": edit.field,
            "replaced": old,
            "replacement": edit.replacement,
            "edit_characters": edit_distance(old, edit.replacement),
            "edit_tokens": edit_distance(old_words, new_words),
            "words_replaced": len(old_words),
            "words_inserted": len(new_words),
        }
    return fields


def _score(item: Item, prediction: list[Any] | None) -> float | None:
    """Return P(key) of a choice or the similarity of a pair; None without scores."""
    if prediction is None or prediction[1] is None:
        return None
    return item.right_score(prediction[1])
