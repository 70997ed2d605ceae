"""`medstress verify` names the first thing about a folder that is not as it was measured."""

import json
import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from forged import rebuild
from medstress.analyses.run import Run as StoredRun
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.cli.app import medstress_cli
from medstress.core.calls import StoredCall
from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import Mention, Question
from medstress.core.resources import Resources
from medstress.engine.trial import Trial
from medstress.entities.alike import NameRules
from medstress.entities.vocabularies import SynonymGroups
from medstress.experiment.kept_summary import keep_summary
from medstress.experiment.prepare import prepare
from medstress.experiment.room import make_room, reviews_from
from medstress.experiment.verify import OTHERWISE, odd_edits, verify_folder
from medstress.store.chain import REVIEW_CHAIN, RUN_CHAIN, finish, keep_root, link
from medstress.store.reader import RunReader
from medstress.store.reviews import ReviewStore

FILE = "run.sqlite"
NOON = "2026-01-31T12:00:00+00:00"


NOT_SHIPPED = (
    "vocabulary = 'names.txt' does not ship with medstress; name the experiment with --experiment"
)


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """A complete run with a control arm and transfer, as its bench."""
    bench = workbench.Bench(tmp_path_factory.mktemp("verified"))
    bench.tables["experiment"]["controls"] = ["no_op"]
    bench.tables["attack"] = bench.tables["attack"][:2]
    bench.tables["analysis"] = {"transfer": True}
    bench.tables["victim"] += [{**bench.tables["victim"][0], "name": "other", "version": "2"}]
    bench.write_items(workbench.questions(6))
    return bench.finished()


@pytest.fixture(scope="module")
def own(made):
    """The experiment of the run, as a user names it."""
    return prepare(made.root / "experiment.toml")


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made.out, tmp_path / "copy")


def change(folder, *statements):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for each in statements:
            db.execute(each)


def query(folder, text):
    with closing(sqlite3.connect(folder / FILE)) as db:
        return db.execute(text).fetchone()


def told(folder, **given):
    """The first thing that does not agree, as text."""
    return str(verify_folder(folder, **given).broken)


