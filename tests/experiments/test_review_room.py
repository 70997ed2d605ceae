"""The review room: raters judge codes over HTTP, and what they say becomes validity."""

import csv
import json
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from asked import ask
from medstress.analyses import run as analyses
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.experiment.room import make_room, reviews_from
from medstress.report.room_pages import import_answers, routes
from medstress.report.view import protected
from medstress.stats.estimate import wilson
from medstress.store.chain import REVIEW_CHAIN, link
from medstress.store.reviews import ReviewStore
from rows import rows_of

QUESTIONS = ("key_right", "misleading", "plausible", "harmful")
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\U0001f600"


@pytest.fixture(scope="module")
def finished(workbench, tmp_path_factory):
    """A finished run whose labels are found in no text."""
    made = workbench.Bench(tmp_path_factory.mktemp("room"))
    made.tables["victim"][0]["name"] = "VICTIM-LABEL"
    made.tables["experiment"] |= {"name": "RUN-LABEL", "seeds": [0]}
    for table in made.tables["attack"]:
        table["label"] = f"ATTACK-{table['sampler']}"
    return made.finished().out


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


class Opened:
    """A room over HTTP, and its stored cases."""

    def __init__(self, folder, **keys):
        self.store = ReviewStore(folder)
        self.room = make_room(analyses.Run.open(folder), self.store, **keys)
        self.app = protected(routes(self.room, self.store), "secret")

    def post(self, path, body, **how):
        return ask(self.app, f"/secret/{path}", body, **how)

    def start(self, rater):
        status, text = self.post("start", {"rater": rater})
        assert status == 200, text
        return json.loads(text)

    def say(self, rater, case, note="", **answers):
        self.start(rater)
        body = {"rater": rater, "case": case, "answers": answers, "note": note}
        return self.post("verdict", body)

    @property
    def page(self):
        return ask(self.app, "/secret/")[1]

    @property
    def real(self):
        return sorted(name for name, one in self.room.records.items() if not one.get("control"))

    @property
    def planted(self):
        return {n: one["control"] for n, one in self.room.records.items() if one.get("control")}


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def judge_all(opened, rater, doubts=()):
    """Judge every case over HTTP: the truth of planted ones, yes else but for `doubts`."""
    opened.start(rater)
    for name in opened.room.cases:
        control = opened.planted.get(name)
        right = "no" if name in doubts or control == "wrong_key" else "yes"
        told = dict.fromkeys(QUESTIONS, "yes") | {"key_right": right}
        assert opened.say(rater, name, **told)[0] == 200


def test_two_raters_disagree_until_one_changes_an_answer(folder, capsys):
    opened = Opened(folder)
    n = len(opened.real)
    assert n >= 6
    doubted, refuted = opened.real[:2], opened.real[2]
    judge_all(opened, "Anna", [*doubted, refuted])
    judge_all(opened, "B. C.", [refuted])
    trials = {name: opened.room.records[name]["trials"] for name in opened.real}
    rows = {row.trial_id: row for row in rows_of(Run(folder))}
    for name, ids in trials.items():
        for trial in ids:
            expected = None if name in doubted else name != refuted
            assert (rows[trial].valid, rows[trial].validity_reason) == (expected, "review")
    found = Run(folder).summary()["review"]
    (key, *others) = found["judgements"]
    assert (key["n_cases"], key["n_split"]) == (n, 2)
    assert (key["yes"]["value"], key["yes"]["n"]) == ((n - 3) / (n - 2), n - 2)
    assert key["agreement"]["raw"]["value"] == pytest.approx((n - 2) / n)
    assert key["agreement"]["krippendorff"]["low"] <= key["agreement"]["krippendorff"]["value"] < 1
    # All said yes to the other three: there is nothing beyond chance to measure.
    assert {each["agreement"]["krippendorff"]["value"] for each in others} == {None}
    assert "alike" in others[0]["agreement"]["krippendorff"]["method"]
    assert found["controls"][0] == {
        "rater": "all", "control": "all", "right": found["controls"][0]["right"],
    }  # fmt: skip
    assert found["controls"][0]["right"]["value"] == 1.0
    names = json.dumps(found)
    assert "Anna" not in names
    assert "rater 1" in names
    # One of them reads the two cases again.
    judge_all(opened, "Anna", [refuted])
    rows = {row.trial_id: row for row in rows_of(Run(folder))}
    assert {rows[trial].valid for name in doubted for trial in trials[name]} == {True}
    pooled = [row for row in Run(folder).summary()["results"] if row["n_flipped"]]
    assert all(row["asr_valid"] for row in pooled)
    assert medstress_cli(["summary", str(folder), "--wide"]) == 0
    shown = capsys.readouterr().out
    assert "Krippendorff" in shown
    assert "another option marked" in shown
    assert "Anna" not in shown
    assert "How far raters agree" in shown


