"""The page of planted runs: remarks of one rule are read once, the others behind a click."""

import re
from html import unescape

from medstress.analyses.run import Run
from medstress.report.page import Browser, page
from planted_trials import (
    always_a,
    attacked_run,
    breaks_at_spaces,
    fooled,
    outcomes,
    planted_run,
    renamed,
    right,
)

BROWSER = Browser(data="{}", n_held=1, n_cases=1)
LIST = re.compile(r'<ul class="remarks">(.*?)</ul>', re.DOTALL)


def run_of(n_attacks: int) -> Run:
    """Every attack is an arm of its own on five questions, and all remarks on it are alike."""
    attacks = {
        f"attack {i}": {"name": "entity_substitution", "sampler": "random", "budget": 2 + i}
        for i in range(n_attacks)
    }
    return planted_run(outcomes(attacks, lambda i, params: 1 if i % 2 else None, n_items=5))


def test_remarks_of_one_rule_are_read_once():
    one, nine = (unescape(page([run_of(n)])) for n in (1, 9))
    assert "more like these" not in one
    behind = re.search(
        r"<summary>(\d+) more like these</summary>\s*" + LIST.pattern, nine, re.DOTALL
    )
    n_behind = behind[2].count("<li")
    assert n_behind == int(behind[1])
    n_one = sum(part.count("<li") for part in LIST.findall(one))
    n_nine = sum(part.count("<li") for part in LIST.findall(nine))
    assert n_nine - n_behind <= n_one + 3 < n_nine, "read at once, though nothing is lost"


def test_the_first_screen_says_which_models_it_leaves_out():
    models = {"careful": fooled, "spaces": breaks_at_spaces, "right": right, "alwaysA": always_a}
    text = page([attacked_run(models, 40, draw=renamed("listed drug 1"))])
    assert "Left out here: spaces; all are below." in text
    models.pop("right")
    assert "Left out here" not in page([attacked_run(models, 40)])


def test_only_a_run_that_attacked_speaks_of_a_review():
    none = outcomes({"none": {"name": "none", "budget": 1}}, lambda i, params: None, n_items=5)
    clean, attacked = (page([run], BROWSER) for run in (planted_run(none), run_of(1)))
    assert "medstress review" in attacked
    assert "medstress review" not in clean
