"""Runs in which every text that comes from outside is a given one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Point
from medstress.core.arms import AttackRecord
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import Answer, Success, Trial, Validity
from medstress.core.validity import Evidence
from medstress.stats.estimate import wilson
from planted_trials import arm, control, planted_run, trial


def question(number: int, text: str) -> Question:
    # Ids have an order, so that hostile and harmless questions have the same one.
    options = tuple(f"{text} {letter}" for letter in "ABCD")
    return Question(id=f"{number:04} {text}", stem=text, options=options, key="A")


def trials_of(number: int, text: str) -> Iterator[Trial]:
    """Two successes, one of a conversation, a failure and a control, in a place of their own."""
    at = dict.fromkeys(("dataset", "group", "victim"), f"{number:04} {text}")
    names = AttackRecord(
        label=f"names {text}",
        name="entity_substitution",
        budget=4,
        params={"name": "entity_substitution", "label": text},
        draws_names=True,
    )
    talk = AttackRecord(
        label=f"talk {text}",
        name="medfuzz",
        budget=2,
        params={"name": "medfuzz", "template": text},
        attempts=2,
    )
    edits = (Edit(field="B", start=0, end=len(text), replacement=f"{text} new"),)
    won = Success(
        query=1,
        edits=edits,
        answer=Answer("B", text=text),
        attempt=2,
        validity=Validity(False, text, (Evidence(kind="gate", source=text, valid=False),)),
        variant=text,
        repeats=False,
    )
    records = (
        {"attempt": 0, "query": 0, "answer": "A", "rationale": text},
        {"attempt": 1, "objections": [{"gate": text, "reason": text}], "plan": text},
        {"attempt": 2, "objections": [], "plan": text},
        {"attempt": 2, "query": 1, "answer": "B", "rationale": text},
    )
    asked = question(number, text)
    of_names = arm(names, **at)
    for where, more in ((of_names, {}), (arm(talk, **at), {"records": records})):
        one = trial(number, where, flipped_at=1, item=asked, cluster=text, **more)
        yield replace(one, first=won, pick=won, last=won.answer, edits=edits, note=text)
    failed = trial(number, of_names, verdict=Verdict.FAILED, asked=2, failed=1, item=asked)
    yield replace(failed, note=text, repeat=1, id=f"{failed.id} again")
    yield trial(number, control(of=of_names), asked=2, item=asked, cluster=text)


def run_of(texts: Sequence[str]) -> Run:
    """One place for every text, which is all that is said there.

    A stored run holds no lone surrogate.
    """
    texts = [text.encode(errors="replace").decode() for text in texts]
    trials = [one for number, text in enumerate(texts) for one in trials_of(number, text)]
    places = [f"{number:04} {text}" for number, text in enumerate(texts)]
    whole = " ".join(texts)
    return planted_run(
        trials,
        fingerprint=whole,
        config={"experiment": {"name": whole}},
        complete=False,
        n_planned=len(trials) + 1,
        datasets={
            place: {"skipped": [text], "notes": [text]}
            for place, text in zip(places, texts, strict=True)
        },
        groups={place: {"undefined": text} for place, text in zip(places, texts, strict=True)},
        versions={text: text for text in texts},
        endpoints=[
            {"victim": text, "temperature": {"asked": 0.0, "sent": 1.0, "said": text}}
            for text in texts
        ],
        controls={"left_out": {text: {"no_op": text} for text in texts}},
        doubt=whole,
    )


def chart_of(
    kind: Literal["bars", "lines", "dots", "heat", "words"], texts: Sequence[str]
) -> Chart:
    """A picture in which every text that is not of the program is a given one."""
    points = tuple(
        Point(
            x=float(number) if kind in ("lines", "words") else text,
            y=wilson(1, 2),
            series=text,
            panel=texts[0],
            tip=text,
        )
        for number, text in enumerate(texts)
    )
    return Chart(
        name="hostile",
        title=texts[0],
        kind=kind,
        x="name",
        y="share",
        points=points,
        notes=tuple(texts),
    )
