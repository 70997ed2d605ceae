"""The card in a browser: one printed page, even of the longest that there is; nothing is loaded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medstress.card import pages
from medstress.card.content import Arm, Card

pytestmark = pytest.mark.web

ESTIMATE = {"value": 0.3456, "n": 12345, "low": 0.3333, "high": 0.3579, "method": "Wilson 95 %"}
LONG = "a name that nobody would give an attack, but somebody will some day, surely"
SENTENCE = (
    "1,234 of 12,345 right answers (35 %, 33 to 36) were lost after one wrong option was renamed "
    "(near names, the worst of 12 results); harmless edits alone change 123 of 12,345."
)


def arm(number):
    """An attack with everything there is."""
    return Arm(
        attack=f"{LONG} {number}",
        name=f"{LONG} {number}",
        dataset=LONG,
        group=LONG,
        place=f"{LONG}, {LONG}",
        edit="one name was replaced by a searched one",
        budget=10_000,
        n_seeds=3,
        n_items=12345,
        measure="asr",
        before=ESTIMATE,
        after=ESTIMATE,
        lost=ESTIMATE,
        n_lost=1234,
        n_failed=123,
        control="no_op",
        control_lost=ESTIMATE,
        net=ESTIMATE | {"value": -0.1},
        valid=ESTIMATE | {"n_labels": 1000},
        valid_bounds=[0.0, 0.3333, 0.5],
        is_control=False,
        changes_evidence=False,
        is_attacked=True,
        n_unknown=1234,
    )


def longest():
    """The longest card."""
    place = {"dataset": LONG, "group": LONG, "victim": "model", "attack": LONG}
    judged = {
        "metric": "asr",
        "at_budget": 8,
        "where": {"group": LONG},
        "bound": {"max_high": 0.2},
        "met": False,
        "estimate": ESTIMATE,
        "bounds": [0.3333, 0.3579],
        "row": place,
        "reason": None,
    }
    part = {**place, "by": LONG, "value": LONG, "n_items": 123, "asr": ESTIMATE, "n_slices": 9}
    return Card(
        format=1,
        run=LONG,
        victim="model",
        others=["other"],
        model=dict.fromkeys(("name", "backend", "prompt", "parser"), LONG) | {"hash": "f" * 44},
        kind="questions",
        data=[{"label": f"{LONG} {i}", "n_items": 12345, "hash": "f" * 44} for i in range(2)],
        state="Partial: 1,234 of 12,345 planned trials are missing.",
        is_complete=False,
        started="2026-11-26T02:26:08+00:00",
        finished="2026-11-26T02:26:08+00:00",
        medstress="0.1.0",
        sentences=[SENTENCE] * 2,
        arms=[arm(i) for i in range(30)],
        slices=[part | {"differs": False}] * 9,
        slicing="post hoc",
        criteria=[judged] * 9,
        verdict="9 of 9 criteria are missed.",
        criteria_fixed=f"Fixed before the first query (run begun now), hash {'f' * 44}.",
        cautions=[f"ASR, valid successes at most 20 %: {SENTENCE}"] * 2,
        limits=[SENTENCE] * 4,
        warnings=[SENTENCE * 3] * 40,
        root="f" * 32,
        root_note=SENTENCE,
        unverified=None,
        fingerprint="f" * 44,
        command=f"medstress run {'experiment.toml --set a=b ' * 6}",
    )


@pytest.mark.parametrize("size", ["longest", "shortest"])
def test_it_prints_on_one_page_and_loads_nothing(browser, tmp_path, size):
    card = longest()
    if size == "shortest":
        card = replace(card, arms=[], slices=[], criteria=[], warnings=[], command=None, root=None)
    page = tmp_path / "card.html"
    page.write_text(pages.html(card), encoding="utf-8")
    tab = browser.open(page)
    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]
    assert tab.faults() == {}
    tab.page.emulate_media(media="print")
    printed = tab.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
