"""A folder goes on with the words of noise that it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.entities import lexicon
from medstress.experiment.plan.sentence_groups import SentenceGroupPart

VICTIM = """
def tag(sentences):
    with open(__file__ + ".log", "a") as log:
        log.write("asked\\n" * len(sentences))
    return [["O"] * len(words) for words in sentences]
"""
WORDS = ("quaffed", "fumbled", "juggled", "sauntered", "twiddled", "grumbled")


def go(folder: Path, **experiment: Any) -> Run:
    (folder / "victim.py").write_text(VICTIM, "utf-8")
    sentences = (f"Aspirin\tB-Drug\nhe\tO\n{word}\tO\n" for word in WORDS)
    (folder / "rows.tsv").write_text("\n".join(sentences), "utf-8")
    return run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0], **experiment},
            "dataset": {"name": "iob", "path": str(folder / "rows.tsv")},
            "victim": [{"name": "v", "backend": "python", "target": f"{folder}/victim.py:tag"}],
            "attack": [{"name": "keyboard_noise"}],
        },
        folder / "run",
    )


def asked(folder: Path) -> int:
    return len((folder / "victim.py.log").read_text("utf-8").splitlines())


def as_in_the_first_edition(patch: pytest.MonkeyPatch) -> None:
    """Words in at least two sentences, and a manifest that does not say by what they count."""
    ours, described = lexicon.noise_lexicon, SentenceGroupPart.describe
    patch.setattr(
        lexicon,
        "noise_lexicon",
        lambda tagged, _=None: ours(tagged, lexicon.FIRST_EDITION_SENTENCES),
    )

    def describe(part: SentenceGroupPart) -> dict[str, Any]:
        return {key: value for key, value in described(part).items() if key != "lexicon"}

    patch.setattr(SentenceGroupPart, "describe", describe)


def test_a_folder_of_the_first_edition_keeps_its_words(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        as_in_the_first_edition(patch)
        old = go(tmp_path)
    group, n = old.manifest()["groups"]["all"], asked(tmp_path)
    again = go(tmp_path)
    assert again.manifest()["fingerprint"] == old.manifest()["fingerprint"]
    assert again.manifest()["groups"]["all"] == group
    assert asked(tmp_path) == n
    longer = go(tmp_path, seeds=[0, 1])
    assert longer.manifest()["groups"]["all"] == group
    assert asked(tmp_path) > n


def test_a_new_folder_counts_words_by_their_frequency(tmp_path: Path) -> None:
    group = go(tmp_path).manifest()["groups"]["all"]
    assert group["lexicon"] == "frequency"
    with pytest.MonkeyPatch.context() as patch:
        as_in_the_first_edition(patch)
        (tmp_path / "old").mkdir()
        old = go(tmp_path / "old").manifest()["groups"]["all"]
    # Each of the words stands in one sentence of six.
    assert group["n_lexicon"] == old["n_lexicon"] + len(WORDS)
