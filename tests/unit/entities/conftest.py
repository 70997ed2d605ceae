import os
from pathlib import Path

import pytest

from medstress.entities.vocabularies import Vocabulary, vocabulary_of

ROOT = Path(__file__).parents[3]


def find_data() -> Path | None:
    if given := os.environ.get("MEDSTRESS_DATA"):
        return Path(given)
    folders = (parent / "shared" / "data" for parent in (ROOT, *ROOT.parents))
    return next((folder for folder in folders if folder.is_dir()), None)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The data sets of the developers, which are no part of the repository."""
    folder = find_data()
    if folder is None or not folder.is_dir():
        pytest.skip("no data folder: set MEDSTRESS_DATA, or put shared/data beside the checkout")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of vectors that this test alone uses."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vectors"


@pytest.fixture
def glove(tmp_path: Path) -> str:
    """The path of word vectors: an embedding with files of vectors, as models have them."""
    words = "asthma status asthmaticus scurvy rickets vitamin d deficiency alpha beta delta gamma"
    words += " name iron zinc gold dust rust salt oxide diclofenac sodium warfarin aspirin k"
    words += " paracetamol acetaminophen ibuprofen"
    lines = (f"{word} {len(word)} {n % 7 - 3} {n % 5} 1" for n, word in enumerate(words.split()))
    (tmp_path / "glove.txt").write_text(
        "\n".join([*lines, *(f"{n} {n} 1 {n % 3} 2" for n in range(40))])
    )
    return str(tmp_path / "glove.txt")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return vocabulary_of(
        "test",
        [
            "aspirin",
            "diclofenac",
            "diclofenac sodium",
            "paracetamol",
            "acetaminophen",
            "warfarin",
            "Warfarin-Sodium",
            "sodium",
            "ibuprofen",
            "vitamin K",
        ],
    )
