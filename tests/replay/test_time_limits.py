"""`trial_seconds` and `max_seconds`: both are said, and nothing that arrived is lost."""

import threading
import time

from medstress.attacks import EntitySubstitution
from medstress.core.calls import Chosen
from medstress.engine.progress import Limits
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.store.run_store import RunStore
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import ScriptedBackend


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


def test_a_batch_that_hangs_does_not_hold_a_run_whose_time_is_up(tmp_path):
    from medstress.testing import tiny_questions

    hangs = threading.Event()

    def reply(_):
        hangs.wait(30)
        return Chosen(text="A")

    backend = ScriptedBackend(reply)
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    trial = Trial(
        dataset="d",
        group="g",
        item=tiny_questions(1)[0],
        victim=Victim(label="v", task=task, backend=backend),
        attack_label="nearest",
        attack=_Always(sampler="nearest", budget=2),
        resources=None,
        seed=None,
    )
    started = time.monotonic()
    limits = Limits(until=started + 0.2, drain_seconds=0.2)
    with RunStore(tmp_path) as store:
        progress = Scheduler(store, limits=limits).run([trial], 1)
    assert time.monotonic() - started < 3.0
    assert progress.stopped
    assert progress.n_done == 0
    hangs.set()


class _Always(EntitySubstitution):
    def obstacle(self, item, resources):
        return None
