"""What a comparison shows where the truth is planted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.analyses.compare import Comparison, Side, compare
from medstress.analyses.contrasts import Contrast
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.paired import difference
from planted_trials import NEAR, arm, control, planted_run, question, trial

HELD, WRONG, FAILED = Verdict.HELD, Verdict.ALREADY_WRONG, Verdict.FAILED
NOISE = replace(NEAR, label="noise", name="swap_noise", draws_names=False)
VICTIM = {
    "model": "m",
    "model_hash": "1",
    "task": {"answer_by": "letter", "template": "t"},
    "prompt": {"name": "qstab"},
}
OTHER = {**VICTIM, "model": "new", "model_hash": "2"}
Fate = int | Verdict
"""The query that flips an item, or how else its trial ends."""


def trials(fates: Iterable[Fate], seeds: Iterable[int | None] = (0,), **at: Any) -> list[Trial]:
    """Return a trial of each question and seed."""
    attack = at.pop("attack", NOISE)
    more = {key: at.pop(key) for key in ("unreadable", "asked") if key in at}
    failed_at = at.pop("failed_at", "attack")
    arms = [arm(attack, seed=seed, **at) for seed in seeds]
    made = []
    for where in arms:
        for i, fate in enumerate(fates):
            how = {"verdict": fate} if isinstance(fate, Verdict) else {"flipped_at": fate}
            one = trial(i, where, **how, **more)
            if fate is FAILED:
                before = None if failed_at == "baseline" else one.before
                one = replace(one, at=failed_at, before=before)
            made.append(one)
    return made


def side(name: str, rows: Iterable[Trial], **parts: Any) -> Side:
    """Return a side; its manifest is that of a small run."""
    known = list(rows)
    victims = {t.arm.place.victim: VICTIM if name == "A" else OTHER for t in known}
    run = planted_run(known, **{"victims": victims, **parts})
    return Side(run=run)


def compared(a: Iterable[Trial], b: Iterable[Trial], **settings: Any) -> Comparison:
    """Compare trials of an old model with those of a new one."""
    return compare(side("A", a), side("B", b), **settings)


def row_of(found: Comparison, metric: str) -> Contrast:
    (row,) = [row for row in found.rows if row.metric == metric]
    return row


def fates(text):
    """Return fates such as `60 held, 40 lost`: lost at the first query, or wrong from the start.

    Runs of lost and held items stand in the order of the questions, so that both sides share them.
    """
    how = {"held": HELD, "lost": 1, "wrong": WRONG}
    parts = (part.split() for part in text.split(", "))
    return [how[word] for n, word in parts for _ in range(int(n))]


EQUAL = ("10 lost, 90 held", "10 held, 10 lost, 80 held")
MORE = ("80 held, 20 lost, 300 wrong", "60 held, 40 lost, 200 held, 100 lost")
"""B knows 300 items that A does not, and loses more of those that A knows as well."""
CASES = {
    "really worse": ("90 held, 10 lost", "60 held, 40 lost", "worse", {}),
    "really better": ("40 lost, 60 held", "100 held", "better", {}),
    "4 of 4 lost": ("4 held", "4 lost", "undecided", {}),
    "4 of 4, 3 seeds": ("4 held", "4 lost", "undecided", {"seeds": (0, 1, 2)}),
    "5 of 60 lost": ("60 held", "5 lost, 55 held", "undecided", {}),
    "6 of 60 lost": ("60 held", "6 lost, 54 held", "worse", {}),
    "knows nothing": ("40 held", "40 wrong", "worse", {}),
    "equal, few": (*EQUAL, "undecided", {}),
    "equal, few, with a margin": (*EQUAL, "undecided", {"margin": 0.02}),
    "equal, many": (
        *("10 lost, 1990 held", "10 held, 10 lost, 1980 held"),
        *("equivalent within the margin", {"margin": 0.02}),
    ),
    "worse, but within the margin": (
        *("2000 held", "20 lost, 1980 held", "worse by less than the margin", {"margin": 0.05}),
    ),
    "worse beyond the margin": ("200 held", "80 lost, 120 held", "worse", {"margin": 0.05}),
    "may be better, not worse by .03": (
        *("10 lost, 150 held", "10 held, 6 lost, 144 held"),
        *("no worse than the margin", {"margin": 0.03}),
    ),
    "knows more, loses more": (*MORE, "better", {}),
    "loses more of what both know": (*MORE, "worse", {"metric": "asr"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_planted_truth_is_shown(case):
    first, second, verdict, settings = CASES[case]
    settings = dict(settings)
    seeds = settings.pop("seeds", (0,))
    a, b = trials(fates(first), seeds), trials(fates(second), seeds)
    made = compared(a, b, **settings)
    is_open = verdict == "undecided" and "margin" in settings
    assert (made.verdict, made.fails) == (verdict, verdict == "worse" or is_open)
    assert ("80 % power" in made.sentence) is (verdict == "undecided")
    narrow = made.deciding[0].why if verdict.startswith("equivalent") else "difference"
    assert narrow in made.sentence
    assert made.sentence == made.deciding[0].sentence
    if "margin" not in settings and verdict in ("better", "worse"):
        turned = compared(b, a, **settings)
        assert {made.verdict, turned.verdict} == {"better", "worse"}


def lethal_lists(seed: int, n: int = 150, n_names: int = 40) -> tuple[Side, Side]:
    """Two victims that are asked the same names; each has lethal names of its own, a tenth."""
    rng = np.random.default_rng(seed)
    drawn = np.argsort(rng.random((n, n_names)), axis=1)[:, :4]
    sides = []
    for name in "AB":
        hits = (rng.random(n_names) < 0.1)[drawn]
        first = np.where(hits.any(1), hits.argmax(1) + 1, 0)
        rows = [
            trial(i, at, flipped_at=int(q) or None, name=f"name {drawn[i, q - 1]}")
            for at in [arm()]
            for i, q in enumerate(first)
        ]
        names = {
            i + 1: frozenset(f"name {x}" for x in drawn[i, : q or 4]) for i, q in enumerate(first)
        }
        sides.append(side(name, rows, names=names))
    return sides[0], sides[1]


def test_equal_victims_with_lethal_names_of_their_own_are_rarely_called_different():
    """An item test calls them different far too often: it speaks of the names that were drawn."""
    by_items = by_names = 0
    for seed in range(10):
        row = row_of(compare(*lethal_lists(seed)), "accuracy_after")
        by_names += row.verdict != "undecided"
        marks = np.arange(row.n_pairs)
        items = difference(marks < row.only_a, marks >= row.n_pairs - row.only_b, marks[None])
        by_items += (items.p or 1) < 0.05
        assert row.names_like_these is not None
        assert "for exactly these names and [" in row.sentence
    assert by_items >= 3
    assert by_names <= 2


def test_a_few_lethal_names_are_few_however_many_questions_they_take():
    """Names of two victims are lethal by the same chance; a few of ten take most questions."""
    found = [compare(*lethal_lists(seed, 60, 10)) for seed in range(20)]
    assert {one.verdict for one in found} == {"undecided"}
    assert all("exactly these names; names like these take more" in one.sentence for one in found)
    items = [row_of(one, "accuracy_after") for one in found]
    assert sum(row.difference.low > 0 or row.difference.high < 0 for row in items) > 10


def test_a_worse_victim_is_worse_for_names_like_these_too():
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 40, 150)

    def arms(name: str, lethal: int) -> Side:
        rows = [
            trial(i, flipped_at=1 if x < lethal else None, name=f"name {x}")
            for i, x in enumerate(drawn)
        ]
        names = {i + 1: frozenset({f"name {x}"}) for i, x in enumerate(drawn)}
        return side(name, rows, names=names)

    found = compare(arms("A", 2), arms("B", 30))
    assert (found.verdict, found.fails) == ("worse", True)
    row = found.deciding[0]
    assert row.names_like_these.low < row.difference.low


def test_net_of_a_control_rests_on_names_like_these_too():
    """One of two names took all that B lost net of a control that takes nothing."""

    def arms(name: str, lost: int) -> Side:
        rows = [trial(i, flipped_at=1 if i % 2 < lost else None) for i in range(60)]
        names = {i + 1: frozenset({f"name {i % 2}"}) for i in range(60)}
        return side(name, [*rows, *(trial(i, control()) for i in range(60))], names=names)

    found = compare(arms("A", 0), arms("B", 1), metric="asr_net")
    row = found.deciding[0]
    assert row.difference.low > 0.3
    assert row.names_like_these.low < 0
    assert found.verdict == "undecided"


def test_names_that_controls_drew_count_for_the_net_as_well():
    """One of two names that the control drew took all that B lost to it."""
    drawing = replace(control("same_type"), attack=replace(NEAR, label="near names / same_type"))

    def arms(name: str, lost: int) -> Side:
        rows = [trial(i) for i in range(60)]
        others = [trial(i, drawing, flipped_at=1 if i % 2 < lost else None) for i in range(60)]
        names = {i + 1: frozenset({f"own {i}"}) for i in range(60)}
        names |= {i + 61: frozenset({f"name {i % 2}"}) for i in range(60)}
        return side(name, [*rows, *others], names=names)

    row = compare(arms("A", 0), arms("B", 1), metric="asr_net").deciding[0]
    assert row.difference.high < -0.3
    assert row.names_like_these.high > 0


NETS = {
    "five names": ("same_type", 5, 0, "undecided"),
    "twelve names": ("same_type", 12, 0, "worse"),
    "seven, one of the control": ("same_type", 7, 1, "undecided"),
    "seven, three edits that are no names": ("no_op", 7, 1, "worse"),
}
"""Control, how many of 40 names took all that B lost to its attack, and to its control."""


@pytest.mark.parametrize("case", NETS)
def test_a_name_counts_once_in_a_net_too(case):
    name, n_attack, n_control, verdict = NETS[case]
    own = control(name)
    own = replace(own, attack=replace(own.attack, draws_names=name != "no_op"))

    def arms(which: str, n_attack: int, n_control: int) -> Side:
        rows, names = [], {}
        for at, lethal in ((arm(), range(n_attack)), (own, range(40 - n_control, 40))):
            for i in range(120):
                flipped_at = 1 if i % 40 in lethal else None
                rows.append(trial(i, at, flipped_at=flipped_at, name=f"name {i % 40}"))
                names[len(rows)] = frozenset({f"name {i % 40}"})
        return side(which, rows, names=names)

    found = compare(arms("A", 0, 0), arms("B", n_attack, n_control), metric="asr_net")
    assert found.verdict == verdict
    assert (found.deciding[0].p <= 0.05) is (verdict == "worse")


def test_few_nets_are_counted_exactly():
    """7 of B's nets are larger and 1 is smaller: a t test of 100 gives p = .03, signs p = .07."""
    a = with_control([1] + [HELD] * 99, [HELD] * 100)
    b = with_control([HELD] + [1] * 7 + [HELD] * 92, [HELD] * 100)
    found = compared(a, b, metric="asr_net")
    assert (found.verdict, found.deciding[0].p) == ("undecided", pytest.approx(0.0703, abs=1e-4))


