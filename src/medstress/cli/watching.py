"""`medstress watch`: a run as it goes on, seen from another terminal."""

from __future__ import annotations

import argparse
import math
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.live import Live
from rich.text import Text

from medstress.cli.fitting import Kind, Line, Shape, fit
from medstress.cli.look import Look, bar, wrapped
from medstress.cli.screen import STYLES, Screen, screen, titled
from medstress.core.controls import BETWEEN
from medstress.core.errors import UsageError
from medstress.results.formats import plural
from medstress.results.names import CONTROL_WORDS
from medstress.results.table import Column, Format, Table, as_row, columns
from medstress.stats.estimates import Estimate
from medstress.viewing.following import follow
from medstress.viewing.progress import ArmProgress, Pace, Progress, pace

_FASTEST = 0.2
"""Fewest seconds between two readings."""
_MODULE = "__main__.py"
"""What a run that was started as `python -m medstress` has for the name of the program."""
_PREPARING = "a process prepares the run: nothing has been asked yet"
_MOST_ROWS, _MOST_REASONS = 20, 3
_LOST = "Lost so far"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def watch_cli(args: argparse.Namespace) -> int:
    """Run `medstress watch`."""
    # Written so that `nan` is refused as well.
    if not _FASTEST <= args.every < math.inf:
        raise UsageError(
            f"--every: expected a number of seconds from {_FASTEST:g}, got {args.every:g}"
        )
    out = screen()
    try:
        if args.once:
            readings = next(follow(Path(args.folder), args.every))
            if readings is None:
                out.say(_PREPARING)
            else:
                _print(out, readings)
        else:
            watch(Path(args.folder), args.every, out)
    except KeyboardInterrupt:
        # Who watches ends the watching, not the run; other signals end as they do everywhere.
        if args.stop.by not in (None, signal.SIGINT):
            raise
    return 0


