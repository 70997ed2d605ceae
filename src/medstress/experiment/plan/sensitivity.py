"""`[sensitivity]`: every victim in every format, each a victim of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.experiment.file.config import Experiment, VictimTable
from medstress.experiment.file.labels import victim_labels
from medstress.experiment.file.sensitivity_table import SensitivityTable
from medstress.kinds import KINDS, Kind
from medstress.kinds.prompted import task_of
from medstress.tasks.templates import load_template

_EVERY = frozenset({"generate", "score", "rank", "choose"})
_WRITERS = frozenset({"generate", "score"})
_CALLS: Mapping[str, frozenset[str]] = {
    "transformers": _WRITERS,
    "llama_cpp": _WRITERS,
    "openai": _WRITERS,
    "python": frozenset({"choose", "generate"}),
}
"""The calls of shipped back ends, known before they are opened; others are found out then."""
_HEADS = {"transformers": frozenset({"rank"})}
"""The calls with `answer_by = "head"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way in which one victim is asked."""

    label: str
    """The victim's name in results: `<victim> / <prompt> / <answer_by>`; functions have no third
    part."""
    victim: str
    """Name of the victim in the file."""
    prompt: str
    """The template."""
    answer_by: str | None
    """How it answers; None for functions."""

    def describe(self) -> dict[str, Any]:
        """Return it as JSON values, without its label."""
        return {"victim": self.victim, "prompt": self.prompt, "answer_by": self.answer_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityPlan:
    """The formats of an experiment; none without `[sensitivity]`."""

    formats: tuple[Format, ...] = ()
    """In the order of the victims."""
    left_out: tuple[str, ...] = ()
    """A sentence for each format that a victim cannot do."""

    @property
    def models(self) -> dict[str, str]:
        """Label of each format -> the victim that it asks."""
        return {each.label: each.victim for each in self.formats}

    def describe(self) -> dict[str, Any]:
        """Return its entry of the manifest; empty without formats."""
        if not self.formats:
            return {}
        formats = {each.label: each.describe() for each in self.formats}
        return {"sensitivity": {"formats": formats, "left_out": list(self.left_out)}}


def in_all_formats(experiment: Experiment, base: Path) -> tuple[Experiment, SensitivityPlan]:
    """Put every victim in every format of `[sensitivity]` in the place of the victims.

    The table is left out of what is returned, so that nothing multiplies the victims again.

    Args:
        experiment: the experiment.
        base: folder that relative paths start from.

    Raises:
        UsageError: a template is missing or broken, or a victim has fewer than two formats.
    """
    table = experiment.sensitivity
    if table is None:
        return experiment, SensitivityPlan()
    for prompt in table.prompts:
        try:
            load_template(prompt, base)
        except UsageError as error:
            raise UsageError(f"[sensitivity] prompts: {error}") from error
    if "answer_by" in table.model_fields_set and all(
        victim.backend == "python" for victim in experiment.victim
    ):
        raise UsageError(
            "[sensitivity] answer_by: every victim is a function, which answers as it likes, so "
            "there is no other way of answering to compare; leave the key out"
        )
    victims: list[VictimTable] = []
    formats: list[Format] = []
    left_out: list[str] = []
    for victim, label in zip(experiment.victim, victim_labels(experiment.victim), strict=True):
        found: list[tuple[Format, VictimTable]] = []
        reasons: list[str] = []
        for each, asked in _formats(victim, label, table):
            reason = _obstacle(asked, each.label, base)
            if reason is None:
                found.append((each, asked))
            else:
                reasons.append(f"[sensitivity] leaves out {each.label}: {reason}")
        if len(found) < 2:
            _refuse(label, [each.label for each, _ in found], reasons)
        if victim.backend == "python":
            reasons.append(
                f"[sensitivity] asks {label} with each prompt, but in no other way of answering: "
                "it is a function, which answers as it likes"
            )
        formats += [each for each, _ in found]
        victims += [asked for _, asked in found]
        left_out += reasons
    changes = {"victim": tuple(victims), "sensitivity": None}
    plan = SensitivityPlan(formats=tuple(formats), left_out=tuple(left_out))
    return experiment.model_copy(update=changes), plan


def check_formats(plan: SensitivityPlan, kind: Kind) -> None:
    """Check that the data are questions, which alone are asked with these prompts.

    Raises:
        UsageError: they are not.
    """
    if plan.formats and kind is not KINDS[0]:
        raise UsageError(
            f"[sensitivity] is for questions, but the data are {kind.name}; leave the table out"
        )


def _formats(
    victim: VictimTable, label: str, table: SensitivityTable
) -> Iterator[tuple[Format, VictimTable]]:
    is_function = victim.backend == "python"
    ways: Sequence[Any] = (None,) if is_function else table.answer_by
    for prompt in table.prompts:
        for answer_by in ways:
            name = " / ".join(filter(None, (label, prompt, answer_by)))
            keys = {"name": name, "prompt": prompt}
            # What is written beside a function's own answer_by is refused when it is opened.
            if not is_function:
                keys["answer_by"] = answer_by
            asked = victim.model_copy(update=keys)
            yield Format(label=name, victim=label, prompt=prompt, answer_by=answer_by), asked


def _obstacle(victim: VictimTable, label: str, base: Path) -> str | None:
    """Return why a victim cannot be asked in a format; None if it can, or if that is unknown."""
    calls = _CALLS.get(victim.backend, _EVERY)
    if victim.answer_by == "head":
        calls = _HEADS.get(victim.backend, calls)
    try:
        task_of(victim, base, calls, label)
    except UsageError as error:
        return str(error).removeprefix(f"victim {label!r}: ")
    return None


def _refuse(label: str, formats: Sequence[str], reasons: Sequence[str]) -> None:
    can = f"only as {formats[0]}" if formats else "in none of these formats"
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise UsageError(
        f"[sensitivity]: victim {label!r} can be asked {can}{why}, and a comparison needs two: "
        "name more prompts or ways of answering, or leave the table out"
    )
