"""Many trials against the real run folder and back ends that remember what they were asked."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.core.calls import Call, Choose, Chosen, Failure, Generate, Generated, Reply, Request
from medstress.core.errors import BackendError, PermanentBackendError, StoreError, UsageError
from medstress.core.queries import Ask, Consult
from medstress.engine import scheduler as ready_queue
from medstress.engine.progress import Limits, Progress
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.store.reader import opened
from medstress.store.run_store import RunStore
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import ScriptedBackend, planted, tiny_questions

Make = Callable[..., Any]
ITEMS = tiny_questions(6)
NEAREST = EntitySubstitution(sampler="nearest", budget=4)


def victim_that(errs: Callable[[str], bool], **given: Any) -> ScriptedBackend:
    """Answers the key of a tiny question, unless `errs` of the prompt."""
    rule = planted(ITEMS, lambda item, options: errs(" ".join(options)))

    def reply(call: Call) -> Reply:
        assert isinstance(call, Choose)
        return Chosen(**rule([call.prompt])[0], tokens_in=10, tokens_out=1)

    return ScriptedBackend(reply, **given)


def never(_: str) -> bool:
    return False


def always_when_changed(options: str) -> bool:
    return any(name[0].islower() or name in SWAPPED for name in options.split())


SWAPPED = {"Mirozide", "Nexodrel", "Ovaquine", "Pilbutan"}


def drive(
    folder: Path, trials: Iterable[Trial], **given: Any
) -> tuple[Progress, list[dict[str, Any]]]:
    """Run trials; returns the progress, and the stored trials in the plan's order."""
    with RunStore(folder) as store:
        progress = Scheduler(store, **given).run(trials)
    return progress, stored(folder)


def stored(folder: Path) -> list[dict[str, Any]]:
    with opened(folder) as reader:
        return [trial._asdict() for trial in reader.trials()]


def counts(folder: Path) -> dict[str, int]:
    """Beside the attack's queries, over all arms."""
    with opened(folder) as reader:
        total: Counter[str] = Counter()
        for found in reader.other_counts().values():
            total.update(found)
        return {**total, "computed": sum(one.n_calls for one in reader.spending())}


def check_identity(trials: Sequence[dict[str, Any]]) -> None:
    for trial in trials:
        asked = trial["result"].get("n_asked", 0)
        assert asked == trial["n_paid"] + trial["n_cached"] + trial["n_failed"], trial


def test_every_trial_is_run_and_every_query_paid(tmp_path, trial_of):
    backend = victim_that(never)
    progress, trials = drive(tmp_path, [trial_of(NEAREST, item, backend) for item in ITEMS])
    assert [trial["verdict"] for trial in trials] == ["held"] * 6
    assert [trial["n_paid"] for trial in trials] == [4] * 6
    assert (progress.n_done, progress.n_eligible, progress.n_flipped) == (6, 6, 0)
    assert len(backend.asked) == progress.n_computed == 6 * 5
    assert progress.n_tokens == 11 * progress.n_computed
    assert counts(tmp_path) == {"baseline": 6, "computed": 30}
    check_identity(trials)


def test_an_identical_pending_call_is_computed_once(tmp_path, trial_of):
    backend = victim_that(never)
    arms = [trial_of(NEAREST, ITEMS[0], backend, attack_label=f"arm {i}") for i in range(3)]
    _, trials = drive(tmp_path, arms)
    assert len(backend.asked) == len(set(backend.asked)) == 5
    assert [(t["n_paid"], t["n_cached"]) for t in trials] == [(4, 0), (0, 4), (0, 4)]
    assert counts(tmp_path) == {"baseline": 3, "computed": 5}
    check_identity(trials)


def test_a_stored_answer_is_not_asked_again(tmp_path, trial_of):
    first, second = victim_that(never), victim_that(never)
    drive(tmp_path, [trial_of(NEAREST, ITEMS[0], first, attack_label="one")])
    drive(tmp_path, [trial_of(NEAREST, ITEMS[0], second, attack_label="two")])
    assert len(first.asked) == 5
    assert second.asked == []


