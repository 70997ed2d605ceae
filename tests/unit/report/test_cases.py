"""Cases of made-up rows: their ids, what a page holds of them, how they are listed and found."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.report.cases import embedding
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import choose, is_success, ranked, short_ids
from medstress.report.cases.embedding import embed
from medstress.report.cases.finding import find_trial, others_of_item
from medstress.report.cases.listing import SORTS, Wish, facets, line_of, wished
from medstress.report.cases.packing import as_script
from medstress.report.cases.page import render_cases
from medstress.results.names import Names

HEX = "0123456789abcdef"


def trial_id(i: int) -> str:
    return "blake2b-128:" + "".join(random.Random(i).choices(HEX, k=32))


@pytest.fixture
def rows(samples):
    return [replace(row, trial_id=trial_id(i)) for i, row in enumerate(samples.trials())]


@pytest.fixture
def cases(rows):
    return Cases(rows, Names(attacks={"pdws near": "near names"}))


def data_of(held):
    return json.loads(held.script)


def test_the_choice_is_even_over_the_attacks(samples):
    trials = [samples.trial(i, attack="common") for i in range(500)]
    trials += [samples.trial(i, attack="rare", trial_id=f"r{i}") for i in range(7)]
    trials += [samples.trial(i, attack="other", trial_id=f"o{i}") for i in range(300)]
    chosen = Counter(trial.attack for trial in choose(trials, 200, "salt"))
    assert chosen == {"rare": 7, "common": 97, "other": 96}


def test_the_choice_does_not_depend_on_the_order_of_the_trials(samples):
    trials = [samples.trial(i) for i in range(60)]
    shuffled = random.Random(0).sample(trials, len(trials))
    assert ranked(trials, "salt") == ranked(shuffled, "salt")
    assert choose(trials, 10, "salt") != choose(trials, 10, "pepper")


def test_controls_that_flip_are_no_successes(samples):
    assert not is_success(samples.trial(0, arm="repeat"))
    assert is_success(samples.trial(1))


def test_short_ids_begin_the_hash_and_stay_when_the_run_grows():
    ids = [trial_id(i) for i in range(50)]
    assert short_ids(ids)[:10] == short_ids(ids[:10]) == [i[12:24] for i in ids[:10]]
    assert len(set(short_ids(["a:1", "2", "💊", *ids]))) == 53


def test_ids_that_begin_alike_stay_whole():
    alike = [f"blake2b-128:{0:016x}{i:016x}" for i in range(3)]
    assert short_ids(alike) == [each[12:] for each in alike]


def test_a_record_of_a_row_alone_says_what_it_lacks(cases, rows):
    flipped, held = cases.record(rows[0]), cases.record(rows[24])
    assert (flipped.shown_before, flipped.left_out) == (rows[0].listing_before, ())
    assert held.shown_before is None
    assert len(held.left_out) == 1
    assert json.loads(json.dumps(flipped.as_json()))["attack"]["key"] == rows[0].attack


def test_a_page_of_a_small_run_holds_every_case_with_its_texts_once(cases, rows):
    held = embed(cases, "salt")
    data = data_of(held)
    assert len(data["rows"]) == len(rows)
    assert all(data["details"])
    assert sum(rows[0].listing_before == text for text in data["texts"]) == 1
    place = data["columns"].index("id")
    i = [row[place] for row in data["rows"]].index(cases.ids[rows[0].trial_id])
    text, changes = data["details"][i]["shown"]
    assert data["texts"][text] == rows[0].listing_before
    assert [added for _, _, added in changes] == [0]  # the list has the name
    assert held.script == embed(cases, "salt").script


@pytest.mark.parametrize("budget", [300_000, 60_000, 20_000, 9_000, 4_000, 1])
def test_parts_are_left_out_before_cases_and_no_page_is_too_large(samples, budget):
    rows = [samples.trial(i, trial_id=trial_id(i)) for i in range(100)]
    held = embed(Cases(rows, Names()), "salt", budget)
    data = data_of(held)
    assert len(held.script.encode()) <= budget * 1.1 + 3_000  # the filters and words beside them
    assert len(data["rows"]) == len(data["details"]) == len(held.trials)
    if len(held.trials) < 100:
        assert not any(data["details"])
    if budget >= 60_000:
        assert all("left_out" not in detail for detail in data["details"])
    else:
        assert any("medstress case" in note for note in held.notes) or len(held.trials) < 100


def test_a_large_run_shows_all_successes_and_a_seeded_sample_of_the_rest(samples, monkeypatch):
    monkeypatch.setattr(embedding, "ALL_WITHIN", 100)
    monkeypatch.setattr(embedding, "REST", 30)
    rows = [samples.trial(i, trial_id=trial_id(i)) for i in range(80)]
    for i in range(80, 400):
        verdict = Verdict.HELD if i % 10 else Verdict.FAILED
        rows.append(samples.trial(i, trial_id=trial_id(i), verdict=verdict))
    held = embed(Cases(rows, Names()), "salt")
    assert Counter(row.verdict for row in held.trials) == {
        Verdict.FLIPPED: 80,
        Verdict.HELD: 15,
        Verdict.FAILED: 15,
    }
    assert "80 of 80 successes" in held.notes[0]
    assert "30 of the 320 other" in held.notes[0]
    shuffled = Cases(random.Random(3).sample(rows, len(rows)), Names())
    assert embed(shuffled, "salt").trials == held.trials
    assert embed(Cases(rows, Names()), "pepper").trials != held.trials


def test_no_text_ends_the_script_that_holds_it(samples):
    _, rows, _ = samples.hostile()
    html = render_cases(Cases(rows, Names()), "salt").html
    data = html[html.index('id="case-data">') : html.rindex("</script>")]
    assert "<" not in data.removeprefix('id="case-data">')
    assert "<img" not in html
    assert json.loads(as_script({"a": "</script>\u2028"})) == {"a": "</script>\u2028"}


def test_an_empty_run_shows_a_sentence():
    html = render_cases(Cases([], Names()), "salt").html
    assert "No trial has ended yet." in html
    assert "No attack succeeded." in html
    assert "<script" not in html


def list_of(cases, rows, **wish):
    lines = [line_of(cases, row) for row in rows]
    return wished(lines, Wish(**wish), lambda i: f"question {i} ends", cases.names.of)


def test_the_list_is_filtered_searched_and_sorted(cases, rows):
    lines = [line_of(cases, row) for row in rows]
    counts = {factor: dict(values) for factor, values in facets(lines).items()}
    assert counts["verdict"] == {"flipped": 24, "held": 10, "already_wrong": 4, "failed": 2}
    assert len(list_of(cases, rows, filters={"verdict": "held"})) == 10
    near = list_of(cases, rows, filters={"attack": "pdws near", "verdict": "flipped"})
    assert len(near) == 8
    assert len(list_of(cases, rows, search="NEAR  names")) == sum(
        row.attack == "pdws near" for row in rows
    )
    assert [line["id"] for line in list_of(cases, rows, search="question 7 ends")] == [
        cases.ids[rows[7].trial_id]
    ]
    assert list_of(cases, rows, search="no such text") == []
    guesses = list_of(cases, rows, filters={"confidence": "below .5"})
    assert all(line["confidence"] < 0.5 for line in guesses)
    rising = [line["confidence"] for line in list_of(cases, rows, sort="confidence")]
    assert rising == sorted(rising)
    falling = list_of(cases, rows, sort="confidence", descending=True)
    assert [line["confidence"] for line in falling] == rising[::-1]
    assert all(len(list_of(cases, rows, sort=sort)) == len(rows) for sort in SORTS)
    assert [line["verdict"] for line in list_of(cases, rows)][:24] == ["flipped"] * 24


def test_a_case_is_found_by_every_name_that_is_its_own(cases, rows):
    row = rows[3]
    bare = row.trial_id.partition(":")[2]
    for asked in (row.trial_id, bare, bare[:12], bare[:8], row.trial_id[:20]):
        assert find_trial(cases, asked) is row
    alone = Cases([rows[0], rows[1]], Names())
    assert find_trial(alone, rows[1].item_id) is rows[1]


def test_an_item_means_its_attack_where_controls_stand_beside(rows):
    attack = replace(rows[0], item_id="q1", arm="attack")
    control = replace(rows[1], item_id="q1", arm="harmless_edits")
    cases = Cases([control, attack, rows[2]], Names())
    assert find_trial(cases, "q1") is attack
    told = others_of_item(cases, attack, "q1")
    assert cases.ids[control.trial_id] in told
    assert cases.ids[attack.trial_id] not in told
    assert others_of_item(cases, attack, attack.trial_id) == ""


@pytest.mark.parametrize("asked", ["q001", "zz\x1b[31m", "q0"])
def test_what_fits_none_or_several_names_up_to_five_candidates(cases, asked, said):
    with pytest.raises(UsageError) as error:
        find_trial(cases, asked)
    said(str(error.value), repr(asked)[1:3])
    assert 1 <= str(error.value).count(", item q") <= 5


def test_candidates_are_told_apart_by_all_that_a_trial_has(cases, rows):
    with pytest.raises(UsageError) as error:
        find_trial(cases, "blake2b-128:")
    first = min(rows, key=lambda row: (row.verdict.value != "flipped", row.trial_id))
    told = str(error.value)
    assert f"on {first.group} of {first.victim}, seed {first.seed}, item {first.item_id}" in told
    assert "medstress export DIR --to trials.csv lists all trials" in told


def test_an_empty_case_is_refused_in_one_sentence(cases, said):
    with pytest.raises(UsageError) as error:
        find_trial(cases, "")
    said(str(error.value), "''")
    assert "got an empty text" in str(error.value)


def test_a_run_without_trials_has_no_case(said):
    with pytest.raises(UsageError) as error:
        find_trial(Cases([], Names()), "q1")
    said(str(error.value), "'q1'")
