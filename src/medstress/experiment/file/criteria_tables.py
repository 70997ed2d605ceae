"""The tables of decisions: `[[require]]` and `[slices]`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from medstress.experiment.file.lists import distinct
from medstress.experiment.file.table import Count, NonEmpty, TomlTable

PLACES = ("dataset", "group", "victim", "attack")
"""The keys of `where`."""
OF_CONTROLS = ("control", "asr_net")
"""Metrics that a row has once for each of its controls."""
AT_BUDGETS = ("asr", "asr_net", "control")
"""Metrics that have a value at every budget."""
OF_SLICES = ("accuracy", "asr", "asr_net")
"""Metrics that a slice has."""
COMPARED = ("accuracy", "accuracy_after", "asr")
"""Metrics that can be compared with a baseline run, pair by pair."""

Limit = Annotated[float, Field(ge=-1, le=1)]


class SliceOf(TomlTable):
    """`slice` of `[[require]]`."""

    by: NonEmpty
    """One of `[slices] by`; every slice must meet the criterion."""
    value: NonEmpty | None = None
    """Only this slice must meet it."""


class Against(TomlTable):
    """`against` of `[[require]]`."""

    run: NonEmpty
    """Folder of the baseline run, complete; relative to the experiment file."""


class RequireTable(TomlTable):
    """`[[require]]`: an acceptance criterion, fixed before the first query."""

    metric: NonEmpty
    """`accuracy`, `accuracy_after`, `asr`, `asr_valid`, `asr_net`, `control`, or a score of tagged
    texts or pairs, such as `f1_after` and `pearson_drop`."""
    control: NonEmpty | None = None
    """asr_net, control: which control; default: the only one."""
    slice: SliceOf | None = None
    """accuracy, asr, asr_net: every slice by this property must meet the limit."""
    against: Against | None = None
    """accuracy, accuracy_after, asr: the limit is on the difference to a baseline run (this minus
    that), trial by trial."""
    at_budget: Count | None = None
    """asr, asr_net, control: within so many perturbed queries; default: the attack's budget."""
    where: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Labels of `dataset`, `group`, `victim` or `attack` that limit which rows are judged; default:
    all rows but those of controls. All of them must meet the limit."""
    max_high: Limit | None = None
    """The interval's upper end is at most this."""
    min_low: Limit | None = None
    """The interval's lower end is at least this."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("where")
    @classmethod
    def _known_places(cls, value: dict[str, str]) -> dict[str, str]:
        if unknown := [key for key in value if key not in PLACES]:
            raise ValueError(f"expected the keys {', '.join(PLACES)}, got {unknown[0]!r}")
        return value

    @model_validator(mode="after")
    def _possible(self) -> RequireTable:
        if (self.max_high is None) == (self.min_low is None):
            raise ValueError(
                "expected one limit, max_high or min_low; for two limits write two entries"
            )
        if self.metric == "asr_net" and self.max_high is not None:
            raise ValueError(
                "max_high on asr_net: noise lowers what is net of a control, so a noisy victim "
                "would meet any upper limit; set max_high on asr, and min_low on asr_net"
            )
        only: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("control", OF_CONTROLS),
            ("at_budget", AT_BUDGETS),
            ("slice", OF_SLICES),
            ("against", COMPARED),
        )
        for key, metrics in only:
            if getattr(self, key) is not None and self.metric not in metrics:
                raise ValueError(f"{key} is for {', '.join(metrics)}, not for {self.metric!r}")
        if self.slice is not None and (self.against is not None or self.at_budget is not None):
            raise ValueError("a slice has no at_budget and no against: leave one of them out")
        if self.against is None and not self.metric.startswith(_SIGNED) and self._limit < 0:
            raise ValueError(f"{self.metric} is never below 0, so its limit cannot be either")
        return self

    @property
    def _limit(self) -> float:
        limit = self.min_low if self.max_high is None else self.max_high
        return 0.0 if limit is None else limit

    def as_json(self) -> dict[str, Any]:
        """Return the criterion as it is stored and hashed."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"use"})


_SIGNED = ("asr_net", "pearson", "spearman", "f1", "precision", "recall")
"""Beginnings of metrics that may be negative: differences and correlations."""

COMPUTED = (
    "type",
    "semantic_group",
    "key",
    "option_length",
    "question_length",
)
"""Slices that are computed from items; any other is a column of their metadata."""


class SlicesTable(TomlTable):
    """`[slices]`: rates of parts of the data; no part of the fingerprint."""

    by: Annotated[tuple[NonEmpty, ...], Field(min_length=1)]
    """Properties that divide the items: a metadata column such as `subject`, `type` (of the
    entities that an attack may replace), `semantic_group` (of these types), `key` (letter),
    `option_length` and `question_length` (thirds)."""

    @field_validator("by", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return distinct(value)