def test_work_ahead_counts_only_when_consumed(tmp_path, trial_of):
    backend = victim_that(always_when_changed, ahead=8)
    _, trials = drive(tmp_path, [trial_of(NEAREST, ITEMS[0], backend, flip_check=False)])
    (trial,) = trials
    assert trial["verdict"] == "flipped"
    assert (trial["result"]["n_asked"], trial["n_paid"]) == (1, 1)
    assert counts(tmp_path) == {"baseline": 1, "ahead": 3, "computed": 5}
    assert [len(batch) for batch in backend.batches] == [1, 4]


def test_what_one_trial_computed_ahead_another_consumes_and_pays(tmp_path, trial_of):
    backend = victim_that(lambda options: "Mirozide" in options, ahead=8)
    far = EntitySubstitution(sampler="farthest", budget=9)
    arms = [
        trial_of(NEAREST, ITEMS[0], backend, attack_label="near", flip_check=False),
        trial_of(far, ITEMS[0], backend, attack_label="far", flip_check=False),
    ]
    _, trials = drive(tmp_path, arms)
    assert [t["result"]["n_asked"] for t in trials] == [1, 9]
    assert len(backend.asked) == len(set(backend.asked))
    assert [(t["n_paid"], t["n_cached"]) for t in trials] == [(1, 0), (9, 0)]
    check_identity(trials)


def test_the_flip_check_asks_again_in_a_batch_of_its_own(tmp_path, trial_of):
    backend = victim_that(always_when_changed)
    _, trials = drive(tmp_path, [trial_of(NEAREST, item, backend) for item in ITEMS])
    assert [trial["result"]["repeats"] for trial in trials] == [True] * 6
    seen: Counter[Call] = Counter()
    for batch in backend.batches:
        if any(seen[call] for call in batch):
            assert len(batch) == 1
        seen.update(batch)
    assert sum(n == 2 for n in seen.values()) == 6
    assert counts(tmp_path) == {"baseline": 6, "other": 6, "computed": 18}


def scored(call: Call) -> Reply:
    from medstress.testing import scripted_reply

    return scripted_reply(call, 0, 0.3 if call.prompt == "Answer:" else 0.9)


def test_a_failed_call_fails_its_trial_and_no_other(tmp_path, trial_of):
    healthy = victim_that(never)

    def reply(call: Call) -> Reply:
        if "case 1?" in str(call.prompt) and "Ovaquine" in str(call.prompt):
            return Failure(error="no")
        return healthy.answer([call])[0]

    backend = ScriptedBackend(reply)
    progress, trials = drive(tmp_path, [trial_of(NEAREST, item, backend) for item in ITEMS[:3]])
    assert [trial["verdict"] for trial in trials] == ["held", "failed", "held"]
    failed = trials[1]
    assert (failed["result"]["at"], failed["result"]["note"]) == ("attack", "no")
    assert (failed["n_paid"], failed["n_failed"], failed["result"]["n_asked"]) == (2, 1, 3)
    assert progress.n_failed == 1
    check_identity(trials)


class Raising(ScriptedBackend):
    """Raises for whole batches, as a back end does that lost its server."""

    def __init__(self, fails: Callable[[int], bool], **given: Any) -> None:
        super().__init__(victim_that(never)._reply, **given)
        self._fails = fails

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        self.batches.append(tuple(calls))
        if self._fails(len(self.batches)):
            raise PermanentBackendError("the server is gone")
        return [self._reply(call) for call in calls]


def test_a_back_end_that_never_answers_stops_the_run(tmp_path, trial_of, said):
    backend = Raising(lambda _: True, batch_size=1)
    with pytest.raises(BackendError) as caught:
        drive(tmp_path, [trial_of(NEAREST, item, backend) for item in ITEMS])
    said(str(caught.value), "'scripted'")
    assert len(backend.batches) == 3


def test_too_few_answers_stop_the_run(tmp_path, trial_of, said):
    class Short(ScriptedBackend):
        def answer(self, calls: Sequence[Call]) -> list[Reply]:
            return super().answer(calls)[1:]

    with pytest.raises(UsageError) as caught:
        drive(tmp_path, [trial_of(NEAREST, item, Short()) for item in ITEMS[:1]])
    said(str(caught.value), "'scripted'")


@pytest.mark.timeout(3)
def test_a_limit_that_splits_a_query_stops_cleanly(tmp_path, trial_of):
    task = MultipleChoice(
        template=load_template("cloze"), answer_by=AnswerBy.TEXT, text_score=TextScore.UNCONDITIONAL
    )
    victim = Victim(label="v", task=task, backend=ScriptedBackend(scored))
    progress, _ = drive(
        tmp_path, [trial_of(NEAREST, ITEMS[0], victim=victim)], limits=Limits(max_queries=3)
    )
    assert progress.stopped
    assert progress.n_computed <= 3


