"""`medstress bundle` packs a run, and `medstress verify` reads the file as untrusted input."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import stat
import subprocess
import zipfile
from contextlib import closing

import pytest

from medstress.api.results import report_of
from medstress.audit.archive import HEAD
from medstress.audit.bundle import write_bundle
from medstress.cli.app import medstress_cli
from medstress.results.load import open_run
from medstress.results.root import root_of
from medstress.store.review_store import ReviewStore
from medstress.store.reviews import Review

PRIVATE = re.compile(r"zumab|treats|case \d|no idea|mycin|prazole|statin|olol", re.IGNORECASE)
"""Words of questions, options, prompts, replies and replacements."""


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """A complete run, bundled with its words and without."""
    bench = workbench.Bench(tmp_path_factory.mktemp("bundled"))
    bench.tables["experiment"]["controls"] = ["no_op"]
    bench.tables["attack"] = bench.tables["attack"][:1]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bench.environment().items():
            patch.setenv(name, value)
        assert bench.run() == 0
    for name, flags in {"whole": (), "redacted": ("--redact",)}.items():
        to = bench.root / f"{name}.zip"
        assert medstress_cli(["bundle", str(bench.out), "--to", str(to), *flags]) == 0
    return bench


def refused(file, capsys, *flags):
    """The one sentence with which a file is refused."""
    capsys.readouterr()
    assert medstress_cli(["verify", str(file), *flags]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert str(file) in found.err
    assert "once mended" not in found.err
    return found.err


def rewritten(source, to, change):
    """Copy a bundle, entry by entry, with some changed: name -> bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = change.get(entry.filename, old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)
        for name in change.keys() - set(old.namelist()):
            new.writestr(name, change[name])
    return to


def head_of(source):
    with zipfile.ZipFile(source) as archive:
        return json.loads(archive.read(HEAD))


@pytest.mark.parametrize("name", ["whole", "redacted"])
def test_made_twice_it_is_the_same_and_verifies(made, name, tmp_path, capsys):
    first, again = made.root / f"{name}.zip", tmp_path / "again.zip"
    flags = ["--redact"] if name == "redacted" else []
    assert medstress_cli(["bundle", str(made.out), "--to", str(again), *flags]) == 0
    assert again.read_bytes() == first.read_bytes()
    root = head_of(first)["root"]
    capsys.readouterr()
    assert medstress_cli(["verify", str(first), "--root", root]) == 0
    told = capsys.readouterr().out
    assert f"root {root}" in told
    assert ("not judged: redacted" in told) is (name == "redacted")
    other = "0" * 32
    assert f"expected root {other}" in refused(first, capsys, "--root", other)
    assert "expected a digest of 32 hex digits" in refused(first, capsys, "--root", "00")