@pytest.mark.parametrize("n_names", [4, 200])
def test_builds_that_agree_on_few_names_may_differ_on_others(n_names):
    def arms(name: str) -> Side:
        names = {i + 1: frozenset({f"name {i % n_names}"}) for i in range(200)}
        return side(name, [trial(i) for i in range(200)], names=names)

    found = compare(arms("A"), arms("B"), margin=0.05)
    equal = "equivalent within the margin"
    assert found.verdict == (equal if n_names == 200 else "undecided")
    assert ("4 independent answers" in found.deciding[0].decisive.method) is (n_names == 4)


def mixed(n: int, fates: Sequence[Fate], **how: Any) -> list[Trial]:
    """`n` items that held, then some with other fates."""
    plain, other = trials([HELD] * n), trials([HELD] * n + list(fates), **how)
    return [*plain, *other[n:]]


def test_a_model_that_says_nothing_under_attack_is_worse():
    b = mixed(60, [HELD] * 40, unreadable=8, asked=8)
    found = compared(trials([HELD] * 100), b)
    assert (found.verdict, found.deciding[0].difference.value) == ("worse", -0.4)
    assert any("40 trials" in note for note in found.notes)


def test_unreadable_answers_of_a_make_b_no_better():
    """As read B is better; had A's answers been right, nothing would differ."""
    a = mixed(60, [HELD] * 40, unreadable=8, asked=8)
    found = compared(a, trials([HELD] * 100))
    row = found.deciding[0]
    assert (row.difference.value, found.verdict) == (0.4, "undecided")
    assert compared(a, trials([HELD] * 100), margin=0.05).verdict == "no worse than the margin"


