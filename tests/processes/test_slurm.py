"""`medstress submit --slurm` with a stand-in for sbatch that runs the jobs on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medstress.api.run import Run
from medstress.cli.app import medstress_cli

PLACE = 'two words, it\'s 100% "mine" & $HOME'


class Cluster:
    """A folder with a difficult name, an experiment in it and a queue."""

    def __init__(self, root: Path, workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / PLACE
        self.queue = root / "queue"
        (root / "bin").mkdir()
        self.queue.mkdir()
        self.root.mkdir()
        bench = workbench.Bench(self.root)
        bench.write_items(workbench.questions(4))
        bench.tables["attack"] = bench.tables["attack"][:1]
        bench.tables["experiment"]["seeds"] = [0]
        self.experiment = bench.write().rename(self.root / "x y.toml")
        self.out = self.root / "out"
        stand_in = Path(__file__).with_name("local_sbatch.py")
        sbatch = root / "bin" / "sbatch"
        sbatch.write_text(f'#!/bin/bash\nexec "{sys.executable}" "{stand_in}" "$@"\n')
        sbatch.chmod(0o755)
        monkeypatch.setenv("PATH", str(root / "bin"), prepend=":")
        monkeypatch.setenv("LOCAL_SLURM", str(self.queue))
        monkeypatch.setenv("MEDSTRESS_CACHE", str(root / "cache"))

    def submit(self, *flags: str, shards: int = 2) -> int:
        given = [str(self.experiment), "--slurm", "--shards", str(shards), "--out", str(self.out)]
        return medstress_cli(["submit", *given, *flags])

    def jobs(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted(self.queue.glob("*.json"))]

    def script(self, name: str) -> str:
        return (self.out / "slurm" / name).read_text()


@pytest.fixture
def cluster(tmp_path: Path, workbench, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, workbench, monkeypatch)


@pytest.mark.release
def test_an_array_its_merge_and_the_verdict_give_the_run_of_one_machine(cluster, capsys):
    assert cluster.submit("--limit=3", "--at-once=1", "--scratch", str(cluster.queue)) == 0
    array, merge = cluster.jobs()
    assert array["options"]["array"] == "1-2%1"
    assert array["state"] == merge["state"] == "COMPLETED"
    assert array["codes"] == [0, 0]
    assert merge["options"]["dependency"] == "afterok:100"
    assert "shards: job 100; merge: job 101" in capsys.readouterr().out
    assert sorted(path.name for path in (cluster.out / "shards").iterdir()) == ["1", "2"]
    assert not list(cluster.queue.glob("medstress-*")), "nothing is left on the nodes"

    alone = cluster.root / "alone"
    command = ["run", str(cluster.experiment), "--limit=3", "--out", str(alone), "--quiet"]
    assert medstress_cli(command) == 0
    merged, single = Run(cluster.out / "run"), Run(alone)
    assert merged.manifest()["complete"]
    assert merged.rows() == single.rows()
    assert "root" in (cluster.out / "slurm" / "logs" / "merge.txt").read_text()


@pytest.mark.release
def test_a_shard_that_fails_holds_the_merge_back_and_the_same_command_resumes(cluster, capsys):
    flag = cluster.queue / "broken"
    flag.touch()
    before = f'if [ "$SLURM_ARRAY_TASK_ID" = 2 ] && [ -e "{flag}" ]; then exit 7; fi'
    # Of the merge there is no such variable.
    given = ["--before", 'SLURM_ARRAY_TASK_ID="${SLURM_ARRAY_TASK_ID:-}"']
    given += ["--before", before]
    assert cluster.submit(*given) == 0
    array, merge = cluster.jobs()
    assert (array["codes"], array["state"], merge["state"]) == ([0, 7], "FAILED", "CANCELLED")
    assert not (cluster.out / "run").exists()
    flag.unlink()
    assert cluster.submit(*given) == 0
    assert [job["state"] for job in cluster.jobs()[2:]] == ["COMPLETED", "COMPLETED"]
    assert Run(cluster.out / "run").manifest()["complete"]


@pytest.mark.release
def test_an_extension_is_bought_once_by_the_shards(cluster, monkeypatch):
    log = cluster.root.parent / "log.jsonl"
    monkeypatch.setenv("VICTIM_LOG", str(log))
    assert cluster.submit() == 0
    once = len(log.read_text().splitlines())
    assert cluster.submit("--set=experiment.seeds=[0, 1]") == 0
    bought = log.read_text().splitlines()
    assert len(bought) > once
    assert Run(cluster.out / "run").manifest()["seeds"] == [0, 1]
    alone = cluster.root / "alone"
    log.unlink()
    given = [str(cluster.experiment), "--set=experiment.seeds=[0, 1]", "--out", str(alone)]
    assert medstress_cli(["run", *given, "--quiet"]) == 0
    assert len(log.read_text().splitlines()) == len(bought)


def test_a_dry_run_writes_scripts_that_bash_and_shellcheck_accept(cluster, capsys):
    flags = ["--partition=gpu", "--time=04:00:00", "--gpus=1", "--cpus=8", "--at-once=16"]
    extra = ["--sbatch=--account=a b", "--before=module load cuda", "--set=experiment.seeds=[0, 1]"]
    scratch = ["--scratch", "${TMPDIR:-/tmp}"]
    assert cluster.submit(*flags, *extra, *scratch, "--dry-run", shards=64) == 0
    assert not cluster.jobs()
    assert "submit.sh" in capsys.readouterr().out
    scripts = sorted((cluster.out / "slurm").glob("*.sh"))
    assert [path.name for path in scripts] == ["merge.sh", "shards.sh", "submit.sh"]
    for path in scripts:
        subprocess.run(["bash", "-n", str(path)], check=True)
        if shutil.which("shellcheck"):
            # The $ in the folder's name is one, and meant to stay so.
            subprocess.run(["shellcheck", "--exclude=SC2016", str(path)], check=True)
    submit = cluster.script("submit.sh")
    for word in [*flags[:3], "--cpus-per-task=8", "--array=1-64%16", "'--account=a b'"]:
        assert word in submit
    assert "--signal=B:TERM@120" in submit
    assert "'--set=experiment.seeds=[0, 1]'" in cluster.script("shards.sh")
    assert "module load cuda" in cluster.script("merge.sh")


def test_what_is_interrupted_on_a_scratch_disk_is_kept(cluster, tmp_path):
    """The warning before the time limit reaches medstress, and its folder is copied back."""
    assert cluster.submit("--scratch", str(tmp_path), "--dry-run") == 0
    script = cluster.out / "slurm" / "shards.sh"
    slow = tmp_path / "slow"
    slow.write_text(
        '#!/bin/bash\nwhile [ "$1" != --out ]; do shift; done\nmkdir -p "$2"\n'
        f'trap \'echo kept > "$2/run"; exit 130\' TERM\ntouch "{tmp_path}/began"\n'
        "while true; do sleep 0.02; done\n"
    )
    slow.chmod(0o755)
    script.write_text(script.read_text().replace(f"{sys.executable} -m medstress", f"'{slow}'"))
    task = {"SLURM_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(["bash", str(script)], env=task)
    try:
        while not (tmp_path / "began").exists():
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
    assert (cluster.out / "shards" / "2" / "run").read_text() == "kept\n"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--gpus=0"], "--gpus"),
        (["--at-once=0"], "--at-once"),
        (["--time=soon"], "--time"),
        (["--sbatch=--array=1-3"], "--sbatch"),
        (["--sbatch=account=x"], "--sbatch"),
        (["--sbatch=-a1-9"], "--sbatch"),
        (["--sbatch=-Ho/dev/null"], "--sbatch"),
        (["--sbatch=--arr=1-9"], "--sbatch"),
        (["--sbatch=--signal=INT@5"], "--sbatch"),
        (["--time=00:00:00"], "UNLIMITED"),
        (["--partition="], "--partition"),
        (["--before=a\nb"], "one line"),
        (["--before=if true"], "--before"),
        (["--scratch=$(rm -rf x)"], "--scratch"),
        (["--scratch=rel"], "--scratch"),
        (["--scratch="], "--scratch"),
        (["--limit=0"], "--limit"),
        (["--set=experiment.seed=1"], "seed"),
        (["--set=tune.share=0.5"], "[tune]"),
        (["--partition=none"], "invalid partition"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_submitted(cluster, capsys, flags, named, said):
    assert cluster.submit(*flags) == 2
    said(capsys.readouterr().err, named)
    assert not cluster.jobs()


def test_lines_of_the_user_may_read_variables_that_are_not_set(cluster):
    """As the files do that a site's modules source."""
    before = [
        "--before=PATH=$PATH:$NOT_SET_ANYWHERE/bin",
        "--before=if true",
        "--before=then exit 7; fi",
    ]
    free = ["--sbatch=-Ax", "--sbatch=--comment=x", "--time=UNLIMITED"]
    assert cluster.submit(*before, *free, "--dry-run") == 0
    for name in ("shards.sh", "merge.sh"):
        script = ["bash", str(cluster.out / "slurm" / name)]
        assert subprocess.run(script, capture_output=True, check=False).returncode == 7


