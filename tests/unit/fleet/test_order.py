"""What worker and driver must have in common."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from medstress.core.errors import UsageError
from medstress.fleet import order as orders


def test_builds_for_a_gpu_and_for_none_are_one_version(monkeypatch):
    monkeypatch.setattr(orders, "versions", lambda: {"torch": "2.13.0+cu130", "numpy": "2.4.6"})
    found = orders.environment()
    assert (found["torch"], found["numpy"]) == ("2.13.0", "2.4.6")


def test_back_ends_and_our_own_modules_are_compared_as_well():
    found = orders.environment()
    assert found["tokenizers"] == version("tokenizers")
    assert len(found["medstress's code"]) == 12


def test_what_only_one_of_them_has_is_named(said):
    with pytest.raises(UsageError) as error:
        orders.check_environment("worker 3", {"torch": "2.13.0"}, {"scipy": "1.13.0"})
    said(str(error.value), "worker 3", "torch", "scipy", "nothing was asked")
