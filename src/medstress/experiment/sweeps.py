"""Attacks that ask every name: each answer read again, in the order of distance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from medstress.calls import Answer
from medstress.experiment.stored_prompts import Prompts
from medstress.items import Candidate
from medstress.metrics.arms import spec_of
from medstress.metrics.coverage import Swept
from medstress.outcomes import Outcome, Verdict
from medstress.results.load import StoredRun
from medstress.rows import TrialRow
from medstress.store.codec import decode_answer, decode_edits

_ENDED = (Verdict.FLIPPED, Verdict.HELD)


def sweeps(run: StoredRun, rows: Sequence[TrialRow]) -> Iterator[Swept]:
    """What every trial of an `exhaustive` attack found, query by query.

    A query that was not answered readably counts as not wrong. A trial that did not end is left
    out: it asked the nearest names alone. So are deletions, which probe and put no name in.
    """
    chosen = {
        row.trial_id: row
        for row in rows
        if row.verdict in _ENDED and spec_of([row]).get("sampler") == "exhaustive"
    }
    if not chosen:
        return
    prompts, items = Prompts(run.manifest), run.items()
    stored = {one.trial: one for one in run.trials() if one.trial_id in chosen}
    answers: dict[int, dict[int, list[Answer]]] = defaultdict(lambda: defaultdict(list))
    edits: dict[tuple[int, int], str] = {}
    for trial, query, text, body, tokens in run.answered_queries(list(stored)):
        answers[trial][query].append(decode_answer(body, *tokens))
        if text is not None:
            edits[trial, query] = text
    for trial, queries in answers.items():
        one = stored[trial]
        row, item = chosen[one.trial_id], items[one.item][1]
        wrong = []
        for query in sorted(queries):
            put_in = decode_edits(edits[trial, query])
            if not all(edit.replacement for edit in put_in):
                continue
            candidate = Candidate(item=item, edits=put_in)
            outcome = prompts.outcome(row.victim, row.dataset, candidate, queries[query])
            wrong.append(outcome is Outcome.WRONG)
        if wrong:
            yield Swept(
                place=(row.dataset, row.group, row.victim),
                attack=row.attack,
                item_id=row.item_id,
                wrong=tuple(wrong),
                distances=tuple(one.result.get("distances", ())),
            )
