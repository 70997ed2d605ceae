"""Perplexity of edited options, clean and edited, by a scoring model that is no part of the run.

The options are scored in their place: the text before them is the question with its options, up to
the letter of this one, in one form for all victims. Perplexity is exp of the mean negative
log-likelihood per token. What a model finds of a trial is stored under the model's hash; its calls
count in the manifest alone, so they are no queries and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from medstress.core.calls import Backend, Failure, Score, Scored
from medstress.core.controls import BETWEEN
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.text import Edit
from medstress.metrics.counts import is_flipped
from medstress.results.formats import plural
from medstress.results.last_edits import last_edits
from medstress.results.load import StoredRun, open_run
from medstress.results.rows import SCORER, trial_rows
from medstress.store.codec import decode_edits
from medstress.store.run_store import RunStore
from medstress.store.views import PERPLEXITIES

CHUNK = 64
"""Trials scored between two commits."""
MOST = 700.0
"""Largest mean negative log-likelihood whose perplexity a float can hold."""

Calls = tuple[Score, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedTrial:
    """A success or a control whose edits change options."""

    row: int
    """Of the trial, in the folder."""
    found: Mapping[str, Any]
    """What models found before, by hash."""
    clean: Calls
    """One call for each option that the edits change."""
    edited: Calls
    """The same with edits."""
    pick: tuple[Calls, Calls] | None = None
    """Clean and edited at the pick of a success, where that is not the first success."""

    def is_scored(self, scorer: str) -> bool:
        """Whether a model, by its hash, has scored all of it."""
        return len(self.found.get(scorer, ())) >= (2 if self.pick is None else 4)

    @property
    def parts(self) -> tuple[Calls, ...]:
        """All calls, in the order in which their log perplexities are stored."""
        return (self.clean, self.edited, *(self.pick or ()))


def option_calls(candidate: Candidate, letters: Iterable[str]) -> Calls:
    """Return calls that score options of a question in their place.

    >>> item = Question(id="q", stem="Which drug?", options=("aspirin", "codeine"), key="A")
    >>> option_calls(item.candidate(), "B")[0]
    Score(prompt='Which drug?\\nA. aspirin\\nB.', continuations=(' codeine',), first_token=False)
    """
    texts = (candidate.passage, candidate.context, candidate.stem)
    lines = [text for text in texts if text]
    starts: dict[str, str] = {}
    for letter, option in zip(candidate.item.letters, candidate.options, strict=True):
        starts[letter] = "\n".join((*lines, f"{letter}."))
        lines.append(f"{letter}. {option}")
    options = dict(zip(candidate.item.letters, candidate.options, strict=True))
    return tuple(Score(starts[letter], (f" {options[letter]}",)) for letter in letters)


def edited_trials(run: StoredRun) -> list[EditedTrial]:
    """Return the successes of a run, and the controls beside them, whose edits change options.

    Raises:
        UsageError: there is none.
    """
    rows = trial_rows(run)
    chosen = {row.trial_id: row for row in _chosen(rows)}
    edits, items = last_edits(run, chosen.values()), run.items()
    found = []
    for trial in run.trials():
        item = items[trial.item][1]
        if trial.trial_id not in edits or not isinstance(item, Question):
            continue
        first, row = decode_edits(edits[trial.trial_id]), chosen[trial.trial_id]
        pick = decode_edits(row.edits) if is_flipped(row) else first
        if calls := _both(item, first):
            found.append(
                EditedTrial(
                    row=trial.trial,
                    found=trial.result.get(PERPLEXITIES, {}),
                    clean=calls[0],
                    edited=calls[1],
                    pick=None if pick == first else _both(item, pick),
                )
            )
    if not found:
        raise UsageError(
            f"{run.folder}: no success of this run edits an option, so there is no perplexity to "
            "compare; name a run of multiple-choice questions with successes"
        )
    return found


def _both(item: Question, edits: Sequence[Edit]) -> tuple[Calls, Calls] | None:
    """Return the calls on the options that edits change, clean and edited; None without any."""
    clean, edited = item.candidate(), item.candidate(tuple(edits))
    pairs = zip(item.letters, item.options, edited.options, strict=True)
    letters = [letter for letter, old, new in pairs if old != new]
    return (option_calls(clean, letters), option_calls(edited, letters)) if letters else None


def _chosen(rows: Sequence[TrialRow]) -> Iterator[TrialRow]:
    """Yield successes of attacks, and the trials of their controls on the same items and seeds."""
    successes = [row for row in rows if row.arm == "attack" and is_flipped(row)]
    yield from successes
    places = {(*_place(row, row.attack), seed) for row in successes for seed in (row.seed, None)}
    for row in rows:
        if row.arm != "attack" and row.verdict in (Verdict.FLIPPED, Verdict.HELD):
            attack = row.attack.rpartition(BETWEEN)[0]
            if (*_place(row, attack), row.seed) in places:
                yield row


def _place(row: TrialRow, attack: str) -> tuple[Any, ...]:
    return (row.dataset, row.group, row.victim, attack, row.item_id, row.unit, row.repeat)


def check_scores(backend: Backend, name: str) -> None:
    """Refuse a model that gives texts no probabilities.

    Raises:
        UsageError: it does not answer `Score`.
    """
    if "score" not in backend.traits.calls:
        raise UsageError(
            f"--model {name}: it gives texts no probabilities, so it has no perplexity; give a "
            "local language model, such as smollm2"
        ).with_flag("--model", "smollm2")


def measure_perplexities(
    folder: Path, open_scorer: Callable[[], Backend], note: Callable[[str], None]
) -> list[str]:
    """Score the edited options of a run and store what is found; what was scored before is not.

    Args:
        folder: the run; it is locked while it is scored.
        open_scorer: opens the scoring model, once the run is known to have something to score.
        note: receives what is being done.

    Returns:
        Sentences on what was done, and on what could not be scored.

    Raises:
        UsageError: no success edits an option, or the model cannot be opened.
        BackendError: the model failed.
    """
    with open_run(folder) as run:
        trials = edited_trials(run)
    with closing(open_scorer()) as backend:
        scorer = _Scorer(backend)
        left = [one for one in trials if not one.is_scored(backend.identity.hash)]
        _store(folder, left, scorer, note)
    n_scored = len(trials) - len(left)
    said = [
        f"perplexity by {scorer.backend.identity.name}: {plural(len(trials), 'trial')} with an "
        f"edited option, {n_scored} of them scored before, {plural(scorer.n_calls, 'call')} now"
    ]
    if scorer.failed:
        why = next(iter(scorer.failed.values()))
        said.append(f"{plural(len(scorer.failed), 'option')} could not be scored, the first: {why}")
    return said


def _store(
    folder: Path, left: Sequence[EditedTrial], scorer: _Scorer, note: Callable[[str], None]
) -> None:
    """Score trials; every chunk is committed, so an interruption loses at most one."""
    with RunStore(folder) as store:
        for start in range(0, len(left), CHUNK):
            note(f"perplexity: {start} of {plural(len(left), 'trial')}")
            chunk = left[start : start + CHUNK]
            scorer.ask([call for one in chunk for part in one.parts for call in part])
            store.write_findings(PERPLEXITIES, _found(chunk, scorer))
            store.write_manifest({SCORER: scorer.entry(store.manifest())})
            store.commit()
        store.write_manifest({SCORER: scorer.entry(store.manifest())})
        store.commit()
        if store.manifest().get("complete"):
            store.keep_root()


def _found(trials: Iterable[EditedTrial], scorer: _Scorer) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row, hash of the model -> log perplexities, clean and edited), with earlier models."""
    for one in trials:
        logs = [scorer.log_perplexity(calls) for calls in one.parts]
        if None not in logs:
            yield one.row, {**one.found, scorer.backend.identity.hash: logs}


