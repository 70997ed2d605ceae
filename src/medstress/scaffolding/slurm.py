"""Writes the scripts that run an experiment's shards as a job array of Slurm.

Three bash scripts: `shards.sh` runs one shard, `merge.sh` merges all and completes the run, and
`submit.sh` hands both to `sbatch`, the second with `--dependency=afterok` on the first. Options
stand on the command line of `sbatch` and not in `#SBATCH` lines, whose quoting differs from the
shell's. Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/job_array.html.

submitit is not used. It pickles a Python function for each task, polls the queue from a process
that must live as long as the jobs, and writes results as pickles; here a task is a command line
whose result is a run folder, and Slurm itself holds back the merge.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medstress.core.errors import UsageError

_TIME = re.compile(r"[0-9]+(:[0-9]{1,2}){0,2}|[0-9]+-[0-9]{1,2}(:[0-9]{1,2}){0,2}")
_NO_TIME = ("UNLIMITED", "INFINITE")
_SCRATCH = re.compile(r"[/$][^\"`\\\n()]+")
"""Absolute, or begins with a variable; stands between double quotes, so that those are expanded."""
_WARNING_SECONDS = 120
"""How long before the time limit a shard is told to store what it has and end."""
_OURS = ("array", "dependency", "kill-on-invalid-dep", "output", "parsable", "signal", "wrap")
"""Options of sbatch that the scripts need for themselves."""
_OUR_LETTERS = re.compile(r"-[HIOQVWXhksv]*[ado]")
"""The same as letters (array, dependency, output), after letters that take no value."""

_HEAD = """#!/bin/bash
# Written by medstress submit. Run the same command again to resume.
set -e
"""
_STRICT = "set -uo pipefail"
"""After the user's own lines: what a site's modules source may read variables that are not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job array that runs an experiment, and the job that merges it."""

    python: Path
    """The interpreter that has medstress."""
    experiment: str
    """The experiment file, absolute, or the name of a recipe."""
    folder: Path
    """Absolute: gets `shards/K`, the merged run in `run`, scripts and logs in `slurm`."""
    n_shards: int
    name: str
    """The experiment's name, for the queue."""
    flags: tuple[str, ...] = ()
    """Flags of `medstress run`, such as --limit and --set."""
    partition: str | None = None
    time: str | None = None
    """Time limit of each job, as Slurm writes it."""
    gpus: int | None = None
    """GPUs of each job."""
    cpus: int | None = None
    """CPUs of each job."""
    at_once: int | None = None
    """The most shards that run at the same time."""
    sbatch: tuple[str, ...] = ()
    """Further options of both jobs."""
    before: tuple[str, ...] = ()
    """Shell lines before each command, such as `module load cuda`."""
    scratch: str | None = None
    """A local folder of the node, which shell variables may name; None: shards are written where
    they stay."""

    retry_failed: bool = False
    """Whether shards ask failed trials again."""

    def check(self) -> None:
        """Check the values.

        Raises:
            UsageError: one is out of range, or an option that the scripts need is given.
        """
        for flag, value in [
            ("--gpus", self.gpus),
            ("--cpus", self.cpus),
            ("--at-once", self.at_once),
        ]:
            if value is not None and value < 1:
                raise UsageError(f"{flag}: expected at least 1, got {value}")
        if self.partition is not None and not self.partition.strip():
            raise UsageError("--partition: expected the name of a partition, got an empty text")
        if self.time is not None and self.time.upper() not in _NO_TIME:
            if not _TIME.fullmatch(self.time):
                raise UsageError(
                    "--time: expected minutes, or hours:minutes:seconds, or days-hours, as in "
                    f"04:00:00, or UNLIMITED; got {self.time!r}"
                )
            if not self.time.strip("0:-"):
                raise UsageError(
                    "--time: Slurm takes 0 for no limit at all; expected a time, as in 04:00:00, "
                    f"or UNLIMITED, got {self.time!r}"
                )
        for option in self.sbatch:
            if not _is_free(option):
                raise UsageError(
                    "--sbatch: expected an option of sbatch that the scripts do not need for "
                    f"themselves, as in --sbatch=--account=NAME; got {option!r}"
                )
        if self.scratch is not None and not _SCRATCH.fullmatch(self.scratch):
            raise UsageError(
                "--scratch: expected the whole path of a folder on the nodes, as in '$TMPDIR' or "
                f"/local/$USER, got {self.scratch!r}"
            )
        for line in (*self.before, *self.sbatch, str(self.folder), self.experiment, *self.flags):
            if "\n" in line or "\0" in line:
                raise UsageError(f"expected one line, got {line!r}")
        _check_shell(self.before)

    @property
    def scripts(self) -> dict[Path, str]:
        """Path -> text of the scripts."""
        place = self.folder / "slurm"
        return {
            place / "shards.sh": self._shards(),
            place / "merge.sh": self._merge(),
            place / "submit.sh": self._submit(),
        }

    def _shards(self) -> str:
        # The number and not auto/N: then `sbatch --array=3,7 shards.sh` repeats single shards.
        shard = f'"${{SLURM_ARRAY_TASK_ID}}/{self.n_shards}"'
        stays = f'{_quoted(self.folder / "shards")}/"${{SLURM_ARRAY_TASK_ID}}"'
        again = " --retry-failed" if self.retry_failed else ""
        if self.scratch is None:
            # exec, so that Slurm's warning before the time limit reaches medstress.
            return self._lines(f"exec {self._run()}{again} --shard {shard} --out {stays}")
        return self._lines(
            f"stays={stays}",
            f'work="{self.scratch}/medstress-${{SLURM_JOB_ID}}-${{SLURM_ARRAY_TASK_ID}}"',
            "# What ends in .new is a whole copy that has not taken its place yet.",
            "place() {",
            '  if [ -d "$stays.new" ]; then',
            '    rm -rf "$stays"',
            '    mv "$stays.new" "$stays"',
            "  fi",
            "}",
            "# shellcheck disable=SC2329 # the trap calls it",
            "ship() {",
            '  if [ -d "$work" ]; then',
            '    rm -rf "$stays.part"',
            '    cp -r "$work" "$stays.part"',
            '    mv "$stays.part" "$stays.new"',
            "    place",
            '    rm -rf "$work"',
            "  fi",
            "}",
            "trap ship EXIT",
            'mkdir -p "$(dirname "$stays")"',
            "place",
            "# A job that is requeued on its node finds there what it had.",
            'if [ -d "$stays" ] && [ ! -d "$work" ]; then cp -r "$stays" "$work"; fi',
            f'{self._run()}{again} --shard {shard} --out "$work" &',
            "running=$!",
            "trap 'kill -TERM \"$running\"' TERM",
            "code=0",
            'wait "$running" || code=$?',
            "# A signal ends the first wait; the second is for what is stored after it.",
            'if kill -0 "$running" 2>/dev/null; then wait "$running" || code=$?; fi',
            'exit "$code"',
        )

    def _merge(self) -> str:
        run = _quoted(self.folder / "run")
        return self._lines(
            f"shards={_quoted(self.folder / 'shards')}",
            f"run={run}",
            "folders=()",
            f'for ((k = 1; k <= {self.n_shards}; k++)); do folders+=("$shards/$k"); done',
            "# What is there stays, unless the shards were extended since.",
            f'{self._medstress()} merge "${{folders[@]}}" --out "$run" --renew --quiet',
            f'exec {self._run()} --out "$run"',
        )

    def _submit(self) -> str:
        place = self.folder / "slurm"
        array = f"1-{self.n_shards}" + (f"%{self.at_once}" if self.at_once else "")
        common = [
            *([f"--partition={self.partition}"] if self.partition else []),
            *([f"--time={self.time}"] if self.time else []),
            *([f"--gpus={self.gpus}"] if self.gpus else []),
            *([f"--cpus-per-task={self.cpus}"] if self.cpus else []),
            # To the script's shell, which medstress replaces: only steps of srun get it otherwise.
            f"--signal=B:TERM@{_WARNING_SECONDS}",
            "--open-mode=append",
            *self.sbatch,
        ]
        shards = _joined(
            f"--array={array}",
            f"--job-name={self.name}",
            f"--output={_pattern(place / 'logs')}/shard-%a.txt",
            *common,
            str(place / "shards.sh"),
        )
        first, second = (
            _joined(
                f"--job-name={self.name}-merge",
                f"--output={_pattern(place / 'logs')}/merge.txt",
                *common,
                str(place / "merge.sh"),
            ),
            '"--dependency=afterok:$shards" --kill-on-invalid-dep=yes',
        )
        return _HEAD + "\n".join(
            [
                _STRICT,
                f"shards=$(sbatch --parsable {shards})",
                "shards=${shards%%;*} # of a federation it names the cluster, too",
                "# Without its merge the array would run to no end.",
                f"merge=$(sbatch --parsable {second} {first}) || {{",
                '  scancel "$shards"',
                "  exit 1",
                "}",
                'echo "shards: job $shards; merge: job ${merge%%;*}"',
                "",
            ]
        )

    def _lines(self, *lines: str) -> str:
        return _HEAD + "\n".join([*self.before, _STRICT, *lines, ""])

    def _medstress(self) -> str:
        return f"{_quoted(self.python)} -m medstress"

    def _run(self) -> str:
        return f"{self._medstress()} run {_joined(self.experiment, *self.flags)} --quiet"


