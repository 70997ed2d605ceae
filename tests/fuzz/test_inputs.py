"""The fuzzer's first inputs, a few of every format; `scripts/fuzz.py` runs as many as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.release

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz.py"


@pytest.mark.timeout(240)
def test_no_valid_file_with_one_thing_wrong_gives_a_traceback_a_hang_or_a_lost_row():
    told = subprocess.run(
        [sys.executable, SCRIPT, "--inputs", "40", "--workers", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "40 inputs, 0 failures" in told.stdout
