"""Read what a run folder keeps about one case, beside its row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.calls import Answer, Prompt, Tagged
from medstress.core.calls import Score as ScoreCall
from medstress.core.errors import MedstressError
from medstress.core.items import Item, StoredItem
from medstress.core.outcomes import Goal, Prediction, Verdict, parse_goal
from medstress.core.rows import TrialRow
from medstress.core.sentences import TaggedCandidate
from medstress.core.text import Edit
from medstress.entities.semantic_types import SEMANTIC_TYPES
from medstress.metrics.counts import pick_success
from medstress.report.cases.record import Score, Swap, Tagging, Tried
from medstress.results.load import StoredRun
from medstress.results.stored_prompts import Prompts, stored_prompt
from medstress.store.codec import decode_answer, decode_edits
from medstress.summary.item_slices import slices_of

MOST_TRIED = 12
"""Most edits that failed in one case on a page; the last ones are kept."""
MOST_SWAPS = 6
"""Most swaps of one edit in the list of what was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the folder keeps about a trial."""

    entity_type: str | None
    scores: tuple[Score, ...]
    last: tuple[str | None, float | None] | None
    """Answer and P(key) after the last edit of a trial that held."""
    shown_before: str | None
    shown_after: str | None
    sent_before: Prompt | None
    sent_after: Prompt | None
    scored_before: tuple[str, ...]
    scored_after: tuple[str, ...]
    tried: tuple[Tried, ...]
    n_tried: int
    """How many there are; `tried` may hold fewer."""
    tagged_before: Tagging | None
    tagged_after: Tagging | None


class StoredCases:
    """Reads the cases of an open run."""

    def __init__(self, run: StoredRun) -> None:
        self._run, self._prompts = run, Prompts(run.manifest)
        self._places = {
            trial_id: (number, item) for number, (trial_id, item) in run.trial_numbers().items()
        }
        self._slices: Mapping[str, Any] | None = run.manifest.get("slices")

    def item(self, trial: TrialRow) -> Item:
        """Return the unit of a trial."""
        whole: StoredItem = self._run.items()[self._places[trial.trial_id][1]][1]
        return whole.of_unit(trial.unit)

    def slices(self, trial: TrialRow) -> tuple[tuple[str, str], ...]:
        """Return the slices that a trial's item is in."""
        if not self._slices:
            return ()
        return tuple(slices_of(self.item(trial), self._slices, trial.dataset, trial.group))

    def kept(self, trial: TrialRow, most_tried: int | None = MOST_TRIED) -> Kept:
        """Read one trial.

        Args:
            trial: its row.
            most_tried: how many edits that failed to return at most; None: all.
        """
        number, row = self._places[trial.trial_id]
        item, result = self.item(trial), self._run.result(number)
        edits = decode_edits(trial.edits)
        shown = self._shown(trial, item, row, edits)
        probes = result.get("probes", ())
        if trial.attempts is not None:
            tried: tuple[list[Tried], int] = [], 0
        elif most_tried == 0:
            # Counted without reading the answers, for pages with very many cases.
            asked = trial.n_asked if not (pick := pick_success(trial)) else pick - 1
            tried = [], max(0, asked - sum(query <= asked for query in probes))
        else:
            tried = self._tried(trial, item, self._answers(number), probes, most_tried)
        before, after = result.get("before"), result.get("after")
        last = result.get("last")
        gold = item.candidate(edits)
        return Kept(
            entity_type=_entity_type(item, edits),
            scores=_scores(item, before, after or last),
            last=None if not last else (last[0], _score(item, last[1])),
            **shown,
            scored_before=self._scored(trial, item, ()),
            scored_after=self._scored(trial, item, edits) if edits else (),
            tried=tuple(tried[0]),
            n_tried=tried[1],
            tagged_before=self._tagging(item.candidate(), number, "baseline", 0),
            tagged_after=self._tagging(gold, number, "attack", pick_success(trial) or 0)
            if edits
            else None,
        )

    def _shown(
        self, trial: TrialRow, item: Item, row: int, edits: Sequence[Edit]
    ) -> dict[str, Any]:
        """Return the texts before and after, as people read them and as they were sent."""
        if trial.listing_before is not None:
            return {
                "shown_before": trial.listing_before,
                "shown_after": trial.listing_after,
                "sent_before": trial.prompt_before,
                "sent_after": trial.prompt_after,
            }
        prompts, place = self._prompts, (trial.victim, trial.dataset)
        if trial.verdict is Verdict.NOT_ATTACKABLE:
            # It was never asked.
            listing = prompts.listing(*place, item.candidate())
            return dict(zip(_TEXTS, (listing, None, None, None), strict=True))
        sent, listing = prompts.clean(*place, row, item)
        if trial.attempts is not None or not prompts.has_form(*place):
            number = self._places[trial.trial_id][0]
            sent = stored_prompt(self._run.requests(number, "baseline", 0)) or sent
        after: tuple[Prompt | None, str | None] = (None, None)
        if edits:
            after = prompts.shown(*place, item.candidate(tuple(edits)))
        return dict(zip(_TEXTS, (listing, after[1], sent, after[0]), strict=True))

    def _scored(self, trial: TrialRow, item: Item, edits: Sequence[Edit]) -> tuple[str, ...]:
        """Return the continuations whose likelihood a query asks for."""
        if trial.verdict is Verdict.NOT_ATTACKABLE or trial.attempts is not None:
            return ()
        candidate = item.candidate(tuple(edits))
        call = self._prompts.call(trial.victim, trial.dataset, candidate, 0)
        return tuple(call.continuations) if isinstance(call, ScoreCall) else ()

    def _answers(self, number: int) -> dict[int, tuple[str | None, list[Answer]]]:
        """Return query -> its edits and answers."""
        found: dict[int, tuple[str | None, list[Answer]]] = {}
        for _, query, edits, body, tokens in self._run.answered_queries([number]):
            found.setdefault(query, (edits, []))[1].append(decode_answer(body, *tokens))
        return found

    def _tried(
        self,
        trial: TrialRow,
        item: Item,
        answers: Mapping[int, tuple[str | None, Sequence[Answer]]],
        probes: Sequence[int],
        most: int | None,
    ) -> tuple[list[Tried], int]:
        pick = pick_success(trial)
        queries = [
            query
            for query, (edits, _) in sorted(answers.items())
            if edits is not None and query not in probes and (pick is None or query < pick)
        ]
        shown = queries if most is None else queries[-most:] if most else []
        goal = _goal(trial)
        found = []
        for query in shown:
            edits = decode_edits(answers[query][0] or "[]")
            said = self._prediction(trial, item, edits, answers[query][1])
            found.append(
                Tried(
                    query=query,
                    swaps=tuple(
                        Swap(replaced=item.replaced(edit), replacement=edit.replacement)
                        for edit in edits[:MOST_SWAPS]
                    ),
                    answer=said.answer if said else None,
                    score=_score(item, said.scores) if said else None,
                    is_refuted=said is not None
                    and trial.first_success is not None
                    and query >= trial.first_success
                    and goal is not None
                    and goal.reached(said, edits),
                )
            )
        return found, len(queries)

    def _prediction(
        self, trial: TrialRow, item: Item, edits: Sequence[Edit], answers: Sequence[Answer]
    ) -> Prediction | None:
        """Return what a query's answers say; None if some are missing or cannot be read back."""
        try:
            return self._prompts.prediction(
                trial.victim, trial.dataset, item.candidate(tuple(edits)), answers
            )
        except (MedstressError, IndexError, KeyError, TypeError, ValueError):
            return None

    def _tagging(self, candidate: Any, number: int, purpose: str, query: int) -> Tagging | None:
        if not isinstance(candidate, TaggedCandidate):
            return None
        predicted: tuple[str, ...] = ()
        for _, of, _, body, tokens in self._run.answered_queries([number], purpose):
            answer = decode_answer(body, *tokens)
            if of == query and isinstance(answer, Tagged):
                predicted = tuple(answer.labels)
        return Tagging(tokens=candidate.tokens, gold=candidate.labels, predicted=predicted)


