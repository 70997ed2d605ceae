import pytest

from medstress.core.hashing import canonical_json, content_hash, file_hash, rng_for

BASE = (0, "swap/drugs", "sample", "q1", 0)


def first(*parts: object) -> float:
    return rng_for(*parts).random()  # type: ignore[arg-type]


def test_a_stream_repeats():
    assert first(*BASE) == first(*BASE)


@pytest.mark.parametrize(
    "other",
    [
        (1, "swap/drugs", "sample", "q1", 0),
        (0, "swap/diseases", "sample", "q1", 0),
        (0, "swap/drugs", "other", "q1", 0),
        (0, "swap/drugs", "sample", "q2", 0),
        (0, "swap/drugs", "sample", "q1", 1),
    ],
    ids=["seed", "stream", "dataset", "item", "repeat"],
)
def test_every_part_makes_a_stream_of_its_own(other):
    assert first(*other) != first(*BASE)


def test_parts_do_not_run_into_each_other():
    assert first(0, "a", "bc", "d") != first(0, "ab", "c", "d")


def test_json_is_canonical():
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'
    assert content_hash((1, 2)) == content_hash([1, 2])
    with pytest.raises(TypeError):
        canonical_json({1, 2})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_nothing(value):
    with pytest.raises((TypeError, ValueError)):
        canonical_json([value])


def test_a_file_is_hashed_by_its_bytes(tmp_path):
    (tmp_path / "one").write_bytes(b"abc")
    (tmp_path / "two").write_bytes(b"abc")
    (tmp_path / "three").write_bytes(b"abd")
    hashes = [file_hash(tmp_path / name) for name in ("one", "two", "three")]
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[0].startswith("blake2b-128:")
