"""What lies in a run folder is written through no link, and is its owner's alone."""

import os
import resource
import shutil
import signal
import sqlite3
import stat
from itertools import product
from pathlib import Path

import pytest

from medstress.store.run_store import RunStore

FILES = ("run.sqlite", "run.sqlite-wal", "run.lock")


def most_held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def modes(folder: Path) -> dict[str, int]:
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    return {".": stat.S_IMODE(folder.stat().st_mode), **found}


@pytest.fixture
def umask():
    """As wide as it gets."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def run_of(finished, tmp_path):
    """A copy of a finished run, in which anything may lie."""
    return Path(shutil.copytree(finished.out, tmp_path / "given"))


@pytest.fixture
def outside(tmp_path):
    """A file that no command has any business with."""
    path = tmp_path / "outside"
    path.write_bytes(b"mine\n" * 100)
    return path


# -- links -----------------------------------------------------------------------------------------


def test_a_run_writes_through_no_link_in_its_folder(ran, medstress, outside, small_run):
    for name, flags in product(FILES, ((), ("--fresh",))):
        shutil.rmtree(ran.out)
        shutil.copytree(small_run.out, ran.out)
        place = ran.out / name
        place.unlink(missing_ok=True)
        place.symlink_to(outside)
        before = {path.name: path.read_bytes() for path in ran.out.iterdir() if path != place}
        told = medstress(*ran.arguments(*flags))
        assert (told.code, told.err.count("\n"), name in told.err) == (2, 1, True)
        assert place.is_symlink()
        assert outside.read_bytes() == b"mine\n" * 100
        after = {path.name: path.read_bytes() for path in ran.out.iterdir() if path != place}
        assert after == before
    (ran.out / "run.sqlite").unlink()
    os.link(outside, ran.out / "run.sqlite")
    told = medstress(*ran.arguments())
    assert (told.code, "hard link" in told.err) == (2, True)
    assert outside.read_bytes() == b"mine\n" * 100


def test_a_folder_that_is_a_link_is_refused_and_a_linked_one_above_is_normal(
    bench, medstress, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    told = medstress("run", bench.write(), "--out", tmp_path / "runs", "--quiet")
    assert (told.code, list((tmp_path / "elsewhere").iterdir())) == (2, [])
    assert "it is a link" in told.err
    told = medstress("run", bench.write(), "--out", tmp_path / "runs" / "first", "--quiet")
    assert (told.code, told.err) == (0, "")


OUTPUTS = {
    "report": ("report", "{run}", "--out", "{to}.html"),
    "export": ("export", "{run}", "--table", "trials", "--to", "{to}.csv"),
    "parquet": ("export", "{run}", "--table", "items", "--to", "{to}.parquet"),
    "review": ("review", "{run}", "--export", "{to}.csv"),
    "markdown": ("summary", "{run}", "--markdown", "{to}.md"),
    "figures": ("figures", "{run}", "--format", "svg", "--out", "{to}"),
}
READINGS = {
    "summary": ("summary", "{run}"),
    "report": ("report", "{run}", "--out", "{to}.html"),
    "export": ("export", "{run}", "--table", "trials", "--to", "{to}.jsonl"),
    "verify": ("verify", "{run}"),
    "merge": ("merge", "{run}", "--out", "{to}-merged"),
}
"""Commands that read or pack a folder."""


def filled(arguments, run, to):
    return [part.format(run=run, to=to) for part in arguments]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("what", OUTPUTS)
def test_an_output_elsewhere_is_its_owners_alone_and_goes_through_no_link(
    run_of, medstress, tmp_path, outside, what
):
    words = filled(OUTPUTS[what], run_of, tmp_path / what)
    place = Path(words[-1])
    for target in (outside, tmp_path / "nowhere"):
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        assert medstress(*words).code == 2
        assert place.is_symlink()
    assert not (tmp_path / "nowhere").exists()
    assert outside.read_bytes() == b"mine\n" * 100
    place.unlink()
    assert medstress(*words).code == 0
    found = stat.S_IMODE(place.stat().st_mode)
    assert found == {"markdown": 0o666, "figures": 0o700}.get(what, 0o600)
    if what == "figures":
        assert set(modes(place).values()) == {0o700, 0o600}


def to_nowhere(place: Path, outside: Path, how: str) -> None:
    """Put what is no file, or a file without an end, in the place of one."""
    place.unlink(missing_ok=True)
    match how:
        case "link":
            place.symlink_to(outside)
        case "pipe":
            os.mkfifo(place)
        case "giant":
            place.touch()
            os.truncate(place, 1 << 40)


@pytest.fixture
def at_once():
    """Whatever waits for more than half a minute fails."""

    def stop(*_):
        raise TimeoutError("a command waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("name", "how"),
    [
        *product(["run.sqlite"], ["link", "pipe"]),
        ("run.sqlite-wal", "pipe"),
        ("reviews.sqlite", "link"),
    ],
)
def test_no_command_follows_or_opens_what_is_no_file(
    run_of, medstress, tmp_path, outside, name, how
):
    shutil.copy(run_of / "run.sqlite", outside)
    to_nowhere(run_of / name, outside, how)
    before, held = sorted(run_of.iterdir()), outside.read_bytes()
    for arguments in READINGS.values():
        told = medstress(*filled(arguments, run_of, tmp_path / "to"))
        assert (told.code, told.out) == (2, ""), arguments
        assert f"{name} is " in told.err or "no shard" in told.err, arguments
    assert sorted(run_of.iterdir()) == before
    assert outside.read_bytes() == held


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("how", ["pipe", "giant"])
def test_a_kept_summary_that_is_no_file_of_ours_is_read_by_nobody(
    run_of, medstress, tmp_path, outside, how
):
    to_nowhere(run_of / "summary.json", outside, how)
    held = most_held()
    for name in ("summary", "verify"):
        told = medstress(*filled(READINGS[name], run_of, tmp_path / "to"))
        assert told.code == (2 if name == "verify" else 0), told.err
        assert "mine" not in told.out + told.err
    assert most_held() - held < 300 << 20


@pytest.mark.usefixtures("at_once")
def test_what_a_command_is_given_has_an_end(run_of, medstress, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for words in (("check", pipe), ("review", run_of, "--import", pipe)):
        told = medstress(*words)
        assert told.code == 2
        assert f"{pipe}: expected a file, got something else" in told.err
    told = medstress("run", "/dev/zero", "--dry-run")
    assert (told.code, "at most 16,777,216 characters" in told.err) == (2, True)


# -- modes -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("umask")
def test_a_run_folder_is_its_owners_alone(bench, medstress):
    seen = {}

    class Watched(RunStore):
        def close(self) -> None:
            seen.update(modes(self.folder))
            super().close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medstress.experiment.run.RunStore", Watched)
        assert bench.run() == 0
    assert {"run.sqlite", "run.sqlite-wal", "run.sqlite-shm"} <= set(seen)
    with sqlite3.connect(f"file:{bench.out / 'run.sqlite'}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
    assert medstress("report", bench.out).code == 0
    export = bench.out / "trials.csv"
    assert medstress("export", bench.out, "--table", "trials", "--to", export).code == 0
    for found in (seen, modes(bench.out)):
        assert found.pop(".") == 0o700
        assert set(found.values()) == {0o600}


def test_a_run_that_its_owner_opened_to_the_group_stays_open_to_it(ran, medstress):
    ran.out.chmod(0o750)
    for path in ran.out.iterdir():
        path.chmod(0o640)
    ran.tables["experiment"]["seeds"].append(7)
    assert ran.run() == 0
    assert medstress("review", ran.out, "--export", ran.out / "sheet.csv").code == 0
    found = modes(ran.out)
    assert found.pop(".") == 0o750
    assert {"reviews.sqlite", "sheet.csv", "summary.json"} <= set(found)
    assert set(found.values()) == {0o640}


@pytest.mark.usefixtures("umask")
def test_the_default_cache_is_its_owners_alone_whatever_is_kept_there(bench, monkeypatch, tmp_path):
    """Vectors of names and answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("MEDSTRESS_CACHE")
    bench.embed_words()
    bench.tables["experiment"]["cache"] = "default"
    assert bench.run() == 0
    cache = tmp_path / "user" / "medstress"
    kept = {path: stat.S_IMODE(path.stat().st_mode) for path in [cache, *cache.rglob("*")]}
    assert {path.name for path in kept} >= {"answers", "answers.sqlite", "vectors"}
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in kept.items())