def test_an_interrupt_stores_what_is_in_flight(tmp_path, trial_of):
    first, second = victim_that(never), victim_that(never)
    calls = []

    def interrupt(_: Progress) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(tmp_path, [trial_of(NEAREST, item, first) for item in ITEMS], on_progress=interrupt)
    _, trials = drive(tmp_path, [trial_of(NEAREST, item, second) for item in ITEMS])
    assert not set(first.asked) & set(second.asked)
    assert [trial["verdict"] for trial in trials] == ["held"] * 6
    assert counts(tmp_path) == {"baseline": 6, "computed": 30}


SHAPES = [
    {"batch_size": 1, "ahead": 0, "workers": 1},
    {"batch_size": 3, "ahead": 2, "workers": 1},
    {"batch_size": 64, "ahead": 16, "workers": 1},
    {"batch_size": 2, "ahead": 1, "workers": 4},
]


@pytest.mark.parametrize("window", [1, 64])
def test_batches_windows_and_threads_change_no_trial_and_no_ledger(
    tmp_path, trial_of, window, monkeypatch
):
    monkeypatch.setattr(ready_queue, "WINDOW", window)

    def plan(backend: ScriptedBackend) -> list[Trial]:
        arms = {
            "random": EntitySubstitution(sampler="random", budget=5),
            "near": EntitySubstitution(sampler="pdws", n=-9, budget=5),
            "far": EntitySubstitution(sampler="pdws", n=9, budget=3),
        }
        return [
            trial_of(attack, item, backend, attack_label=label, seed=seed)
            for item in ITEMS
            for label, attack in arms.items()
            for seed in (0, 1)
        ]

    results = []
    for i, shape in enumerate(SHAPES):
        backend = victim_that(
            lambda options: any(n in options for n in ("Ovaquine", "Xedramol")), **shape
        )
        _, trials = drive(tmp_path / str(i), plan(backend))
        check_identity(trials)
        consumed = counts(tmp_path / str(i))
        results.append((trials, consumed["baseline"], consumed["other"]))
        assert consumed["computed"] == len(backend.asked)
    assert {trial["verdict"] for trial in results[0][0]} == {"flipped", "held"}
    for result in results[1:]:
        assert result == results[0]


def test_trials_that_all_end_in_one_step_do_not_end_the_run(tmp_path, trial_of, monkeypatch):
    monkeypatch.setattr(ready_queue, "WINDOW", 2)
    backend = victim_that(lambda _: True, batch_size=1)
    plan = [trial_of(NEAREST, ITEMS[0], backend, attack_label=str(i)) for i in range(9)]
    progress, trials = drive(tmp_path, plan)
    assert [trial["verdict"] for trial in trials] == ["already_wrong"] * 9
    assert progress.n_done == 9
    assert len(backend.asked) == 1


class Meeting:
    """Where each of two back ends waits until a request of the other one has come."""

    def __init__(self, *names: str) -> None:
        self.come = {name: threading.Event() for name in names}

    def wait(self, name: str) -> None:
        self.come[name].set()
        assert all(event.wait(30) for event in self.come.values()), f"{name} was asked alone"


def test_a_role_is_asked_while_the_victim_is(tmp_path, by_hand, trial_of, query_of):
    """The judge of the first item waits for the clean question of the second, and it for him."""
    meeting, healthy = Meeting("victim", "judge"), victim_that(never)

    def body(item: Any, rng: Any) -> Any:
        yield Consult("judge", (Generate(f"valid, {item.id}?"),))
        yield Ask((query_of("Mirozide", item),))

    def answer(call: Call) -> Reply:
        if ITEMS[0].stem not in str(call.prompt):
            meeting.wait("victim")
        return healthy._reply(call)

    def judged(call: Call) -> Reply:
        meeting.wait("judge")
        return Generated(text="yes")

    victim = ScriptedBackend(answer, batch_size=1)
    plan = [trial_of(by_hand(body=body), item, victim) for item in ITEMS[:2]]
    judge = ScriptedBackend(judged, name="judge", batch_size=1)
    _, trials = drive(tmp_path, plan, roles={"judge": judge})
    assert [trial["verdict"] for trial in trials] == ["held"] * 2


