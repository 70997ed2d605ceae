"""A command loads what it needs, and no more."""

import subprocess
import sys

import pytest

HEAVY = {"numpy", "scipy", "polars", "pydantic", "torch", "transformers", "rich", "jinja2"}


@pytest.mark.parametrize(
    ("arguments", "code", "lacking", "most"),
    [
        (["--help"], 0, HEAVY, 30),
        (["summary", "nowhere"], 2, {"polars", "scipy", "altair", "filelock"}, 120),
        (["check", "broken.csv"], 2, {"numpy", "polars", "scipy", "jinja2"}, 85),
        (["check", "nowhere.csv"], 2, HEAVY - {"pydantic"}, 35),
        *(
            ([command, "nowhere.toml", *more], 2, HEAVY - {"pydantic"}, 40)
            for command, *more in (["run"], ["tune"], ["train"], ["perturb", "--to", "x.jsonl"])
        ),
    ],
)
def test_a_command_loads_what_it_needs(tmp_path, arguments, code, lacking, most):
    (tmp_path / "broken.csv").write_text('question,A,B,answer\n"x,1\n')
    command = (
        "import sys\nfrom medstress.cli.app import medstress_cli\n"
        f"assert medstress_cli({arguments}) == {code}\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (done.stderr == "") == (code == 0)
    loaded = done.stdout.splitlines()[-1].split()
    assert not lacking & set(loaded)
    assert sum(name.split(".")[0] == "medstress" for name in loaded) <= most
