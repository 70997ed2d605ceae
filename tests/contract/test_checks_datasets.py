"""`check_dataset` passes sound sources and names what is wrong with others."""

from dataclasses import replace

import pytest

from medstress.core.errors import DataError
from medstress.datasets import tagged
from medstress.plugin import (
    DatasetOptions,
    Loaded,
    LoadedTexts,
    SentencePair,
    check_dataset,
    file_hash,
    required_file,
    text_lines,
    tiny_questions,
)

ITEMS = tiny_questions(2)


def read(options):
    """A sound source: one tiny question a line."""
    path = required_file("mine", "path", options.path)
    n = sum(1 for _, line in text_lines(path) if line)
    if n == 0:
        raise DataError(f"{path}: expected a line, got an empty file")
    return Loaded(questions=tiny_questions(n), skipped=(), source_hash=file_hash(path))


def raw(options):
    """As `read`, but without its errors."""
    assert options.path is not None
    n = len(options.path.read_text("utf-8").splitlines())
    return Loaded(questions=tiny_questions(n or 1), skipped=(), source_hash="fixed")


def lenient(options):
    """A source that makes a question of whatever is there."""
    path = required_file("mine", "path", options.path)
    return replace(SOUND, source_hash=file_hash(path))


def fixed(options):
    """As `read`, with one hash for all files."""
    return replace(read(options), source_hash="fixed")


def growing():
    """A source that reads something else each time."""
    n = iter(range(1, 9))
    return lambda _: replace(SOUND, questions=tiny_questions(next(n)))


SOUND = Loaded(questions=ITEMS, skipped=("line 1: no question",), source_hash="h")


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    return DatasetOptions(path=path)


def test_sound_sources_pass(options, tmp_path):
    check_dataset(read, options)
    check_dataset(lambda _: SOUND, DatasetOptions())
    (tmp_path / "tags.iob").write_text("Aspirin\tB-Chemical\nhelps\tO\n", encoding="utf-8")
    check_dataset(tagged.load, DatasetOptions(path=tmp_path / "tags.iob"))


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (lambda _: [*ITEMS], "expected Loaded or LoadedTexts, got list"),
        (lambda _: replace(SOUND, questions=()), "at least one item"),
        (lambda _: replace(SOUND, questions=("text",)), "expected an item"),
        (lambda _: replace(SOUND, questions=ITEMS[:1] * 2), "two items have the id 'tiny-0'"),
        (lambda _: replace(SOUND, source_hash=""), "expected a source_hash"),
        (lambda _: replace(SOUND, skipped=("a\nb",)), "one sentence on one line"),
        (growing(), "read a second time"),
        (raw, "for a missing file, but got FileNotFoundError"),
        (lenient, "for an empty file, but it was read"),
        (fixed, "another file has the same source_hash"),
    ],
    ids=[
        "type",
        "none",
        "no item",
        "ids",
        "hash",
        "skipped",
        "order",
        "refusal",
        "empty file",
        "fixed hash",
    ],
)
def test_what_is_wrong_is_named(load, sentence, options):
    with pytest.raises(AssertionError, match=sentence):
        check_dataset(load, options)


def test_items_of_two_kinds_are_refused():
    pair = SentencePair(id="p", text_a="a", text_b="b", score=1.0)
    mixed = LoadedTexts(items=(*ITEMS, pair), skipped=(), source_hash="h")
    with pytest.raises(AssertionError, match="items of one kind"):
        check_dataset(lambda _: mixed, DatasetOptions())
