"""Tables of what is done beside or after the trials: `[tune]`, `[analysis]`, `[test]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medstress.experiment.table import Count, NonEmpty, Seed, Table
from medstress.metrics.control_costs import MAX_CALLS
from medstress.metrics.monte_carlo import MOST

GRID = (-50.0, -40.0, -30.0, -20.0, -10.0, -5.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
"""Step 10 over the paper's range, and its +/-5; 0 is random sampling."""
RELEASED_GRID = (*GRID, 60.0)


class TuneTable(Table):
    """`[tune]`: settings of `medstress tune`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` sets share = 1, `as_released` also the grid of the released script."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Part of the items that n is chosen on; the report is on the rest. 1: both on all items,
    the paper's maximum, which is optimistic and labelled so."""
    sample_seed: Seed = 0
    """Which items n is chosen on."""
    grid: Annotated[tuple[float, ...], Field(min_length=1)] = GRID
    """Values of n that are tried; 0 may be among them and is never chosen."""
    metric: Literal["asr", "asr_unrefuted"] = "asr"
    """What is to be largest; `asr_unrefuted` leaves out successes that a rule refutes, which
    matters where variants of the key are asked."""
    budget: Count | None = None
    """Budget of the tuning trials; default: the attack's."""
    random: bool = True
    """Random sampling beside the tuned attacks, where the file has none."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of the other keys; what the file says wins."""
        if not isinstance(data, dict):
            return data
        defaults: dict[str, Any] = {}
        if data.get("choices") in ("as_published", "as_released"):
            defaults["share"] = 1.0
        if data.get("choices") == "as_released":
            defaults["grid"] = RELEASED_GRID
        return {**defaults, **data}

    @field_validator("metric", mode="before")
    @classmethod
    def _metric(cls, value: Any) -> Any:
        if value == "asr_valid":
            raise ValueError(
                "nobody vouches for a success while n is tuned; asr_unrefuted counts those that "
                "no rule refutes"
            )
        return value

    @field_validator("grid", mode="before")
    @classmethod
    def _grid(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("grid")
    @classmethod
    def _usable(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        from medstress.attacks.choices import MAX_EXPONENT

        if len(set(grid)) != len(grid):
            raise ValueError("values repeat")
        if any(abs(n) > MAX_EXPONENT for n in grid):
            raise ValueError(f"every n must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}")
        if not any(grid):
            raise ValueError("expected at least one n other than 0")
        return tuple(sorted(grid))


class AnalysisTable(Table):
    """`[analysis]`: what `run` asks after the trials; no part of the fingerprint."""

    transfer: bool = False
    """Ask every success of the other victims too."""
    universality: tuple[Count, ...] = ()
    """Ask the m names that succeed most on other items of every item; a list of m."""
    prompt_similarity: bool = False
    """Embed the prompts of successes before and after; their mean cosine is the result."""
    embedder: NonEmpty = "minilm"
    """prompt_similarity: as `embedding` of a group."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """prompt_similarity: default what suits the model."""

    @field_validator("universality", mode="before")
    @classmethod
    def _universality(cls, value: Any) -> Any:
        if isinstance(value, list):
            if len(set(map(str, value))) != len(value):
                raise ValueError("values repeat")
            return tuple(value)
        return value


AS_PUBLISHED = {
    "null": "neutral",
    "controls": 30,
    "generator": "attacker",
    "family": "successes",
    "adjust": "none",
}
"""The test of Ness et al., as far as it is stated."""


class SignificanceTable(Table):
    """`[test]`: significance of MedFuzz successes; no part of the fingerprint."""

    significance: bool = True
    """Test successes at the end of a run; false asks about reasonings alone. `medstress test`
    tests them all the same."""
    choices: Literal["default", "as_published"] = "default"
    """`as_published`: the paper's 30 neutral insertions by the attacker, p-values not adjusted."""
    null: Literal["matched", "flipped", "neutral", "paraphrase", "scrambled", "best_of_k"] = (
        "matched"
    )
    """What a control is."""
    controls: Literal["adaptive"] | Annotated[int, Field(ge=1, le=9_999)] = "adaptive"
    """Controls a success: a number, or what `max_calls` buys, fewer where it is soon clear."""
    max_calls: Annotated[int, Field(ge=1)] = MAX_CALLS
    """Most calls of one success: its T and its controls. Beside a number of controls it counts
    where it is written."""
    max_controls: Annotated[int, Field(ge=1, le=9_999)] = MOST
    """Most controls of one success where their number adapts."""
    statistic: Literal["key_probability", "share_correct", "confidence"] = "key_probability"
    """What tells how hard an item is; a victim without it gets the next one."""
    stop_at: Annotated[int, Field(ge=1, le=999)] = 10
    """Adaptive: enough once so many controls are at least as hard."""
    family: Literal["successes", "attacked"] | None = None
    """What p-values are adjusted over; `attacked`, with p = 1 for those that held, is the default
    of null `matched`, `successes` of the others."""
    items: tuple[NonEmpty, ...] = ()
    """The family is of these items alone: pre-specified where the run began with them, else post
    hoc."""
    trials: tuple[NonEmpty, ...] = ()
    """The same, by trial_id or its beginning."""
    adjust: Literal["bh", "holm", "none"] = "bh"
    """Benjamini and Hochberg, Holm, or not at all."""
    loops: Annotated[int, Field(ge=1, le=1_000)] = 1
    """matched, flipped: how often a control's loop of attempts starts over until it errs."""
    generator: Literal["lexicon", "attacker"] = "lexicon"
    """Who writes neutral insertions."""
    exemplars_from: NonEmpty | None = None
    """A JSONL file of worked questions that victims are shown in tests; default: the attack's."""
    share_controls: bool = True
    """Successes on one item whose insertions are alike have the same controls."""
    panel: bool = True
    """Ask the judges' panel, where the attack had one, whether controls keep the key."""
    faithfulness: bool = True
    """Ask the role `judge`, where there is one, whether reasonings say an insertion mattered."""
    faithfulness_slope: bool = False
    """Ask again without every insertion: does what a reasoning says go with what it did?"""
    slope_samples: Annotated[int, Field(ge=2, le=1_000)] = 20
    """faithfulness_slope: conversations about every edit, and about it without each insertion."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of the other keys; what the file says wins."""
        if isinstance(data, dict) and data.get("choices") == "as_published":
            return {**AS_PUBLISHED, **data}
        return data

    @field_validator("items", "trials", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if isinstance(value, list):
            if not value:
                raise ValueError("expected at least one name; leave the key out for all")
            if len(set(map(str, value))) != len(value):
                raise ValueError("values repeat")
            return tuple(value)
        return value
