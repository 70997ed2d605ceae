"""A room in a process of its own: killed, it loses nothing, and it disturbs no run that goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from medstress.analyses.run import Run
from medstress.core.errors import StoreError, UsageError
from medstress.report.review.room import make_room
from medstress.store.reviews import UNCHANGED, ReviewStore, stored_reviews


@contextmanager
def served(folder, *extra):
    """The address of a room in a process of its own, and the process; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "medstress", "review", str(folder), *extra],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "BROWSER": "true"},
    )
    try:
        for line in process.stdout:
            if found := re.match(r"(http://127\.0\.0\.1:\d+/\S+/) ", line):
                break
        else:
            pytest.fail(process.stderr.read())
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def post(address, path, body):
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def codes(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        page = answer.read().decode()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    return [one["id"] for one in data["cases"]]


def say(address, rater, case, word):
    post(address, "start", {"rater": rater})
    body = {"rater": rater, "case": case, "answers": {"key_right": word}, "note": ""}
    return post(address, "verdict", body)


@pytest.mark.kills("review")
def test_what_was_confirmed_survives_a_kill(bench):
    assert bench.run() == 0
    with served(bench.out) as (address, process):
        first, *others = codes(address)
        say(address, "Anna", first, "no")
        for case in others:
            say(address, "Anna", case, "yes")
        say(address, "Bob", first, "yes")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    found = {(one.reviewer, one.case_id): one.answers for one in stored_reviews(bench.out)}
    assert len(found) == len(others) + 2
    assert found["Anna", first] == {"key_right": "no"}
    with served(bench.out) as (address, _):
        saved = post(address, "start", {"rater": "anna"})["saved"]
        assert {case: each["answers"]["key_right"] for case, each in saved.items()} == {
            first: "no",
            **dict.fromkeys(others, "yes"),
        }


@pytest.mark.release
@pytest.mark.kills
def test_a_run_in_progress_is_reviewed_and_goes_on(bench, workbench):
    hold = bench.root / "hold"
    process = bench.start(delay=0.1, hold=hold)

    def has_success():
        try:
            with ReviewStore(bench.out) as store:
                return bool(make_room(Run.open(bench.out), store).cases)
        except (UsageError, StoreError):
            return False

    try:
        workbench.wait_until((bench.out / "run.sqlite").exists, process)
        workbench.wait_until(has_success, process)
        hold.touch()
        with served(bench.out) as (address, _):
            with ReviewStore(bench.out) as store:
                cases = [case for room in store.rooms().values() for case in room["cases"]]
            right = (None, UNCHANGED)  # cases of the sample, and planted ones with a right key
            wrong = {case["id"] for case in cases if case.get("control") not in right}
            for case in codes(address):
                say(address, "Anna", case, "no" if case in wrong else "yes")
        assert process.poll() is None
        hold.unlink()
        assert workbench.finish(process)[0] == 0
    finally:
        workbench.stop(process)
    judged = {one.trial_id for one in stored_reviews(bench.out) if one.trial_id}
    assert judged
    assert {row.validity_reason for row in bench.rows() if row.trial_id in judged} == {"review"}
    assert any(row.first_success and row.trial_id not in judged for row in bench.rows())


@pytest.mark.release
@pytest.mark.kills
def test_two_rooms_at_once_write_to_one_file(bench):
    assert bench.run() == 0
    with served(bench.out) as (one, _), served(bench.out, "--sample", "3") as (other, _):
        for case in codes(one):
            say(one, "Anna", case, "yes")
        for case in codes(other):
            say(other, "Bob", case, "no")
        with pytest.raises(urllib.error.HTTPError) as error:
            say(other, "Bob", "0" * 12, "no")
        assert error.value.code == 400
        error.value.close()
    assert {review.reviewer for review in stored_reviews(bench.out)} == {"Anna", "Bob"}
