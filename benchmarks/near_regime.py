"""What share of near draws' advantage over random ones survives if only valid successes count.

    python benchmarks/near_regime.py RUN                 # a run folder with a near and a random arm
    python benchmarks/near_regime.py OUT --planted DATA  # make one of a planted victim

DATA is the folder of MedMCQA. A near arm draws by `nearest`, or by `pdws` at n < 0. The numbers are
those of `near_advantage` in `medstress summary --json` (`medstress.metrics.near_advantage`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medstress.api.run import Run
from medstress.core.errors import DataError, MedstressError
from medstress.metrics.near_advantage import LABELS, near_advantages, why_no_near_advantage
from medstress.report.near_advantage import share_words
from medstress.results.formats import decimal, interval


def survival_of_run(folder: Path) -> list[dict[str, Any]]:
    """Return a row for each near arm of a run that has a random one beside it.

    Raises:
        DataError: there is none.
    """
    rows = Run(folder).rows()
    if found := near_advantages(rows):
        return found
    raise DataError(f"{folder}: {why_no_near_advantage(rows)}")


def lines_of(runs: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Return the table of the page."""
    lines = [
        "| run | victim, data, group | items | advantage | left: nobody knows | all valid in both "
        "| labels | by labels | share: nobody knows | all valid in both | by labels |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run, rows in runs.items():
        for each in rows:
            cells = [run, f"{each['victim']}, {each['dataset']}, {each['group']}"]
            cells += [str(each["n_items"]), _told(each["advantage"])]
            cells += [_range(each["left"], decimal), decimal(_middle(each["left"]))]
            cells += [" + ".join(map(str, each["n_labels"])), _told(each["left"][LABELS])]
            cells += _shares(each)
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _shares(each: Mapping[str, Any]) -> list[str]:
    if each["guesses"]:
        return ["at chance: nothing follows", "–", "–"]
    if each["why_no_share"] is not None:
        return ["none exists", "–", "–"]
    share = each["share"]
    return [_range(share, share_words), share_words(_middle(share)), _told(share[LABELS])]


def _range(found: Mapping[str, Any], words: Any) -> str:
    low, high = (words(found[f"{end}_censored"]["value"]) for end in ("worst", "best"))
    return low if low == high else f"{low} to {high}"


def _middle(found: Mapping[str, Any]) -> float:
    return float(found["all_unknown_valid"]["value"])


def _told(found: Mapping[str, Any] | None) -> str:
    return "–" if found is None else f"{decimal(found['value'])} {interval(found)}"


def main() -> int:
    """Print the table of a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="DIR", help="a run folder")
    parser.add_argument("--planted", type=Path, metavar="DATA", help="make it, planted")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        if args.planted:
            from near_planted import make

            make(args.run, args.planted)
        found = survival_of_run(args.run)
    except MedstressError as error:
        print(f"near_regime: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if args.json else "\n".join(lines_of({args.run.name: found})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