def test_nothing_on_the_page_tells_what_is_blinded(folder):
    for mode in ("judge", "answer"):
        opened = Opened(folder, mode=mode)
        page = opened.page
        secret = ["VICTIM-LABEL", "RUN-LABEL", "ATTACK-", "blake2b", "control_of", "unchanged"]
        secret += ["wrong_key", "pdws", "nearest", str(folder), "trial", "attacked"]
        text = page.lower().replace("clean and attacked", "")
        assert [word for word in secret if word.lower() in text] == []
        data = data_of(page)
        assert len({tuple(sorted(one)) for one in data["cases"]}) == 1
        assert [one["id"] for one in data["cases"]] == sorted(one["id"] for one in data["cases"])
        assert all(re.fullmatch("[0-9a-f]{12}", one["id"]) for one in data["cases"])
    # Without the key of the folder the codes cannot be computed.
    other = shutil.copytree(folder, folder.parent / "other")
    (other / "reviews.sqlite").unlink()
    again = Opened(other, mode="answer")
    assert not set(again.room.cases) & set(opened.room.cases)


def test_reviews_of_controls_name_their_item_and_no_trial(folder, tmp_path):
    opened = Opened(folder)
    judge_all(opened, "Anna")
    to = tmp_path / "reviews.jsonl"
    assert Run(folder).export("reviews", to)
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    planted = [row for row in rows if row["trial_id"] is None]
    assert sorted(row["case_id"] for row in planted) == sorted(opened.planted)
    assert all(row["control_of"].startswith("cases/q") for row in planted)
    others = [row for row in rows if row["trial_id"]]
    assert {row["control_of"] for row in others} == {None}
    assert {row["key_right"] for row in others} == {"yes"}


def test_a_verdict_is_replaced_by_a_later_one_and_read_back_by_its_rater_alone(folder):
    opened = Opened(folder)
    case = opened.real[0]
    assert opened.say("Anna", case, note=HOSTILE, key_right="no")[0] == 200
    assert opened.say(" anna ", case, note=HOSTILE, key_right="yes")[0] == 200
    assert opened.start("ANNA")["saved"] == {
        case: {"answers": {"key_right": "yes"}, "note": HOSTILE}
    }
    assert opened.start("Bob")["saved"] == {}
    assert [opened.start(who)["number"] for who in ("ANNA", "Bob", "anna")] == [0, 1, 0]
    assert HOSTILE not in Opened(folder).page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"case": "0" * 12}, "no case"),
        ({"rater": ""}, "name or initials"),
        ({"rater": "a" * 61}, "60 characters"),
        ({"answers": {"key_right": "maybe"}}, "yes, no, cannot say"),
        ({"answers": {"control": "unchanged"}}, "key_right"),
        ({"answers": {}}, "expected an answer or a note"),
        ({"rater": "B"}, "B has not started"),
        ({"rater": "A\ud800"}, "name or initials"),
        ({"note": "x" * 4001}, "4000"),
    ],
)
def test_a_wrong_verdict_is_refused_in_one_sentence(folder, change, words):
    opened = Opened(folder)
    opened.start("A")
    body = {"rater": "A", "case": opened.real[0], "answers": {"key_right": "yes"}, "note": ""}
    status, text = opened.post("verdict", body | change)
    assert (status, words in text) == (400, True), text
    assert opened.store.reviews() == []


def test_only_the_page_itself_is_answered(folder):
    opened = Opened(folder)
    body = {"rater": "A"}
    assert ask(opened.app, "/start", body)[0] == 404
    assert opened.post("start", body, host="evil.example")[0] == 400
    assert opened.post("start", body, origin="http://evil.example")[0] == 403
    assert opened.post("start", body, content_type="text/plain")[0] == 415
    assert ask(opened.app, "/secret/start", raw=b"{")[0] == 400
    assert ask(opened.app, "/secret/start", raw=b"[" * 70_000)[0] == 413
    assert ask(opened.app, "/secret/start", raw=b"[]")[0] == 400