def _goal(trial: TrialRow) -> Goal | None:
    """Return the goal of an attack whose file names one."""
    spec = json.loads(trial.attack_spec)
    if "goal" not in spec:
        return None
    return parse_goal(spec["goal"], unreadable=bool(spec.get("unreadable_is_success")))


_TEXTS = ("shown_before", "shown_after", "sent_before", "sent_after")


def _scores(
    item: Item, before: Sequence[Any] | None, after: Sequence[Any] | None
) -> tuple[Score, ...]:
    """Return the scores of all possible answers, before and after."""
    labels = tuple(item.letters)
    columns = [_probabilities(labels, each) for each in (before, after)]
    if not any(columns):
        return ()
    return tuple(
        Score(label=label, before=_at(columns[0], i), after=_at(columns[1], i))
        for i, label in enumerate(labels or ("similarity",))
    )


def _probabilities(labels: Sequence[str], said: Sequence[Any] | None) -> list[float]:
    if not said or said[1] is None:
        return []
    if not labels:
        return [float(said[1][0])]
    return [math.exp(min(float(score), 0.0)) for score in said[1]]


def _at(values: Sequence[float], place: int) -> float | None:
    return values[place] if place < len(values) else None


def _score(item: Item, scores: Sequence[float] | None) -> float | None:
    return None if scores is None else item.right_score([float(each) for each in scores])


def _entity_type(item: Any, edits: Sequence[Edit]) -> str | None:
    """Return the type of what the first edit replaces, in words."""
    entity = getattr(item, "entity", None)
    if entity is not None:
        return str(entity.type)
    for edit in edits[:1]:
        for mention in getattr(item, "mentions", ()):
            inside = mention.start <= edit.start < max(mention.end, edit.end)
            if mention.field == edit.field and inside and mention.type:
                known = SEMANTIC_TYPES.get(mention.type)
                return known.name if known else str(mention.type)
    return None
