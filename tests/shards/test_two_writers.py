"""A shard on a disk of many machines: locks that are lost, kills in mid-commit, a full disk."""

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
from unittest.mock import Mock

import pytest

from medstress.api.run import Run, merge
from medstress.cli.app import medstress_cli
from medstress.core.calls import Chosen
from medstress.core.errors import StoreError
from medstress.core.items import Question
from medstress.experiment.audit.verify import verify_folder
from medstress.store.database import FILE, LOCK, TakenOverError
from medstress.store.run_store import RunStore, lock_folder


@pytest.fixture
def bench(bench):
    """One victim that logs, and one attack."""
    bench.tables["victim"], bench.tables["attack"] = (
        bench.tables[name][:1] for name in ("victim", "attack")
    )
    return bench


def merged_root(bench, *folders):
    """The root of the run that shards make together."""
    to = bench.root / "merged"
    merge(folders, to)
    assert bench.run(out=to) == 0
    assert verify_folder(to).holds
    return Run(to).summary()["root"]


def opened(folder):
    """A store whose process lost the lock, or never had it."""
    (folder / LOCK).unlink(missing_ok=True)
    return RunStore(folder, lock=lock_folder(folder), alone=True)


def answer(store, text, n):
    """Store an answer and commit it."""
    store.answered([(bytes([n]) * 16, 1, Chosen(answer="A", text=text), 0.0)])
    store.commit()


@pytest.mark.parametrize("begun", [True, False])
def test_of_two_that_hold_the_lock_only_the_last_one_writes(tmp_path, begun):
    folder = tmp_path / "shard"
    first = opened(folder)
    if begun:
        first.write_manifest({"x": 1})
        arm = first.arm_id("d", "g", "v", "a", {}, 0)
        item = Question(id="1", stem="Which?", options=("a", "b"), key="A")
        first.begin_trials([("t1", arm, "d", item, 0, 0)])
        answer(first, "of the first", 1)
    second = opened(folder)
    answer(second, "of the second", 2)
    with pytest.raises(TakenOverError):
        answer(first, "late", 3)
    with pytest.raises(TakenOverError):
        first.close()
    answer(second, "of the second, too", 4)
    second.close()
    third = opened(folder)
    kept = third.lookup([bytes([n]) * 16 for n in range(5)])
    texts = ["of the second", "of the second, too"]
    assert [one.text for one in kept.values()] == ["of the first"] * begun + texts
    third.close()
    assert sorted(path.name for path in folder.iterdir()) == [LOCK, FILE]


def test_what_the_last_one_wrote_survives_its_death_and_the_end_of_the_first(tmp_path):
    folder = tmp_path / "shard"
    first = opened(folder)
    answer(first, "of the first", 1)
    second = opened(folder)
    answer(second, "of the second", 2)
    with pytest.raises(TakenOverError):
        first.close()  # it must not take the log of the second with it
    log = (folder / f"{FILE}-wal").read_bytes()
    assert log
    third = opened(folder)  # as after a kill: nobody closed the second
    assert len(third.lookup([bytes([n]) * 16 for n in (1, 2)])) == 2
    third.close()
    with pytest.raises(TakenOverError):
        second.close()


@pytest.mark.kills("run --shard, stopped")
def test_a_stopped_worker_that_goes_on_after_its_retry_began_is_refused(workbench, bench):
    assert bench.run() == 0
    n_alone = len(bench.received())
    folder, log = bench.root / "1", bench.root / "stopped.jsonl"
    hold = bench.root / "hold"
    stopped = bench.start("--shard", "1/1", out=folder, log=log, delay=0.01)
    try:
        workbench.wait_until(lambda: len(bench.received(log)) >= n_alone // 3, stopped)
        stopped.send_signal(signal.SIGSTOP)
        hold.touch()
        # It still has its lock: a retry is refused, or waits.
        assert bench.run("--shard", "1/1", out=folder) == 2
        (folder / LOCK).unlink()  # as its machine, cut off from the disk, would lose it
        n_before = len(bench.received(log))
        n_here = len(bench.received())
        assert bench.run("--shard", "1/1", out=folder) == 0
        n_retry = len(bench.received()) - n_here
        kept = (folder / FILE).read_bytes()
        stopped.send_signal(signal.SIGCONT)
        code, _, err = workbench.finish(stopped)
    finally:
        stopped.send_signal(signal.SIGCONT)
        workbench.stop(stopped)
    assert (code, "taken" in err) == (2, True), err
    assert (folder / FILE).read_bytes() == kept
    assert n_alone - n_before <= n_retry <= n_alone - n_before + 3  # what was in flight
    assert merged_root(bench, folder) == Run(bench.out).summary()["root"]


def test_a_full_disk_ends_a_shard_with_a_sentence_and_it_goes_on_later(bench):
    assert bench.run() == 0
    n_alone, folder = len(bench.received()), bench.root / "1"

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [sys.executable, "-m", "medstress", *bench.arguments("--shard", "1/1", out=folder)],
        env=bench.environment(),
        capture_output=True,
        text=True,
        preexec_fn=small,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "run the same command again" in done.stderr
    assert bench.run("--shard", "1/1", out=folder) == 0
    assert len(bench.received()) - 2 * n_alone <= 3
    before = (folder / FILE).stat().st_size
    to = bench.root / "merged"
    command = ["merge", str(folder), "--out", str(to), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "medstress", *command],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (before // 2, before // 2)),
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert not to.exists()
    assert merged_root(bench, folder) == Run(bench.out).summary()["root"]


def test_a_disk_without_locks_is_refused_before_anything_is_asked(bench, monkeypatch, capsys):
    for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
        refusal = OSError(number, os.strerror(number))
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=refusal))
        assert bench.run("--shard", "1/2", out=bench.root / "1") == 2
        assert "no file locks" in capsys.readouterr().err
    assert not bench.received()


def test_a_retry_waits_for_the_lock_and_then_fails(tmp_path):
    with lock_folder(tmp_path), pytest.raises(StoreError, match="another medstress process"):
        lock_folder(tmp_path, wait=0.2)


def test_a_running_shard_is_locked_and_an_odd_one_is_left_as_it_is(tmp_path, capsys):
    store = opened(tmp_path / "shard")
    answer(store, "x", 1)
    assert medstress_cli(["summary", str(tmp_path / "shard")]) == 2
    assert "locked" in capsys.readouterr().err
    store.close()
    other = tmp_path / "other"
    other.mkdir()
    (other / FILE).write_bytes(b"SQLite format 3\0 and no more")
    with pytest.raises(StoreError, match=FILE):
        opened(other)
    assert (other / FILE).read_bytes() == b"SQLite format 3\0 and no more"
    assert sorted(path.name for path in other.iterdir()) == [LOCK, FILE]
