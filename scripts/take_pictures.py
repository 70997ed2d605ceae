"""Take the pictures of docs/images: report, case, review room.

    medstress demo --out runs/demo
    python scripts/take_pictures.py runs/demo

Makes the example run of scripts/pictures in a temporary folder, and drives Chromium. A minute or
two; pictures have few colours, to be small.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "scripts" / "pictures"
HEIGHT, MARGIN, N_COLOURS = 900, 24, 128


def medstress(folder: Path, *arguments: str) -> None:
    """Run a command in a folder, so that no path of this machine is in a picture.

    Raises:
        SystemExit: it fails.
    """
    command = [sys.executable, "-m", "medstress", *arguments]
    if code := subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"medstress {' '.join(arguments)} ended with exit code {code}")


def opened(browser: Browser, address: str, width: int = 1440) -> Page:
    """Open an address in a profile of its own."""
    size = {"width": width, "height": HEIGHT}
    page = browser.new_context(viewport=size, reduced_motion="reduce").new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_timeout(1000)
    return page


def keep(picture: bytes, to: Path) -> None:
    """Write a picture in fewer colours."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.quantize(N_COLOURS, dither=Image.Dither.NONE).save(to, optimize=True)
    print(f"{to}: {to.stat().st_size / 1000:.0f} kB")


def take_report(browser: Browser, folder: Path, to: Path) -> None:
    """The first screen of the demo's report."""
    medstress(folder, "report", "demo", "--out", "report.html")
    keep(opened(browser, (folder / "report.html").as_uri()).screenshot(), to)


def take_case(browser: Browser, folder: Path, to: Path) -> None:
    """The first success of near names in the demo, in the case browser."""
    medstress(folder, "report", "demo", "--out", "report.html")
    medstress(folder, "export", "demo", "--table", "trials", "--to", "trials.jsonl")
    rows = map(json.loads, (folder / "trials.jsonl").read_text("utf-8").splitlines())
    wanted = {"verdict": "flipped", "attack": "near names", "victim": "closed_book"}
    lost = next(row["trial_id"] for row in rows if wanted.items() <= row.items())
    case = lost.rpartition(":")[2][:12]
    page = opened(browser, f"{(folder / 'report.html').as_uri()}#case-{case}")
    page.locator("#case-detail .prompt").first.wait_for()
    part = page.locator(".case-panes")
    part.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    box = part.bounding_box()
    assert box is not None
    clip = {
        "x": max(0.0, box["x"] - MARGIN),
        "y": max(0.0, box["y"] + page.evaluate("scrollY") - MARGIN),
        "width": box["width"] + 2 * MARGIN,
        "height": min(box["height"] + 2 * MARGIN, HEIGHT),
    }
    keep(page.screenshot(full_page=True, clip=clip), to)  # type: ignore[arg-type]


def take_review(browser: Browser, folder: Path, to: Path) -> None:
    """A case of the review room, half judged."""
    for name in ("example.toml", "victims.py"):
        shutil.copy(PICTURES / name, folder / name)
    medstress(folder, "run", "example.toml", "--out", "example", "--quiet")
    medstress(folder, "review", "example", "--sample", "12", "--export", "room.html")
    page = opened(browser, (folder / "room.html").as_uri(), width=900)
    page.get_by_label("Your name or initials").fill("Ada")
    page.get_by_role("button", name="Start").click()
    page.locator("#case-title").wait_for()
    for key in ("y", "y", "n"):
        page.keyboard.press(key)
    keep(page.screenshot(full_page=True), to)


TAKEN = {"report": take_report, "case": take_case, "review": take_review}


def main() -> None:
    """Take the pictures that are wished for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="finished folder of medstress demo")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="a folder")
    parser.add_argument("--only", nargs="+", choices=TAKEN, default=list(TAKEN))
    given = parser.parse_args()
    if not (given.demo / "run.sqlite").is_file():
        sys.exit(f"{given.demo}: no run folder; make it with: medstress demo --out runs/demo")
    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        shutil.copytree(given.demo, Path(made) / "demo")
        for name in given.only:
            TAKEN[name](browser, Path(made), given.to / f"{name}.png")


if __name__ == "__main__":
    main()
