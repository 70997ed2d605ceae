"""Claims of the paper on runs that never were: every verdict, and the files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from medstress.figures.outputs import Made, Skipped, index
from medstress.papers.arms import arms_of
from medstress.papers.claims import table as claim_table
from medstress.papers.claims.claims import claims_of
from medstress.papers.claims.record import ALL_VICTIMS
from medstress.papers.claims.series import series_of
from medstress.papers.claims.verdicts import Finding
from medstress.papers.layout import make_layout
from medstress.papers.layouts import LAYOUTS

BUDGET = 20
ZOO = {"name": "discrete_zoo", "budget": BUDGET, "candidates": 3, "variants": "exclude"}
HIGH = {"near": 60, "far": 20, "random": 15, "nearest": 60, "farthest": 80}
"""Items of 100 that one query flips, as the paper has it; B-farthest is not close."""
XIAN = LAYOUTS["xian2025"]


def arms(run):
    return arms_of(run.summary, run.trials, run.manifest)


def rank(i):
    """Spread items over 0..99 so that no order of items matters."""
    return (37 * i) % 100


def outcome_of(high, peaked):
    """Random sampling is slow and reaches 90 %, n > 0 is done early; the rest flip at once."""

    def outcome(i, spec):
        sampler, n, r = spec.get("sampler"), spec.get("n"), rank(i)
        if spec["name"] == "discrete_zoo":
            return 1 if r < 30 else None
        if sampler == "pdws":
            method = "near" if n < 0 else "far"
            extra = 15 if peaked and abs(n) == 20 else 0
            if r < high[method] + extra:
                return 1
            return 3 if method == "far" and r < high[method] + extra + 15 else None
        if r < high[sampler]:
            return 1
        return 4 + r // 10 if sampler == "random" and r < 90 else None

    return outcome


def attacks(made_up, **keys):
    given = {"budget": BUDGET, **keys}
    found = {m: made_up.substitution(m, **given) for m in ("random", "nearest", "farthest")}
    grid = (-40.0, -20.0, -5.0, 5.0, 20.0, 40.0)
    return found | {f"pdws n={n:g}": made_up.substitution("pdws", n, **given) for n in grid}


def made_run(made_up, high=HIGH, *, peaked=True, **options):
    every = {**attacks(made_up, variants="exclude"), "zoo": ZOO}
    options = {"n_items": 110, "wrong": 5, **options}
    return made_up.MadeUp(every, outcome_of(high, peaked), **options)


def with_texts(run, level):
    """Give successes names of their own for n < 0, and similarities from `level(row)`."""
    trials = []
    for row in run.trials:
        if row.first_success is not None:
            near = (json.loads(row.attack_spec).get("n") or 0) < 0
            i = int(row.item_id[1:])
            row = replace(
                row,
                replacement=f"name {i}" if near else f"name {i % 3}",
                listing_before="word " * (10 + i),
                prompt_similarity=level(row) + i / 1000,
            )
        trials.append(row)
    return arms_of(run.summary, trials, run.manifest)


def as_in_the_paper(row):
    n = json.loads(row.attack_spec).get("n")
    return 0.5 if n is None else 0.8 if n < 0 else 0.65


def verdicts(found, claim, victim="mine"):
    return [row.verdict.value for row in found if row.claim == claim and row.victim == victim]


@pytest.fixture(scope="module")
def run(made_up):
    return made_run(made_up)


@pytest.fixture(scope="module")
def found(run):
    return claims_of(with_texts(run, as_in_the_paper))


@pytest.fixture(scope="module")
def opposite(made_up):
    """Everything the other way round."""
    high = {"near": 20, "far": 60, "random": 80, "nearest": 60, "farthest": 20}
    run = made_run(made_up, high, peaked=False)
    return claims_of(with_texts(run, lambda row: 1.3 - as_in_the_paper(row)))


def test_a_run_like_the_paper_supports_its_claims(found):
    assert verdicts(found, 1) == ["supported"] * 2
    assert verdicts(found, 2) == ["supported"] * 6
    assert verdicts(found, 3) == ["supported"]
    assert verdicts(found, 4) == ["supported"] * 2
    assert verdicts(found, 5) == ["supported"] * 4
    assert verdicts(found, 6) == ["supported"] * 2
    assert verdicts(found, 9) == ["supported"]


def test_a_run_that_is_the_other_way_round_contradicts_them(opposite):
    assert verdicts(opposite, 2) == ["contradicted"] * 6
    assert verdicts(opposite, 4) == ["contradicted"] * 2
    over_random = [
        row.verdict.value
        for row in opposite
        if row.claim == 5 and row.statement.startswith("ASR of random")
    ]
    assert over_random == ["contradicted"] * 2
    # Of the two regimes the better is compared, and it is above DiscreteZOO.
    assert verdicts(opposite, 9) == ["supported"]
    # Names are planted by regime, not by success: what is planted stays.
    assert verdicts(opposite, 1) == ["supported"] * 2


@pytest.mark.release
def test_the_claim_about_discrete_zoo_says_whether_its_learning_rate_is_tuned(made_up):
    """PDWS flips 50 of 100; DiscreteZOO 30 with learning rate 10 and 70 with 1."""

    def outcome(i, spec):
        limit = {None: 50, 1.0: 70, 10.0: 30}[spec.get("learning_rate")]
        return 1 if rank(i) < limit else None

    def claims(*rates, **keys):
        zoos = {f"zoo {rate}": {**ZOO, "learning_rate": rate, **keys} for rate in rates}
        every = {**attacks(made_up, variants="exclude"), **zoos}
        run = made_up.MadeUp(every, outcome, n_items=105, wrong=5)
        return {row.claim: row for row in claims_of(arms(run)) if row.claim in (8, 9)}

    given = claims(10.0)
    assert given[9].statement == (
        "PDWS at its best n is above DiscreteZOO (its learning rate is given, not tuned)"
    )
    assert "DiscreteZOO (its learning rate is given, not tuned)" in given[8].statement
    assert given[9].verdict.value == "supported"
    assert given[9].quantity.endswith("minus DiscreteZOO, learning rate 10")
    tuned = claims(10.0, 1.0)
    assert tuned[9].statement == (
        "PDWS at its best n is above DiscreteZOO at its best learning rate"
    )
    assert tuned[9].verdict.value == "contradicted"
    assert tuned[9].quantity.endswith("minus DiscreteZOO, learning rate 1")
    # Both sides leave out the items on which n and the learning rate were chosen.
    assert tuned[9].effect.estimate.n == 100 - 20 == given[9].effect.estimate.n
    hard = claims(10.0, answers="hard")
    assert hard[9].statement.endswith("(answers alone: its learning rate has no effect)")


def test_close_is_an_equivalence_within_five_points(found):
    close = {(row.statement, row.budget): row.verdict.value for row in found if row.claim == 7}
    # Near reaches 60 or 75 %, B-nearest 60 %: five points away; far 20 or 35, B-farthest 80.
    assert close["B-farthest is close to PDWS n > 0", 1] == "contradicted"
    assert close["B-nearest is close to PDWS n < 0", 1] == "undecided"
    assert all(row.effect.p is None for row in found if row.claim == 7)


def test_close_is_supported_where_both_flip_the_same_items(made_up):
    same = claims_of(arms(made_run(made_up, {**HIGH, "farthest": 20}, peaked=False)))
    close = [row for row in same if row.claim == 7 and row.budget == 1]
    assert [row.verdict.value for row in close] == ["supported"] * 2
    # Where n does not matter, no local maximum is found and none is refused.
    peaks = [row for row in same if row.statement.startswith("ASR has a local")]
    assert {row.effect.estimate.method for row in peaks} == {"success is the same at every n"}


def test_chance_differences_are_undecided(made_up):
    high = {"near": 30, "far": 30, "random": 30, "nearest": 30, "farthest": 30}

    def outcome(i, spec):
        shift = 50 if (spec.get("n") or 0) > 0 else 0
        return 1 if (rank(i) + shift) % 100 < high["near"] else None

    every = attacks(made_up)
    rows = claims_of(arms(made_up.MadeUp(every, outcome, n_items=105, wrong=5)))
    assert verdicts(rows, 4) == ["undecided"] * 2


def test_what_is_missing_is_named(made_up):
    every = {"random": made_up.substitution("random", budget=8)}
    rows = claims_of(arms(made_up.MadeUp(every, lambda i, spec: 1 + i % 8)))
    reasons = {row.claim: row.effect.estimate.method for row in rows}
    assert reasons[1] == "no PDWS n < 0 and no PDWS n > 0 in this run"
    assert reasons[3] == "prompt similarity was not computed: [analysis] prompt_similarity"
    assert reasons[6] == "no PDWS n > 0 in this run"
    assert reasons[7] == "no B-farthest and no PDWS n > 0 in this run"
    assert reasons[8] == reasons[9] == "no DiscreteZOO in this run"
    told = [row for row in rows if row.verdict != Finding.NOT_TESTED]
    assert [(row.claim, row.verdict.value) for row in told] == [(11, "supported")]


def test_one_query_an_item_has_nothing_past_an_inflection(grid):
    rows = claims_of(arms(grid))
    past = {row.effect.estimate.method for row in rows if row.claim == 6}
    assert past == {"one query an item: there is nothing past an inflection"}
    assert {row.budget for row in rows if row.claim == 4} == {1}


# -- which arms stand together --------------------------------------------------------------------


@pytest.fixture(scope="module")
def marked(made_up):
    every = {
        **{f"marked {k}": v for k, v in attacks(made_up, variants="mark").items()},
        **attacks(made_up, variants="exclude"),
        "zoo": ZOO,
    }

    def outcome(i, spec):
        # With variants n < 0 does better, without them n > 0 does.
        near = (spec.get("n") or 0) < 0
        high = near == (spec.get("variants") == "mark")
        return 1 if rank(i) < (60 if high else 20) else None

    return made_up.MadeUp(every, outcome, n_items=105, wrong=5)


@pytest.mark.release
def test_arms_that_mark_variants_are_never_mixed_with_default_ones(marked):
    default, other = series_of(arms(marked))
    assert (default.label, other.label) == ("default", "marked")
    assert {arm.spec["variants"] for arm in default.arms} == {"exclude"}
    assert {arm.spec["variants"] for arm in other.arms} == {"mark"}
    rows = claims_of(arms(marked))
    judged = [(row.arms, row.verdict.value) for row in rows if row.claim == 4 and row.budget == 1]
    assert judged == [("default", "contradicted"), ("marked", "supported")]
    (lack,) = {
        row.effect.estimate.method for row in rows if row.arms == "marked" and row.claim == 9
    }
    assert lack == "no DiscreteZOO in this run under the rules marked"


def test_a_longer_run_of_the_same_attack_stands_for_both(made_up):
    every = {
        "short": made_up.substitution("pdws", -20.0, budget=1),
        "long": made_up.substitution("pdws", -20.0, budget=8),
        "far": made_up.substitution("pdws", 20.0, budget=8),
    }
    (series,) = series_of(arms(made_up.MadeUp(every, lambda i, spec: 1)))
    assert [arm.attack for arm in series.arms] == ["long", "far"]


def test_items_that_n_was_chosen_on_are_left_out(found):
    by_claim = {row.claim: row for row in found}
    # 105 items are eligible of the 110 that were answered; a fifth of these decide.
    assert 80 <= by_claim[9].effect.estimate.n <= 88
    assert "PDWS n = -20" in by_claim[9].quantity


# -- victims --------------------------------------------------------------------------------------


def victim(name, parameters, group):
    return {"name": name, "backend": "python", "parameters": parameters, "group": group}


def test_size_and_kind_are_tested_only_where_such_victims_were_run(made_up, found):
    victims = [
        *(victim(f"g{i}", 10.0 ** (8 + i), "generalist") for i in range(3)),
        *(victim(f"s{i}", 10.0 ** (8 + i), "specialist") for i in range(3)),
    ]
    every = {"random": made_up.substitution("random")}
    run = made_up.MadeUp(every, lambda i, spec: 1, n_items=205, wrong=5, victims=victims)
    levels = {"g0": 60, "g1": 41, "g2": 20, "s0": 22, "s1": 41, "s2": 62}
    trials = [
        replace(row, first_success=1 if rank(int(row.item_id[1:])) < levels[row.victim] else 2)
        for row in run.trials
    ]
    rows = claims_of(arms_of(run.summary, trials, run.manifest))
    judged = {row.statement: row.verdict.value for row in rows if row.victim == ALL_VICTIMS}
    assert judged == {
        "ASR falls with model size": "undecided",
        "ASR falls with the size of generalists": "supported",
        "ASR rises with the size of specialists": "supported",
        "Specialists are as robust as generalists": "undecided",
    }
    assert verdicts(found, 10, ALL_VICTIMS) == ["not tested"] * 4


# -- caution, p-values, files ---------------------------------------------------------------------


def test_every_row_of_a_guessing_victim_carries_the_caution(made_up, found):
    guessing = claims_of(arms(made_run(made_up, n_items=140, wrong=110)))
    mine = [row for row in guessing if row.victim == "mine"]
    assert mine
    for row in mine:
        assert "ASR cannot be told from guessing" in row.caution
    for row in guessing:
        assert row.caution or row.victim != "mine"
    assert {row.caution for row in found} == {""}


def test_p_values_are_adjusted_over_the_whole_table(found):
    known = [(row.effect.p, row.p_adjusted) for row in found if row.effect.p is not None]
    assert len(known) == 6  # claim 4 twice, 5 twice, 6 and 9 once
    ranked = sorted(known)
    expected, least = [], 1.0
    for i in range(len(ranked), 0, -1):
        least = min(least, ranked[i - 1][0] * len(ranked) / i)
        expected.append(least)
    assert [q for _, q in ranked] == pytest.approx(expected[::-1])
    assert all(row.p_adjusted is None for row in found if row.effect.p is None)


@pytest.mark.release
def test_the_csv_is_unrounded_and_says_what_was_not_tested(run):
    rows = claims_of(arms(run))
    made = {
        e.name: e
        for e in make_layout(XIAN, run.summary, run.trials, run.manifest, run.items, ["svg"])
    }
    lines = list(csv.DictReader(io.StringIO(made["claims"].files["claims.csv"].decode())))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert tuple(line) == claim_table.CLAIM_FIELDS
        assert line["verdict"] == row.verdict
        if row.verdict == Finding.NOT_TESTED:
            assert line["value"] == ""
            assert line["reason"]
        else:
            assert float(line["value"]) == row.effect.estimate.value
            assert line["method"]
            assert line["reason"] == ""


@pytest.mark.release
def test_the_tex_file_holds_a_closed_table_a_place(marked):
    made = {
        each.name: each
        for each in make_layout(
            XIAN, marked.summary, marked.trials, marked.manifest, marked.items, ["svg"]
        )
    }
    tex = made["claims"].files["claims.tex"].decode()
    for part in ("table", "tabular", "minipage"):
        assert tex.count(rf"\begin{{{part}}}") == tex.count(rf"\end{{{part}}}") == 4
    labels = [line for line in tex.splitlines() if line.startswith(r"\label")]
    assert len(set(labels)) == 4
    for line in tex.splitlines():
        if line.endswith(r"\\"):
            assert line.replace(r"\&", "").count("&") == 6
    assert r"n \ensuremath{<} 0" in tex
    assert "Not tested (no DiscreteZOO in this run under the rules marked)" in tex


@pytest.mark.release
def test_the_index_shows_the_claims_with_their_verdicts(run):
    made = list(make_layout(XIAN, run.summary, run.trials, run.manifest, run.items, ["svg"]))
    page = index(made, "made-up")
    section = page.partition("## Claims of the paper, tested\n")[2]
    assert "Files: claims.csv, claims.tex" in section
    assert "### mine · sample drugs · default arms" in section
    table = [line for line in section.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in table} == {8}
    assert any("| 4 | ASR is higher for n &lt; 0 than n > 0 | 1 |" in line for line in table)
    assert "Benjamini-Hochberg" in section


def test_tallies_leave_out_the_check_of_the_run(found):
    (said,) = [note for note in claim_table.notes_of(found) if "rows tested:" in note]
    counted = [row for row in found if row.claim != 11]
    n = sum(row.verdict == Finding.SUPPORTED for row in counted)
    tested = sum(row.verdict != Finding.NOT_TESTED for row in counted)
    assert said.startswith(f"{tested} rows tested: {n} supported,")


def test_a_run_that_tests_nothing_says_so(made_up):
    run = made_up.MadeUp({"random": made_up.substitution("random")}, lambda i, spec: 1)
    found = make_layout(XIAN, run.summary, run.trials, run.manifest, run.items, ["svg"])
    (claims,) = [each for each in found if each.name == "claims"]
    assert isinstance(claims, Skipped)
    assert not isinstance(claims, Made)
    assert "budget of 2" in claims.reason
