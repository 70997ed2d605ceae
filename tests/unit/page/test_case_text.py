"""The list of cases on the terminal."""

from io import StringIO

import pytest
from rich.console import Console

from medstress.report.cases import Cases, print_cases
from planted_trials import attacked_run, fooled, right


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
