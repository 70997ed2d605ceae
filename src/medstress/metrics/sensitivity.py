"""How much results depend on the format: template and way of answering (`[sensitivity]`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.controls import attacks_only
from medstress.metrics.counts import (
    first_of_each_item,
    is_answered,
    is_eligible,
    is_flipped,
    unit_of,
)
from medstress.metrics.pairs import Pair, difference_of, pair_trials
from medstress.stats.estimates import Estimate
from medstress.stats.multiplicity import holm
from medstress.stats.paired import unite

Row: TypeAlias = Mapping[str, Any]
Formats: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Label of a victim -> `victim`, the model behind it, `prompt` and `answer_by`."""
Place: TypeAlias = tuple[str, str, str]
"""(data set, group, model)."""

ACCURACY, AFTER, ASR = "accuracy", "accuracy_after", "asr"
FAMILIES = (AFTER, ACCURACY, ASR)
"""Families of differences. `accuracy_after` comes first: a format changes clean answers too, and
only there both formats are compared on all items that both answered."""
_METHOD = (
    "{interval}; p from the same statistic at 0, adjusted by Holm within the {n} differences of "
    "this metric"
)


def sensitivity(
    trials: Sequence[TrialRow], pooled: Sequence[Row], formats: Formats
) -> dict[str, Any]:
    """Compare the formats in which every model of a run was asked the same attacks.

    Args:
        trials: the trials of the run; those of control arms are used through `pooled` alone.
        pooled: the pooled rows of its summary.
        formats: the formats of its `[sensitivity]`.

    Returns:
        `formats`: accuracy, `accuracy_after`, asr and `asr_net` of each; `ranges`: the lowest and
        the highest of each over the formats of a model; `differences`: paired, with Holm's
        adjustment; `conclusions` and how many of them change.
    """
    rows = [row for row in pooled if row["victim"] in formats and "control_of" not in row]
    conclusions = [*_signs(rows, formats), *_orders(trials, formats)]
    counts = {
        "n_conclusions": len(conclusions),
        "n_changed": sum(each["changes"] for each in conclusions),
        "n_verdict_changed": sum(each["verdict_changes"] for each in conclusions),
        "n_reversed": sum(each["is_reversed"] for each in conclusions),
    }
    return {
        "formats": [_format(row, formats[row["victim"]]) for row in rows],
        "ranges": list(_ranges(rows, formats)),
        "differences": differences(trials, formats),
        "conclusions": conclusions,
        **counts,
        "sentence": _sentence(**counts),
    }


def _format(row: Row, format_: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("dataset", "group")},
        **format_,
        "label": row["victim"],
        "attack": row["attack"],
        **{name: row[name] for name in (ACCURACY, AFTER, ASR)},
        "asr_net": row.get("asr_net") or {},
    }


def _ranges(rows: Iterable[Row], formats: Formats) -> Iterator[dict[str, Any]]:
    for (dataset, group, model, attack), members in _by_model(rows, formats).items():
        nets: dict[str, list[float | None]] = defaultdict(list)
        for row in members:
            for control, net in (row.get("asr_net") or {}).items():
                nets[control].append(net["value"])
        yield {
            **_place((dataset, group, model)),
            "attack": attack,
            "n_formats": len(members),
            **{n: _range(row[n]["value"] for row in members) for n in (ACCURACY, AFTER, ASR)},
            "asr_net": {control: _range(values) for control, values in nets.items()},
        }


def _by_model(rows: Iterable[Row], formats: Formats) -> dict[tuple[str, str, str, str], list[Row]]:
    found: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        model = str(formats[row["victim"]]["victim"])
        found[row["dataset"], row["group"], model, row["attack"]].append(row)
    return found


