"""Take the picture of a report's first screen with Chromium, for docs/images.

medstress demo --out runs/demo
python scripts/take_picture.py runs/demo/report.html docs/images/report.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1200,1240"


def main(page: str, picture: str) -> None:
    """Write the picture.

    Raises:
        SystemExit: there is no Chromium, or it takes no picture.
    """
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        sys.exit(f"expected one of {', '.join(NAMES)} on PATH, found none; install Chromium")
    target = Path(picture).resolve()
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", f"--user-data-dir={profile}"),
                *(f"--window-size={SIZE}", f"--screenshot={target}"),
                Path(page).resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    if not target.is_file():
        sys.exit(f"{browser} wrote no {target}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