def test_without_words_there_are_none_and_readings_stay(made):
    with zipfile.ZipFile(made.root / "redacted.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, text in texts.items():
        assert not PRIVATE.search(text), (name, PRIVATE.search(text))
    trials = [json.loads(line) for line in texts["run/ledger.jsonl"].splitlines()]
    readings = [line[-1]["asked"] for line in trials if line[0] == "trial"]
    found = {reading[0] for asked in readings for *_, reading in asked if reading}
    assert found == {"right", "wrong", "unreadable"}


def test_a_reading_that_cannot_be_is_named(made, tmp_path, capsys):
    """Readings have no digests, but they fit each other, the key and the numbers."""
    source = made.root / "redacted.zip"
    with zipfile.ZipFile(source) as archive:
        lines = [json.loads(line) for line in archive.read(LEDGER).splitlines()]
        numbers = json.loads(archive.read("run/numbers.json"))
    at = next(n for n, line in enumerate(lines) if line[4:5] == ["flipped"])
    first = lines[at][-1]["first_success"]
    place = next(
        n for n, each in enumerate(lines[at][-1]["asked"]) if each[:2] == ["attack", first]
    )

    def named(change):
        own, counted = json.loads(json.dumps([lines, numbers]))
        change(own[at], counted)
        entries = {
            LEDGER: "".join(f"{json.dumps(line)}\n" for line in own).encode(),
            "run/numbers.json": json.dumps(counted).encode(),
        }
        told = refused(listed_again(rewritten(source, tmp_path / "x.zip", entries)), capsys)
        return told.partition("does not agree: ")[2]

    def let(path, value):
        def change(line, _):
            *inner, last = path
            for key in inner:
                line = line[key]
            line[last] = value

        return change

    row = f"table {LEDGER}, row {at + 1}: expected "
    assert named(let([-1], None)).startswith(f"{row}readings of a trial, found flipped with none")
    assert named(let([-1, "key"], "Z")).startswith(f"{row}a key of A, B, C, D, found Z")
    key = lines[at][-1]["key"]
    reading = [-1, "asked", place, -1]
    assert named(let([*reading, 1], key)).startswith(f"{row}right at attack {first}, found wrong")
    assert named(let([*reading, 1], "E")).startswith(f"{row}an answer of A, B, C, D, found E")
    flip = next(n for n, each in enumerate(lines[at][-1]["asked"]) if each[0] == "flip_check")
    assert "a check of one of" in named(let([-1, "asked", flip, 1], 99))
    assert named(lambda _, counted: counted["rows"].pop()).startswith(
        "run/numbers.json: expected 1 rows of cases, drugs, careful, "
    )
    assert named(lambda _, counted: counted.update(n_trials=7)).startswith(
        "run/numbers.json: expected n_trials 48, found 7"
    )


LEDGER = "run/ledger.jsonl"
FORGED = {
    "a verdict": (lambda t: t.replace(b'"flipped"', b'"held"', 1), "expected digest"),
    "a reading": (lambda t: t.replace(b'"wrong"', b'"right"', 1), LEDGER),
    "a digest of an item": (lambda t: t.replace(b'["item"', b'["item ]"', 1), "expected root"),
    "a trial less": (lambda t: b"".join(t.splitlines(keepends=True)[:-1]), "expected root"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_changed_in_a_run_without_words_is_named(made, name, tmp_path, capsys):
    source = made.root / "redacted.zip"
    change, expected = FORGED[name]
    with zipfile.ZipFile(source) as archive:
        data = change(archive.read(LEDGER))
    file = rewritten(source, tmp_path / "forged.zip", {LEDGER: data})
    assert "sha256" in refused(file, capsys)[:2000] or "would be" in refused(file, capsys)
    assert expected in refused(listed_again(file), capsys)


def listed_again(file):
    """Make the head of a bundle say what its entries are."""
    import hashlib

    head = head_of(file)
    with zipfile.ZipFile(file) as archive:
        data = {name: archive.read(name) for name in archive.namelist() if name != HEAD}
    for name, each in data.items():
        head["files"][name] = {"bytes": len(each), "sha256": hashlib.sha256(each).hexdigest()}
    return rewritten(file, file.with_name("listed.zip"), {HEAD: json.dumps(head).encode()})


def test_a_changed_export_or_database_is_named(made, tmp_path, capsys):
    source = made.root / "whole.zip"
    with zipfile.ZipFile(source) as archive:
        trials, report = archive.read("exports/trials.jsonl"), archive.read("report.html")
        run = archive.read("run/run.sqlite")
    changes = {
        "exports/trials.jsonl": trials.replace(b'"flipped"', b'"held"', 1),
        "report.html": report.replace(b"Accuracy", b"accuracy", 1),
        "run/run.sqlite": run.replace(b"no idea", b"no clue", 1),
    }
    for n, (name, data) in enumerate(changes.items()):
        file = listed_again(rewritten(source, tmp_path / f"{n}.zip", {name: data}))
        told = refused(file, capsys)
        assert name in told or "table" in told
        assert "/tmp" not in told.replace(str(file), "")


VIEWS = {
    "an export": ("exports/trials.jsonl", b'"flipped"', b'"held"'),
    "the command": ("README.txt", b"To repeat it", b"To redo it"),
    "the experiment": ("experiment.json", b"jsonl", b"JSONL"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_follows_from_the_run_is_compared_whoever_made_it(made, name, tmp_path, capsys):
    entry, old, new = VIEWS[name]
    source = made.root / "whole.zip"
    with zipfile.ZipFile(source) as archive:
        data = archive.read(entry).replace(old, new, 1)
    file = listed_again(rewritten(source, tmp_path / "x.zip", {entry: data}))
    assert f"does not agree: {entry}: expected sha256" in refused(file, capsys)
    head = {**head_of(file), "medstress": "0.0.9"}
    earlier = rewritten(file, tmp_path / "earlier.zip", {HEAD: json.dumps(head).encode()})
    assert medstress_cli(["verify", str(earlier)]) == 2
    told = capsys.readouterr()
    assert f"not judged: {entry} is of medstress 0.0.9, and another one here; make" in told.out
    assert entry in told.err
    assert told.err.count("\n") == 1


def test_what_the_head_says_of_the_run_is_compared(made, tmp_path, capsys):
    source = made.root / "whole.zip"
    for key in ("experiment", "command", "fingerprint", "versions"):
        head = {**head_of(source), key: "another"}
        file = rewritten(source, tmp_path / f"{key}.zip", {HEAD: json.dumps(head).encode()})
        assert "does not agree: " in refused(file, capsys)
    for version in (0, -5, True):
        head = {**head_of(source), "bundle": version}
        file = rewritten(source, tmp_path / "odd.zip", {HEAD: json.dumps(head).encode()})
        assert "is no bundle" in refused(file, capsys)


@pytest.mark.parametrize("entry", ["run/run.sqlite", "run/ledger.jsonl", "report.html"])
def test_a_bundle_that_lacks_a_file_names_it(made, entry, tmp_path, capsys):
    source = made.root / ("redacted.zip" if "ledger" in entry else "whole.zip")
    head = head_of(source)
    del head["files"][entry]
    change = {HEAD: json.dumps(head).encode(), entry: None}
    told = refused(rewritten(source, tmp_path / "less.zip", change), capsys)
    assert f"less.zip: {entry} is missing" in told
    assert "once mended" not in told


def test_a_folder_that_does_not_agree_is_not_packed(made, tmp_path, capsys):
    folder, to = shutil.copytree(made.out, tmp_path / "run"), tmp_path / "x.zip"
    inside = folder / "x.zip"
    assert medstress_cli(["bundle", str(folder), "--to", str(inside)]) == 2
    assert "is inside the run's folder" in capsys.readouterr().err
    with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
        db.execute("UPDATE exchanges SET edits = replace(edits, 'a', 'e')")
    assert medstress_cli(["bundle", str(folder), "--to", str(to)]) == 2
    told = capsys.readouterr().err
    assert f"{folder} does not agree: table exchanges, row 1: expected digest" in told
    assert told.endswith(f"medstress verify {folder}\n")
    assert not to.exists()
    (folder / "run.sqlite").write_bytes(b"no database" * 100)
    assert medstress_cli(["bundle", str(folder), "--to", str(to)]) == 2
    assert str(folder / "run.sqlite") in capsys.readouterr().err


def test_without_words_there_is_no_command_line(made):
    command = "medstress run EXPERIMENT.toml"
    with zipfile.ZipFile(made.root / "redacted.zip") as archive:
        texts = [archive.read(name).decode() for name in archive.namelist()]
    assert head_of(made.root / "redacted.zip")["command"] == command
    assert not any(str(made.root) in text for text in texts)


def test_a_hostile_zip_is_refused_in_one_sentence_and_nothing_is_unpacked(made, tmp_path, capsys):
    source, inside = made.root / "whole.zip", tmp_path / "inside"
    inside.mkdir()
    before = sorted(tmp_path.parent.rglob("*"))
    head = head_of(source)

    def bundle(name, change, **entries):
        told = {**head, **change}
        told["files"] = {**head["files"], **entries}
        extra = {name: b"x" for name in entries if name not in head["files"]}
        return rewritten(source, inside / name, {HEAD: json.dumps(told).encode(), **extra})

    one = {"bytes": 1, "sha256": "0"}
    up = bundle("up.zip", {}, **{"../../up.txt": one})
    assert "which no bundle has" in refused(up, capsys)
    absolute = bundle("absolute.zip", {}, **{"/tmp/up.txt": one})
    assert "which no bundle has" in refused(absolute, capsys)
    later = bundle("later.zip", {"bundle": 2})
    assert "bundle of format 2, but this medstress reads up to 1" in refused(later, capsys)
    bare = rewritten(source, inside / "bare.zip", {HEAD: b"{}"})
    assert "is no bundle" in refused(bare, capsys)
    nothing = inside / "nothing.zip"
    nothing.write_bytes(b"PK no zip")
    assert "no zip file" in refused(nothing, capsys)
    cut = inside / "cut.zip"
    cut.write_bytes(source.read_bytes()[:-2000])
    assert "no zip file" in refused(cut, capsys)
    odd = inside / "odd.zip"
    with zipfile.ZipFile(odd, "w", zipfile.ZIP_LZMA) as new:
        new.writestr("medstress.json", b"{}")
    odd.write_bytes(odd.read_bytes().replace(b"{}", b"{]"))
    assert "odd.zip" in refused(odd, capsys)
    nameless = inside / "nameless.zip"
    with zipfile.ZipFile(nameless, "w") as new:
        new.writestr("ä" * 7, b"{}")
    nameless.write_bytes(nameless.read_bytes().replace("ä".encode(), b"\xa2\xa2"))
    assert "no zip file that can be read" in refused(nameless, capsys)
    unlisted = rewritten(source, inside / "unlisted.zip", {"more.txt": b"x"})
    assert "lists" in refused(unlisted, capsys)
    assert sorted(path for path in tmp_path.parent.rglob("*") if inside not in path.parents) == (
        before
    )


def test_a_bomb_and_a_link_are_refused_before_they_are_unpacked(made, tmp_path, capsys):
    bomb = rewritten(made.root / "whole.zip", tmp_path / "a.zip", {"report.html": bytes(50 << 20)})
    assert "at most" in refused(listed_again(bomb), capsys)
    source, linked = made.root / "whole.zip", tmp_path / "linked.zip"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(linked, "w") as new:
        for entry in old.infolist():
            info = zipfile.ZipInfo(entry.filename)
            if entry.filename == "report.html":
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            new.writestr(info, old.read(entry))
    assert "no ordinary file" in refused(linked, capsys)


def test_only_a_complete_run_is_bundled(made, tmp_path, capsys):
    assert medstress_cli(["bundle", str(made.out), "--to", str(tmp_path / "x.tar")]) == 2
    assert ".zip" in capsys.readouterr().err
    assert made.run("--limit", "3", "--set", "experiment.max_queries=1", out=tmp_path / "part") == 0
    capsys.readouterr()
    to = tmp_path / "part.zip"
    assert medstress_cli(["bundle", str(tmp_path / "part"), "--to", str(to)]) == 2
    assert "not complete" in capsys.readouterr().err
    assert not to.exists()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_root_is_signed_and_a_signature_of_another_is_refused(made, tmp_path, capsys):
    key, signed = tmp_path / "key", tmp_path / "signed.zip"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    command = ["bundle", str(made.out), "--redact", "--sign", str(key), "--to"]
    assert medstress_cli([*command, str(signed)]) == 0
    assert medstress_cli([*command, str(tmp_path / "again.zip")]) == 0
    assert signed.read_bytes() == (tmp_path / "again.zip").read_bytes()
    capsys.readouterr()
    assert medstress_cli(["verify", str(signed)]) == 0
    assert "signed with the key SHA256:" in capsys.readouterr().out
    with zipfile.ZipFile(signed) as archive:
        signature = archive.read("root.sig").decode()
    forged = signature.replace(signature.splitlines()[2][:8], "AAAAAAAA")
    file = listed_again(rewritten(signed, tmp_path / "other.zip", {"root.sig": forged.encode()}))
    assert "root.sig" in refused(file, capsys)
    assert medstress_cli([*command[:-2], str(tmp_path / "none"), "--to", str(signed)]) == 2
    assert "no such file" in capsys.readouterr().err
    key.chmod(0o644)
    assert medstress_cli([*command[:-2], str(key), "--to", str(signed)]) == 2
    assert capsys.readouterr().err.endswith(f"others can read the key; next: chmod 600 {key}\n")
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)], check=True)
    assert medstress_cli([*command[:-2], str(key), "--to", str(signed)]) == 2
    told = capsys.readouterr().err
    assert "the key has a passphrase; give it to ssh-agent" in told
    assert told.count("\n") == 1


def test_judgements_of_a_room_that_is_open_are_packed(made, tmp_path):
    folder = shutil.copytree(made.out, tmp_path / "reviewed")
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        trial = db.execute("SELECT trial_id FROM trials").fetchone()[0]
    with ReviewStore(folder) as store:
        store.add([Review(trial_id=trial, reviewer="AB", answers={"key_right": "yes"}, time="1")])
        assert (folder / "reviews.sqlite-wal").stat().st_size
        head = write_bundle(folder, tmp_path / "b.zip", report_of)
    with open_run(folder) as run:
        assert head["root"] == root_of(run)


def test_a_redacted_bundle_holds_the_roots_of_before_its_reviews(made, tmp_path, capsys):
    shutil.copytree(made.out, tmp_path / "reviewed")
    before = head_of(made.root / "redacted.zip")["root"]
    with ReviewStore(tmp_path / "reviewed") as store:
        for name in ("A. B.", "C. D."):
            answers = {"key_right": "yes"}
            store.add([Review(trial_id="t", reviewer=name, answers=answers, time="now")])
        to = tmp_path / "redacted.zip"
        flags = ["--to", str(to), "--redact"]
        assert medstress_cli(["bundle", str(tmp_path / "reviewed"), *flags]) == 0
    capsys.readouterr()
    assert medstress_cli(["verify", str(to), "--root", before]) == 0
    told = capsys.readouterr().out
    assert f"it had the root {before}; since then were added: 2 rows of reviews" in told
    assert "verdicts on criteria" in told
    with zipfile.ZipFile(to) as archive:
        numbers = json.loads(archive.read("run/numbers.json"))
    assert len(numbers["reviews_before"]) == 1


def test_the_kept_summary_follows_reviews_that_a_room_left_behind(made, tmp_path, capsys):
    folder, whole = tmp_path / "reviewed", tmp_path / "whole.zip"
    shutil.copytree(made.out, folder)
    with ReviewStore(folder) as store:
        answers = {"key_right": "yes"}
        store.add([Review(trial_id="t", reviewer="A. B.", answers=answers, time="now")])
    assert medstress_cli(["bundle", str(folder), "--to", str(whole)]) == 0
    with zipfile.ZipFile(whole) as archive:
        assert json.loads(archive.read("run/summary.json"))["root"] == head_of(whole)["root"]
    assert medstress_cli(["summary", str(folder)]) == 0
    capsys.readouterr()
    for each in (folder, whole):
        assert medstress_cli(["verify", str(each)]) == 0
        assert "not compared" not in capsys.readouterr().out
