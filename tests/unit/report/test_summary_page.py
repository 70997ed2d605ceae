"""What `medstress summary` prints, its Markdown and its JUnit."""

import io
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from medstress.analyses.shown import Decision, Remark
from medstress.report.summary_page import _briefly, junit, junit_page, markdown_page, print_summary
from planted_trials import attacked_run, fooled, mute, right


def printed(run: object, width: int = 80, wide: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=True)
    print_summary(console, run, wide=wide)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_lines_then_tables_then_warnings(width):
    run = attacked_run({"careful": fooled}, 40, complete=False, n_planned=99, root="f" * 32)
    text = printed(run, width)
    flat = " ".join(text.split())
    places = [
        flat.index(part)
        for part in (
            "careful knew 40 of 40 questions. Under near names it lost",
            "Do not rely on this: only 80 of 99 planned trials have ended.",
            "Lost (ASR)",
            "! The run is not complete",
            "Cases: medstress case runs/planted",
            "Root: ffffffff",
        )
    ]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= width
    assert "Queries" not in text


def test_wide_has_all_tables():
    text = printed(attacked_run({"careful": fooled}, 40), wide=True)
    assert "How every trial ended" in text
    assert "Queries" in text


def test_warnings_of_a_rule_are_printed_once():
    alike = [Remark(rule="a", sentence=f"{i} is bad.") for i in range(9)]
    other = [Remark(rule="b", sentence="All is worse.")] * 4
    shown, left = _briefly([*alike, *other])
    assert shown == ["0 is bad. And 8 more like this: summary --wide has them.", "All is worse."]
    assert left == 0
    many = [Remark(rule=str(i), sentence=f"{i} is bad.") for i in range(20)]
    assert _briefly(many)[1] == 8


def test_other_models_have_their_lines_too():
    text = printed(attacked_run({"careful": fooled, "right": right, "mute": mute}, 40), 160)
    assert text.index("careful knew") < text.index("right knew") < text.index("Lost (ASR)")
    assert "mute knew 40 of 40 questions. Under near names not one of its answers" in text
    assert text.count("careful knew") == 1


def test_markdown_is_one_page_for_a_model_card():
    run = attacked_run(
        {"careful": fooled},
        40,
        versions={"medstress": "0.3.0"},
        victims={"careful": {"model": "hub/<careful>", "model_hash": "blake2b-128:00"}},
        command="medstress run e.toml; rm -rf ~",
    )
    page = markdown_page(run)
    paragraphs = page.split("\n\n")
    assert paragraphs[0] == "# medstress planted"
    assert paragraphs[3] == "You can rely on this."
    assert "| Attack | Model |" in page
    assert "careful: hub/&lt;careful>, weights or code blake2b-128:00." in page
    assert "Asked: 40 items of cases; attacks: near names; seeds: 0." in page
    assert "medstress 0.3.0." in page
    assert "of no others: another attack may take more." in page
    assert "rm -rf" not in page
    assert "medstress run EXPERIMENT.toml --out " in paragraphs[-1]


def test_junit_holds_criteria_and_faults():
    root = ET.fromstring(junit_page(attacked_run({"mute": mute}, 20)))
    assert root.get("errors") == "1"
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert list(cases) == ["trials", "answers", "complete"]
    error = cases["answers"].find("error")
    assert error.text == "not one answer of mute under near names could be read"


def test_junit_takes_hostile_text():
    cases = [Decision(name="<a>\x00", outcome="failed", sentence='"x" & \x1b]]>')]
    root = ET.fromstring(junit("suite\ud800", cases))
    (failure,) = root.iter("failure")
    assert failure.text == '"x" & \ufffd]]>'
    assert root.get("failures") == "1"