class _Scorer:
    """Asks a model about each text once."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.n_calls = backend, 0
        self.failed: dict[Score, str] = {}
        self._known: dict[Score, tuple[float, int]] = {}
        self._n_told = 0

    def ask(self, calls: Iterable[Score]) -> None:
        """Score the calls that are not known yet."""
        new = [one for one in dict.fromkeys(calls) if one not in self._known]
        new = [one for one in new if one not in self.failed]
        size = max(1, self.backend.traits.batch_size)
        for start in range(0, len(new), size):
            batch = new[start : start + size]
            self.n_calls += len(batch)
            for call, reply in zip(batch, self.backend.answer(batch), strict=True):
                self._keep(call, reply)

    def _keep(self, call: Score, reply: Any) -> None:
        if isinstance(reply, Failure):
            self.failed[call] = reply.error
            return
        assert isinstance(reply, Scored)
        log_prob, n_tokens = reply.log_probs[0], reply.n_tokens[0]
        if n_tokens and isfinite(log_prob) and -log_prob / n_tokens < MOST:
            self._known[call] = (log_prob, n_tokens)
        else:
            text = call.continuations[0].strip()
            self.failed[call] = f"{text!r} has a log probability of {log_prob:g}"

    def log_perplexity(self, calls: Calls) -> float | None:
        """Return the mean negative log-likelihood per token of texts; None if one is unknown."""
        known = [self._known[call] for call in calls if call in self._known]
        if len(known) < len(calls):
            return None
        return -sum(log_prob for log_prob, _ in known) / sum(n for _, n in known)

    def entry(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry of the manifest; calls are those of this model, all sessions."""
        identity, known = self.backend.identity, manifest.get(SCORER, {})
        calls = dict(known.get("calls", {}))
        calls[identity.hash] = calls.get(identity.hash, 0) + self.n_calls - self._n_told
        self._n_told = self.n_calls
        return {"model": identity.name, "hash": identity.hash, "calls": calls}
