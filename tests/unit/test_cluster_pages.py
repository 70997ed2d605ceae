"""The manifests of docs/kubernetes.md parse, and their commands name shards from 1."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from medstress.cli.parser import build_parser

yaml = pytest.importorskip("yaml")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "kubernetes.md"


@pytest.fixture
def jobs() -> list[dict]:
    found = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [yaml.safe_load(text) for text in found]


def command_of(job: dict, folder: Path, **variables: str) -> list[list[str]]:
    """Run a container's shell line with a medstress that says how it was called."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    program = folder / "medstress"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$*"\n')
    program.chmod(0o755)
    line = " ".join(container["args"]).replace("/runs", str(folder))
    environment = {"PATH": f"{folder}{os.pathsep}/usr/bin:/bin", **variables}
    done = subprocess.run(
        [*container["command"], line], env=environment, capture_output=True, text=True, check=True
    )
    return [shlex.split(said) for said in done.stdout.splitlines()]


@pytest.mark.parametrize("index", [0, 63])
def test_every_index_is_a_shard_counted_from_1(jobs, tmp_path, index):
    shards, _ = jobs
    assert shards["spec"]["completionMode"] == "Indexed"
    n = shards["spec"]["completions"]
    (called,) = command_of(shards, tmp_path, JOB_COMPLETION_INDEX=str(index))
    args = build_parser().parse_args(called)
    assert args.shard == f"{index + 1}/{n}"
    assert args.out == f"{tmp_path}/shards/{index + 1}"


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_the_wait_ends_when_the_first_job_does(tmp_path, end):
    (lines,) = re.findall(r"```\n(kubectl.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    programs = {
        # At first nothing is known of the end.
        "kubectl": f'echo "$@" >> "{tmp_path}/log"\n[ "$1" = get ] && [ -e "{tmp_path}/slept" ]'
        f" && echo FailureTarget {end}; exit 0",
        "sleep": f'touch "{tmp_path}/slept"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}/usr/bin:/bin"}
    subprocess.run(["bash", "-c", lines], env=environment, timeout=10, check=False)
    applied = "apply -f merge.yaml" in (tmp_path / "log").read_text()
    assert applied is (end == "Complete")


def test_a_missed_criterion_is_not_tried_again_and_the_volume_is_the_users(jobs):
    (rule,) = jobs[1]["spec"]["podFailurePolicy"]["rules"]
    (container,) = jobs[1]["spec"]["template"]["spec"]["containers"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert rule["onExitCodes"]["values"] == [2, 3]
    user = re.search(r"^USER (\d+)$", (PAGE.parents[1] / "Dockerfile").read_text(), re.MULTILINE)
    for job in jobs:
        context = job["spec"]["template"]["spec"]["securityContext"]
        assert context["runAsUser"] == context["fsGroup"] == int(user[1])


def test_the_image_has_no_version_that_a_release_would_leave_behind(jobs):
    containers = [job["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    assert {each["image"].rpartition(":")[2] for each in containers} == {"VERSION"}


def test_a_mistake_ends_the_job_and_a_drained_node_does_not(jobs):
    rules = jobs[0]["spec"]["podFailurePolicy"]["rules"]
    (container,) = jobs[0]["spec"]["template"]["spec"]["containers"]
    assert rules[0]["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [2],
    }
    assert rules[1]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert jobs[0]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_second_job_merges_all_shards_and_completes_the_run(jobs, tmp_path):
    for number in (1, 2):
        (tmp_path / "shards" / str(number)).mkdir(parents=True)
    merge, run = command_of(jobs[1], tmp_path)
    parsed = build_parser().parse_args(merge)
    assert parsed.folders == [f"{tmp_path}/shards/{number}" for number in (1, 2)]
    assert build_parser().parse_args(run).out == parsed.out
    assert parsed.renew, "what is merged stays, unless its shards were extended"
