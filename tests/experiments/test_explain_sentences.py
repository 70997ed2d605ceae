"""`medstress explain` on taggers and on pairs of sentences."""

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.analyses.explanations import (
    EXPLANATIONS,
    TOLERANCE,
    Explained,
    explained_trials,
    top_places,
)
from medstress.analyses.run import Run
from medstress.core.outcomes import Verdict
from medstress.experiment.explain.explanation import Settings
from medstress.experiment.explain.plan import Selection
from medstress.experiment.explain.run import run_explanations
from medstress.experiment.prepare import Watcher
from medstress.report.page import page_of
from rows import rows_of

IOB = """Aspirin\tB-Chemical
relieves\tO
headache\tO

Patients\tO
received\tO
warfarin\tB-Chemical
and\tO
morphine\tB-Chemical
"""
PAIRS = """id\ttext_a\ttext_b\tscore
p1\tAspirin relieves severe pain\tAspirin relieves pain\t3.5
p2\tWarfarin thins the blood\tWarfarin prevents clots\t2
"""
VICTIMS = """
KNOWN = {"aspirin", "warfarin", "morphine"}

def tags(sentences):
    return [["B-Chemical" if w.lower() in KNOWN else "O" for w in s] for s in sentences]

def shared(pairs):
    '''The share of words of the first text in the second.'''
    return [
        sum(word in b.split() and word != "..." for word in a.split()) / 4 for a, b in pairs
    ]
"""


def explained(folder: Path, tables: dict[str, Any], verdict: Verdict) -> list[Explained]:
    """Run, and explain the trials that ended so."""
    (folder / "data.iob").write_text(IOB, encoding="utf-8")
    (folder / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    (folder / "victims.py").write_text(VICTIMS, encoding="utf-8")
    run = ms.run(tables, folder / "run")
    ids = tuple(row.trial_id for row in rows_of(run) if row.verdict is verdict)
    assert ids
    stopped = run_explanations(
        folder / "run", tables, Selection(trials=ids), Settings(evaluations=4000), Watcher()
    )
    assert stopped is None
    return explained_trials(Run.open(folder / "run"))[0]


@pytest.mark.release
def test_an_entity_that_a_tagger_knows_by_its_name_has_all_value_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = {
        "experiment": {"controls": False, "name": "ner", "seeds": [0]},
        "dataset": [{"name": "iob", "path": "data.iob"}],
        "victim": [{"backend": "python", "target": "victims.py:tags"}],
        "attack": [{"name": "swap_noise", "scope": "all"}],
    }
    found = explained(tmp_path, tables, Verdict.FLIPPED)
    for one in found:
        assert one.gap <= TOLERANCE
        assert (one.outputs, one.key, one.value) == (("found", "wrong"), "found", "answer")
        assert (one.before.answer, one.after.answer) == ("found", "wrong")
        values = one.of(one.before, "found")
        assert values is not None
        inside = [place == "entity" for place in one.before.places]
        assert values[inside] == pytest.approx([1.0])
        assert values.sum() == pytest.approx(1.0)
        tops = top_places(one, one.before)
        assert tops is not None
        assert (tops["answer"][0], tops["edit"][0]) == (1.0, 1.0)
        # The tagger marks nothing, whatever it is shown of the edited sentence.
        assert not one.after.values.any()


@pytest.mark.release
def test_the_score_of_a_pair_is_shared_by_the_words_of_both_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = {
        "experiment": {"controls": False, "name": "sts", "seeds": [0]},
        "dataset": [{"name": "pairs", "path": "pairs.tsv"}],
        "victim": [{"backend": "python", "target": "victims.py:shared"}],
        "attack": [{"name": "swap_noise", "scope": "all"}],
    }
    found = explained(tmp_path, tables, Verdict.MEASURED)
    assert len(found) == 2
    one = found[0]
    assert (one.outputs, one.value) == (("score",), "score")
    assert one.gap <= TOLERANCE
    values = [
        (token.strip(), value)
        for token, value in zip(one.before.tokens, one.before.values[:, 0], strict=True)
    ]
    # "relieves" stands in both texts: each has half of its quarter.
    assert [v for word, v in values if word == "relieves"] == pytest.approx([0.125, 0.125])
    assert [v for word, v in values if word == "severe"] == pytest.approx([0.0])
    assert {place for place, _, _ in one.before.segments} == {"text_a", "text_b"}
    # A pair has no right answer and no options, and no attack on it fails.
    result = Run.open(tmp_path / "run").of(EXPLANATIONS)
    assert result is not None
    text = page_of(result, "sts").partition("<main")[2].partition("</main>")[0]
    assert "the score" in text
    assert "right answer" not in text
    assert "option that was answered" not in text
    assert "In the chosen option" not in text
    assert "failed" not in text.partition("Failed attacks are explained")[0]
    assert "of 2 pairs" in text
