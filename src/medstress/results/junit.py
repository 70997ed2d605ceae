"""Write verdicts as a JUnit XML file, which continuous integration reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from xml.etree import ElementTree as ET

from medstress.results.formats import clean


class Outcome(Enum):
    """How a case ended."""

    OK = "ok"
    """It is as it should be."""
    FAILED = "failed"
    """Something was measured and is not good enough."""
    ERROR = "error"
    """It could not be measured."""


_ELEMENT = {Outcome.FAILED: "failure", Outcome.ERROR: "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One verdict."""

    name: str
    """What was judged, in a few words."""
    outcome: Outcome
    """How it ended."""
    message: str
    """What was found, in one sentence."""


def junit(suite: str, cases: Sequence[Case], doubts: Sequence[str] = ()) -> str:
    """Return cases as JUnit XML: one `testcase` each, with a `failure` or an `error`.

    Args:
        suite: name of the suite.
        cases: the cases, in order; names should differ.
        doubts: why what was judged may not be what was measured.

    >>> print(junit("gate", [Case(name="asr", outcome=Outcome.FAILED, message="it is .3")]))
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites name="gate" tests="1" failures="1" errors="0">
      <testsuite name="gate" tests="1" failures="1" errors="0" skipped="0">
        <testcase name="asr" classname="gate">
          <failure message="it is .3">it is .3</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome is Outcome.FAILED for case in cases)),
        "errors": str(sum(case.outcome is Outcome.ERROR for case in cases)),
    }
    name = clean(suite)
    root = ET.Element("testsuites", {"name": name, **counts})
    inner = ET.SubElement(root, "testsuite", {"name": name, **counts, "skipped": "0"})
    for case in cases:
        told = clean(case.message)
        element = ET.SubElement(inner, "testcase", {"name": clean(case.name), "classname": name})
        if case.outcome is Outcome.OK:
            ET.SubElement(element, "system-out").text = told
        else:
            kind = _ELEMENT[case.outcome]
            ET.SubElement(element, kind, {"message": told}).text = told
    if doubts:
        told = clean("; ".join(f"unverified: {each}" for each in doubts))
        ET.SubElement(inner, "system-out").text = told
    ET.indent(root)
    head = "<?xml version='1.0' encoding='utf-8'?>\n"
    return head + ET.tostring(root, encoding="unicode")
