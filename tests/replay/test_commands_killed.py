"""`tune`, `merge` and `review --import`, killed and begun again, end as if nobody killed them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from medstress.analyses.run import Run as Read
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import StoreError
from medstress.experiment.audit.verify import verify_folder
from medstress.report.review.room import make_room
from medstress.store.reviews import ReviewStore, stored_reviews

BATCH = 3
DIES_WHILE_IT_MERGES = """
import os, signal, sys
import medstress.experiment.merging as running
import medstress.store.shards as merging
from medstress.cli.app import medstress_cli

number, *arguments = sys.argv[1:]
moments = [(running, "read_shard"), (merging, "_copy"), (merging, "link"), (os, "replace")]
module, name = moments[int(number) % 4]
ordinary, left = getattr(module, name), [int(number) // 4]


def die(*given, **named):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return ordinary(*given, **named)


setattr(module, name, die)
medstress_cli(arguments)
"""
"""Kills itself at a step of a merge: the first time, or the second one that it takes."""
DIES_AT = """
import os, signal, sys
from medstress.cli.app import medstress_cli
from medstress.store import {module}

{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
medstress_cli(sys.argv[1:])
"""
DIES_BEFORE_IT_COMMITS = """
import os, signal, sys
from medstress.cli.app import medstress_cli
from medstress.store import reviews

add = reviews._add


def add_and_die(db, reviews):
    add(db, reviews=reviews)
    os.kill(os.getpid(), signal.SIGKILL)


reviews._add = add_and_die
medstress_cli(sys.argv[1:])
"""


def killed(bench, workbench, code, *arguments):
    """Run a command in a process that kills itself at a moment of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = bench.environment() | workbench.temporary(bench.root)
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((bench.root / "tmp").iterdir()) == []


@pytest.mark.kills("tune")
def test_a_tuning_killed_in_both_of_its_runs_asks_only_for_what_was_in_flight(
    bench, workbench, monkeypatch
):
    bench.write_items(workbench.questions(30))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 4}]
    bench.tables["tune"] = {"grid": [-30, -5, 5, 30], "share": 0.4}
    file = str(bench.write())

    def arguments(*extra, out=None):
        return ["tune", file, "--out", str(out or bench.out), "--quiet", *extra]

    bench.arguments = arguments
    whole, log = bench.root / "whole", bench.root / "broken.jsonl"
    assert bench.run(out=whole) == 0
    n_calls = len(bench.received())
    begun = []
    for share in (0.2, 0.85):
        n = round(share * n_calls)
        process = bench.start(log=log, most_lines=n)
        try:
            workbench.wait_until(lambda n=n: workbench.n_logged(log) >= n, process, seconds=180)
            os.kill(process.pid, signal.SIGKILL)
        finally:
            workbench.stop(process)
        assert process.returncode == -signal.SIGKILL
        assert list((bench.root / "tmp").iterdir()) == []
        begun.append((bench.out / "run.sqlite").exists())
    assert begun == [False, True]  # in the run that chooses n, and in the one that reports
    monkeypatch.setenv("VICTIM_LOG", str(log))
    assert bench.run() == 0
    assert Run(bench.out).summary()["tuning"] == Run(whole).summary()["tuning"]
    for folder in ("", "tuning"):
        assert bench.rows(bench.out / folder) == bench.rows(whole / folder)
    summaries = [Run(bench.out / folder).summary() for folder in ("", "tuning")]
    interrupted = sum(workbench.ledger(each)["interrupted"] for each in summaries)
    assert len(bench.received(log)) - n_calls <= interrupted <= 2 * BATCH


@pytest.mark.kills("merge")
def test_a_killed_merge_leaves_no_run_and_is_begun_again(bench, workbench):
    bench.tables["experiment"]["seeds"] = [0]
    assert bench.run() == 0
    shards = [bench.root / str(number) for number in (1, 2)]
    for number, folder in enumerate(shards, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    left_by_a_killed_process(shards[1])
    before = [sorted(folder.iterdir()) for folder in shards]
    merged = bench.root / "merged"
    command = ("merge", *map(str, shards), "--out", str(merged))
    for moment in range(6):
        killed(bench, workbench, DIES_WHILE_IT_MERGES, moment, *command)
        with pytest.raises(StoreError):
            Run(merged).summary()
    assert medstress_cli(list(command)) == 0
    assert [sorted(folder.iterdir()) for folder in shards] == before
    assert bench.run(out=merged) == 0
    assert verify_folder(merged).holds
    assert Run(merged).summary()["root"] == Run(bench.out).summary()["root"]


def left_by_a_killed_process(folder):
    """Give a run the log that a process leaves which is killed before it closes the file."""
    names = ("run.sqlite", "run.sqlite-wal")
    with closing(sqlite3.connect(folder / names[0], isolation_level=None)) as db:
        db.execute("INSERT INTO interrupted VALUES (x'00', 0)")
        db.execute("DELETE FROM interrupted WHERE trial = 0")
        left = [(folder / name).read_bytes() for name in names]
    for name, data in zip(names, left, strict=True):
        (folder / name).write_bytes(data)


@pytest.mark.kills("review --import")
def test_an_import_of_answers_that_was_killed_stores_none_and_is_begun_again(bench, workbench):
    bench.tables["experiment"]["seeds"] = [0]
    assert bench.run() == 0
    with ReviewStore(bench.out) as store:
        room = make_room(Read.open(bench.out), store)
    verdict = {"answers": {"key_right": "yes"}, "note": "", "time": "2026-01-31T09:30:00+00:00"}
    verdicts = [{"case": case, **verdict} for case in room.cases]
    sent = bench.root / "anna.json"
    given = {"format": 1, "room": room.id, "rater": "Anna", "verdicts": verdicts}
    sent.write_text(json.dumps(given), "utf-8")
    command = ("review", str(bench.out), "--import", str(sent))
    killed(bench, workbench, DIES_BEFORE_IT_COMMITS, *command)
    assert stored_reviews(bench.out) == []
    assert medstress_cli(list(command)) == 0
    assert len({one.case_id for one in stored_reviews(bench.out)}) == len(verdicts) > 0
    assert verify_folder(bench.out).holds


@pytest.mark.kills("verify")
def test_a_killed_verify_changes_nothing(bench, workbench):
    assert bench.run() == 0

    def held():
        return {path.name: path.read_bytes() for path in bench.out.iterdir()}

    before = held()
    for step in ("opening._check_pages", "chain._hash_next", "chain.exchanges_digest"):
        module, name = step.split(".")
        code = DIES_AT.format(module=module, name=name)
        killed(bench, workbench, code, "verify", bench.out)
        assert held() == before
    assert verify_folder(bench.out).holds
