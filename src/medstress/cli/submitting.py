"""`medstress submit`: an experiment's shards as a job array of Slurm."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from medstress.cli.flags import Parser, check_limit, experiment_flags
from medstress.core.errors import UsageError


def add_submit(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress submit`."""
    submit = commands.add_parser(
        "submit",
        help="run an experiment's shards on a cluster with Slurm",
        description="Write the scripts of a job array that runs every shard, and of the job that "
        "merges them and completes the run if all succeeded, and submit both with sbatch. The same "
        "command resumes what is not finished.",
    )
    submit.add_argument(
        "experiment", metavar="EXPERIMENT.toml", help="a file, or the name of a shipped recipe"
    )
    submit.add_argument(
        "--slurm", action="store_true", required=True, help="the cluster's queue (the only one)"
    )
    submit.add_argument(
        "--shards", type=int, required=True, metavar="N", help="how many jobs the array has"
    )
    submit.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="a folder that all nodes see: shards in DIR/shards, the run in DIR/run, scripts and "
        "logs in DIR/slurm",
    )
    submit.add_argument("--partition", metavar="NAME", help="the partition of the jobs")
    submit.add_argument("--time", metavar="LIMIT", help="time limit of each job, as in 04:00:00")
    submit.add_argument("--gpus", type=int, metavar="N", help="GPUs of each job")
    submit.add_argument("--cpus", type=int, metavar="N", help="CPUs of each job")
    submit.add_argument(
        "--at-once", type=int, metavar="N", help="at most so many shards at the same time"
    )
    submit.add_argument(
        "--scratch",
        metavar="DIR",
        help="a folder on each node's own disk, as in '$TMPDIR': shards run there and are copied "
        "to DIR/shards when they end",
    )
    submit.add_argument(
        "--before",
        action="append",
        default=[],
        metavar="LINE",
        help="a shell line before each command, as in 'module load cuda' (repeatable)",
    )
    submit.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="a further option of sbatch, as in --sbatch=--account=NAME (repeatable)",
    )
    submit.add_argument(
        "--retry-failed", action="store_true", help="shards run trials again that failed before"
    )
    experiment_flags(submit)
    submit.add_argument(
        "--dry-run",
        action="store_true",
        help="check the file, write the scripts and print the command; submit nothing",
    )


def submit_cli(args: argparse.Namespace) -> int:
    """Run `medstress submit`."""
    from medstress.files.mounts import shared_file_system
    from medstress.files.writing import write_text
    from medstress.running.prepare import resolve
    from medstress.running.shard_limits import check_number
    from medstress.scaffolding.slurm import SlurmJob, expected_files

    check_limit(args)
    check_number(args.shards, "--shards")
    _check_array(args.shards)
    # A file with a mistake fails here, once, and not in every job.
    checked, _, _ = resolve(args.experiment, args.set)
    if checked.tune is not None:
        raise UsageError(
            f"{args.experiment}: [tune] comes before shards: run `medstress tune`, write the "
            "chosen n (tune.json) into [[attack]], and leave [tune] out"
        )
    path = Path(args.experiment)
    folder = Path(args.out).resolve() if args.out.strip() else None
    if folder is None:
        raise UsageError("--out: expected a folder, got an empty text")
    limit = [] if args.limit is None else ["--limit", str(args.limit)]
    job = SlurmJob(
        python=Path(sys.executable),
        experiment=str(path.resolve()) if path.is_file() else args.experiment,
        folder=folder,
        n_shards=args.shards,
        name=checked.experiment.name,
        flags=(*limit, *(f"--set={each}" for each in args.set)),
        partition=args.partition,
        time=args.time,
        gpus=args.gpus,
        cpus=args.cpus,
        at_once=args.at_once,
        sbatch=tuple(args.sbatch),
        before=tuple(args.before),
        scratch=args.scratch,
        retry_failed=args.retry_failed,
    )
    job.check()
    if not args.dry_run and shutil.which("sbatch") is None:
        raise UsageError(
            "sbatch is not on this machine: run the command where Slurm's jobs are submitted, or "
            "add --dry-run to write the scripts only"
        )
    kind = None if args.scratch else shared_file_system(folder)
    if kind is not None:
        print(
            f"! {args.out} is on {kind}, where SQLite may fail to lock its files: give each shard "
            "the node's own disk with --scratch, as in --scratch '$TMPDIR'",
            file=sys.stderr,
        )
    for place in expected_files(job):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--out: expected a folder that can be made and written, got {args.out}: "
                f"{error.strerror}"
            ) from error
    for path, text in job.scripts.items():
        write_text(path, text)
    command = ["bash", str(folder / "slurm" / "submit.sh")]
    if args.dry_run:
        print(f"scripts: {folder / 'slurm'}")
        print(f"next: {shlex.join(command)}")
        return 0
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise UsageError(f"sbatch did not take the jobs: {words}")
    print(done.stdout, end="")
    print(f"run: {folder / 'run'}   logs: {folder / 'slurm' / 'logs'}   next: squeue --me")
    return 0


def _check_array(n_shards: int) -> None:
    """Check that this cluster takes an array of so many tasks, where it can be asked.

    Raises:
        UsageError: it does not.
    """
    scontrol = shutil.which("scontrol")
    if scontrol is None:
        return
    command = [scontrol, "show", "config"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return  # sbatch refuses such an array by itself, in other words
    found = re.search(r"^MaxArraySize\s*=\s*([0-9]+)", told.stdout, re.MULTILINE)
    # The setting is one more than the largest index, and ours begin at 1.
    if found is not None and n_shards >= int(found[1]):
        raise UsageError(
            f"--shards: expected at most {int(found[1]) - 1}, as MaxArraySize of this cluster is "
            f"{found[1]}; got {n_shards}"
        )