def test_failed_calls_decide_nothing():
    a = mixed(60, [FAILED] * 40, failed_at="baseline")
    found = compared(a, trials([HELD] * 100))
    assert (found.verdict, found.deciding[0].n_open) == ("undecided", 40)
    gate = compared(trials([HELD] * 100), a, margin=0.05)
    assert (gate.verdict, gate.fails, gate.deciding[0].n_open) == ("undecided", True, 40)


def test_an_attack_that_showed_no_edit_says_nothing_of_the_model():
    """An attacker that refuses is no loss of B, and none that B withstood."""
    held, refused = trials([HELD] * 40), trials([HELD] * 40, asked=0)
    for a, b in ((held, refused), (refused, held), (refused, refused)):
        with pytest.raises(UsageError) as error:
            compared(a, b, margin=0.05)
        assert "no edit was shown" in str(error.value)
    some = [*trials([HELD] * 40), *trials([HELD] * 60, asked=0)[40:]]
    found = compared(trials([HELD] * 60), some, margin=0.05)
    assert (found.verdict, found.deciding[0].n_open) == ("undecided", 20)
    assert "In 20 pairs a call failed or no edit was shown." in found.sentence


@pytest.mark.parametrize("at", ["baseline", "attack"])
def test_a_model_none_of_whose_calls_came_back_cannot_be_compared(at, said):
    with pytest.raises(UsageError) as error:
        compared(trials([HELD] * 30), trials([FAILED] * 30, failed_at=at))
    said(str(error.value), "in each of the 30 pairs that decide a call failed")