def test_a_folder_as_it_was_written_verifies_and_every_trial_is_judged_again(copy, capsys):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    found = verify_folder(copy)
    assert found.holds
    assert (found.n_judged, found.root) == (96, json.loads(before["summary.json"])["root"])
    assert list(found.why) == [NOT_SHIPPED]
    assert medstress_cli(["verify", str(copy)]) == 0
    capsys.readouterr()
    assert medstress_cli(["verify", str(copy), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is True
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


FORGED = {
    "one changed row": (
        "UPDATE verdicts SET verdict = 'held' WHERE id = (SELECT MIN(id) FROM verdicts "
        "WHERE verdict = 'flipped')",
        "table verdicts, row",
    ),
    "one removed answer": ("DELETE FROM answers WHERE id = 7", "table answers, row 7"),
    "one added trial": (
        "INSERT INTO trials SELECT MAX(id) + 1, 'forged', 1, 1, 9, 1 FROM trials",
        "table trials, row 121: expected the chain's last row 120",
    ),
    "two swapped answers": (
        "UPDATE answers SET body = CASE id WHEN 1 THEN (SELECT body FROM answers WHERE id = 2) "
        "ELSE (SELECT body FROM answers WHERE id = 1) END, seconds = 0 WHERE id IN (1, 2)",
        "table commits, row",
    ),
    "a changed edit": (
        "UPDATE exchanges SET edits = replace(edits, 'a', 'e') WHERE trial = 1 AND seq = 1",
        "table exchanges, row 1: expected digest",
    ),
    "a changed plan": (
        "UPDATE manifest SET value = '4' WHERE key = 'n_planned'",
        "table commits, row 1",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_changed_is_named(copy, name):
    script, expected = FORGED[name]
    change(copy, script)
    assert expected in told(copy)


def test_the_command_names_what_was_changed(copy, capsys):
    script, expected = FORGED["one removed answer"]
    change(copy, script)
    assert medstress_cli(["verify", str(copy)]) == 2
    assert expected in "".join(capsys.readouterr())
    assert medstress_cli(["verify", str(copy), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["broken"]["table"] == "answers"


FLIPPED = "(SELECT MIN(trial) FROM verdicts WHERE verdict = 'flipped')"
HELD = "(SELECT MIN(trial) FROM verdicts WHERE verdict = 'held')"
LAST = f"(SELECT MAX(seq) FROM exchanges WHERE trial = {HELD})"
LAST_ASKED = "(SELECT MAX(id) FROM trials)"
"""The last follow-up."""
REBUILT = {
    "a verdict": (
        f"UPDATE verdicts SET verdict = 'held' WHERE trial = {FLIPPED}",
        "expected flipped, found held",
    ),
    "the reading of an answer": (
        "UPDATE verdicts SET result = json_set(result, '$.before[0]', 'D') "
        "WHERE json_extract(result, '$.before[0]') = 'A'",
        "expected before",
    ),
    "the validity of a success": (
        "UPDATE verdicts SET result = json_set(result, '$.valid', json('true')) "
        "WHERE verdict = 'flipped'",
        "expected valid null, found true",
    ),
    "a trial that was asked and is called not attackable": (
        f"UPDATE verdicts SET verdict = 'not_attackable', result = json('{{\"note\":\"no\"}}') "
        f"WHERE trial = {HELD}",
        "expected n_asked 5, found None",
    ),
    "a trial that was not asked and is called held": (
        "UPDATE verdicts SET verdict = 'held' WHERE verdict = 'not_attackable'",
        "expected call 0 with a further call, found none",
    ),
    "the edit of a query": (
        "UPDATE exchanges SET edits = replace(edits, 'a', 'e') WHERE trial = 1 AND seq = 1",
        "table exchanges, row 1: expected call 1 with key",
    ),
    "the role of a call": (
        f"UPDATE exchanges SET role = 'judge' WHERE trial = {HELD} AND seq = 0",
        "expected call 0 with role victim, found judge",
    ),
    "a failure": (
        "UPDATE exchanges SET error = 'timed out', key = (SELECT key FROM answers "
        f"WHERE id = answer), answer = NULL WHERE trial = {HELD} AND seq = 2",
        "expected call 3 with no further call, found attack of victim",
    ),
    "a further call": (
        "INSERT INTO exchanges SELECT trial, attempt, seq + 1, role, 'flip_check', query, call, "
        f"answer, key, edits, flags, request, error FROM exchanges WHERE trial = {HELD} "
        f"AND seq = {LAST}",
        "expected call 6 with no further call, found flip_check of victim",
    ),
    "a request in full": (
        'UPDATE exchanges SET request = \'[["choose","What?","ABCD"],0]\' '
        "WHERE trial = 1 AND seq = 0",
        "expected call 0 with request none",
    ),
    "an item": (
        "UPDATE items SET body = replace(body, 'treats', 'cures') WHERE id = 1",
        "table items, row 1: expected 'q0' blake2b-128:",
    ),
    "an added trial": (
        "INSERT INTO trials SELECT MAX(id) + 1, 'forged', 1, 1, 9, 1 FROM trials;"
        "INSERT INTO verdicts SELECT MAX(id) + 1, 121, 'not_attackable', '{}', x'', x'' "
        "FROM verdicts",
        "table trials, row 121: expected a trial of the plan, found one of random on item 'q0'",
    ),
    "the arm of a trial": (
        "UPDATE trials SET arm = 2 WHERE id = 1",
        "table arms, row 1: expected the arm",
    ),
    "a planned attack": (
        "UPDATE arms SET spec = replace(spec, '\"budget\":5', '\"budget\":6')",
        "expected attack",
    ),
    "what a control is of": (
        "UPDATE manifest SET value = json_set(value, '$.\"random / no_op\".control_of', NULL) "
        "WHERE key = 'records'",
        "expected records: control_of of 'random / no_op' \"random\", found null",
    ),
    "whether people judge an attack": (
        "UPDATE manifest SET value = json_set(value, '$.pdws.judged', json('false')) "
        "WHERE key = 'records'",
        "manifest: expected records: judged of 'pdws' true, found false",
    ),
    "the hash of an item": (
        "UPDATE items SET hash = 'blake2b-128:0' WHERE id = 3",
        "table items, row 3: expected 'q2' blake2b-128:",
    ),
    "a prompt": (
        "UPDATE manifest SET value = replace(value, '[Question]', '[FORGED]') "
        "WHERE key = 'victims'",
        "expected prompt of 'careful' blake2b-128:",
    ),
    "a fingerprint": (
        "UPDATE manifest SET value = '\"0\"' WHERE key = 'fingerprint'",
        "expected fingerprint",
    ),
    "a follow-up's finding": (
        "UPDATE verdicts SET result = json_set(result, '$.reached', json('false')) "
        "WHERE verdict = 'asked' AND json_extract(result, '$.reached') = 1",
        "expected reached true, found false",
    ),
    "what a follow-up asked": (
        "UPDATE exchanges SET edits = replace(edits, 'a', 'e') WHERE purpose = 'transfer'",
        "expected call 0 with edits",
    ),
    "what a follow-up says of its edits, with its finding": (
        "UPDATE verdicts SET result = json_set(result, '$.told.edits', "
        "json_extract(result, '$.told.edits') || ' ', '$.reached', json('false')) "
        "WHERE verdict = 'asked' AND json_extract(result, '$.reached') = 1",
        "expected what makes the id blake2b-128:",
    ),
    "why a follow-up was asked": (
        "UPDATE verdicts SET result = json_set(result, '$.purpose', 'transfex') "
        "WHERE verdict = 'asked'",
        "expected a purpose of transfer, reuse, test, judge, explain, found transfex",
    ),
    "a removed follow-up": (
        f"DELETE FROM verdicts WHERE trial = {LAST_ASKED};"
        f"DELETE FROM exchanges WHERE trial = {LAST_ASKED};"
        f"DELETE FROM trials WHERE id = {LAST_ASKED}",
        "expected a follow-up (transfer) that ",
    ),
}


@pytest.mark.parametrize("name", REBUILT)
def test_where_all_digests_were_made_again_the_replay_tells(copy, name):
    kept = json.loads((copy / "summary.json").read_text("utf-8"))["root"]
    script, expected = REBUILT[name]
    rebuild(copy, *script.split(";"))
    assert expected in told(copy)
    if name != "a fingerprint":  # it follows from the plan
        assert f"expected root {kept}" in told(copy, root=kept)


OF_ANOTHER_KIND = {
    "controls.left_out.pdws": """'{"left_out": {"pdws": "x"}}'""",
    "endpoints[0].victim": """'[{"name": "x"}]'""",
    "groups.drugs.n_names": "json_set(value, '$.drugs.n_names', 'x')",
    "n_planned": """'"x"'""",
}


@pytest.mark.parametrize("place", OF_ANOTHER_KIND)
def test_what_a_manifest_holds_of_another_kind_is_no_bug_of_medstress(copy, capsys, place):
    key = re.split(r"\W", place)[0]
    rebuild(copy, f"UPDATE manifest SET value = {OF_ANOTHER_KIND[place]} WHERE key = '{key}'")
    for command in ("summary", "case", "verify"):
        assert medstress_cli([command, str(copy)]) == 2
        said = capsys.readouterr().err
        assert f"{place} of the manifest is missing or of another kind" in said
        assert said.count("\n") == 1


def test_a_follow_up_that_was_stopped_is_told_from_one_about_something_else(copy):
    rebuild(copy, f"DELETE FROM verdicts WHERE trial = {LAST_ASKED}")
    found = verify_folder(copy)
    assert (found.broken, found.why["a follow-up: not finished"]) == (None, 1)


def test_a_follow_up_that_a_retry_began_and_another_replaced_is_called_so(copy):
    rebuild(
        copy,
        "INSERT INTO trials (trial_id, arm, item, repeat, place) "
        f"SELECT trial_id || '0', arm, item, repeat, place FROM trials WHERE id = {LAST_ASKED}",
        "UPDATE manifest SET key = 'superseded', value = (SELECT json_array(trial_id) FROM trials "
        f"WHERE id = {LAST_ASKED}) WHERE key = 'root'",
    )
    found = verify_folder(copy)
    assert (found.broken, found.why["a follow-up: another has replaced it"]) == (None, 1)


def test_how_many_rows_were_read_is_held_against_the_data_that_the_user_names(copy, own):
    rebuild(
        copy,
        "UPDATE manifest SET value = json_set(value, '$.cases.n_items', 160) "
        "WHERE key = 'datasets'",
    )
    assert "expected datasets: n_items of 'cases' 6, found 160" in told(copy, own=own)


def test_a_run_with_a_root_is_complete(copy):
    """What the summary says of it is no part of the root."""
    rebuild(copy, "UPDATE manifest SET value = 'false' WHERE key = 'complete'")
    assert "expected complete, as a run with a root is, found False" in told(copy)


def test_fewer_trials_than_there_are_are_named_whatever_victims_the_experiment_names(copy):
    """Neither is part of the root."""
    kept = verify_folder(copy).root
    rebuild(
        copy,
        "UPDATE manifest SET value = json_remove(value, '$.victim[1]') WHERE key = 'config'",
        "UPDATE manifest SET value = '95' WHERE key = 'n_planned'",
    )
    assert "expected 95 trials with a verdict, found 96" in told(copy, root=kept)


def test_who_rewrites_everything_alike_is_caught_by_the_root_that_stands_elsewhere(copy):
    kept = verify_folder(copy).root
    with closing(sqlite3.connect(copy / FILE)) as db:
        wrong = db.execute(
            "SELECT v.trial, e.answer FROM verdicts v JOIN exchanges e ON e.trial = v.trial "
            "WHERE v.verdict = 'unreadable' AND e.seq = 0"
        ).fetchall()
    # An unreadable reply becomes another one, in the answers and in all that is said of it.
    rebuild(
        copy,
        *(
            f"UPDATE answers SET body = replace(body, 'idea', 'clue') WHERE id = {a}"
            for _, a in wrong
        ),
        "UPDATE verdicts SET result = replace(result, 'no idea', 'no clue')",
        "UPDATE answers SET body = replace(body, 'idea', 'clue')",
    )
    found = verify_folder(copy)
    assert found.broken is None, "it is alike in itself"
    assert found.root != kept
    assert f"expected root {kept}" in told(copy, root=kept)


def test_what_is_no_part_of_the_root_is_part_of_the_chain(copy):
    kept = verify_folder(copy).root
    change(copy, "UPDATE answers SET tokens_in = tokens_in + 1 WHERE id = 1")
    assert "table commits, row" in told(copy)
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        db.execute("DELETE FROM commits")
        link(db, RUN_CHAIN)
    (copy / "summary.json").unlink()
    assert verify_folder(copy).root == kept


def test_a_root_that_only_stands_in_the_manifest_is_computed_again(copy):
    """A forger may keep the row that says which root there was."""
    kept = verify_folder(copy).root
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        row, trial, result = db.execute(
            "SELECT id, trial, result FROM verdicts WHERE verdict = 'flipped'"
        ).fetchone()
        db.execute("DELETE FROM verdicts WHERE id = ?", (row,))
        finish(db, trial, 0, "held", result)
        db.execute("UPDATE verdicts SET id = ? WHERE trial = ?", (row, trial))
        db.execute("DELETE FROM commits")
        link(db, RUN_CHAIN)
    assert f"expected root {kept}, found root" in told(copy, root=kept)
    with pytest.raises(StoreError, match=f"expected root {kept}, found root"):
        RunReader(copy)


def test_a_changed_summary_is_named(copy, monkeypatch):
    path = copy / "summary.json"
    kept = json.loads(path.read_text("utf-8"))
    kept["results"][0]["n_flipped"] += 1
    path.write_text(json.dumps(kept), "utf-8")
    assert "summary.json" in told(copy)
    assert "results[0].n_flipped" in told(copy)
    path.write_text("[]", "utf-8")
    assert "summary.json" in told(copy)
    path.write_text(json.dumps(kept), "utf-8")
    assert told(copy).startswith("summary.json: expected results[0].n_flipped ")
    with monkeypatch.context() as patch:
        patch.setattr("medstress.experiment.verify.__version__", "99.0")
        found = verify_folder(copy)
        assert found.broken is None
        assert "another one here from results[0].n_flipped on" in found.not_compared[0]
    path.unlink()
    found = verify_folder(copy)
    assert not found.holds
    assert found.not_compared == ["summary.json is missing; the same command writes it again"]


def test_an_earlier_root_is_accepted_and_what_came_since_is_told(bench):
    bench.tables["attack"] = bench.tables["attack"][:1]
    assert bench.run("--limit", "4") == 0
    first = verify_folder(bench.out).root
    assert bench.run("--set", "experiment.max_queries=30") == 0
    going_on = verify_folder(bench.out, root=first)
    assert (going_on.holds, going_on.root) == (True, None)
    assert bench.run() == 0
    found = verify_folder(bench.out, root=f" {first.upper()}\n")
    assert found.holds
    assert found.root != first == found.asked_root
    assert found.added["trials"] == 16
    assert "since then were added: " in "\n".join(found.sentences())
    other = "0" * 32
    assert f"expected root {other}, found only {first}, " in told(bench.out, root=other)
    with pytest.raises(UsageError, match="--root 00: expected a digest of 32 hex digits"):
        verify_folder(bench.out, root="00")


BARRED = json.dumps(
    {"note": "no option names it"}
    | dict.fromkeys(("n_asked", "n_unreadable", "n_unchanged", "n_ties"), 0)
)


@pytest.mark.parametrize("verdict", ["flipped", "held"])
def test_a_trial_that_is_called_not_attackable_is_held_against_its_item(copy, own, verdict):
    """The rows of all its calls are gone; no vectors bar an item."""
    (trial,) = query(copy, f"SELECT MAX(trial) FROM verdicts WHERE verdict = '{verdict}'")
    rebuild(
        copy,
        f"UPDATE verdicts SET verdict = 'not_attackable', result = '{BARRED}' "
        f"WHERE trial = {trial}",
        f"DELETE FROM exchanges WHERE trial = {trial}",
        "DELETE FROM verdicts WHERE verdict = 'asked'",
    )
    assert "expected attackable, found no option names it" in told(copy, own=own)
    assert "expected attackable, as in another trial, found no option names it" in told(copy)


def called(folder, name, **more):
    """Call the attack by another name in all that names it, and change more of the manifest."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        stored = dict(db.execute("SELECT key, value FROM manifest ORDER BY id").fetchall())
    attacks = json.loads(stored["attacks"].replace("entity_substitution", name))
    hashes = {label: content_hash(spec) for label, spec in attacks.items()}
    parts = {**json.loads(stored["parts"]), "attacks": hashes}
    changed = {"attacks": attacks, "parts": parts, "fingerprint": content_hash(parts), **more}
    rebuild(
        folder,
        f"UPDATE arms SET spec = replace(spec, 'entity_substitution', '{name}')",
        *(
            f"UPDATE manifest SET value = '{json.dumps(value)}' WHERE key = '{key}'"
            for key, value in changed.items()
        ),
    )


def test_what_a_plug_in_asked_that_is_not_installed_is_judged_by_its_traits(copy):
    called(copy, "gone")
    found = verify_folder(copy)
    assert found.broken is None
    assert (found.why["not installed"], not found.not_judged) == (96, True)
    rebuild(copy, REBUILT["a verdict"][0])
    assert "expected flipped, found held" in told(copy)


def test_a_plug_in_with_a_goal_of_its_own_is_not_judged(copy):
    with closing(sqlite3.connect(copy / FILE)) as db:
        (records,) = db.execute("SELECT value FROM manifest WHERE key = 'records'").fetchone()
    called(copy, "gone", records={k: {**v, "declared": {}} for k, v in json.loads(records).items()})
    found = verify_folder(copy)
    assert found.broken is None
    assert list(found.not_judged) == ["the attack 'gone' is not installed and has its own goal"]
    assert not found.holds


def test_the_attack_runs_again_where_the_user_names_the_experiment(copy, own, made, capsys):
    found = verify_folder(copy, own=own)
    assert found.holds
    assert (found.n_redrawn, found.n_judged, found.n_follow_ups) == (96, 0, 24)
    experiment = str(made.root / "experiment.toml")
    assert medstress_cli(["verify", str(copy), "--experiment", experiment, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_redrawn"] == 96


def swapped(folder, attack):
    """Two queries of a trial asked in another order: every call, key and result fits."""
    (trial,) = query(
        folder,
        "SELECT MIN(t.id) FROM trials t JOIN arms a ON a.id = t.arm JOIN verdicts v "
        f"ON v.trial = t.id WHERE v.verdict = 'held' AND a.attack = '{attack}'",
    )
    moves = ((1, 99), (2, 1), (99, 2))
    rebuild(
        folder,
        *(
            f"UPDATE exchanges SET seq = {to}, query = {to} WHERE seq = {at} AND trial = {trial}"
            for at, to in moves
        ),
    )


def test_what_only_the_draw_tells_is_named_where_it_runs_again(copy, own):
    swapped(copy, "random / no_op")
    assert verify_folder(copy).broken is None
    assert "expected call 1 with edits" in told(copy, own=own)


def test_where_the_attack_reads_vectors_another_draw_is_counted(copy, own):
    swapped(copy, "pdws")
    found = verify_folder(copy, own=own)
    assert found.broken is None
    assert (found.n_redrawn, dict(found.why)) == (95, {OTHERWISE: 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("distance", "spy:distance"),
        ("embedding", "owner/model"),
        ("vocabulary", "/etc/passwd"),
        ("synonyms", "../mine.csv"),
    ],
)
def test_nothing_that_a_folder_names_is_opened(copy, tmp_path, monkeypatch, key, value):
    (tmp_path / "spy.py").write_text("raise AssertionError('imported')\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with closing(sqlite3.connect(copy / FILE)) as db:
        (stored,) = db.execute("SELECT value FROM manifest WHERE key = 'config'").fetchone()
    config = json.loads(stored)
    config["entities"][0] |= {"vocabulary": "drugs", key: value}
    rebuild(copy, f"UPDATE manifest SET value = '{json.dumps(config)}' WHERE key = 'config'")
    opened: list[str] = []
    monkeypatch.setattr(
        "medstress.experiment.recorded.load_groups", lambda *_: opened.append("groups") or []
    )
    found = verify_folder(copy)
    assert (found.broken, opened) == (None, [])
    assert [why.partition(" does not")[0] for why in found.why] == [f"{key} = {value!r}"]


def test_a_group_of_shipped_names_is_built_here(workbench, bench):
    bench.tables["entities"][0] = {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"}
    bench.tables["attack"] = bench.tables["attack"][1:2]
    bench.write_items(workbench.questions(4))
    assert bench.run() == 0
    found = verify_folder(bench.out)
    assert found.holds
    assert (found.n_redrawn, found.n_judged) == (8, 0)


FORGED_HERE = {
    "what is said of the names": (
        "UPDATE manifest SET value = json_set(value, '$.drugs.undefined', NULL) "
        "WHERE key = 'groups'",
        "expected groups: undefined of 'drugs' \"group 'drugs'",
    ),
    "what tables say of a name": (
        "UPDATE verdicts SET result = json_set(result, '$.evidence', json('[[\"k\",\"s\",null]]')) "
        "WHERE verdict = 'flipped'",
        'expected evidence null, found [["k","s",null]]',
    ),
    "how many names were left out": (
        "UPDATE verdicts SET result = json_set(result, '$.n_excluded', json('{\"substring\":1}')) "
        "WHERE json_extract(result, '$.n_excluded') NOT NULL",
        "expected n_excluded {",
    ),
    "a name that is in no vocabulary": (
        "UPDATE exchanges SET edits = json_set(edits, '$[0][3]', 'xyzzy') "
        "WHERE purpose = 'attack' AND trial = 1 AND seq = 1",
        "expected call 1 with ",
    ),
}


@pytest.mark.parametrize("name", FORGED_HERE)
def test_what_names_and_tables_that_are_here_say_is_compared(workbench, bench, name):
    bench.tables["entities"][0] = {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"}
    bench.tables["attack"] = bench.tables["attack"][1:2]
    bench.write_items(workbench.questions(4))
    assert bench.run() == 0
    sql, expected = FORGED_HERE[name]
    rebuild(bench.out, sql)
    assert expected in told(bench.out)


def test_a_run_that_was_stopped_verifies_though_its_names_were_said_of_more_items(workbench, bench):
    bench.tables["entities"][0] = {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"}
    bench.tables["attack"] = bench.tables["attack"][1:2]
    bench.tables["experiment"]["max_queries"] = 8
    bench.write_items(workbench.questions(40))
    assert bench.run() == 0
    assert told(bench.out) == told(bench.out, own=prepare(bench.write())) == "None"


def test_another_file_than_the_data_set_was_read_from_is_named(copy, own):
    sql = "UPDATE manifest SET value = json_set(value, '$.{}.hash', '0') WHERE key = 'datasets'"
    rebuild(copy, sql.format(own.datasets[0].label))
    assert told(copy) == "None"
    assert "expected datasets: hash of " in told(copy, own=own)


def test_of_a_part_of_the_data_only_noise_is_judged(bench, workbench):
    """The words that noise reads are those of all rows."""
    bench.tables["dataset"][0]["limit"] = 2
    bench.tables["attack"] = [{"name": "swap_noise"}, {"name": "option_order"}]
    bench.write_items(workbench.questions(4))
    assert bench.run() == 0
    found = verify_folder(bench.out)
    assert found.holds
    (why,) = found.why
    assert why.startswith("noise reads all of the data")
    assert (found.n_redrawn, found.n_judged) == (2, 4)


@pytest.fixture(scope="module")
def similar(workbench, tmp_path_factory):
    """A run with the similarities of its successes' prompts."""
    bench = workbench.Bench(tmp_path_factory.mktemp("similar"))
    bench.tables["attack"] = bench.tables["attack"][:1]
    bench.tables["analysis"] = {"prompt_similarity": True, "embedder": "ngram"}
    bench.write_items(workbench.questions(6))
    folder = bench.finished().out
    assert verify_folder(folder).holds
    return folder


FOUND = "INSERT INTO findings (trial, name, value) SELECT"
KNOWN = "(SELECT value ->> '$[0]' FROM findings WHERE id = 1)"
NO_FINDING = "the similarity of a success's prompts, found "
FINDINGS = {
    "of another name": (f"{FOUND} {FLIPPED}, 'more', '{{}}'", f"{NO_FINDING}'more' of trial "),
    "that would change a result": (f"{FOUND} {FLIPPED}, 'budget', '1'", NO_FINDING),
    "of a trial that held": (
        f"{FOUND} {HELD}, 'prompt_similarity', json_array({KNOWN}, 0.5)", NO_FINDING
    ),
    "of an unknown encoder": (
        f"{FOUND} {FLIPPED}, 'prompt_similarity', json_array('x', 0.5)", "similarity of a cosine"
    ),
    "that is another": (
        "UPDATE findings SET value = json_set(value, '$[1]', 0.5) WHERE id = 1", "row 1: "
    ),
    "that is no cosine": (
        "UPDATE findings SET value = json_set(value, '$[1]', 1.5) WHERE id = 1", "row 1: "
    ),
    "that is taken out": (
        "DELETE FROM findings WHERE id = (SELECT MAX(id) FROM findings)", "the similarity of trial "
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_that_is_not_the_stored_one_is_named(similar, tmp_path, name):
    statement, expected = FINDINGS[name]
    folder = shutil.copytree(similar, tmp_path / "copy")
    rebuild(folder, statement)
    assert told(folder).startswith("table findings, row ")
    assert expected in told(folder)


def test_a_run_that_asked_for_no_similarity_has_none(copy):
    rebuild(copy, f"{FOUND} {FLIPPED}, 'prompt_similarity', json_array('x', 0.5)")
    assert "table findings, row 1: expected of trial " in told(copy)


def judged(folder, *raters, **asked):
    """A room whose cases all raters judged, or answered each in one version."""
    run = StoredRun.open(folder)
    with ReviewStore(folder) as store:
        room = make_room(run, store, **asked)
        names = [*room.cases] if room.mode == "judge" else [a for a, _ in room.public()["pairs"]]
        for rater in raters:
            for case in names:
                said = {"key_right": "yes"} if room.mode == "judge" else {"answer": "A"}
                given = {"case": case, "answers": said, "note": ""}
                store.add(reviews_from(room, given, rater, NOON, "here"))
    keep_summary(folder)
    return room


def forge_reviews(folder, *statements):
    """Change rows of the reviews, with their chain and the kept summary made again."""
    with closing(sqlite3.connect(folder / "reviews.sqlite")) as db, db:
        for each in statements:
            db.execute(each)
        db.execute("DELETE FROM commits")
        link(db, REVIEW_CHAIN)


def test_reviews_are_verified_too_and_the_summary_has_to_be_of_their_root(copy):
    before = verify_folder(copy).root
    kept = (copy / "summary.json").read_bytes()
    room = judged(copy, "AB", "CD")
    reviewed = (copy / "summary.json").read_bytes()
    (copy / "summary.json").write_bytes(kept)
    assert told(copy).startswith("summary.json: expected root ")
    assert told(copy).endswith(f"found root {before}")
    (copy / "summary.json").write_bytes(reviewed)
    found = verify_folder(copy, root=before)
    assert found.holds
    assert found.root != before == found.asked_root
    n = 2 * sum(len(one["trials"]) or 1 for one in room.body["cases"])
    assert {name: n for name, n in found.added.items() if n} == {"reviews": n, "rooms": 1}
    with closing(sqlite3.connect(copy / "reviews.sqlite")) as db, db:
        db.execute("UPDATE verdicts SET answers = '{}' WHERE id = 1")
    assert "table commits of reviews.sqlite, row 2: expected digest" in told(copy)


def test_rooms_of_a_run_that_went_on_are_drawn_again_as_it_was(bench, tmp_path):
    """Stopped, complete, extended; several rooms, notes, answers taken back, and a file."""
    bench.tables["attack"] = bench.tables["attack"][:2]
    assert bench.run("--limit", "6", "--set", "experiment.max_queries=40") == 0
    rooms = [judged(bench.out, "AB", mode=mode) for mode in ("judge", "answer")]
    assert bench.run("--limit", "6") == 0
    rooms += [judged(bench.out, "AB", "CD", mode=mode, seed=1) for mode in ("judge", "answer")]
    assert verify_folder(bench.out).holds
    assert bench.run() == 0
    rooms += [judged(bench.out, "EF", sample=n, seed=n) for n in (1, 4)]
    assert [room.body["complete"] for room in rooms] == [False] * 2 + [True] * 4
    assert len({room.body["population"] for room in rooms if room.mode == "judge"}) == 3
    # What is said of an early room comes in now, as a file.
    said = {"answers": {"misleading": "no"}, "note": " odd ", "time": "2026-01-31T11:30:00+01:00"}
    verdicts = [{"case": case, **said} for case in rooms[0].cases]
    sent = tmp_path / "gh.json"
    given = {"format": 1, "room": rooms[0].id, "rater": " G  H ", "verdicts": verdicts}
    sent.write_text(json.dumps(given), "utf-8")
    assert medstress_cli(["review", str(bench.out), "--import", str(sent)]) == 0
    assert verify_folder(bench.out).holds
    early = f"(SELECT id FROM rooms WHERE room = '{rooms[0].id}')"
    told_complete = f"json_set(body, '$.complete', json('true')) WHERE id = {early}"
    forge_reviews(bench.out, f"UPDATE rooms SET body = {told_complete}")
    assert ": complete false, found true" in told(bench.out)


IN_ROOM = "UPDATE rooms SET body = json_set(body, '$.{}', json('{}')) WHERE id = 1"
OUTSIDE = (
    "(SELECT trial_id FROM run.trials t JOIN run.verdicts v ON v.trial = t.id "
    "WHERE v.verdict = 'flipped' AND trial_id NOT IN "
    "(SELECT trial_id FROM verdicts WHERE trial_id IS NOT NULL))"
)
OF_SUCCESS = "(SELECT MIN(id) FROM verdicts WHERE control IS NULL)"
OF_PLANTED = "(SELECT MIN(id) FROM verdicts WHERE control = 'wrong_key')"
OF_ANSWER = "(SELECT MAX(id) FROM verdicts)"
TAKEN = "expected what a room takes of a case in it, found "
FORGED_REVIEWS = {
    "how much there was to draw from": (IN_ROOM.format("population", 40), ": population "),
    "how much was drawn": (IN_ROOM.format("drawn", 5), ": drawn 3, found 5"),
    "how much was asked for": (IN_ROOM.format("sample", 2), ": drawn 2, found 3"),
    "the seed": (IN_ROOM.format("seed", 7), "expected room "),
    "an arm's trials": (IN_ROOM.format("arms[0].n", 1000000), ": arms with as many trials as "),
    "which arm had them": (IN_ROOM.format("arms[0].victim", '"x"'), ': arms[0].victim "'),
    "the mode": (IN_ROOM.format("mode", '"answer"'), "expected room "),
    "the planted cases": (IN_ROOM.format("planted.unchanged", 0), ": planted.unchanged 2, found 0"),
    "a case's edits": (IN_ROOM.format("cases[0].edits", '[["A",0,1,"x"]]'), ": cases[0].edits"),
    "a case's item": (IN_ROOM.format("cases[0].item", '"q9"'), ": cases[0].item"),
    "a case's unit": (IN_ROOM.format("cases[0].unit", '"x"'), ": cases[0].unit"),
    "a case's trials": (IN_ROOM.format("cases[0].trials", '["x","y"]'), ": cases[0].trials"),
    "a case's code": (IN_ROOM.format("cases[0].id", '"x"'), ": cases[0].id"),
    "a case that is taken out": (
        "UPDATE rooms SET body = json_remove(body, '$.cases[0]') WHERE id = 1",
        ': cases "7 entries", found "6 entries"',
    ),
    "the name of a room": ("UPDATE rooms SET room = 'x' WHERE id = 1", ': room "'),
    "the secret": (f"UPDATE about SET value = '{'0' * 64}'", "expected room "),
    "no secret": ("DELETE FROM about", "expected room "),
    "a verdict of a success outside the room": (
        f"UPDATE verdicts SET trial_id = {OUTSIDE} WHERE id = {OF_SUCCESS}", TAKEN
    ),
    "a verdict of no trial": (f"UPDATE verdicts SET trial_id = 'x' WHERE id = {OF_SUCCESS}", TAKEN),
    "a verdict of no case": (f"UPDATE verdicts SET case_id = 'x' WHERE id = {OF_SUCCESS}", TAKEN),
    "a verdict without a case": (
        f"UPDATE verdicts SET case_id = NULL WHERE id = {OF_SUCCESS}", TAKEN
    ),
    "a planted case made a success": (
        "UPDATE verdicts SET control = NULL, control_of = NULL, trial_id = "
        f"(SELECT trial_id FROM verdicts WHERE id = {OF_SUCCESS}) WHERE id = {OF_PLANTED}",
        TAKEN,
    ),
    "a success made a planted case": (
        "UPDATE verdicts SET control = 'wrong_key', control_of = 'cases/q0', trial_id = NULL "
        f"WHERE id = {OF_SUCCESS}",
        TAKEN,
    ),
    "the sort of a planted case": (
        f"UPDATE verdicts SET control = 'unchanged' WHERE id = {OF_PLANTED}", TAKEN
    ),
    "what a planted case is of": (
        f"UPDATE verdicts SET control_of = 'cases/q99' WHERE id = {OF_PLANTED}", TAKEN
    ),
    "a role": (f"UPDATE verdicts SET role = 'x' WHERE id = {OF_SUCCESS}", TAKEN),
    "a judgement that nobody is asked": (
        f"""UPDATE verdicts SET answers = '{{"x": "yes"}}' WHERE id = {OF_SUCCESS}""", TAKEN
    ),
    "whether an own answer is right": (
        "UPDATE verdicts SET answers = json_set(answers, '$.right', "
        "iif(answers ->> '$.right' = 'yes', 'no', 'yes'))"
        f"WHERE id = {OF_ANSWER}",
        TAKEN,
    ),
    "which version was answered": (
        "UPDATE verdicts SET answers = json_set(answers, '$.shown', "
        "iif(answers ->> '$.shown' = 'clean', 'attacked', 'clean'))"
        f"WHERE id = {OF_ANSWER}",
        TAKEN,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def reviewed(made, tmp_path_factory):
    """The run with rooms of both modes, of which nobody saw all successes."""
    folder = shutil.copytree(made.out, tmp_path_factory.mktemp("reviewed") / "run")
    judged(folder, "AB", sample=3)
    judged(folder, "CD", sample=4, mode="answer")
    assert verify_folder(folder).holds
    return folder


@pytest.mark.parametrize("name", FORGED_REVIEWS)
def test_what_was_changed_in_reviews_is_named_though_every_digest_fits(reviewed, tmp_path, name):
    folder = shutil.copytree(reviewed, tmp_path / "copy")
    statement, expected = FORGED_REVIEWS[name]
    forge_reviews(folder, f"ATTACH '{folder / FILE}' AS run", statement)
    keep_summary(folder)
    assert expected in told(folder)


def test_a_list_of_synonyms_of_the_users_decides_validity_as_stored_until_it_is_named(
    bench, tmp_path
):
    (tmp_path / "mine.csv").write_text("concept,name\n1,abimycin\n1,tora0zumab\n", "utf-8")
    bench.tables["entities"][0]["synonyms"] = "mine.csv"
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [{**bench.tables["attack"][0], "budget": 40, "variants": "mark"}]
    assert bench.run() == 0
    assert verify_folder(bench.out).holds
    own = prepare(bench.root / "experiment.toml")
    assert verify_folder(bench.out, own=own).n_redrawn == 12


def test_only_what_failed_may_begin_again(copy):
    """A verdict that a later one replaced, appended with a chain that fits."""
    kept = verify_folder(copy).root
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        trial, was, result = db.execute(
            "SELECT trial, verdict, result FROM verdicts WHERE verdict = 'flipped'"
        ).fetchone()
        calls = db.execute("SELECT * FROM exchanges WHERE trial = ?", (trial,)).fetchall()
        db.execute("INSERT INTO verdicts (trial) VALUES (?)", (trial,))
        row = db.execute("SELECT MAX(id) FROM verdicts").fetchone()[0]
        for call in calls:
            marks = ", ".join("?" * len(call))
            db.execute(f"INSERT INTO exchanges VALUES ({marks})", (call[0], 1, *call[2:]))
        finish(db, trial, 1, was, result)
        keep_root(db)
        link(db, RUN_CHAIN)
    expected = f"table verdicts, row {row}: expected nothing more of trial {trial}"
    assert told(copy).startswith(expected)
    assert told(copy, root=kept).startswith(expected)


ODD = {
    "a result": ("UPDATE verdicts SET result = '[]' WHERE id = 3", "table verdicts, row 3: "),
    "a verdict": (
        "UPDATE verdicts SET verdict = 'won' WHERE id = 3",
        "table verdicts, row 3: expected one of already_wrong, ",
    ),
    "a second key of a call": (
        "UPDATE exchanges SET key = x'07' WHERE trial = 3 AND seq = 0",
        "table exchanges, row 3: expected no key of call 0, whose answer has it",
    ),
    "an answer": (
        "UPDATE answers SET body = '7' WHERE id = 5",
        "table answers, row 5: expected an answer as medstress stores it, found 7",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_rows_that_mean_nothing_are_named_though_every_digest_fits(copy, name):
    statement, expected = ODD[name]
    rebuild(copy, statement)
    assert told(copy).startswith(expected)


ITEM = Question(
    id="q",
    context="He takes warfarin.",
    stem="What treats gout?",
    options=("colchicine", "ibuprofen", "aspirin", "warfarin sodium"),
    key="A",
    mentions=(
        Mention(field="A", start=0, end=10, type="T121"),
        Mention(field="B", start=0, end=9, type="T121"),
        Mention(field="C", start=0, end=7, type="T047"),
        Mention(field="context", start=9, end=17, type="T121"),
    ),
)
EDITS = {
    "as it could be": ([["B", 0, 9, "naproxen"]], None),
    "of the right answer": ([["A", 0, 10, "naproxen"]], "a span of [('B', 0, 9)]"),
    "of a part of an entity": ([["B", 0, 4, "naproxen"]], "a span of [('B', 0, 9)]"),
    "of another field": ([["context", 9, 17, "naproxen"]], "an edit of A, B, C, D, options"),
    "that makes the right answer again": ([["B", 0, 9, "Colchicine"]], "a name that may be drawn"),
    "that varies the right answer": ([["B", 0, 9, "colchicine 2"]], "a name that may be drawn"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_that_could_not_have_been_asked_is_named(name):
    edits, expected = EDITS[name]
    names = NameRules(SynonymGroups("", "", ()))
    rules = Resources(group="drugs", types=frozenset({"T121"}), perturbations=names)
    attack = EntitySubstitution(sampler="random")
    trial = Trial(
        **dict.fromkeys(("dataset", "group", "attack_label"), ""),
        **{"item": ITEM, "victim": None, "attack": attack, "resources": rules, "seed": 0},
    )

    def asked(*queries):
        calls = [
            StoredCall("victim", "attack", n, 0, b"", json.dumps(one), None, None, None, None)
            for n, one in enumerate(queries, 1)
        ]
        return [told for _, told, _ in odd_edits(trial, calls, rules)]

    assert asked(edits)[:1] == ([] if expected is None else [expected])
    if expected is None:
        assert asked(edits, edits) == ["no name twice"]