def test_more_shards_than_can_be_run_or_merged_are_refused_before_they_cost(
    cluster, capsys, monkeypatch, said
):
    assert cluster.submit("--dry-run", shards=100_001) == 2
    said(capsys.readouterr().err, "at most 100,000")
    scontrol = cluster.queue.parent / "bin" / "scontrol"
    scontrol.write_text("#!/bin/bash\necho 'MaxArraySize            = 1001'\n")
    scontrol.chmod(0o755)
    assert cluster.submit("--dry-run", shards=1001) == 2
    said(capsys.readouterr().err, "at most 1000")
    assert cluster.submit("--dry-run", shards=1000) == 0
    monkeypatch.setattr("resource.getrlimit", lambda _: (200, 200))
    capsys.readouterr()
    assert cluster.submit("--dry-run", shards=100) == 2
    said(capsys.readouterr().err, "--shards: merging 100 shards takes 464 open files")


def test_shards_that_would_run_on_a_network_drive_are_told_of_scratch(cluster, capsys, monkeypatch):
    monkeypatch.setattr("medstress.files.mounts.shared_file_system", lambda _: "nfs4")
    assert cluster.submit("--dry-run", "--scratch=$TMPDIR") == 0
    assert not capsys.readouterr().err
    assert cluster.submit("--dry-run") == 0
    err = capsys.readouterr().err
    assert "is on nfs4" in err
    assert "--scratch '$TMPDIR'" in err