def test_seeds_of_one_item_are_one_unit():
    """Twenty seeds that agree say no more than one."""
    a, b = [HELD] * 40, [HELD] * 30 + [1] * 10
    once = compared(trials(a), trials(b)).deciding[0]
    often = compared(trials(a, range(20)), trials(b, range(20))).deciding[0]
    assert often.n_pairs == 20 * once.n_pairs
    assert often.difference.low == pytest.approx(once.difference.low, abs=0.01)


def test_documents_are_one_unit_whichever_run_knows_them():
    a, b = trials([HELD] * 40), trials([HELD] * 30 + [1] * 10)
    assert compared(a, b).verdict == "worse"

    def grouped(rows: Sequence[Trial], size: int = 10, first: int = 0) -> list[Trial]:
        return [
            replace(row, cluster=f"d{(first + i) // size}") if i >= first else row
            for i, row in enumerate(rows)
        ]

    both = compared(grouped(a), grouped(b))
    assert both.verdict == "undecided"
    # Halves of documents that the other run joins, too.
    for one, other in ((grouped(a), b), (a, grouped(b)), (grouped(a, 5), grouped(b, 10, 5))):
        found = compared(one, other)
        assert found.verdict == "undecided"
    assert compared(a, grouped(b)).deciding[0].difference == both.deciding[0].difference
    listed = [one for one in compared(a, grouped(b)).differs if one.what == "documents"]
    assert [(one.a, one.b) for one in listed] == [("none", "4")]


