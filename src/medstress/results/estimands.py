"""What each number speaks of: the table of the statistics page, and the tips of columns."""

from __future__ import annotations

from dataclasses import dataclass

HEADINGS = (
    "number",
    "items",
    "names",
    "seeds",
    "builds",
    "only items that",
    "unreadable and failed answers",
)
"""Columns of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """What one number is an estimate of.

    "Like these" is the population that the interval allows for; "these" is a fixed set, of which
    alone the number speaks.
    """

    number: str
    """What it is called."""
    items: str = "like these"
    names: str = "those drawn"
    seeds: str = "like these, drawn anew for every item"
    builds: str = "this one"
    only: str
    """The condition that items have to meet."""
    missing: str
    """What unreadable and failed answers count as."""
    fields: tuple[str, ...] = ()
    """The fields of `summary --json` that hold it."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of the table."""
        return (
            self.number,
            self.items,
            self.names,
            self.seeds,
            self.builds,
            self.only,
            self.missing,
        )

    @property
    def tip(self) -> str:
        """One line for a column's heading."""
        names = "" if self.names in ("–", "no names") else f"; names: {self.names}"
        return (
            f"Items: {self.items}{names}; seeds: {self.seeds}; builds: {self.builds}. Only items "
            f"that {self.only}. Unreadable and failed answers: {self.missing}."
        )


_RIGHT = "are right on the clean prompt"
_BOTH = f"{_RIGHT} and ran under both"

ESTIMANDS = (
    Estimand(
        number="accuracy",
        items="like these (documents where known)",
        names="–",
        seeds="these",
        only="were answered",
        missing="unreadable: wrong, failed: left out; bounds: wrong or right",
        fields=("accuracy",),
    ),
    Estimand(
        number="ASR",
        names="those drawn: items that share names are taken as independent",
        only=_RIGHT,
        missing="no success; bounds: none or all of them",
        fields=("asr", "asr_decided", "asr_asked"),
    ),
    Estimand(
        number="`asr_valid`: the first success is valid",
        names="those drawn: items that share names are taken as independent",
        only=_RIGHT,
        missing="no success; disputed and missing labels: invalid or valid in `settled_ends`",
        fields=("asr_valid",),
    ),
    Estimand(
        number="control's rate c",
        names="no names",
        only=_RIGHT,
        missing="no flip; bounds: none or all",
        fields=("control", "right_to_wrong"),
    ),
    Estimand(
        number="`asr_net`, a − c",
        only=_BOTH,
        missing="no flip; bounds at their worst on either side",
        fields=("asr_net",),
    ),
    Estimand(
        number="bounds of the loss",
        only=_BOTH,
        missing="as in ASR and `asr_net`",
        fields=("loss_bounds",),
    ),
    Estimand(
        number="wrong to right",
        names="no names",
        only="are wrong on the clean prompt and attackable",
        missing="left out",
        fields=("wrong_to_right",),
    ),
    Estimand(
        number="accuracy after attack",
        only="were answered",
        missing="clean: as accuracy; under attack: not flipped; bounds: wrong or right",
        fields=("accuracy_after",),
    ),
    Estimand(
        number="two victims: accuracy after attack",
        builds="these two",
        only="were answered by both",
        missing="wrong",
    ),
    Estimand(
        number="two victims: loss, net",
        builds="these two",
        only="are right under both: conditions on an outcome, which can reverse the order",
        missing="no flip",
    ),
    Estimand(
        number="the same for names like these (`compare`)",
        names="like these, drawn with the items",
        builds="these two",
        only="as the number beside it",
        missing="as there",
    ),
    Estimand(
        number="stored attacks: loss at the first edit",
        names="the stored edits",
        seeds="these",
        builds="these two",
        only="are right under both, among items that were right when the set was made",
        missing="no flip",
    ),
    Estimand(
        number="change of P(key)",
        only="are right on the clean prompt, by the answer at the first success, else the last one",
        missing="left out",
        fields=("key_probability_change",),
    ),
    Estimand(
        number="slices",
        items="like these, slice by slice",
        only="as the number that is sliced",
        missing="as there",
    ),
)
"""In the order of the page."""

_BY_FIELD = {field: each for each in ESTIMANDS for field in each.fields}


def tip_of(field: str) -> str:
    """Return what the number of a field speaks of; empty if it is a count or not described."""
    found = _BY_FIELD.get(field)
    return found.tip.replace("`", "") if found else ""


def as_markdown() -> str:
    """Return the table of the page."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(each.cells for each in ESTIMANDS)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
