"""`medstress submit`: an experiment's shards as a job array of Slurm."""

from __future__ import annotations

import argparse
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
    from medstress.files.writing import write_text
    from medstress.running.prepare import resolve
    from medstress.scaffolding.slurm import SlurmJob, expected_files

    check_limit(args)
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
    for place in expected_files(job):
        place.mkdir(parents=True, exist_ok=True)
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