def test_items_are_paired_by_content_and_not_by_name():
    a = [trial(i, item=question(i)) for i in range(4)]
    b = [trial(i, item=replace(question(i), id=f"other {i}")) for i in range(2, 6)]
    found = compared(a, b)
    assert found.deciding[0].n_items == 2
    assert sum("without a counterpart" in note for note in found.notes) == 2
    twins = [trial(i, item=replace(question(1), id=name)) for i, name in enumerate("ab")]
    assert compared(twins, twins).deciding[0].n_items == 2


@pytest.mark.parametrize(
    "other", [trials([HELD] * 3, (7,)), [trial(90), trial(91)], trials([Verdict.MEASURED] * 3)]
)
def test_what_has_no_pair_is_refused(other, said):
    with pytest.raises(UsageError) as error:
        compared(trials([HELD] * 3, attack=other[0].arm.attack), other)
    said(str(error.value), "no trial of the same item")


@pytest.mark.parametrize("margin", [0, -0.1, 1, 2.0, float("nan")])
def test_a_margin_out_of_range_is_refused(margin):
    with pytest.raises(UsageError, match="margin"):
        compared(trials([HELD]), trials([HELD]), margin=margin)


@pytest.mark.parametrize(
    ("metric", "words"),
    [("acuracy", "did you mean 'accuracy'"), ("f1_after", "f1_after"), ("asr_net", "no control")],
)
def test_a_measure_that_nothing_has_is_refused(metric, words, said):
    with pytest.raises(UsageError) as error:
        compared(trials([HELD] * 3), trials([HELD] * 3), metric=metric)
    said(str(error.value), metric, words)


def named(fates: Mapping[str, Sequence[Fate]], **at: Any) -> list[Trial]:
    """Return trials of several attacks."""
    rows = []
    for label, own in fates.items():
        rows += trials(own, attack=replace(NOISE, label=label), **at)
    return rows


def test_several_arms_are_one_family():
    """p = .031 is worse alone, and undecided among four (Holm)."""
    same: dict[str, Sequence[Fate]] = {name: [HELD] * 45 for name in "abcd"}
    other = {**same, "a": [1] * 6 + [HELD] * 39}
    found = compared(named(same), named(other))
    row = next(row for row in found.deciding if row.a.attack == "a")
    assert row.p is not None
    assert row.p_adjusted == pytest.approx(4 * row.p)
    assert (row.verdict, found.verdict) == ("undecided", "undecided")
    assert found.sentence == "Undecided in 4 of 4 results."
    worse = compared(named(same), named({**same, "a": [1] * 20 + [HELD] * 25}))
    assert (worse.verdict, worse.fails) == ("worse", True)
    assert worse.sentence == "Worse in 1 of 4 results."


def test_labels_without_a_counterpart_are_refused_and_named(said):
    two = [*trials([HELD] * 3, victim="a"), *trials([HELD] * 3, victim="b")]
    with pytest.raises(UsageError) as error:
        compared(two, trials([HELD] * 3, victim="c"))
    said(str(error.value), "model", "'a', 'b'", "'c'")


def test_two_models_of_one_run_are_compared_as_two_runs_would_be():
    old, new = trials([HELD] * 50, victim="old"), trials([1] * 20 + [HELD] * 30, victim="new")
    run = planted_run([*old, *new], victims={"old": VICTIM, "new": OTHER})
    sides = [Side(run=run, victim=v) for v in ("old", "new")]
    found, apart = compare(sides[0], sides[1]), compared(old, new)
    assert (found.verdict, found.notes) == ("worse", [])
    assert [row.difference for row in found.rows] == [row.difference for row in apart.rows]
    assert found.a.folder.endswith("#old")
    with pytest.raises(UsageError, match="did you mean 'old'"):
        compare(replace(sides[0], victim="olld"), sides[1])


