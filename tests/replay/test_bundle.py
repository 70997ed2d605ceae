"""`medstress bundle` packs a run, and `medstress verify` reads the file as untrusted input."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import zipfile

import pytest

from medstress.audit.archive import HEAD
from medstress.cli.app import medstress_cli

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