def watch(
    folder: Path,
    every: float,
    out: Screen,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show a run again and again until it is over.

    Args:
        folder: the run folder.
        every: seconds from one reading to the next.
        out: where.
        clock: the time, in seconds since 1970.
        sleep: waits so many seconds.

    Raises:
        StoreError: there is no run in the folder, and nobody is starting one.
    """
    if not out.console.is_terminal:
        for readings in _told(follow(folder, every, clock, sleep), out):
            _print(out, readings)
            print()
    else:
        with Live(console=out.console, auto_refresh=False) as live:
            for readings in _told(follow(folder, every, clock, sleep), out):
                live.update(_drawing(out, readings), refresh=True)
    out.say(last_words(readings[-1]))


def _told(found: Iterator[Sequence[Progress] | None], out: Screen) -> Iterator[Sequence[Progress]]:
    """Yield what there is to show; say once that there is nothing yet."""
    has_said = False
    for readings in found:
        if readings is not None:
            yield readings
        elif not has_said:
            has_said = True
            out.say(_PREPARING)


def _drawing(out: Screen, readings: Sequence[Progress]) -> Text:
    lines = fitted_lines(readings, out.look, out.console.height)
    return Text("\n").join(Text(line.text, STYLES.get(line.kind, "")) for line in lines)


def _print(out: Screen, readings: Sequence[Progress]) -> None:
    out.print_lines(progress_lines(readings, out.look))


def fitted_lines(readings: Sequence[Progress], look: Look, height: int) -> list[Line]:
    """Return as much of `progress_lines` as a screen of so many lines shows.

    Attacks are left out first, those that lose least before others. Counts, failures and the state
    of the process stay.
    """
    most = min(_MOST_ROWS, sum(not arm.is_control for arm in readings[-1].arms))
    lines = list(progress_lines(readings, look, most))
    while len(lines) > height and most:
        most -= 1
        lines = list(progress_lines(readings, look, most))
    if len(lines) <= height:
        return lines
    lines = list(progress_lines(readings, look, 0, with_proviso=False))
    return lines if len(lines) <= height else [*lines[: max(0, height - 1)], lines[-1]]


def progress_lines(
    readings: Sequence[Progress], look: Look, most: int = _MOST_ROWS, *, with_proviso: bool = True
) -> Iterator[Line]:
    """Yield the lines of the last of some readings, none wider than the screen.

    Args:
        readings: of one run, the earliest first.
        look: where they are shown.
        most: attacks that are shown, of many those that lose most.
        with_proviso: whether it is said what the numbers hold for.
    """
    last, speed = readings[-1], pace(readings)
    yield Line(text=_headline(last, look), kind=Kind.HEAD)
    doubts = (f"! unverified: {last.doubt}",) if last.doubt else ()
    for text in (*doubts, *_speeds(speed), *_left(last, speed), _spent(last), *_failures(last)):
        for part in wrapped(look.shown(text), look.width, "  "):
            yield Line(text=part, kind=Kind.SAID)
    yield from _tables(last, look, most)
    said = _provisos(last) if with_proviso else ()
    for text in (*said, _process(last)):
        for part in wrapped(text, look.width):
            yield Line(text=look.shown(part), kind=Kind.SAID)


def _headline(found: Progress, look: Look) -> str:
    share = found.n_ended / found.n_planned if found.n_planned else 0.0
    done = f"{found.n_ended:,} of {plural(found.n_planned, 'trial')} ended ({100 * share:.0f} %)"
    return look.shown(f"{done} {bar(share, 16, is_ascii=look.is_ascii)}").rstrip()


def _speeds(speed: Pace) -> Iterator[str]:
    shown = []
    if speed.trials_per_second is not None and speed.calls_per_second is not None:
        rates = _rates(speed.trials_per_second, speed.calls_per_second)
        shown.append(f"{rates} in the last {duration(speed.over_seconds or 0)}")
    if speed.trials_in_all is not None and speed.calls_in_all is not None:
        shown.append(f"{_rates(speed.trials_in_all, speed.calls_in_all)} in all")
    if shown:
        yield "; ".join(shown)


def _rates(trials: float, calls: float) -> str:
    return f"{trials:,.1f} trials/s, {calls:,.1f} calls/s"


def _left(found: Progress, speed: Pace) -> Iterator[str]:
    if found.is_over:
        return
    if found.n_ended >= found.n_planned:
        yield "every trial has ended; analyses are still asked"
    elif speed.seconds_left is not None:
        until = time.strftime("%H:%M", time.localtime(found.at + speed.seconds_left))
        yield f"about {duration(speed.seconds_left)} left, until {until}"
    else:
        yield "no trial has ended while this was watched, so there is no telling when it ends"


def _spent(found: Progress) -> str:
    parts = [] if found.usd is None else [f"${found.usd:,.4f}"]
    parts.append(plural(found.n_calls, "call"))
    if found.tokens_in or found.tokens_out:
        parts.append(f"{found.tokens_in:,} tokens read, {found.tokens_out:,} written")
    return f"spent: {', '.join(parts)}"


def _failures(found: Progress) -> Iterator[str]:
    if found.n_failed:
        yield f"{plural(found.n_failed, 'trial')} failed:"
    for reason, n in found.failures[:_MOST_REASONS]:
        yield f"  {n:,} times: {reason}"
    if len(found.failures) > _MOST_REASONS:
        yield f"  and {plural(len(found.failures) - _MOST_REASONS, 'more reason')}"


def _tables(found: Progress, look: Look, most: int) -> Iterator[Line]:
    """Yield a table for each victim, data set and group; of many arms those that lose most."""
    attacks = [arm for arm in found.arms if not arm.is_control]
    shown = sorted(attacks, key=_loss, reverse=True)[:most]
    by_place: dict[tuple[str, str, str], list[ArmProgress]] = {}
    for arm in attacks:
        if arm in shown:
            by_place.setdefault(arm.place[:3], []).append(arm)
    for (dataset, group, victim), arms in by_place.items():
        names = found.names
        title = (
            f"{names.of('victim', victim)} on {names.of('dataset', dataset)}, "
            f"{names.of('group', group)}"
        )
        yield from titled(look.fitted(title))
        shape = Shape(bar=_LOST, brief=_brief(found, arms))
        yield from fit(_table(found, arms), look, shape)
    if len(attacks) > len(shown):
        left = plural(len(attacks) - len(shown), "attack")
        text = f"and {left} that lose less" if shown else f"{left}: no room for them on this screen"
        yield Line(text=look.fitted(text), kind=Kind.SAID)


def _loss(arm: ArmProgress) -> float:
    return arm.n_lost / arm.n_eligible if arm.n_eligible else -1.0


def _controls(found: Progress, arms: list[ArmProgress]) -> dict[str, list[ArmProgress | None]]:
    """Return control -> its arm beside each attack."""
    by_place = {arm.place: arm for arm in found.arms if arm.is_control}
    names = dict.fromkeys(place[3].rpartition(BETWEEN)[2] for place in by_place)
    beside = {
        name: [by_place.get((*arm.place[:3], f"{arm.place[3]}{BETWEEN}{name}")) for arm in arms]
        for name in names
    }
    return {name: found for name, found in beside.items() if any(found)}


def _heading(control: str) -> str:
    return f"Control ({CONTROL_WORDS.get(control, control)})"


def _brief(found: Progress, arms: list[ArmProgress]) -> frozenset[str]:
    return frozenset(_heading(name) for name in _controls(found, arms))


def _table(found: Progress, arms: list[ArmProgress]) -> Table:
    controls = _controls(found, arms)
    is_judged = any(arm.is_judged for arm in arms)
    return Table(
        name="progress",
        caption="Attacks so far",
        columns=(
            *columns(Format.TEXT, "Attack"),
            *columns(Format.COUNT, "Ended"),
            *(Column(heading=_heading(name), format=Format.SHARE) for name in controls),
            *columns(Format.SHARE, *((_LOST,) if is_judged else ())),
        ),
        rows=tuple(
            as_row(
                found.names.of("attack", arm.place[3]),
                arm.n_ended,
                *(
                    None if members[i] is None else _rate(members[i])
                    for members in controls.values()
                ),
                *((_rate(arm),) if is_judged else ()),
            )
            for i, arm in enumerate(arms)
        ),
    )


def _rate(arm: ArmProgress | None) -> Estimate | None:
    if arm is None or not arm.is_judged:
        return None
    n = arm.n_eligible
    value = arm.n_lost / n if n else None
    return Estimate(value=value, n=n, low=None, high=None, method="so far", hits=arm.n_lost)


def _provisos(found: Progress) -> Iterator[str]:
    """Yield what is to be known of the numbers of a table."""
    if found.arms and found.n_ended < found.n_planned:
        yield (
            "Trials that have ended are not a random part of the run: until it is complete, rates "
            "may be too low or too high."
        )


def _process(found: Progress) -> str:
    changed = found.process.changed
    since = "" if changed is None else f"last change {duration(max(0.0, found.at - changed))} ago"
    if found.is_complete:
        return since
    if found.process.is_locked:
        return f"its process lives; {since}"
    if found.process.is_alive(found.at):
        seen = (
            "is seen to work on it" if found.process.is_locked is False else "can be told from it"
        )
        return f"no process {seen}, but its database is open; {since}"
    return f"no process works on it; {since}"


def last_words(found: Progress) -> str:
    """Return why the watching ends."""
    if found.is_complete:
        return f"complete: every one of {plural(found.n_planned, 'planned trial')} has ended"
    left = found.n_planned - found.n_ended
    missing = (
        f"{plural(left, 'trial')} of {found.n_planned:,} missing"
        if left > 0
        else ("every trial has ended, but not every analysis")
    )
    return f"its process has ended and the run is not complete ({missing}); {_resume(found)}"


def _resume(found: Progress) -> str:
    if not found.command:
        return "to resume, run the same command again"
    given = [word for word in shlex.split(found.command) if word != "--fresh"]
    if given[0] == _MODULE:
        given[0] = "medstress"
    raised = f", with a higher {' or '.join(found.limits)}" if found.limits else ""
    return f"to resume: {shlex.join(given)}{raised}"


def duration(seconds: float) -> str:
    """Write a time in one or two units.

    >>> duration(4.2), duration(75), duration(3700), duration(90000)
    ('4 s', '1 min 15 s', '1 h 1 min', '1 d 1 h')
    """
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    units = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))
    size, name, part, rest = next(unit for unit in units if whole >= unit[0])
    more = whole % size // part
    return f"{whole // size} {name}" + (f" {more} {rest}" if more else "")