def test_another_attack_is_refused_unless_attacks_are_compared(said):
    """More of it is worse for the model; loss is counted on what is known in both."""
    stronger = replace(NOISE, params={**NOISE.params, "budget": 9})
    a = trials([HELD] * 90 + [1] * 10 + [WRONG] * 50)
    b = trials([HELD] * 60 + [1] * 40 + [WRONG] * 50, attack=stronger)
    with pytest.raises(UsageError) as error:
        compared(a, b)
    said(str(error.value), "budget 8 in A, 9 in B", 'factor="attack"')
    found = compare(side("A", a), side("B", b, victims={"model": VICTIM}), factor="attack")
    (row,) = found.rows
    assert (row.metric, row.verdict, row.n_pairs) == ("asr", "worse", 100)
    assert row.difference.value == pytest.approx(0.3)
    assert row.sentence.startswith("The model is worse under B than under A under noise: of what")
    assert compared(a, b, factor="attack", metric="accuracy_after").metric == "accuracy_after"
    others = compared(a, b, factor="attack")
    assert others.sentence.startswith("B is worse than A under noise: of what")
    assert any("may be the model's" in note for note in others.notes)


def test_one_label_of_two_attacks_names_both():
    drawing = {"name": "entity_substitution", "budget": 8}
    made = [
        replace(NEAR, label="entity_substitution", params={**drawing, "sampler": sampler})
        for sampler in ("random", "nearest")
    ]
    a, b = (trials([HELD] * 30, attack=attack) for attack in made)
    found = compared(a, b, factor="attack")
    assert "under random names → nearest names" in found.sentence


def with_control(
    attack: Sequence[Fate], harmless: Sequence[Fate], unreadable: int = 0
) -> list[Trial]:
    """An attack and its control on the same items; no answer to the first edits can be read."""
    where = control(of=arm(NOISE))
    rows = trials(attack)
    for i, fate in enumerate(harmless):
        own = {"verdict": fate} if isinstance(fate, Verdict) else {"flipped_at": fate}
        mute = {"unreadable": 8, "asked": 8} if i < unreadable else {}
        rows.append(trial(i, where, **own, **mute))
    return rows


def test_net_of_the_control_decides_where_it_is_asked_for():
    """B loses 60 of 100 to the attack and A 40, and 30 to a harmless edit as well."""
    a = with_control([1] * 40 + [HELD] * 60, [1] * 30 + [HELD] * 70)
    b = with_control([1] * 60 + [HELD] * 40, [HELD] * 100)
    found = compared(a, b)
    net = row_of(found, "asr_net")
    assert (net.decides, net.control, found.verdict) == (False, "no_op", "worse")
    assert (net.value_a.value, net.value_b.value) == pytest.approx((0.1, 0.6))
    assert net.difference.value == pytest.approx(0.5)
    assert net.verdict == "worse"
    chosen = compared(a, b, metric="asr_net")
    assert (chosen.verdict, chosen.metric, chosen.fails) == ("worse", "asr_net", True)


# What the attack takes, what harmless edits take, and how often no answer to these can be read.
FIRST, NONE = [1] * 20 + [HELD] * 80, [HELD] * 100
HIDE = "harmless edits may make or hide the difference"
OPEN = "answers that are unreadable, failed or were never asked for leave it open"
IN_B = "harmless edits lose more than the attack in B"
NET_CASES = {
    "as much, A's to edits as well": ((FIRST, [1] * 15 + [HELD] * 85), (FIRST, NONE), HIDE),
    "all at any edit": ((FIRST, NONE), ([1] * 100, [1] * 100), HIDE),
    "nothing, edits all": ((NONE, NONE), (NONE, [1] * 100), IN_B),
    "edits alone unreadable": ((FIRST, NONE), (FIRST, NONE, 30), "the interval reaches 0"),
    "more, edits unreadable": ((NONE, NONE), (FIRST, NONE, 30), OPEN),
}


