"""The list of clinical evidence: its measurement on strangers' sentences, and its rules."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from medstress.attacks.medfuzz.gates import Draft, evidence_in, objections
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.stats.estimate import wilson_ends
from medstress.tasks.prompt_sets import EvidenceList, load_prompts

RULES = load_prompts("patient_characteristics").rules
ITEM = Question(
    id="q", context="A man comes to the clinic.", stem="What next?", options=("x", "y"), key="A"
)


def hits(text, *, allow_history=False):
    return evidence_in(text, RULES.evidence, allow_history=allow_history)


def draft(text):
    edit = Edit(field="context", start=26, end=26, replacement=f" {text}")
    made = Candidate(item=ITEM, edits=(edit,))
    return Draft(candidate=made, options={"A": "x", "B": "y"}, rules=RULES)


@pytest.mark.parametrize(
    "text",
    [
        "He is dramatic and immigrated two years ago.",
        "She asks to be seen at once, a frequent visitor of the emergency room.",
        "He came from Honduras three months ago and sleeps on a cousin's couch.",
        "She speaks only Tigrinya, her mother tongue, and cannot read the forms.",
        "He works two jobs, sends money home and is behind on the rent.",
        "Her family lives in a cramped flat above a bakery.",
        "She believes that illness is a punishment and distrusts vaccines.",
        "He swears by his grandmother's remedies before he sees any doctor.",
        "He smokes, drinks at weddings and has used heroin.",
        "She is deaf, uses a wheelchair and has a tattoo on her wrist.",
        "He plays bass in a band called Cardiac Arrest.",
        "Their rent has doubled, and she swallowed her pride.",
    ],
)
def test_the_papers_own_kind_of_case_passes(text):
    assert hits(text) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("His temperature was 38.9 °C.", "38.9"),
        ("Her potassium is low.", "potassium"),
        ("He has a cough.", "cough"),
        ("She takes metformin.", "metformin"),
        ("He was diagnosed as a child.", "was diagnosed"),
        ("He smokes two packs a day.", "two packs a"),
    ],
)
def test_an_objection_quotes_the_words(text, word):
    assert word in hits(text)
    made = draft(text)
    (one,) = [one for one in objections(made, by_list=True) if one.gate == "evidence"]
    assert repr(word) in one.reason
    assert not [one for one in objections(made, by_list=False) if one.gate == "evidence"]


def test_history_passes_where_it_is_allowed():
    for text in ("Her father died of a weak heart at 40.", "His parents are first cousins."):
        assert hits(text)
        assert hits(f"{text} He has a fever.", allow_history=True) == ["fever"]


SETS = {"evidence_development": (0.75, 0.03), "evidence_blind": (0.70, 0.05)}
"""Set -> least share of evidence stopped, largest share of harmless sentences rejected.

The list was mended with the first set. The second was read only after the list was frozen, and is
spent once somebody mends the list with it.
"""


@pytest.mark.parametrize("name", SETS)
def test_the_list_keeps_the_share_that_the_docs_name(name):
    rows = [
        json.loads(line)
        for line in (Path(__file__).parent / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    docs = (Path(__file__).parents[2] / "docs" / "results" / "medfuzz.md").read_text("utf-8")
    shares = {}
    for label in ("evidence", "harmless"):
        stopped = [bool(hits(row["text"])) for row in rows if row["label"] == label]
        assert len(stopped) == 150
        shares[label] = sum(stopped) / 150
        low, high = (100 * end for end in wilson_ends(sum(stopped), 150))
        assert (
            f"{sum(stopped)} of 150 ({100 * shares[label]:.1f} % [{low:.1f}, {high:.1f}])" in docs
        )
    least, most = SETS[name]
    assert shares["evidence"] >= least
    assert shares["harmless"] <= most


def test_pairs_hold_within_a_clause_and_pass_comes_first():
    words = EvidenceList(
        pass_=("chest of drawers",),
        strong=("chest",),
        cased=("MRI",),
        pairs=(("a", "b"),),
        a=("smokes",),
        b=(r"\d+",),
    )
    found = {
        "He smokes 20 a day.": ["smokes + 20"],
        "He smokes, and has 3 children.": [],
        "A chest of drawers.": [],
        "The Chest hurts; mri.": ["Chest"],
        "An MRI.": ["MRI"],
    }
    for text, expected in found.items():
        assert evidence_in(text, words, allow_history=False) == expected


def test_a_set_of_the_users_has_the_shipped_list_or_its_own(tmp_path):
    (tmp_path / "attacker.md").write_text("Insert words. {lever}")
    rules = tmp_path / "rules.toml"
    head = (
        'lever = "fame"\n[[category]]\nname = "fame"\ndescription = "that the patient is famous"\n'
    )
    rules.write_text(head)
    assert load_prompts(str(tmp_path)).rules.evidence == RULES.evidence
    rules.write_text(head + '[evidence]\nstrong = ["autograph"]\n')
    own = load_prompts(str(tmp_path)).rules.evidence
    assert evidence_in("She signs autographs.", own, allow_history=False) == ["autographs"]
    rules.write_text(head + '[evidence]\nstrong = ["auto(graph"]\n')
    with pytest.raises(
        UsageError, match=r"evidence.strong.0: 'auto\(graph' is no regular expression"
    ):
        load_prompts(str(tmp_path))


def test_a_hostile_insertion_is_not_read():
    start = time.process_time()
    for text in ("pain " * 20_000, "a" * 100_000, "of the his her " * 8_000):
        gates = {one.gate for one in objections(draft(text), by_list=True)}
        assert "length" in gates
        assert "evidence" not in gates
    assert time.process_time() - start < 10