def test_a_file_in_the_place_of_the_folder_is_named(cluster, capsys, said):
    cluster.out = cluster.experiment
    assert cluster.submit("--dry-run") == 2
    said(capsys.readouterr().err, "--out: expected a folder")


def test_without_its_merge_the_array_is_cancelled(cluster, capsys, monkeypatch, said):
    scancel = cluster.queue.parent / "bin" / "scancel"
    scancel.write_text(f'#!/bin/bash\necho "$@" > "{cluster.queue}/cancelled"\n')
    scancel.chmod(0o755)
    monkeypatch.setenv("LOCAL_SLURM_REFUSES", "bench-merge")
    assert cluster.submit("--before=exit 0") == 2
    said(capsys.readouterr().err, "Job submit limit")
    assert (cluster.queue / "cancelled").read_text() == "100\n"


def test_a_copy_that_was_cut_off_takes_no_place(cluster, tmp_path):
    """Killed between two moves, a shard is found again; half a copy is never taken for one."""
    assert cluster.submit("--scratch", str(tmp_path), "--dry-run") == 0
    script = cluster.out / "slurm" / "shards.sh"
    text = script.read_text().replace(f"{sys.executable} -m medstress", 'ls "$work" >&2; false')
    script.write_text(text)
    shards = cluster.out / "shards"
    for name in ("1.new", "1.part", "2.part"):
        (shards / name).mkdir(parents=True)
        (shards / name / f"of-{name}").touch()
    for task in ("1", "2"):
        given = {"SLURM_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": task, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["bash", str(script)], env=given, capture_output=True, check=False)
        assert (b"of-1.new" in done.stderr) is (task == "1")
        assert done.returncode != 0
    assert [path.name for path in (shards / "1").iterdir()] == ["of-1.new"]
    assert not (shards / "2").exists()


def test_no_shards_or_no_sbatch_is_one_sentence(cluster, capsys, monkeypatch, said):
    assert cluster.submit(shards=0) == 2
    said(capsys.readouterr().err, "--shards")
    monkeypatch.setenv("PATH", "/nowhere")
    assert cluster.submit() == 2
    said(capsys.readouterr().err, "sbatch is not on this machine")
