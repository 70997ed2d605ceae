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


def test_a_summary_loads_what_it_needs(tmp_path):
    code = """
import sys
from medstress.cli.app import medstress_cli
medstress_cli(["summary", "nowhere"])
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = done.stdout.split()
    assert not {"polars", "scipy", "altair", "filelock"} & set(loaded)
    assert sum(name.split(".")[0] == "medstress" for name in loaded) <= 120
