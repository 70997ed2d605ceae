"""Remarks about an experiment that are shown beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medstress.attacks.controls.arm import turn_attack
from medstress.core.controls import left_out_sentences
from medstress.core.words import plural
from medstress.experiment.criteria import describe_slices
from medstress.experiment.plan.attack_checks import score_lines
from medstress.experiment.plan.manifest import surrogates_of
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.targets import named_backends, watched_lines
from medstress.tasks.multiple_choice import AnswerBy


def dry_run_remarks(prepared: Prepared) -> Iterator[str]:
    """Yield lines on reply lengths, rows, sources of synonyms, watched files."""
    yield from length_lines(prepared)
    yield from score_lines(prepared.attacks, prepared.experiment.victim)
    yield from (line for part in prepared.datasets for line in part.understood)
    yield from (note for part in prepared.datasets for note in part.loaded.notes)
    yield from left_out_lines({part.label: part.loaded.skipped for part in prepared.datasets})
    yield from left_out_sentences(prepared.left_out)
    yield from _sources_of_names(prepared)
    yield from watched_lines(named_backends(prepared))
    yield from decision_lines(prepared)


def decision_lines(prepared: Prepared) -> Iterator[str]:
    """Yield lines on criteria and slices, which the first query fixes."""
    if n := len(prepared.experiment.require):
        yield f"{plural(n, 'criterion', 'criteria')} ([[require]]), fixed with the first query"
    slices = describe_slices(prepared, None, is_asked=False)
    if slices is not None:
        cuts = _cuts(slices["cuts"])
        thirds = f"; thirds: {cuts}" if cuts else ""
        yield f"slices by {', '.join(slices['by'])}, fixed with the first query{thirds}"


def _sources_of_names(prepared: Prepared) -> Iterator[str]:
    """Yield where the names come from that synonym attacks put in."""
    for row in surrogates_of(prepared):
        yield (
            f"{row['dataset']}, {row['attack']} ({row['surrogate']}): of {row['n_mentions']:,} "
            f"mentions {row['n_listed']:,} listed, {row['n_defined']:,} spelt out, "
            f"{row['n_nearest']:,} nearest, {row['n_ambiguous']:,} with several meanings, "
            f"{row['n_unchanged']:,} unchanged"
        )


def _cuts(cuts: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Return where each data set's lengths are cut."""
    return "; ".join(
        f"{by} of {dataset} after {' and '.join(map(str, ends)) or 'no'} characters"
        for dataset, lengths in cuts.items()
        for by, ends in lengths.items()
    )


def length_lines(prepared: Prepared) -> Iterator[str]:
    """Yield a line for each victim that writes its answers: how long they may be."""
    of_attacks = {a.reasoning_tokens for p in prepared.attacks if (a := turn_attack(p.attack))}
    for victim in prepared.victims:
        spec = victim.task.spec()
        while "task" in spec:
            spec = spec["task"]
        keys = [f"max_new_tokens = {spec['decoding'][0]:,}"] if "decoding" in spec else []
        if of_attacks and keys:
            own = spec.get("reasoning_tokens")
            most = sorted({own} if own else of_attacks)
            keys.insert(0, f"reasoning_tokens = {' or '.join(f'{n:,}' for n in most)}")
        elif spec.get("answer_by") != AnswerBy.GENERATE:
            continue
        yield (
            f"replies of {victim.label}: at most {' and '.join(keys)}; a longer reply is cut off "
            '(finish_reason = "length") and unreadable unless it states an answer before, never '
            "right or a success, so raise the limit for a model that reasons before it answers"
        )


def left_out_lines(skipped: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each data set with rows left out: how many, and why the first one.

    Args:
        skipped: data set -> one sentence for each row.

    >>> list(left_out_lines({"mine": ["rows.jsonl line 3: no key"], "sample": []}))
    ["dataset 'mine': 1 bad row left out (on_bad_row), the first: rows.jsonl line 3: no key"]
    """
    for label, sentences in skipped.items():
        if n := len(sentences):
            rows = "row" if n == 1 else "rows"
            yield (
                f"dataset {label!r}: {n:,} bad {rows} left out (on_bad_row), the first: "
                f"{sentences[0]}"
            )
