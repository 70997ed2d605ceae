"""More shards than a merge can open are refused before a worker starts."""

from __future__ import annotations

import pytest

from medstress.core.errors import UsageError
from medstress.fleet.leasing import Fleet


@pytest.mark.parametrize(
    ("n_shards", "words"), [(0, "at least 1"), (100_001, "at most 100,000"), (50, "264 open files")]
)
def test_a_number_of_shards_that_cannot_be_merged(monkeypatch, n_shards, words):
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    with pytest.raises(UsageError, match=words):
        Fleet(open_workers=lambda _: pytest.fail("no worker starts"), n_shards=n_shards)
