"""JUnit XML and Markdown of verdicts."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from medstress.results.junit import Case, Outcome, junit
from medstress.results.markdown import markdown_page
from medstress.results.table import Format, Table, as_row, columns

CASES = [
    Case(name="fine", outcome=Outcome.OK, message="it holds"),
    Case(name='<b a="1">', outcome=Outcome.FAILED, message="a & b\x00\x1b\ud800 > c"),
    Case(name="broken", outcome=Outcome.ERROR, message="no answer"),
]


def test_a_missed_criterion_is_a_failure_and_a_fault_an_error() -> None:
    root = ET.fromstring(junit("gate <1>", CASES))
    assert (root.tag, root.get("name")) == ("testsuites", "gate <1>")
    (suite,) = root
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "1", "0"]
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"],
        ["failure"],
        ["error"],
    ]


def test_hostile_texts_are_text() -> None:
    _, failed, _ = ET.fromstring(junit("gate", CASES))[0]
    assert failed.get("name") == '<b a="1">'
    assert failed[0].get("message") == "a & b\ufffd\ufffd\ufffd > c"


def test_no_case_is_a_file_too() -> None:
    assert ET.fromstring(junit("gate", [])).get("tests") == "0"


def test_a_page_has_its_sentences_before_its_tables() -> None:
    table = Table(
        name="t",
        caption="Cap <tion>",
        columns=columns(Format.TEXT, "A"),
        rows=(as_row("x|y"),),
        notes=("a note",),
    )
    page = markdown_page("# gate", ["verdict *first*", "then"], [table])
    assert page.splitlines() == [
        r"# \# gate",
        "",
        r"verdict \*first\*",
        "",
        "then",
        "",
        "**Cap &lt;tion>**",
        "",
        "| A |",
        "| --- |",
        r"| x\|y |",
        "",
        "a note",
    ]
