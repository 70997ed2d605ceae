"""Classes made quickly behave as the ones that `dataclass` makes."""

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from inspect import signature

import pytest

from medstress.core.frozen import fast_init


@dataclass(frozen=True, slots=True)
class Plain:
    a: int
    b: str = "b"


@fast_init
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"


def test_a_quick_class_is_frozen_equal_and_hashable():
    made = Quick(1)
    with pytest.raises(FrozenInstanceError):
        made.a = 2  # type: ignore[misc]
    assert made == Quick(1, "b")
    assert hash(made) == hash(Plain(1))
    assert replace(made, b="c") == Quick(1, b="c") != made


def test_a_quick_class_takes_the_same_arguments(said):
    assert signature(Quick) == signature(Plain)
    assert [field.name for field in fields(Quick)] == ["a", "b"]
    with pytest.raises(TypeError) as caught:
        Quick()  # type: ignore[call-arg]
    said(str(caught.value))


def test_a_class_with_more_to_do_is_refused():
    @dataclass(frozen=True, slots=True)
    class Checked:
        a: int

        def __post_init__(self) -> None:
            pass

    with pytest.raises(AssertionError):
        fast_init(Checked)