@pytest.mark.parametrize("case", NET_CASES)
@pytest.mark.parametrize("margin", [None, 0.02])
def test_what_harmless_edits_took_or_left_open_makes_no_model_better_or_worse(case, margin):
    a, b, why = NET_CASES[case]
    found = compared(with_control(*a), with_control(*b), metric="asr_net", margin=margin)
    assert (found.verdict, found.fails) == ("undecided", margin is not None)
    assert found.sentence.startswith(f"Undecided, as {why}")
    assert found.deciding[0].n_worst == sum(b[2:])
    assert compared(with_control(*b), with_control(*a), metric="asr_net").verdict == "undecided"


def test_equal_builds_are_equivalent_net_of_a_control():
    """No pair of nets differs; there is an interval all the same."""
    rows = with_control([1] * 40 + [HELD] * 160, [1] * 10 + [HELD] * 190)
    found = compared(rows, rows, metric="asr_net", margin=0.05)
    row = found.deciding[0]
    assert (row.verdict, row.p, found.fails) == ("equivalent within the margin", 1, False)
    assert row.difference.low == pytest.approx(-0.0188, abs=1e-4)


# What the attack takes, and what harmless edits take.
FINE, AT_SPACES = ([HELD] * 100, [HELD] * 100), ([HELD] * 100, [1] * 60 + [HELD] * 40)
LOSES = ([1] * 4 + [HELD] * 96, [1] * 60 + [HELD] * 40)
UNREAD, UNREAD_IN_B = (*FINE, 60), "answers under harmless edits failed or could not be read in B"
MANY_LOST = ([1] * 30 + [HELD] * 70, [HELD] * 100)
HARMLESS_CASES = {
    "of neither": (FINE, FINE, 0.1, "equivalent within the margin", ""),
    "of B": (FINE, AT_SPACES, 0.1, "undecided", f"Undecided, as {IN_B},"),
    "of both": (AT_SPACES, AT_SPACES, 0.1, "undecided", f"Undecided, as {IN_B},"),
    "of A": (AT_SPACES, FINE, 0.1, "no worse than the margin", "lose more than the attack in A."),
    "of B, which loses less": (MANY_LOST, AT_SPACES, None, "undecided", f"Undecided, as {IN_B},"),
    "of A, which loses less": (AT_SPACES, MANY_LOST, 0.1, "worse", ""),
    "unreadable, of B": (FINE, UNREAD, 0.1, "undecided", f"Undecided, as {UNREAD_IN_B},"),
    "unreadable, of A": (UNREAD, FINE, 0.1, "no worse than the margin", "could not be read in A."),
    "of B, which loses more": (FINE, LOSES, 0.2, "undecided", f"Undecided, as {IN_B},"),
}


@pytest.mark.parametrize("case", HARMLESS_CASES)
def test_harmless_edits_that_lose_more_than_the_attack_speak_for_no_model(case):
    a, b, margin, verdict, words = HARMLESS_CASES[case]
    found = compared(with_control(*a), with_control(*b), margin=margin)
    assert (found.verdict, words in found.sentence) == (verdict, True)
    # What was known before has nothing to do with it.
    assert row_of(found, "accuracy").verdict != "undecided" or margin is None


def test_harmless_edits_matter_too_where_attacks_on_two_models_are_compared():
    def stronger(one: Trial) -> Trial:
        params = {**one.arm.attack.params, "budget": 9}
        return replace(one, arm=replace(one.arm, attack=replace(one.arm.attack, params=params)))

    a, b = with_control(*MANY_LOST), [*map(stronger, with_control(*AT_SPACES))]
    two = compared(a, b, factor="attack")
    assert two.sentence.startswith(f"Undecided, as {IN_B},")
    one = compare(side("A", a), side("B", b, victims={"model": VICTIM}), factor="attack")
    assert one.sentence.startswith("The model is better under B than under A")


