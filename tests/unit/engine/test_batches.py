"""Which calls go out together."""

from dataclasses import replace

from medstress.core.calls import Generate, Request
from medstress.engine.backend_queue import BackendQueue, CallGroup, QueuedCall, next_batch
from medstress.testing import ScriptedBackend


class Nothing:
    """Knows no answer."""

    def lookup(self, keys):
        return {}


def lane_with(batch_size, waiting, alone=(), upcoming=0, ahead_is_certain=False, most_ahead=0):
    """A queue in which these trials wait, in this order of arrival, and announce calls."""
    backend = ScriptedBackend(batch_size=batch_size, ahead=most_ahead)
    queue = BackendQueue(backend)
    for trial in (*alone, *waiting):
        entry = QueuedCall(
            key=bytes([trial]),
            request=Request(Generate(f"of trial {trial}"), 0),
            trial=trial,
            alone=trial in alone,
        )
        ahead = iter([replace(entry, key=bytes([trial, n])) for n in range(upcoming)])
        queue.add(
            CallGroup(entries=[entry], ahead=ahead, trial=trial, ahead_is_certain=ahead_is_certain)
        )
    return queue


def batches_of(queue):
    """The trials of every batch until nothing waits."""
    found = []
    while queue.idle:
        batch = next_batch(queue, queue.backend.traits.batch_size, Nothing(), lambda *_: None)
        found.append([entry.trial for entry in batch])
    queue.close()
    return found


def test_the_earliest_trials_of_the_plan_go_first_whenever_they_came():
    assert batches_of(lane_with(2, [5, 1, 4, 2, 3])) == [[1, 2], [3, 4], [5]]


def test_what_goes_alone_waits_while_the_others_fill_a_batch():
    assert batches_of(lane_with(4, [2, 3, 4, 5, 6], alone=[1])) == [[2, 3, 4, 5], [1], [6]]


def test_what_goes_alone_is_never_in_a_batch_with_anything_else():
    assert batches_of(lane_with(4, [3], alone=[1, 2])) == [[1], [2], [3]]


def test_one_call_at_a_time_is_alone_anyway_and_keeps_its_place():
    assert batches_of(lane_with(1, [3, 2], alone=[1])) == [[1], [2], [3]]


def test_room_is_kept_for_what_others_need_now_where_work_ahead_may_be_in_vain():
    queue = lane_with(6, [1, 2, 3, 4], upcoming=3, most_ahead=2)
    assert batches_of(queue) == [[1, 1, 1, 2, 3, 4]]


def test_what_a_trial_asks_in_any_case_goes_before_other_trials():
    queue = lane_with(6, [1, 2, 3, 4], upcoming=3, ahead_is_certain=True, most_ahead=2)
    assert batches_of(queue) == [[1, 1, 1, 1, 2, 2], [3, 3, 3, 3, 4, 4]]  # 2 announces it again


def test_a_back_end_that_computes_nothing_early_does_so_in_no_case():
    queue = lane_with(6, [1, 2, 3, 4], upcoming=3, ahead_is_certain=True)
    assert batches_of(queue) == [[1, 2, 3, 4]]


def test_what_waits_is_looked_up_together_and_what_does_not_fit_waits_on():
    asked, told = [], []

    class Knows(Nothing):
        def lookup(self, keys):
            asked.append(len(keys))
            return {bytes([1]): "known"} if bytes([1]) in keys else {}

    queue = lane_with(6, [1, 2, 3, 4], upcoming=5, ahead_is_certain=True, most_ahead=2)
    batch = next_batch(queue, 6, Knows(), lambda entry, _: told.append(entry.trial))
    assert (asked[0], told, [entry.trial for entry in batch]) == (4, [1], [2] * 6)
    assert batches_of(queue) == [[3] * 6, [4] * 6]
