"""The command starts at once and imports nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "polars", "pydantic", "torch", "transformers", "rich", "jinja2")

HELP = """
from medstress.cli.app import medstress_cli
assert medstress_cli(["--help"]) == 0
"""

WAYS = {"import medstress": "import medstress", "medstress --help": HELP}


@pytest.mark.parametrize("way", WAYS)
def test_starting_imports_nothing_heavy(way):
    code = f"{WAYS[way]}\nimport sys\nprint('loaded:', *[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.endswith("loaded:\n")


@pytest.mark.parametrize(
    ("arguments", "lacking", "most"),
    [
        (["summary", "nowhere"], {"polars", "scipy", "altair", "filelock"}, 120),
        (["check", "broken.csv"], {"numpy", "polars", "scipy", "jinja2"}, 85),
    ],
)
def test_a_command_loads_what_it_needs(tmp_path, arguments, lacking, most):
    (tmp_path / "broken.csv").write_text('question,A,B,answer\n"x,1\n')
    code = f"""
import sys
from medstress.cli.app import medstress_cli
assert medstress_cli({arguments}) == 2
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = done.stdout.split()
    assert not lacking & set(loaded)
    assert sum(name.split(".")[0] == "medstress" for name in loaded) <= most
