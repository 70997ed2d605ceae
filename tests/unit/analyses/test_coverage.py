"""What was tried of what may be put in, and success by the size of an edit: planted queries."""

from collections.abc import Sequence
from typing import Any

import pytest

from medstress.analyses.scaling import NAMES, Coverage, Names
from medstress.core.arms import AttackRecord
from medstress.core.items import Mention, Question
from medstress.core.text import Edit
from medstress.core.trials import Trial
from planted_trials import arm, planted_run, trial

N_NAMES = 10
GROUPS = {"drugs": {"n_names": N_NAMES}}


def item(number: int, *, mentioned: str = "ABCD") -> Question:
    """Four options of one name each; the right answer's is mentioned too."""
    options = tuple(f"{letter.lower()}ol" for letter in "ABCD")
    mentions = tuple(Mention(field=letter, start=0, end=3, type="T121") for letter in mentioned)
    return Question(id=f"q{number}", stem="Which?", options=options, key="A", mentions=mentions)


def put(name: str, option: str = "B") -> tuple[Edit, ...]:
    return (Edit(field=option, start=0, end=3, replacement=name),)


def names_of(
    trials: Sequence[Trial], queries: Sequence[Sequence[tuple[Edit, ...]]], **parts: Any
) -> Names:
    """Compute the result of trials whose queries are planted."""
    edits = {
        n + 1: [(query + 1, one) for query, one in enumerate(of)] for n, of in enumerate(queries)
    }
    run = planted_run(trials, edits=edits, groups=GROUPS, **parts)
    return run.of(NAMES)


def covered(
    queries: Sequence[Sequence[tuple[Edit, ...]]], excluded: dict[str, int] | None = None, **of: Any
) -> Coverage:
    trials = [
        trial(i, item=item(i, **of), asked=len(asked), excluded=excluded or {})
        for i, asked in enumerate(queries)
    ]
    return names_of(trials, queries).coverage[0]


def every(option: str = "B") -> list[tuple[Edit, ...]]:
    return [put(f"name {i}", option) for i in range(N_NAMES)]


def test_every_name_in_one_of_three_options_is_a_third():
    """Spans that were never asked count; the right answer is never replaced."""
    got = covered([every(), every()])
    assert (got.n_spans_asked, got.n_spans) == (2, 6)
    assert (got.n_tried, got.n_allowed) == (20, 60)
    assert got.share.value == pytest.approx(1 / 3)
    assert got.share_of_asked.value == 1
    whole = covered([[*every("B"), *every("C"), *every("D")]])
    assert whole.share.value == covered([every()], mentioned="AB").share.value == 1
    # An item that is tried twice as much does not make up for another.
    assert covered([every(), every()[:9]], mentioned="AB").share.value == pytest.approx(0.95)


def test_exclusions_are_taken_off_and_those_of_one_span_are_not_known_of_others():
    got = covered([every()[:4]], {"key_duplicate": 2}, mentioned="AB")
    assert (got.n_allowed, got.share.value) == (8, 0.5)
    far = covered([every()[:4]], {"key_duplicate": 2, "edit_distance": 4}, mentioned="ABC")
    assert (far.n_allowed, far.share_of_asked.value) == (4 + 8, 1)


def test_seeds_and_attacks_of_one_item_share_what_was_tried_and_case_does_not_count():
    far = AttackRecord(label="far names", name="entity_substitution", budget=8, draws_names=True)
    one = item(1, mentioned="AB")
    trials = [
        trial(1, arm(seed=0), item=one, asked=2, excluded={}),
        trial(1, arm(seed=1), item=one, asked=2, excluded={}),
        trial(1, arm(far), item=one, asked=1, excluded={}),
    ]
    queries = [[put("a"), put("B")], [put("b"), put("c")], [put("d")]]
    rows = {row.attack: row for row in names_of(trials, queries).coverage}
    assert rows["near names"].n_tried == 3
    assert rows["near names"].n_distinct == 3


def test_success_of_first_queries_by_words_and_by_distance():
    trials, queries = [], []
    for i in range(6):
        name = "two words" if i < 4 else " ".join("abcdefgh")
        trials.append(trial(i, item=item(i), flipped_at=1 if i < 2 else 3))
        queries.append([put(name)])
    sizes = names_of(trials, queries).sizes
    words = {(row.low, row.high): row.asr_at_1 for row in sizes if row.unit == "words"}
    assert {key: (e.hits, e.n) for key, e in words.items()} == {(1, 2): (2, 4), (1, 6): (0, 2)}
    tokens = [(row.low, row.high, row.n_items) for row in sizes if row.unit == "tokens"]
    assert tokens == [(2, 2, 4), (6, None, 2)]
    characters = [(row.low, row.high) for row in sizes if row.unit == "characters"]
    assert characters == [(5, 9), (10, 14)]
