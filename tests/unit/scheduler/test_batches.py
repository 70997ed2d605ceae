"""Which calls go out together."""

from __future__ import annotations

from medstress.calls import Generate, Request
from medstress.scheduler.batches import next_batch
from medstress.scheduler.lane import Entry, Group, Lane
from medstress.testing import ScriptedBackend


class Nothing:
    """Knows no answer."""

    def lookup(self, keys):
        return {}


def lane_with(batch_size, waiting, alone=()):
    """A queue in which these trials wait, in this order of arrival."""
    lane = Lane(ScriptedBackend(batch_size=batch_size))
    for trial in (*alone, *waiting):
        entry = Entry(
            key=bytes([trial]),
            request=Request(Generate(f"of trial {trial}"), 0),
            trial=trial,
            alone=trial in alone,
        )
        lane.add(Group(entries=[entry], ahead=iter(()), trial=entry.trial))
    return lane


def batches_of(lane):
    """The trials of every batch until nothing waits."""
    found = []
    while lane.idle:
        batch = next_batch(lane, lane.backend.batch_size, Nothing(), lambda *_: None)
        found.append([entry.trial for entry in batch])
    lane.close()
    return found


def test_the_earliest_trials_of_the_plan_go_first_whenever_they_came():
    assert batches_of(lane_with(2, [5, 1, 4, 2, 3])) == [[1, 2], [3, 4], [5]]


def test_what_goes_alone_waits_while_the_others_fill_a_batch():
    assert batches_of(lane_with(4, [2, 3, 4, 5, 6], alone=[1])) == [[2, 3, 4, 5], [1], [6]]


def test_what_goes_alone_is_never_in_a_batch_with_anything_else():
    assert batches_of(lane_with(4, [3], alone=[1, 2])) == [[1], [2], [3]]


def test_one_call_at_a_time_is_alone_anyway_and_keeps_its_place():
    assert batches_of(lane_with(1, [3, 2], alone=[1])) == [[1], [2], [3]]
