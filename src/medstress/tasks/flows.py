"""Flows made of flows: several side by side, or one with changed requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import chain, islice
from typing import TypeAlias

from medstress.core.calls import Answer, Request
from medstress.core.outcomes import Prediction
from medstress.tasks.multiple_choice import Flow

Rounds: TypeAlias = Generator[tuple[Request, ...], tuple[Answer, ...], list[Prediction]]


def together(flows: Sequence[Flow]) -> Rounds:
    """Run flows side by side.

    Yields:
        Rounds with the requests of all unfinished flows, flow by flow.

    Returns:
        Their predictions, same order.
    """
    found: dict[int, Prediction] = {}
    pending = {i: next(flow) for i, flow in enumerate(flows)}
    try:
        while pending:
            answers = iter((yield tuple(chain.from_iterable(pending.values()))))
            for i, requests in list(pending.items()):
                part = tuple(islice(answers, len(requests)))
                try:
                    pending[i] = flows[i].send(part)
                except StopIteration as stop:
                    found[i] = stop.value
                    del pending[i]
    finally:
        for flow in flows:
            flow.close()
    return [found[i] for i in range(len(flows))]


def changed(
    flow: Flow,
    ask: Callable[[Request], Request],
    read: Callable[[Answer], Answer] = lambda answer: answer,
) -> Flow:
    """Run a flow, changing its requests before they are asked and its answers before it reads them.

    Returns:
        The flow's prediction.
    """
    requests = next(flow)
    try:
        while True:
            answers = yield tuple(map(ask, requests))
            try:
                requests = flow.send(tuple(map(read, answers)))
            except StopIteration as stop:
                prediction: Prediction = stop.value
                return prediction
    finally:
        flow.close()
