"""Whole experiments that limits stop again and again end with the root of one without limits."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

import medstress as ms
from experiments import MEDFUZZ, entity, substitution, victim
from fault_server import FaultServer
from medstress.cli.app import medstress_cli
from medstress.engine.progress import Deadlines
from medstress.engine.work import Purpose, RunningWork


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDEN_ASKED", str(tmp_path / "asked.txt"))
    return tmp_path


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


def run(out: str, **limits: float) -> ms.Run:
    return ms.run("e.toml", out=out, overrides=[f"experiment.{k}={v}" for k, v in limits.items()])


MASKED = """

def key_of(prompt):
    name = re.search(r"[a-z]([0-9]+)zumab", prompt)
    return "ABCD"[int(name[1]) % 4] if name else "A"
"""
SLOW = """

import time

def slow(prompts):
    time.sleep(0.02)
    return soft(prompts)
"""
EXPLAINED = substitution(
    victim("careful") + entity("random", 'sampler = "random"\nbudget = 4'), 5, seeds="[0]"
)


SURE = ("n_trials", "n_already_wrong", "n_eligible", "n_not_attackable", "accuracy")
"""What a summary says of clean items."""


def test_max_queries_is_never_exceeded_and_the_root_is_that_of_one_run(workplace):
    """Trials, tests and judges of MedFuzz all count, over all processes."""
    parts = 2
    write(MEDFUZZ | {"e.toml": MEDFUZZ["e.toml"].replace("max_calls = 400", "max_calls = 130")})
    whole = run("whole").summary()
    n_all, n_stopped = whole["performance"]["calls"], 0
    for part in range(1, parts + 1):
        most = n_all * part // parts
        summary = run("parts", max_queries=most).summary()
        assert summary["performance"]["calls"] <= most
        n_stopped += not summary["experiment"]["complete"]
    assert n_stopped == parts - 1, "exactly what is needed is enough"
    assert summary["performance"]["calls"] == n_all, "nothing was bought twice"
    assert summary["root"] == whole["root"] is not None


@pytest.mark.parametrize("limit", ["max_tokens", "max_usd"])
def test_tokens_and_money_of_a_server_are_exceeded_by_what_is_in_flight_at_most(limit, workplace):
    with FaultServer(counts=True) as server:
        model = "".join(
            f'[[victim]]\nname = "{name}"\nbackend = "openai"\nbase_url = "{server.url}"\n'
            f'model = "{server.model}"\nversion = "{name}"\nanswer_by = "generate"\n'
            "max_in_flight = 4\nprice_in = 1e6\nprice_out = 1e6\n"
            for name in ("one", "two")
        )
        write(substitution(model + entity("random", 'sampler = "random"\nbudget = 3'), 4))
        whole = run("whole").summary()
        largest, n_all = max(asked.tokens for asked in server.log), len(server.log)
        used = whole["performance"]["usd"]  # one dollar a token
        assert used == sum(asked.tokens for asked in server.log)
        for part in (0.1, 0.6):
            before = len(server.log)
            summary = run("parts", **{limit: round(part * used)}).summary()
            assert len(server.log) > before
            assert not summary["experiment"]["complete"]
            assert part * used - 1 <= summary["performance"]["usd"] < part * used + 4 * largest
        n = len(server.log)
        run("parts", **{limit: round(part * used)})
        assert len(server.log) == n, "the next process knows what this one spent"
        done = run("parts", **{limit: 2 * round(used)}).summary()
        assert len(server.log) == 2 * n_all
    assert done["root"] == whole["root"] is not None


def test_max_seconds_counts_over_processes_and_ends_after_a_call(workplace):
    """A call takes .02 seconds or more: so many fit into a limit, and one more a process."""
    files = substitution(
        victim("slow", "batch_size = 1\n") + entity("near", 'sampler = "nearest"\nbudget = 4'),
        seeds="[0]",
    )
    write({**files, "choosing.py": files["choosing.py"] + SLOW})
    n_all, n = run("whole").summary()["performance"]["calls"], 0
    for processes in range(1, 200):
        summary = run("parts", max_seconds=0.3 * processes).summary()
        more = summary["performance"]["calls"] - n
        n += more
        assert n <= (0.3 * processes) / 0.02 + processes
        if summary["experiment"]["complete"]:
            break
        assert summary["performance"]["wall_seconds"] >= 0.3 * processes
    assert (n, processes > 1) == (n_all, True)
    assert summary["root"] == run("whole").summary()["root"]


@pytest.mark.parametrize("purpose", [Purpose.ATTACK, Purpose.FLIP_CHECK])
def test_whatever_was_late_is_asked_by_a_retry(workplace, monkeypatch, purpose):
    """Planted: time ends every attack before its first answer, or before the flip check; of what
    was wrong before any edit, the one question of the control."""
    write(EXPLAINED)
    whole = run("whole").summary()

    def late(_: Deadlines, all_running: Collection[RunningWork]) -> list[RunningWork]:
        return [one for one in all_running if one.call_round.purpose is purpose]

    with monkeypatch.context() as patch:
        patch.setattr(Deadlines, "overdue", late)
        cut = run("parts", trial_seconds=9)
    n_cut = cut.trials()["verdict"].to_list().count("cut_short")
    # The item that is wrong is one of the attack, which asks nothing more, and of its control.
    assert n_cut == (7 if purpose is Purpose.ATTACK else 0)
    rows = [[one[key] for key in SURE] for one in (*cut.summary()["results"], *whole["results"])]
    assert rows[:2] == rows[2:]
    assert medstress_cli(["verify", "parts"]) == 0
    again = ["run", "e.toml", "--out", "parts", "--retry-failed", "--quiet"]
    assert medstress_cli(again) == 0
    parts = run("parts").summary()
    assert parts["root"] == whole["root"] is not None
    assert parts["results"] == whole["results"]


def test_explain_obeys_the_limits_of_the_run(workplace):
    # Masked prompts name no drug, which says the key of the others.
    write({**EXPLAINED, "choosing.py": EXPLAINED["choosing.py"] + MASKED})
    n = run("run").summary()["performance"]["calls"]
    explain = ["explain", "run", "--experiment", "e.toml", "--all", "--limit", "2", "--quiet"]
    for most in (n, n + 30):
        limit = ["--set", f"experiment.max_queries={most}"]
        assert medstress_cli([*explain, *limit]) == 0
        assert ms.open("run").summary()["performance"]["calls"] <= most
    assert medstress_cli(explain) == 0
    parts = ms.open("run").summary()
    run("whole")
    explain[1] = "whole"
    assert medstress_cli(explain) == 0
    assert ms.open("whole").summary()["root"] == parts["root"]


def test_a_trial_that_runs_out_is_cut_short_with_the_reason_and_can_be_run_again(
    bench, workbench, monkeypatch
):
    bench.write_items(workbench.questions(6))
    whole = bench.root / "whole"
    assert bench.run(out=whole) == 0
    monkeypatch.setenv("VICTIM_DELAY", "0.02")
    bench.tables["experiment"]["trial_seconds"] = 0.1
    assert bench.run("--set", "experiment.max_failed=99") == 0
    found = bench.summary()
    assert found["experiment"]["complete"]
    cut = [row for row in bench.rows() if row.verdict == "cut_short"]
    assert {row.error for row in cut} == {
        "it had not ended 0.1 seconds after its first call (trial_seconds)"
    }
    for row in bench.rows():
        assert row.n_asked == row.n_paid + row.n_cached + row.n_failed
    assert cut
    assert "cut_short" in {one["rule"] for one in found["warnings"]}
    n_before = len(bench.received())
    assert bench.run("--set", "experiment.max_failed=99") == 0
    assert len(bench.received()) == n_before
    monkeypatch.setenv("VICTIM_DELAY", "0")
    del bench.tables["experiment"]["trial_seconds"]
    assert bench.run("--retry-failed") == 0
    verdicts = [(row.trial_id, row.verdict, row.n_asked) for row in bench.rows()]
    assert verdicts == [(row.trial_id, row.verdict, row.n_asked) for row in bench.rows(whole)]