def answers_of(opened, rater, *, time="2026-01-31T09:30:00+00:00", **answers):
    verdicts = [
        {"case": name, "answers": answers, "note": "", "time": time} for name in opened.room.cases
    ]
    return {"format": 1, "room": opened.room.id, "rater": rater, "verdicts": verdicts}


def test_one_file_goes_out_and_its_answers_come_back_once(folder, tmp_path, capsys):
    page = tmp_path / "room.html"
    arguments = ["review", str(folder), "--sample", "4"]
    assert medstress_cli([*arguments, "--export", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "connect-src 'none'" in text
    assert "VICTIM-LABEL" not in text
    opened = Opened(folder, sample=4)
    assert data_of(text)["room"] == opened.room.id
    sent = tmp_path / "anna.json"
    sent.write_text(json.dumps(answers_of(opened, "Anna", key_right="yes")))
    n = len(opened.room.cases)
    for n_new in (n, 0):
        assert medstress_cli(["review", str(folder), "--import", str(sent)]) == 0
        assert f"{n} answers read, {n_new} new" in capsys.readouterr().out
    assert {review.reviewer for review in opened.store.reviews()} == {"Anna"}
    # An older answer does not replace a newer one.
    old = answers_of(opened, "anna", time="2025-01-31T09:30:00+02:00", key_right="no")
    sent.write_text(json.dumps(old))
    assert medstress_cli(["review", str(folder), "--import", str(sent)]) == 0
    assert {review.answers["key_right"] for review in opened.store.reviews()} == {"yes"}


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        ("judge", "json_set(body, '$.cases[0].item', 'none')"),
        ("judge", "replace(body, '\"at\"', '\"pair\"')"),
        ("answer", "json_remove(body, '$.cases[0].pair')"),
        ("answer", "json_remove(body, '$.cases[0]')"),
    ],
)
def test_a_room_that_was_not_written_like_this_ends_in_a_sentence(
    folder, tmp_path, capsys, mode, change
):
    """Values of the right types, and every digest fits."""
    sent = tmp_path / "anna.json"
    sent.write_text(json.dumps(answers_of(Opened(folder, mode=mode), "Anna")))
    with closing(sqlite3.connect(folder / "reviews.sqlite")) as db, db:
        db.execute(f"UPDATE rooms SET body = {change}")
        db.execute("DELETE FROM commits")
        link(db, REVIEW_CHAIN)
    page = str(tmp_path / "room.html")
    for wish in (["--import", str(sent)], ["--mode", mode, "--export", page]):
        assert medstress_cli(["review", str(folder), *wish]) == 2
        assert "this is a bug" not in capsys.readouterr().err
    assert medstress_cli(["summary", str(folder)]) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Download"),
        ({"room": "0" * 12}, "was not made from"),
        ({"verdicts": [1]}, "verdict 1"),
        ({"verdicts": [{"case": "x", "answers": {}, "time": "now"}]}, "time"),
        ({"verdicts": [{"case": "x", "answers": {}, "time": "2999-01-01T00:00Z"}]}, "has passed"),
        ({"rater": None}, "name or initials"),
    ],
)
def test_a_file_that_no_page_gave_is_refused_and_nothing_stored(folder, tmp_path, content, words):
    opened = Opened(folder, sample=4)
    given = answers_of(opened, "Anna", key_right="yes")
    path = tmp_path / "answers.json"
    text = content if isinstance(content, str) else json.dumps(given | content)
    path.write_text(text)
    run = analyses.Run.open(folder)
    with pytest.raises(UsageError) as error:
        import_answers(run, opened.store, path)
    assert words in str(error.value)
    assert opened.store.reviews() == []