def test_other_roles_are_asked_and_recorded_outside_the_budget(
    tmp_path, by_hand, trial_of, query_of
):
    heard = []

    def body(item: Any, rng: Any) -> Any:
        heard.append((yield Consult("judge", (Generate("valid?"),))))
        yield Ask((query_of("Mirozide", item),))

    judge = ScriptedBackend(lambda _: Generated(text="yes"), name="judge")
    trial = trial_of(by_hand(body=body), ITEMS[0], victim_that(never))
    _, (row,) = drive(tmp_path, [trial], roles={"judge": judge})
    assert heard == [(Generated(text="yes"),)]
    assert judge.asked == [Generate("valid?")]
    assert (row["verdict"], row["n_paid"], row["result"]["n_asked"]) == ("held", 1, 1)
    with opened(tmp_path) as reader:
        rows = [(e.role, e.query, e.request is not None) for e in reader.exchanges()]
    assert rows == [("victim", 0, False), ("judge", None, True), ("victim", 1, False)]


@pytest.mark.parametrize("structured", [True, False])
def test_a_schema_reaches_only_roles_that_keep_to_it(
    tmp_path, by_hand, trial_of, query_of, structured
):
    wanted = Generate("valid?", schema='{"type":"object"}')

    def body(item: Any, rng: Any) -> Any:
        yield Consult("judge", (wanted,))
        yield Ask((query_of("Mirozide", item),))

    judge = ScriptedBackend(lambda _: Generated(text="{}"), name="judge", structured=structured)
    drive(
        tmp_path,
        [trial_of(by_hand(body=body), ITEMS[0], victim_that(never))],
        roles={"judge": judge},
    )
    assert judge.asked == [wanted if structured else Generate("valid?")]
    with opened(tmp_path) as reader:
        (request,) = [e.request for e in reader.exchanges() if e.role == "judge"]
    assert ("object" in str(request)) == structured


def test_a_role_that_is_not_there_is_named(tmp_path, by_hand, trial_of, said):
    def body(item: Any, rng: Any) -> Any:
        yield Consult("judge", (Generate("valid?"),))

    with pytest.raises(UsageError) as caught:
        drive(tmp_path, [trial_of(by_hand(body=body), ITEMS[0], victim_that(never))])
    said(str(caught.value), "the attack asks the role 'judge'")


def broken(query_of: Make) -> Callable[[Any, Any], Any]:
    def body(item: Any, rng: Any) -> Any:
        yield Ask((query_of("Mirozide", item),))
        raise ZeroDivisionError("by nought")

    return body


def test_a_defect_of_an_attack_fails_its_trial_and_no_other(tmp_path, by_hand, trial_of, query_of):
    backend = victim_that(never)
    trials = [
        trial_of(by_hand(body=broken(query_of)), ITEMS[0], backend, attack_label="broken"),
        trial_of(NEAREST, ITEMS[1], backend),
    ]
    _, rows = drive(tmp_path, trials)
    assert [row["verdict"] for row in rows] == ["failed", "held"]
    assert rows[0]["result"]["note"] == "a defect of attack or task: ZeroDivisionError: by nought"
    assert rows[0]["result"]["at"] == "attack"
    check_identity(rows)


def test_a_defect_of_the_task_on_the_clean_item_fails_at_baseline(tmp_path, trial_of):
    class Broken:
        def flow(self, candidate: Any) -> Any:
            yield (Request(Choose("p", "AB")),)
            raise ZeroDivisionError

    victim = Victim(label="v", task=Broken(), backend=ScriptedBackend())  # type: ignore[arg-type]
    _, (row,) = drive(tmp_path, [trial_of(NEAREST, ITEMS[0], victim=victim)])
    assert (row["verdict"], row["result"]["at"]) == ("failed", "baseline")


def test_a_trial_that_asks_something_else_than_before_is_refused(tmp_path, by_hand, trial_of, said):

    first = [trial_of(by_hand(("x",), ("y",), ("z",)), ITEMS[0], victim_that(never, batch_size=1))]
    other = [trial_of(by_hand(("w",), ("y",), ("z",)), ITEMS[0], victim_that(never))]
    drive(tmp_path, first, limits=Limits(max_queries=3))
    with pytest.raises(StoreError) as caught:
        drive(tmp_path, other)
    said(str(caught.value))
