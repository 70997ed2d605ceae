"""What a comparison is fixed by before the first query: `[compare]` and the primary endpoint."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from medstress.experiment.file.table import NonEmpty, TomlTable


class PrimaryTable(TomlTable):
    """`primary` of `[experiment]`."""

    metric: Literal["accuracy_after", "asr", "asr_net", "accuracy"]
    """The one measure that decides a comparison."""
    control: NonEmpty | None = None
    """asr_net: the control arm that it is net of."""

    @model_validator(mode="after")
    def _control_of_net(self) -> PrimaryTable:
        from pydantic_core import PydanticCustomError

        if (self.metric == "asr_net") == (self.control is None):
            wants = "needs a control" if self.control is None else "takes no control"
            reason = f"metric = {self.metric!r} {wants}, such as control = 'no_op'"
            raise PydanticCustomError("control", "{reason}", {"reason": reason})
        return self


class CompareTable(TomlTable):
    """`[compare]`: two arms of this run; no part of the fingerprint."""

    a: NonEmpty
    """Label of a victim or an attack: the one that is compared against."""
    b: NonEmpty
    """Label of another of the same kind: the one that verdicts are about."""
    factor: (
        Literal[
            "victim",
            "attack",
            "names",
            "role",
            "training",
            "prompt",
            "version",
            "wrap",
            "answer_by",
            "shots",
            "decoding",
            "parser",
            "reasoning_tokens",
            "text_score",
        ]
        | None
    ) = None
    """What is meant to differ between them; refused where anything else does. Default: whatever
    does, if it is one thing."""
    margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The largest difference that does not matter; `--margin` wins."""
    adjust: Literal["holm", "bh"] = "holm"
    """Adjustment of p-values over a family: Holm, or Benjamini and Hochberg."""
    accuracy: Annotated[float, Field(gt=0, le=1)] | None = None
    """Accuracy to plan with (`run --dry-run`); default: that of the run in the folder, else .5."""

    @model_validator(mode="after")
    def _two_arms(self) -> CompareTable:
        if self.a == self.b:
            raise ValueError(f"a and b are the same arm, {self.a!r}")
        return self
