"""`medstress verify` names the first thing about a folder that is not as it was measured."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.audit.verify import verify_folder
from medstress.cli.app import medstress_cli
from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.running.kept_summary import keep_summary
from medstress.store.chain import RUN_CHAIN, link
from medstress.store.review_store import ReviewStore
from medstress.store.reviews import Review
from medstress.store.root import KEY, keep_root
from medstress.store.trial_digest import finish

FILE = "run.sqlite"


@pytest.fixture(scope="module")
def whole(workbench, tmp_path_factory):
    """A complete run with a control arm, to be copied."""
    made = workbench.Bench(tmp_path_factory.mktemp("verified"))
    made.tables["experiment"]["controls"] = ["no_op"]
    made.tables["attack"] = made.tables["attack"][:2]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 0
    return made.out


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def change(folder, *statements):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for each in statements:
            db.execute(each)


def rebuild(folder, *statements):
    """Forge rows, with all digests and the root made again."""
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        for each in statements:
            db.execute(each)
        ended = db.execute("SELECT trial, verdict, result FROM verdicts ORDER BY id").fetchall()
        for table in ("verdicts", "commits"):
            db.execute(f"DELETE FROM {table}")
        for trial, verdict, result in ended:
            finish(db, trial, 0, verdict, result)
        db.execute("DELETE FROM manifest WHERE key = ?", (KEY,))
        keep_root(db)
        link(db, RUN_CHAIN)
    (folder / "summary.json").unlink()


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
    assert medstress_cli(["verify", str(copy)]) == 0
    assert "96 trials judged again" in capsys.readouterr().out
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
    "the last answer removed": (
        "DELETE FROM answers WHERE id = (SELECT MAX(id) FROM answers)",
        "table answers, row",
    ),
    "one added trial": (
        "INSERT INTO trials SELECT MAX(id) + 1, 'forged', 1, 1, 9 FROM trials",
        "table trials, row 97: expected the chain's last row 96",
    ),
    "two swapped answers": (
        "UPDATE answers SET body = CASE id WHEN 1 THEN (SELECT body FROM answers WHERE id = 2) "
        "ELSE (SELECT body FROM answers WHERE id = 1) END, seconds = 0 WHERE id IN (1, 2)",
        "table commits, row",
    ),
    "two swapped trials": (
        "UPDATE verdicts SET trial = 3 - trial WHERE trial IN (1, 2)",
        "table verdicts, row",
    ),
    "a removed exchange": (
        "DELETE FROM exchanges WHERE trial = 2 AND seq = 0",
        "table exchanges, row 2",
    ),
    "a changed edit": (
        "UPDATE exchanges SET edits = replace(edits, 'a', 'e') WHERE trial = 1 AND seq = 1",
        "table exchanges, row 1: expected digest",
    ),
    "an exchange of no trial": (
        "INSERT INTO exchanges SELECT 999, attempt, seq, role, purpose, query, call, answer, key, "
        "edits, flags, request, error FROM exchanges WHERE trial = 1 AND seq = 0",
        "table exchanges, row 999: expected a trial, found none",
    ),
    "an exchange under a further attempt": (
        "INSERT INTO exchanges SELECT trial, 1, seq, role, purpose, query, call, answer, key, "
        "edits, flags, request, error FROM exchanges WHERE trial = 1 AND seq = 0",
        "table exchanges, row 1: expected at most attempt 0, found attempt 1",
    ),
    "a changed plan": (
        "UPDATE manifest SET value = '4' WHERE key = 'n_planned'",
        "table commits, row 1",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_changed_is_named(copy, name, capsys):
    script, expected = FORGED[name]
    change(copy, script)
    assert expected in told(copy)
    assert medstress_cli(["verify", str(copy)]) == 2
    assert expected in capsys.readouterr().err
    assert medstress_cli(["verify", str(copy), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["broken"]["table"] in expected


REBUILT = {
    "a verdict": (
        "UPDATE verdicts SET verdict = 'held' WHERE id = (SELECT MIN(id) FROM verdicts "
        "WHERE verdict = 'flipped')",
        "expected flipped, found held",
    ),
    "a number of a result": (
        "UPDATE verdicts SET result = json_set(result, '$.first_success', 1) "
        "WHERE json_extract(result, '$.first_success') > 1",
        "expected first_success",
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
    "an item": (
        "UPDATE items SET body = replace(body, 'treats', 'cures') WHERE id = 1",
        "expected an item of the plan",
    ),
    "an added trial": (
        "INSERT INTO trials SELECT MAX(id) + 1, 'forged', 1, 1, 9 FROM trials;"
        "INSERT INTO verdicts SELECT MAX(id) + 1, 97, 'not_attackable', '{}', x'', x'' "
        "FROM verdicts",
        "table trials, row 97",
    ),
    "a removed trial": (
        "DELETE FROM exchanges WHERE trial = 96;DELETE FROM answers WHERE trial = 96;"
        "DELETE FROM verdicts WHERE trial = 96;DELETE FROM trials WHERE id = 96",
        "expected 96 trials with a verdict, found 95",
    ),
    "removed trials, of which the plan says nothing any more": (
        "DELETE FROM exchanges WHERE trial > 93;UPDATE answers SET trial = 0 WHERE trial > 93;"
        "DELETE FROM verdicts WHERE trial > 93;DELETE FROM trials WHERE id > 93;"
        "UPDATE manifest SET value = '93' WHERE key = 'n_planned'",
        "expected 12 trials of cases, drugs, careful, random / no_op, seed 1, repeat 0, found 11",
    ),
    "a planned attack": (
        "UPDATE arms SET spec = replace(spec, '\"budget\":5', '\"budget\":6')",
        "expected attack",
    ),
    "a fingerprint": (
        "UPDATE manifest SET value = '\"0\"' WHERE key = 'fingerprint'",
        "expected fingerprint",
    ),
}


@pytest.mark.parametrize("name", REBUILT)
def test_where_all_digests_were_made_again_the_answers_tell(copy, name):
    kept = verify_folder(copy).root
    script, expected = REBUILT[name]
    rebuild(copy, *script.split(";"))
    assert expected in told(copy)
    if name != "a fingerprint":  # it follows from the plan
        assert f"expected root {kept}" in told(copy, root=kept)


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


def test_a_truncated_file_is_named(copy, capsys):
    data = (copy / FILE).read_bytes()
    (copy / FILE).write_bytes(data[: len(data) // 2])
    assert medstress_cli(["verify", str(copy)]) == 2
    assert str(copy / FILE) in capsys.readouterr().err


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
        patch.setattr("medstress.audit.kept.__version__", "99.0")
        found = verify_folder(copy)
        assert found.broken is None
        assert "another one here from results[0].n_flipped on" in found.not_compared[0]
    path.unlink()
    found = verify_folder(copy)
    assert not found.holds
    assert found.not_compared == ["summary.json is missing; the same command writes it again"]


def test_an_earlier_root_is_accepted_and_what_came_since_is_told(workbench, tmp_path):
    bench = workbench.Bench(tmp_path)
    bench.tables["attack"] = bench.tables["attack"][:1]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bench.environment().items():
            patch.setenv(name, value)
        assert bench.run("--limit", "4") == 0
        first = verify_folder(bench.out).root
        assert bench.run("--set", "experiment.max_queries=30") == 0
        going_on = verify_folder(bench.out, root=first)
        assert going_on.holds
        assert going_on.root is None
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


def test_what_was_added_counts_from_the_first_moment_of_a_root(copy):
    """Rows of the manifest that the root is not about, and the same root kept again."""
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        db.execute("INSERT INTO manifest (key, value) VALUES ('command', '\"another\"')")
        kept = keep_root(db)
        link(db, RUN_CHAIN)
    found = verify_folder(copy, root=kept)
    assert found.root == found.asked_root == kept
    assert found.added["manifest"] == 2
    assert any("since then were added: 2 rows of manifest" in line for line in found.sentences())


def test_every_refusal_is_a_sentence_for_people_even_beside_json(copy, tmp_path, capsys):
    (copy / "summary.json").unlink()
    for flags in ([], ["--json"]):
        assert medstress_cli(["verify", str(copy), *flags]) == 2
        said = capsys.readouterr()
        assert said.err == (
            f"medstress: {copy} is not verified: not judged: summary.json is missing; the same "
            "command writes it again\n"
        )
    assert json.loads(said.out)["verified"] is False
    change(copy, "DELETE FROM answers WHERE id = 7")
    assert medstress_cli(["verify", str(copy), "--json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["broken"]["row"] == 7
    assert medstress_cli(["verify", str(tmp_path / "none")]) == 2
    assert f"there is no run in {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_trial_that_was_not_asked_cannot_have_held(copy):
    rebuild(copy, "UPDATE verdicts SET verdict = 'held' WHERE verdict = 'not_attackable'")
    assert "expected an answer to the clean item, found held without one" in told(copy)


def test_what_a_plug_in_judged_that_is_not_installed_is_not_judged(copy):
    with closing(sqlite3.connect(copy / FILE)) as db:
        stored = dict(db.execute("SELECT key, value FROM manifest ORDER BY id").fetchall())
    attacks = json.loads(stored["attacks"].replace("entity_substitution", "gone"))
    hashes = {label: content_hash(spec) for label, spec in attacks.items()}
    parts = {**json.loads(stored["parts"]), "attacks": hashes}
    changed = {"attacks": attacks, "parts": parts, "fingerprint": content_hash(parts)}
    rebuild(
        copy,
        "UPDATE arms SET spec = replace(spec, 'entity_substitution', 'gone')",
        *(
            f"UPDATE manifest SET value = '{json.dumps(value)}' WHERE key = '{key}'"
            for key, value in changed.items()
        ),
    )
    found = verify_folder(copy)
    assert found.broken is None
    assert found.not_judged == {"the attack 'gone' is not installed": 96}
    assert not found.holds


def test_one_worker_and_eight_have_one_root(workbench, tmp_path, monkeypatch):
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    bench = workbench.Bench(tmp_path)
    bench.tables["attack"] = bench.tables["attack"][:2]
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    found = []
    with FaultServer() as server:
        for n in (1, 8):
            bench.tables["victim"] = [
                {
                    "name": "served",
                    "backend": "openai",
                    "base_url": server.url,
                    "model": server.model,
                    "max_in_flight": n,
                }
            ]
            assert bench.run(out=tmp_path / f"by {n}") == 0
            found.append(verify_folder(tmp_path / f"by {n}"))
    assert all(each.holds for each in found)
    assert found[0].root == found[1].root is not None


def test_reviews_are_verified_too(copy):
    before = verify_folder(copy).root
    trial = query(copy, "SELECT trial_id FROM trials JOIN verdicts ON trial = trials.id")[0]
    with ReviewStore(copy) as store:
        for word in ("yes", "no"):
            answers = {"key_right": word}
            store.add([Review(trial_id=trial, reviewer="AB", answers=answers, time=word)])
    found = verify_folder(copy, root=before)
    assert found.holds
    assert found.root != before == found.asked_root
    assert found.added["reviews"] == 2
    assert any("earlier root" in note for note in found.notes)
    keep_summary(copy)
    assert verify_folder(copy).notes == []
    with closing(sqlite3.connect(copy / "reviews.sqlite")) as db, db:
        db.execute("UPDATE verdicts SET answers = '{}' WHERE id = 1")
    assert "table commits of reviews.sqlite, row 1: expected digest" in told(copy)


def test_which_options_count_beside_a_control_is_kept_so_that_it_is_judged_again(
    workbench, tmp_path, monkeypatch
):
    bench = workbench.Bench(tmp_path)
    bench.tables["experiment"]["controls"] = ["no_op"]
    bench.tables["attack"] = [{**bench.tables["attack"][0], "goal": "replaced"}]
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    assert bench.run() == 0
    found = verify_folder(bench.out)
    assert found.holds, (found.broken, found.not_judged)
    assert query(bench.out, "SELECT COUNT(*) FROM verdicts WHERE result LIKE '%\"counted\"%'")[0]
    rebuild(
        bench.out,
        "UPDATE verdicts SET verdict = 'held' WHERE id = (SELECT MIN(id) FROM verdicts "
        "WHERE verdict = 'flipped' AND result LIKE '%\"counted\"%')",
    )
    broken = verify_folder(bench.out).broken
    assert (broken.expected, broken.found) == ("flipped", "held")


def test_only_the_list_of_synonyms_that_the_run_used_is_taken_and_early_ends_are_counted(
    workbench, tmp_path, monkeypatch
):
    bench = workbench.Bench(tmp_path)
    (tmp_path / "mine.csv").write_text("concept,name\n1,abimycin\n1,tora0zumab\n", "utf-8")
    bench.tables["entities"][0]["synonyms"] = "mine.csv"
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [{**bench.tables["attack"][0], "budget": 40}]
    fooled = workbench.VICTIM.replace("luck < 40", "luck < 40 and 'case 1' in prompt")
    (tmp_path / "victim.py").write_text(fooled, "utf-8")
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    assert bench.run() == 0
    assert "give it with --synonyms" in next(iter(verify_folder(bench.out).not_judged))
    found = verify_folder(bench.out, synonyms=tmp_path / "mine.csv")
    assert found.holds, found.broken
    early = "verdict = 'held' AND json_extract(result, '$.n_asked') < 40"
    n_early = query(bench.out, f"SELECT COUNT(*) FROM verdicts WHERE {early}")[0]
    assert found.n_early == n_early > 0
    told = "\n".join(found.sentences())
    assert "below their budget of queries" in told
    other = tmp_path / "other.csv"
    other.write_text("concept,name\n1,abimycin\n", "utf-8")
    with pytest.raises(UsageError, match=r"other.csv: expected the list that the run used, with"):
        verify_folder(bench.out, synonyms=other)


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


def test_a_trial_that_is_gone_is_named(copy):
    change(copy, "DELETE FROM trials WHERE id = 96")
    with pytest.raises(StoreError, match="table verdicts, row 96: expected a row of trials"):
        verify_folder(copy)
