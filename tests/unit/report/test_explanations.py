"""Heat maps on the page: hostile text is text, and both prompts are aligned."""

from __future__ import annotations

from typing import Any

import pytest

from medstress.papers.plots.profiles import plot_profiles
from medstress.papers.profiles import csv_rows, explained_successes, one_profile_per_regime
from medstress.report.contents import SECTIONS
from medstress.report.explanations import (
    HEAT_MAPS,
    explanation_page,
    explanation_tables,
    heat_map_section,
    heat_maps,
)
from medstress.report.section import Source

pytestmark = pytest.mark.release

HOSTILE = "<script>alert('x')</script>\x00\u202e"


def side(answer: str | None, edit: str, value: float) -> dict[str, Any]:
    """A prompt of six tokens."""
    return {
        "answer": answer,
        "output": answer or "A",
        "tokens": ["Is ", HOSTILE, "?\n", "A. ", edit, "\nAnswer:"],
        "segments": [["stem", False, 3], ["A", False, 1], ["A", True, 1], ["prompt", False, 1]],
        "values": [0.0, -0.1, 0.0, 0.0, value, 0.0],
        "base": 0.25,
        "full": 0.15 + value,
    }


def case(**given: Any) -> dict[str, Any]:
    """A success."""
    values: dict[str, Any] = {
        "trial_id": "t",
        "dataset": "d",
        "item_id": HOSTILE,
        "victim": HOSTILE,
        "attack": "x" * 500,
        "verdict": "flipped",
        "regime": None,
        "key": "B",
        "value": "probability",
        "gap": 0.0,
        "before": side("B", "aspirin", 0.1),
        "after": side("A", "war\r\nfarin", 0.6),
    }
    return {**values, **given}


def summary(*cases: dict[str, Any]) -> dict[str, Any]:
    """A summary with these heat maps, and no rows."""
    found = {"rows": [], "cases": list(cases), "values": ["probability"], "units": ["words"]}
    return {"experiment": {"name": HOSTILE}, "explanations": found}


def test_nothing_explained_is_no_section_and_a_page_that_says_so() -> None:
    nothing = {"experiment": {"name": "r"}}
    assert not heat_map_section(nothing).strip()
    assert explanation_tables(nothing) == []
    assert "Nothing was explained." in explanation_page(nothing)


def test_the_report_has_a_section_of_heat_maps() -> None:
    (section,) = [each for each in SECTIONS if each.id == "explained"]
    given = {**summary(case()), "pooled": [], "results": []}
    content = section.make(Source(given, (), {}))
    assert content is not None
    assert content.html.count('<figure class="heat"') == 1
    assert content.styles == (HEAT_MAPS,)
    assert not content.shown_tables
    assert section.make(Source({"experiment": {"name": "r"}}, (), {})) is None


def test_a_pair_has_a_score_and_no_answer() -> None:
    pair = case(value="score", verdict="measured", key="score")
    (found,) = heat_maps(summary(pair))
    assert found.heads == (
        "Before: score .250; with everything masked .250",
        "After: score .750; with everything masked .250",
    )
    assert "failed" not in found.title


def test_heat_maps_name_their_mask_where_there_are_several() -> None:
    given = summary(case(mask="..."), case(mask=""))
    assert all("mask" not in each.title for each in heat_maps(given))
    given["explanations"]["masks"] = ["", "..."]
    first, second = heat_maps(given)
    assert first.title.endswith("masked as '...'")
    assert second.title.endswith("masked words left out")


def test_hostile_text_shows_as_text_and_no_style_stands_inline() -> None:
    page = explanation_page(summary(case()))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "style=" not in page
    assert "\x00" not in page


def test_both_prompts_are_aligned_and_shades_follow_the_largest_value_of_both() -> None:
    (found,) = heat_maps(summary(case()))
    assert [each.place for each in found.stretches] == ["stem", "A", "prompt"]
    option = found.stretches[1]
    assert [token.text for token in option.before] == ["A. ", "aspirin"]
    assert [(token.edited, token.shade) for token in option.after] == [(False, ""), (True, "p7")]
    assert [token.shade for token in option.before] == ["", "p1"]
    assert [token.shade for token in found.stretches[0].after] == ["", "n1", ""]
    assert found.heads[0].startswith("Before: answered B (right)")
    assert "+.600" in found.tops[1]


def test_an_answer_that_cannot_be_read_and_values_of_nothing_have_heat_maps() -> None:
    blank = {**side(None, "x", 0.0), "values": [0.0] * 6}
    (found,) = heat_maps(summary(case(before=blank, after=blank, verdict="held")))
    assert found.heads[0].startswith("Before: no readable answer")
    assert found.title.endswith("attack failed")
    assert found.tops == ("none", "none")


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_profiles_are_drawn_the_same_every_time(form: str) -> None:
    cases = explained_successes(summary(case(), case(regime="n<0"), case(verdict="held")))
    assert len(cases) == 2
    first, again = (plot_profiles(cases, [form]) for _ in range(2))
    assert first == again
    assert len(list(csv_rows(cases))) == 2 * 2 * 6


def test_figure_5_has_one_profile_a_regime() -> None:
    near, far, other = case(regime="n<0"), case(regime="n>0"), case()
    assert one_profile_per_regime([other, far, near, far]) == [near, far]
    assert one_profile_per_regime([other, other]) == [other]
    assert one_profile_per_regime([]) == []
