"""Read the answers of attacks that ask every name, in order of distance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from medstress.core.calls import Answer
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.arms import spec_of
from medstress.metrics.coverage import Swept
from medstress.results.load import StoredRun
from medstress.store.codec import decode_answer, decode_edits
from medstress.store.prompts import Prompts

_ENDED = (Verdict.FLIPPED, Verdict.HELD)


def sweeps(run: StoredRun, rows: Sequence[TrialRow]) -> Iterator[Swept]:
    """Yield the outcomes of every trial of an `exhaustive` attack, query by query.

    An unreadable answer counts as not wrong. Unfinished trials are left out, because they asked
    only the nearest names. Deletions, which are probes, are left out too.
    """
    exhaustive = {
        row.trial_id: row
        for row in rows
        if row.verdict in _ENDED and spec_of([row]).get("sampler") == "exhaustive"
    }
    if not exhaustive:
        return
    prompts, items = Prompts(run.manifest), run.items()
    stored = {each.trial: each for each in run.trials() if each.trial_id in exhaustive}
    answers: dict[int, dict[int, list[Answer]]] = defaultdict(lambda: defaultdict(list))
    edits: dict[tuple[int, int], str] = {}
    for number, query, text, body, tokens in run.answered_queries(list(stored)):
        answers[number][query].append(decode_answer(body, *tokens))
        if text is not None:
            edits[number, query] = text
    for number, queries in answers.items():
        trial = stored[number]
        row, item = exhaustive[trial.trial_id], items[trial.item][1]
        wrong = []
        for query in sorted(queries):
            substitution = decode_edits(edits[number, query])
            if not all(edit.replacement for edit in substitution):
                continue
            candidate = Candidate(item=item, edits=substitution)
            said = prompts.prediction(row.victim, row.dataset, candidate, queries[query])
            wrong.append(said.outcome is Outcome.WRONG)
        if wrong:
            yield Swept(
                place=(row.dataset, row.group, row.victim),
                attack=row.attack,
                item_id=row.item_id,
                wrong=tuple(wrong),
                distances=tuple(trial.result.get("distances", ())),
            )
