"""The list of cases on the terminal, and what is marked as changed in a text."""

from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from medstress.analyses.run import Run
from medstress.analyses.verdict import VERDICT
from medstress.core.arms import AttackRecord
from medstress.core.errors import UsageError
from medstress.core.text import Edit
from medstress.report.cases import Cases, print_cases
from medstress.report.page import Browser, page
from medstress.report.text import ADDED, REMOVED, SAME, mark_changes
from planted_trials import (
    SWAP,
    arm,
    attacked_run,
    breaks_at_spaces,
    fooled,
    mute,
    paired,
    planted_run,
    right,
    tagged,
    trial,
)


@pytest.mark.parametrize("width", [120, 160])
def test_the_list_names_attack_and_model_and_one_command_for_the_rest(width):
    run = attacked_run({"careful": fooled, "right": right}, 30, arms=2)
    stream = StringIO()
    print_cases(Console(file=stream, width=width), Cases(run))
    text = " ".join(stream.getvalue().split())
    n = 30 * 2 * 2 * 2
    assert text.startswith(f"{n} cases; medstress case {run.folder.path} ID shows one")
    # The headline's arm comes first, so that all rows have one attack and one model.
    rows = text.split("shows one")[1]
    # The id of a planted trial holds both names too.
    assert rows.count("careful") == 2 * 20
    assert rows.count("near") == 2 * 20
    assert text.endswith(f"{n - 20} more cases: medstress view {run.folder.path} has all.")
    assert text.count("more") == 1


def test_where_harmless_edits_are_the_headline_their_cases_come_first():
    run = attacked_run({"spaces": breaks_at_spaces}, 30)
    cases = Cases(run)
    first = cases.line(cases.trials[0])
    assert (first.outcome, first.attack) == ("flipped", "near names / no_op")
    assert cases.headline["attack"] == "near names / no_op"
    assert run.of(VERDICT).arm["attack"] == "near names"
    assert 'data-attack="near names / no_op"' in page(
        [run], Browser(data="{}", n_held=1, n_cases=1)
    )


def test_the_pair_whose_score_moved_most_comes_first():
    swap = arm(AttackRecord(label="swap", name="swap_noise", whole_copy=True, judged=False))
    pairs = [paired(i, swap, 2.0, 2.0, after) for i, after in enumerate((2.0, 1.5, 3.5, 1.0))]
    assert [trial.item.id for trial in Cases(planted_run(pairs)).trials] == ["p2", "p3", "p1", "p0"]


def test_what_nothing_could_be_read_of_is_not_called_held():
    cases = Cases(attacked_run({"mute": mute}, 30))
    assert {cases.line(one).outcome for one in cases.trials} == {"mute"}
    stream = StringIO()
    print_cases(Console(file=stream, width=160), cases)
    assert "no answer under attack could be read" in stream.getvalue()
    assert "held" not in stream.getvalue()


def test_the_list_shows_white_space_in_words_and_names_controls():
    stream = StringIO()
    run = attacked_run({"m": breaks_at_spaces}, 30)
    gap = Edit(field="stem", start=5, end=6, replacement="  ")
    trials = [replace(t, edits=(gap,)) if t.arm.is_control else t for t in run.trials]
    print_cases(Console(file=stream, width=160), Cases(planted_run(trials)))
    assert "1 space → 2 spaces" in stream.getvalue()
    assert "near names, harmless edits on m" in stream.getvalue()


def test_the_list_tells_seeds_and_runs_of_an_arm_apart():
    def listed(run: Run, width: int) -> str:
        stream = StringIO()
        print_cases(Console(file=stream, width=width), Cases(run))
        return stream.getvalue()

    three = attacked_run({"m": fooled}, 3, seeds=(0, 1, 2), harmless=None)
    assert {Cases(three).line(one).draw for one in three.trials} == {"seed 0", "seed 1", "seed 2"}
    text = listed(three, 80)
    assert "seed 2" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "seed" not in listed(attacked_run({"m": fooled}, 3), 80)
    runs = planted_run([trial(0, repeat=i) for i in range(2)])
    assert [Cases(runs).line(one).draw for one in runs.trials] == ["run 1", "run 2"]


def test_a_case_names_its_entity_and_the_edit_at_it():
    (first, second) = tagged(1, arm(SWAP), "B-Drug O B-Drug", "B-Drug O B-Drug", "O O O")
    edits = tuple(Edit(field="tokens", start=i, end=i + 1, replacement=f"n{i}") for i in range(3))
    cases = Cases(planted_run([replace(one, edits=edits) for one in (first, second)]))
    lines = [cases.line(trial) for trial in cases.trials]
    assert [str(line.change) for line in lines] == ["t0 → n0", "t2 → n2"]
    with pytest.raises(UsageError, match=r", t0 \(0:1:Drug\).*, t2 \(2:3:Drug\)"):
        cases.find("s1")


WORDS = some.lists(some.sampled_from(["a", "man", "takes", "aspirin", "(10", "mg)", "α-", "\n"]))


@given(WORDS, WORDS)
def test_marked_pieces_give_both_texts(old, new):
    before, after = " ".join(old), " ".join(new)
    marked = mark_changes(before, after)
    assert "".join(text for change, text in marked if change != ADDED) == before
    assert "".join(text for change, text in marked if change != REMOVED) == after


def test_two_sentences_put_in_are_all_that_is_marked():
    before = "A man takes aspirin. He is well. A man asks for help."
    after = (
        "A man takes aspirin. A man of his village is a healer. He is well. "
        "A man asks for help, and for work."
    )
    marked = mark_changes(before, after)
    assert [change for change, _ in marked] == [SAME, ADDED, SAME, ADDED, SAME]
    assert [text.strip() for change, text in marked if change == ADDED] == [
        "A man of his village is a healer.",
        ", and for work",
    ]
