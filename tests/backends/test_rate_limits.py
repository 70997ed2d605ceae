"""No minute ever holds more requests or tokens than allowed, whatever threads and clocks do."""

import asyncio
import random
import time
from collections.abc import Sequence

import pytest

from medstress.backends.server import RateLimits


class FakeClock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def wait(self, changed: asyncio.Event, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def limits_of(
    clock: FakeClock, requests: int | None = None, tokens: int | None = None
) -> RateLimits:
    return RateLimits(requests, tokens, clock=clock, wait=clock.wait)


def start(limits: RateLimits, tokens: int) -> list[float]:
    return asyncio.run(limits.start(tokens))


def most_in_a_minute(at: Sequence[float], weights: Sequence[int], minute: float = 60.0) -> int:
    """The heaviest window of a minute, both its ends included."""
    return max(
        sum(w for t, w in zip(at, weights, strict=True) if start <= t <= start + minute)
        for start in at
    )


@pytest.mark.parametrize("allowed", [1, 2, 7])
def test_a_minute_never_holds_more_requests_than_allowed(allowed):
    clock, at = FakeClock(), []
    limits = limits_of(clock, requests=allowed)
    source = random.Random(allowed)
    for _ in range(10 * allowed):
        request = start(limits, 5)
        clock.now += source.uniform(0.0, 3.0)
        at.append(clock.now)  # the server sees it at the end of its way
        limits.end(request, 5)
    assert most_in_a_minute(at, [1] * len(at)) == allowed
    assert at[-1] - at[0] < 9 * (60 + 3 * allowed + 1), "and it is not slower than it must be"


def test_a_minute_never_holds_more_tokens_than_allowed_and_reserved_ones_come_back():
    clock = FakeClock()
    limits = limits_of(clock, tokens=1000)
    at, used = [], []
    source = random.Random(1)
    for _ in range(200):
        reserved = start(limits, 400)
        at.append(clock.now)
        used.append(source.randrange(0, 101))
        limits.end(reserved, used[-1])
    heaviest = most_in_a_minute(at, used)
    assert 600 <= heaviest <= 1000


def test_a_call_of_more_tokens_than_a_minute_has_goes_alone():
    clock = FakeClock()
    limits = limits_of(clock, tokens=100)
    limits.end(start(limits, 10), 10)
    before = clock.now
    limits.end(start(limits, 5000), 100)
    assert 60 < clock.now - before < 61


def test_nothing_goes_through_while_the_server_asks_to_wait():
    clock = FakeClock()
    limits = limits_of(clock)
    limits.pause(30.0)
    limits.pause(2.0)
    start(limits, 1)
    assert clock.now == 1030.0


def test_requests_under_way_count_for_all_that_share_the_limits():
    limits = RateLimits(3, minute=0.15)
    at: list[float] = []

    async def ask() -> None:
        for _ in range(3):
            request = await limits.start(1)
            at.append(time.monotonic())
            await asyncio.sleep(0.01)
            limits.end(request, 1)

    async def together() -> None:
        await asyncio.gather(*(ask() for _ in range(8)))

    asyncio.run(together())
    assert len(at) == 24
    assert most_in_a_minute(at, [1] * 24, minute=0.15) == 3
