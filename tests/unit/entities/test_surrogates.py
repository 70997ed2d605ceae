"""What stands for a synonym: listed names first, then near ones, nothing for acronyms."""

from __future__ import annotations

from pathlib import Path

import pytest

from medstress.entities.names import folded
from medstress.entities.replacements import is_word, listed_first

LISTED = "concept,name\n1,aspirin\n1,acetylsalicylic acid\n1,Aspro\n2,HTN\n2,hypertension\n"
NAMES = "aspirin sulfate\nWarfarin sodium\nwarfarin\nAML\nmorphine\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "listed.csv").write_text(LISTED)
    (tmp_path / "names.txt").write_text(NAMES)
    return tmp_path


def found(base: Path, *names: str, without: frozenset[str] = frozenset()):  # type: ignore[no-untyped-def]
    mentions = {name.lower(): "Chemical" for name in names}
    written = {name.lower(): {name} for name in names}
    return listed_first(mentions, written, "listed.csv", "names.txt", "ngram", base, without)


def test_a_listed_name_comes_before_a_nearer_one(base: Path) -> None:
    made = found(base, "aspirin", "warfarins")
    assert made.table["aspirin"][0] == ("acetylsalicylic", "acid")
    assert made.table["warfarins"] == (("warfarin", "sodium"),)
    assert made.sources == {"aspirin": "listed", "warfarins": "nearest"}


@pytest.mark.parametrize("name", ["AMLs", "AML", "5-FU", "NaCl", "eye", "MPTP"])
def test_acronyms_and_short_names_are_never_embedded(base: Path, name: str) -> None:
    assert found(base, name).table == {}


def test_an_acronym_may_have_a_listed_name(base: Path) -> None:
    made = found(base, "HTN")
    assert made.table == {"htn": (("hypertension",),)}
    assert made.sources == {"htn": "listed"}


def test_no_acronym_of_the_vocabulary_is_put_in(base: Path) -> None:
    (base / "names.txt").write_text("AMLX\nsomething else\n")
    assert found(base, "amlxis").table.get("amlxis") != (("amlx",),)


def test_a_word_that_is_once_written_in_capitals_stays_a_word(base: Path) -> None:
    made = listed_first(
        {"warfarins": "Chemical"},
        {"warfarins": {"WARFARINS", "warfarins"}},
        "listed.csv",
        "names.txt",
        "ngram",
        base,
    )
    assert made.sources == {"warfarins": "nearest"}


def test_names_that_may_not_be_put_in_leave_the_next_one(base: Path) -> None:
    without = frozenset({folded("acetylsalicylic acids"), folded("warfarin sodium")})
    made = found(base, "aspirin", "warfarine", without=without)
    assert made.table["aspirin"] == (("aspro",),)
    assert folded(" ".join(made.table["warfarine"][0])) not in without
    all_listed = without | {folded("aspro")}
    assert found(base, "aspirin", without=all_listed).sources == {"aspirin": "nearest"}


def test_what_a_word_is() -> None:
    words = ("gout", "Iron deficiency", "HIV infection", "beta-HCH salt")
    assert all(map(is_word, words))
    assert not any(map(is_word, ("GABA", "L-DOPA", "MAO", "vit B", "6-OHDA", "cAMP", "ACEIs")))
