"""The tables of a review, from a summary."""

from medstress.metrics.old_stats.estimates import unknown, wilson
from medstress.report.plots.reviewed import review_plots
from medstress.report.review import review_section
from medstress.results.html import html_table
from medstress.results.text import rows

NOTHING = unknown("Cohen's kappa: one case says nothing of chance").as_json()


def judgement(name, n=4, **more):
    return {
        "judgement": name,
        "n_cases": n,
        "n_split": 1,
        "n_decided": 0,
        "n_open": 1,
        "yes": wilson(n - 1, n).as_json(),
        "agreement": {
            "n_raters": 2,
            "raw": wilson(3, 4).as_json(),
            **dict.fromkeys(("cohen", "fleiss", "krippendorff"), NOTHING),
        },
    } | more


def review(**more):
    return {
        "judgements": [
            judgement("key_right"),
            judgement("harmful", n=0, yes=wilson(0, 0).as_json()),
        ],
        "samples": [{"mode": "judge", "drawn": 4, "population": 9, "seed": 3}],
        "controls": [{"rater": "all", "control": "wrong_key", "right": wilson(1, 2).as_json()}],
        "answers": None,
    } | more


def test_sections_stand_only_where_somebody_judged():
    assert review_section({}) == []
    assert [table.name for table in review_section({"review": review()})] == [
        "review-judgements",
        "review-agreement",
        "review-controls",
    ]
    page = "".join(map(html_table, review_section({"review": review()})))
    assert "4 of 9 successes, seed 3" in page
    assert "one case says nothing of chance" in page


def test_what_is_unknown_is_drawn_as_a_dash_and_not_as_0():
    split = judgement("key_right", yes=wilson(0, 0).as_json())
    judged, agreement, *_ = review_section({"review": review(judgements=[split])})
    assert "0/0" not in str(rows(judged))
    assert str(rows(agreement)).count("–") >= 3


def test_people_and_models_stand_side_by_side():
    shares = {"clean": wilson(9, 10).as_json(), "attacked": wilson(8, 10).as_json()}
    answers = {
        "n_items": 10,
        "people": shares,
        "raters": [{"rater": "rater 1", **shares}],
        "models": shares | {"clean": wilson(0, 0).as_json()},
    }
    *_, table = review_section({"review": review(answers=answers)})
    assert [row.cells[0].value for row in table.rows] == ["people", "rater 1", "models"]
    assert table.rows[2].cells[1].value is None


def test_the_page_draws_what_is_known_and_has_no_section_without_reviews():
    shares = {"clean": wilson(9, 10).as_json(), "attacked": wilson(0, 0).as_json()}
    answers = {"n_items": 10, "people": shares, "raters": [], "models": shares}
    judged, answered = review_plots({"review": review(answers=answers)})
    assert "The key is right .750" in judged.svg
    assert "Harm is likely" not in judged.svg  # nobody judged it: unknown, and not 0
    assert "attacked items" not in answered.svg
    assert list(review_plots({})) == []