def test_an_interval_for_names_like_these_is_never_narrower():
    """Four of 40 questions are lost, each to a name of its own among 160."""

    def arms(name: str, lost: int) -> Side:
        rows = [trial(i, flipped_at=1 if i < lost else None, name=f"name {i}.0") for i in range(40)]
        names = {
            i + 1: frozenset(f"name {i}.{j}" for j in range(1 if i < lost else 4))
            for i in range(40)
        }
        return side(name, rows, names=names)

    found = compare(arms("A", 0), arms("B", 4), margin=0.2)
    row = found.deciding[0]
    assert row.names_like_these.low <= row.difference.low == pytest.approx(-0.231, abs=5e-4)
    assert row.names_like_these.high >= row.difference.high
    items = difference(np.arange(40) >= 4, np.ones(40, dtype=bool), np.arange(40)[None])
    assert row.interval90[0] <= items.interval90[0] < -0.2
    assert (found.verdict, found.fails) == ("undecided", True)


def test_power_is_said_at_what_was_seen_or_at_two_guesses():
    few = compared(trials([1] * 2 + [HELD] * 198), trials([HELD] * 200)).deciding[0]
    assert [(one.discordance, one.is_assumed) for one in few.power] == [(0.15, True), (0.4, True)]
    assert few.power[0].difference == pytest.approx(0.0739, abs=1e-4)
    assert "if .150 of the pairs differ or .1" in few.sentence
    many = compared(
        trials([1] * 15 + [HELD] * 85), trials([HELD] * 15 + [1] * 15 + [HELD] * 70)
    ).deciding[0]
    assert [(one.discordance, one.is_assumed) for one in many.power] == [(0.3, False)]
    nine = compared(trials([HELD] * 9), trials([HELD] * 9))
    assert nine.sentence.endswith(" a difference of .732 if .732 of the pairs differ.")
    assert nine.tables()[0].notes == ("Accuracy is of what could be attacked.",)
    none = compared(trials([HELD] * 3), trials([HELD] * 3)).deciding[0]
    assert "With so few pairs no difference is found" in none.sentence


def test_a_run_that_is_not_complete_decides_nothing():
    a, b = trials([HELD] * 100), trials([1] * 60 + [HELD] * 40)
    for margin in (None, 0.1):
        found = compare(side("A", a), side("B", b, complete=False), margin=margin)
        assert (found.verdict, found.fails) == ("undecided", margin is not None)
        assert found.deciding[0].difference.value == -0.6
        assert found.sentence.startswith("Undecided, as the run of B is not complete,")


@pytest.mark.parametrize("seed", range(3))
def test_p_and_interval_are_those_of_published_tools(seed):
    """Each item once and 10 or more discordant: p is McNemar's without correction."""
    from statsmodels.stats.contingency_tables import mcnemar  # with pandas: seconds to import

    rng = np.random.default_rng(seed)
    n = int(rng.integers(80, 400))
    right = rng.random((2, n)) < rng.uniform(0.3, 0.8, size=(2, 1))
    a, b = (trials([HELD if x else 1 for x in own]) for own in right)
    row = compared(a, b).deciding[0]
    counts = [
        [int(np.sum((right[0] == i) & (right[1] == j))) for j in (True, False)]
        for i in (True, False)
    ]
    assert row.p == pytest.approx(mcnemar(counts, exact=False, correction=False).pvalue)
    assert (row.only_a, row.only_b) == (counts[0][1], counts[1][0])
    assert row.difference.high is not None
    assert (row.p < 0.05) == (not row.difference.low <= 0 <= row.difference.high)
