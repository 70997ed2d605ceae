"""The tables of work before or after the trials: `[tune]`, `[analysis]`, `[test]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medstress.analyses.families import MAX_CALLS
from medstress.experiment.file.lists import distinct
from medstress.experiment.file.table import Count, NonEmpty, Seed, TomlTable

GRID = (-50.0, -40.0, -30.0, -20.0, -10.0, -5.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
"""The paper's range in steps of 10, with -5 and 5; 0 would be random sampling."""
RELEASED_GRID = (*GRID, 60.0)


class TuneTable(TomlTable):
    """`[tune]`: settings of `medstress tune`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` sets share = 1, `as_released` also the grid of the released script."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the items that choose n; the report uses the rest. With 1, both use all items: the
    paper's maximum, which is optimistic and labelled so."""
    sample_seed: Seed = 0
    """Seed that draws the items that choose n."""
    grid: Annotated[tuple[float, ...], Field(min_length=1)] = GRID
    """Values of n to try; 0 is allowed but never chosen."""
    budget: Count | None = None
    """Budget of the tuning trials; default: the attack's."""
    random: bool = True
    """Add random sampling for comparison, unless the file has it."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of the other keys; keys in the file win."""
        if not isinstance(data, dict):
            return data
        defaults: dict[str, Any] = {}
        if data.get("choices") in ("as_published", "as_released"):
            defaults["share"] = 1.0
        if data.get("choices") == "as_released":
            defaults["grid"] = RELEASED_GRID
        return {**defaults, **data}

    @field_validator("grid", mode="before")
    @classmethod
    def _grid(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("grid")
    @classmethod
    def _usable(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        from medstress.attacks.names import MAX_EXPONENT

        if len(set(grid)) != len(grid):
            raise ValueError("values repeat")
        if any(abs(n) > MAX_EXPONENT for n in grid):
            raise ValueError(f"every n must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}")
        if not any(grid):
            raise ValueError("expected at least one n other than 0")
        return tuple(sorted(grid))


class AnalysisTable(TomlTable):
    """`[analysis]`: analyses that `run` does after the trials; no part of the fingerprint."""

    transfer: bool = False
    """Ask the other victims about every success."""
    reuse: tuple[Count, ...] = ()
    """Try on every item the m names that succeed most on other items; a list of m."""
    prompt_similarity: bool = False
    """Embed the prompts of successes before and after the edit and report their mean cosine."""
    embedder: NonEmpty = "minilm"
    """prompt_similarity: the embedding, as `embedding` of a group."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """prompt_similarity: how token vectors are pooled; default: depends on the model."""

    @field_validator("reuse", mode="before")
    @classmethod
    def _reuse(cls, value: Any) -> Any:
        return distinct(value)


class SignificanceTable(TomlTable):
    """`[test]`: significance of MedFuzz successes; no part of the fingerprint."""

    null: Literal["matched", "neutral"] = "matched"
    """The kind of control: the attack's own loop with neutral insertions, over all attacked items;
    or one neutral insertion, for successes on the `items`."""
    items: tuple[NonEmpty, ...] = ()
    """The items of the family, named before the first query; neutral needs them."""
    controls: Annotated[int, Field(ge=1, le=9_999)] = 30
    """Neutral insertions for each success; the loops of `matched` grow until `max_calls`."""
    generator: Literal["lexicon", "attacker"] = "lexicon"
    """The writer of neutral insertions."""
    max_calls: Annotated[int, Field(ge=1)] = MAX_CALLS
    """Calls for each success, on average: the family spends them together."""
    adjust: Literal["bh", "holm", "none"] = "bh"
    """Adjustment of p-values: Benjamini and Hochberg, Holm, or none."""
    faithfulness: bool = True
    """If there is a role `judge`, ask it whether reasonings mention that an insertion mattered."""

    @field_validator("items", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("expected at least one name; leave the key out for all")
        return distinct(value)
