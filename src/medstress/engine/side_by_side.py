"""Drive several flows of one victim at once, so that their calls share rounds and batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice

from medstress.core.calls import Reply, Request
from medstress.core.outcomes import Prediction
from medstress.engine.asking import answers_of
from medstress.engine.requests import VICTIM, CallRound, Purpose
from medstress.tasks.multiple_choice import Flow


def answer_all(
    flows: Sequence[Flow], purpose: Purpose, n_before: int
) -> Generator[CallRound, tuple[Reply, ...], tuple[Prediction, ...]]:
    """Run flows side by side, turn by turn, until all have ended.

    Args:
        flows: one for each query; not started.
        purpose: why their calls are made.
        n_before: queries of this work that came before; those of the flows count on from it.

    Yields:
        Rounds with the open requests of all flows, flow by flow.

    Returns:
        Their predictions, same order.

    Raises:
        UnansweredError: a call failed.
    """
    open_: dict[int, tuple[Request, ...]] = {i: next(flow) for i, flow in enumerate(flows)}
    n_calls = dict.fromkeys(open_, 0)
    ended: dict[int, Prediction] = {}
    while open_:
        numbers = [
            (n_before + i + 1, n_calls[i] + k)
            for i, wanted in open_.items()
            for k in range(len(wanted))
        ]
        replies = yield CallRound(
            role=VICTIM,
            purpose=purpose,
            query=numbers[0][0],
            call=0,
            requests=tuple(request for wanted in open_.values() for request in wanted),
            candidate=None,
            numbers=tuple(numbers),
        )
        given = iter(replies)
        # Read before any flow goes on: one failed call ends the work.
        answers = {i: answers_of(tuple(islice(given, len(open_[i])))) for i in open_}
        for i, known in answers.items():
            n_calls[i] += len(known)
            try:
                open_[i] = flows[i].send(known)
            except StopIteration as stop:
                ended[i] = stop.value
                del open_[i]
    return tuple(ended[i] for i in sorted(ended))