def test_people_answer_each_item_once_clean_or_attacked(folder):
    opened = Opened(folder, mode="answer", sample=8)
    pairs = opened.room.public()["pairs"]
    assert len(pairs) == 8
    kinds = [[opened.room.records[name]["shown"] for name in pair] for pair in pairs]
    # Whoever takes the first of each pair sees half of them clean; the next rater the others.
    assert Counter(first for first, _ in kinds) == {"clean": 4, "attacked": 4}
    assert all({*pair} == {"clean", "attacked"} for pair in kinds)
    assert "key" not in opened.room.public()["cases"][0]
    for number, rater in enumerate(("Anna", "Bob")):
        for pair in pairs:
            case = opened.room.cases[pair[number]]
            # Bob is always right, Anna never about an attacked item.
            wrong = next(letter for letter in case.letters if letter != case.key)
            is_attacked = opened.room.records[pair[number]]["shown"] == "attacked"
            letter = wrong if rater == "Anna" and is_attacked else case.key
            assert opened.say(rater, pair[number], answer=letter)[0] == 200
    status, text = opened.say("Anna", pairs[0][1], answer="A")
    assert (status, "another version" in text) == (400, True)
    assert opened.say("Anna", pairs[0][0], answer="Z")[0] == 400
    saved = opened.start("Anna")["saved"]
    assert {tuple(each["answers"]) for each in saved.values()} == {("answer",)}
    found = Run(folder).summary()["review"]["answers"]
    assert found["n_items"] == 8
    assert (found["people"]["clean"]["value"], found["people"]["attacked"]["value"]) == (1, 0.5)
    # Both together answered eight different items clean.
    assert found["people"]["clean"]["low"] == pytest.approx(wilson(8, 8).low)
    assert found["models"]["clean"]["value"] == 1.0
    rows = {row.trial_id: row for row in rows_of(Run(folder))}
    held = [rows[one["trials"][0]].verdict != "flipped" for one in opened.room.body["cases"]]
    assert found["models"]["attacked"]["value"] == pytest.approx(sum(held) / len(held))
    # What people answer is no verdict on validity.
    assert {row.validity_reason for row in rows.values()} & {"review"} == set()


def test_a_filled_table_and_the_room_are_one_set_of_reviews(folder, tmp_path, capsys):
    path = tmp_path / "room.csv"
    assert medstress_cli(["review", str(folder), "--export", str(path)]) == 0
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    opened = Opened(folder)
    case = opened.real[0]
    assert opened.say("AB", case, key_right="yes")[0] == 200
    for row in rows:
        if row["case"] == case:
            row |= {"reviewer": "CD", "key_right": "No", "harmful": "cannot say", "note": "odd"}
    with path.open("w", newline="") as stream:  # as other spreadsheets write it
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    for n in (1, 0):
        assert medstress_cli(["review", str(folder), "--import", str(path)]) == 0
        assert f"1 answer read, {n} new" in capsys.readouterr().out
    trials = opened.room.records[case]["trials"]
    found = {row.trial_id: row for row in rows_of(Run(folder))}
    assert {(found[one].valid, found[one].validity_reason) for one in trials} == {(None, "review")}
    mine = next(one for one in opened.store.reviews() if one.reviewer == "CD")
    assert (dict(mine.answers), mine.note) == ({"key_right": "no", "harmful": "cannot say"}, "odd")


def test_cannot_say_alone_says_nothing_and_beside_a_word_it_is_a_disagreement(folder):
    opened = Opened(folder)
    first, second = opened.real[:2]
    trial = {name: opened.room.records[name]["trials"][0] for name in (first, second)}
    before = {row.trial_id: row for row in rows_of(Run(folder))}
    opened.say("A", first, key_right="cannot say")
    opened.say("A", second, key_right="cannot say")
    opened.say("B", second, key_right="yes")
    after = {row.trial_id: row for row in rows_of(Run(folder))}
    looked = after[trial[first]].evidence
    assert [one["valid"] for one in looked if one["kind"] == "people"] == [None]
    assert vars(after[trial[first]]) == vars(before[trial[first]]) | {"evidence": looked}
    assert (after[trial[second]].valid, after[trial[second]].validity_reason) == (None, "review")


def test_the_same_text_under_two_arms_is_judged_once(folder):
    opened = Opened(folder)
    rows = {row.trial_id: row for row in rows_of(Run(folder))}
    several = [one["trials"] for one in opened.room.body["cases"] if len(one["trials"]) > 1]
    seen = [
        (rows[t].item_id, str(rows[t].edits))
        for each in opened.room.records.values()
        for t in each["trials"]
    ]
    assert len(opened.real) == len(set(seen))
    for trials in several:
        assert len({(rows[t].item_id, str(rows[t].edits)) for t in trials}) == 1
    given = {"case": opened.real[0], "answers": {"key_right": "yes"}, "note": ""}
    made = reviews_from(opened.room, given, "A", "2026-01-01T00:00:00+00:00", "here")
    assert [one.trial_id for one in made] == opened.room.records[opened.real[0]]["trials"]