def _is_free(option: str) -> bool:
    """Return whether a text is an option of sbatch that the scripts do not need.

    sbatch takes every beginning of a long name, and letters with their value in one word.

    >>> [_is_free(option) for option in ("--account=x", "-Ax", "--arr=1-9", "-a1-9", "--", "x")]
    [True, True, False, False, False, False]
    """
    if not option.startswith("--"):
        return re.match("-[A-Za-z]", option) is not None and not _OUR_LETTERS.match(option)
    name = option.removeprefix("--").partition("=")[0]
    return not any(ours.startswith(name) for ours in _OURS)


def _check_shell(lines: Sequence[str]) -> None:
    """Check that bash can read the user's lines, where there is a bash.

    Raises:
        UsageError: it cannot.
    """
    bash = shutil.which("bash") if lines else None
    if bash is None:
        return
    text = "\n".join(lines) + "\n"
    done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        *_, words = ["", *done.stderr.strip().splitlines()]
        raise UsageError(
            f"--before: bash cannot read {'; '.join(lines)!r}: {words.rpartition(': ')[2]}"
        )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _joined(*words: str) -> str:
    return shlex.join(words)


def _pattern(path: Path) -> str:
    """Return a path as Slurm reads it in file name patterns, where % begins a field."""
    return str(path).replace("%", "%%")


def expected_files(job: SlurmJob) -> Sequence[Path]:
    """Return the folders that must be there before the jobs begin; Slurm makes none for logs."""
    return [job.folder / "slurm" / "logs", job.folder / "shards"]