def _range(values: Iterable[float | None]) -> dict[str, float] | None:
    """Return lowest, highest and their distance; None without values."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    return {"lowest": low, "highest": high, "range": high - low}


def differences(trials: Sequence[TrialRow], formats: Formats) -> list[dict[str, Any]]:
    """Return the paired differences of every two formats of a model, first minus second.

    Accuracy and accuracy after attack are compared on all items that both formats answered, ASR
    on the items that are right in both: conditioning on an outcome can reverse an order, so it is
    the secondary one. Seeds are paired. `statistic` counts the pairs in which only the first, and
    only the second, has a hit.
    """
    found: list[dict[str, Any]] = []
    for place, by_format in _arranged(trials, formats).items():
        for one, other in combinations(by_format, 2):
            a, b = by_format[one], by_format[other]
            found.append(_difference(ACCURACY, place, None, (one, other), _clean_pairs(a, b)))
            for attack in sorted(a.keys() & b.keys()):
                after = pair_trials(a[attack], b[attack], hit=_survives, met=is_answered)
                found.append(_difference(AFTER, place, attack, (one, other), after))
                flips = pair_trials(a[attack], b[attack])
                found.append(_difference(ASR, place, attack, (one, other), flips))
    order = {name: i for i, name in enumerate(FAMILIES)}
    found.sort(key=lambda row: (order[row["metric"]], row["dataset"], row["group"], row["victim"]))
    for family in FAMILIES:
        known = [row for row in found if row["metric"] == family and row["p"] is not None]
        for row, p in zip(known, holm([row["p"] for row in known]), strict=True):
            row["p_adjusted"] = p
            row["family_size"] = len(known)
            row["method"] = _METHOD.format(interval=row["difference"]["method"], n=len(known))
    return found


def _difference(
    metric: str,
    place: Place,
    attack: str | None,
    compared: tuple[str, str],
    pairs: Sequence[Pair],
) -> dict[str, Any]:
    found = unite(pairs)
    return {
        "metric": metric,
        **_place(place),
        "attack": attack,
        "first": compared[0],
        "second": compared[1],
        "statistic": [found.only_first, found.only_second],
        "difference": found.estimate.as_json(),
        "p": found.p,
        "p_adjusted": None,
        "family_size": 0,
        "method": found.estimate.method,
    }


def _arranged(
    trials: Iterable[TrialRow], formats: Formats
) -> dict[Place, dict[str, dict[str, list[TrialRow]]]]:
    """Group the trials of attacks by place, format and attack, all in order."""
    found: dict[Place, dict[str, dict[str, list[TrialRow]]]] = {}
    for row in attacks_only(trials):
        if row.victim in formats:
            place = (row.dataset, row.group, str(formats[row.victim]["victim"]))
            by_attack = found.setdefault(place, {}).setdefault(row.victim, {})
            by_attack.setdefault(row.attack, []).append(row)
    in_order = list(formats)
    return {
        place: {
            label: {attack: by_format[label][attack] for attack in sorted(by_format[label])}
            for label in sorted(by_format, key=in_order.index)
        }
        for place, by_format in sorted(found.items())
    }


def _clean_pairs(
    first: Mapping[str, Sequence[TrialRow]], second: Mapping[str, Sequence[TrialRow]]
) -> list[Pair]:
    """Return one pair for each item with a clean answer in both formats."""
    ours, theirs = (
        first_of_each_item(row for rows in each.values() for row in rows if is_answered(row))
        for each in (first, second)
    )
    of_item = {row.item_id: is_eligible(row) for row in theirs}
    return [
        (unit_of(row), is_eligible(row), of_item[row.item_id])
        for row in ours
        if row.item_id in of_item
    ]


def _survives(row: TrialRow) -> bool:
    return is_eligible(row) and not is_flipped(row)


def _signs(rows: Iterable[Row], formats: Formats) -> Iterator[dict[str, Any]]:
    """Yield whether each attack takes more than its control, format by format."""
    for (dataset, group, model, attack), members in _by_model(rows, formats).items():
        controls = dict.fromkeys(name for row in members for name in row.get("asr_net") or {})
        for control in controls:
            nets = {
                row["victim"]: net
                for row in members
                if (net := (row.get("asr_net") or {}).get(control)) and net["value"] is not None
            }
            yield from _conclusion(
                {
                    "conclusion": "sign of asr_net",
                    **_place((dataset, group, model)),
                    "attack": attack,
                    "against": control,
                },
                nets,
            )


def _orders(trials: Sequence[TrialRow], formats: Formats) -> Iterator[dict[str, Any]]:
    """Yield which of every two attacks flips more of the items of both, format by format."""
    for place, by_format in _arranged(trials, formats).items():
        attacks = sorted({attack for by_attack in by_format.values() for attack in by_attack})
        for first, second in combinations(attacks, 2):
            found: dict[str, Estimate] = {
                label: difference_of(by_attack[first], by_attack[second]).estimate
                for label, by_attack in by_format.items()
                if {first, second} <= by_attack.keys()
            }
            told = {k: each.as_json() for k, each in found.items() if each.value is not None}
            yield from _conclusion(
                {
                    "conclusion": "order of attacks",
                    **_place(place),
                    "attack": first,
                    "against": second,
                },
                told,
            )


def _conclusion(
    about: Mapping[str, Any], estimates: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a conclusion that two formats or more speak of, and whether they agree.

    `changes`: one value is above 0 and one below; from 0 to either side is no change.
    `verdict_changes`: the 95 % intervals lie above, below or around 0, and not all alike.
    `is_reversed`: one lies above, one below.
    """
    if len(estimates) < 2:
        return
    signs = {_sign(each["value"]) for each in estimates.values()} - {0}
    verdicts = {label: _verdict(each) for label, each in estimates.items()}
    yield {
        **about,
        "by_format": {
            label: {"estimate": dict(each), "verdict": verdicts[label]}
            for label, each in estimates.items()
        },
        "changes": len(signs) > 1,
        "verdict_changes": len(set(verdicts.values())) > 1,
        "is_reversed": {"above 0", "below 0"} <= set(verdicts.values()),
    }


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _verdict(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["low"], estimate["high"]
    if low is not None and low > 0:
        return "above 0"
    return "below 0" if high is not None and high < 0 else "undecided"


def _place(place: Place) -> dict[str, str]:
    return dict(zip(("dataset", "group", "victim"), place, strict=True))


def _sentence(n_conclusions: int, n_changed: int, n_verdict_changed: int, n_reversed: int) -> str:
    if not n_conclusions:
        return "Asked in other formats: no conclusion is drawn in two formats or more."
    change, are = ("changes", "is") if n_conclusions == 1 else ("change", "are")
    what = "conclusion" if n_conclusions == 1 else "conclusions"
    its = "its" if n_conclusions == 1 else "their"
    return (
        f"Asked in other formats: of {n_conclusions:,} {what} (sign of asr_net, order of "
        f"attacks) {n_changed:,} {change} {its} sign with the format and "
        f"{n_verdict_changed:,} the verdict of {its} 95 % interval; {n_reversed:,} {are} reversed."
    )
