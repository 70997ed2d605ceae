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
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "scripts" / "pictures"
IMAGES = ROOT / "docs" / "images"
NAMES = ("report", "case", "review")
HEIGHT = 900
N_COLOURS = 128
SAMPLE = ("--sample", "12")


class Folder:
    """A folder in which commands run, so that no path of this machine is in a picture."""

    def __init__(self, path: Path, demo: Path) -> None:
        self.path = path
        (path / "runs").mkdir()
        shutil.copytree(demo, path / "runs" / "demo")
        for name in ("example.toml", "victims.py"):
            shutil.copy(PICTURES / name, path / name)

    def medstress(self, *arguments: str) -> str:
        """Run a command and return what it prints.

        Raises:
            SystemExit: it fails.
        """
        done = subprocess.run(
            [sys.executable, "-m", "medstress", *arguments],
            cwd=self.path, check=False, text=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"medstress {' '.join(arguments)} ended with exit code {done.returncode}")
        return done.stdout

    def success(self, run: str, attack: str, victim: str) -> str:
        """Return the short id of the first success of an attack on a victim."""
        self.medstress("export", run, "--table", "trials", "--to", "trials.jsonl")
        rows = map(json.loads, (self.path / "trials.jsonl").read_text("utf-8").splitlines())
        wanted = {"verdict": "flipped", "attack": attack, "victim": victim}
        found = next(row for row in rows if wanted.items() <= row.items())
        return str(found["trial_id"]).rpartition(":")[2][:12]

    def page(self, run: str) -> str:
        """Return the address of the report of a run."""
        self.medstress("report", run, "--out", "report.html")
        return (self.path / "report.html").as_uri()


@contextmanager
def opened(browser: Browser, address: str, width: int = 1440) -> Iterator[Page]:
    """Open an address in a profile of its own, with windows of a size."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address)
    try:
        yield page
    finally:
        context.close()


def keep(picture: bytes, to: Path) -> None:
    """Write a picture in fewer colours."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.quantize(N_COLOURS, dither=Image.Dither.NONE).save(to, optimize=True)


def framed(page: Page, part: Locator, margin: int = 24) -> bytes:
    """Return a part of a page with a margin, at most as high as the window."""
    part.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)  # the plots draw themselves when seen
    box = part.bounding_box()
    if box is None:
        sys.exit(f"nothing to see of {part}")
    top = page.evaluate("scrollY")
    return page.screenshot(
        full_page=True,
        clip={
            "x": max(0.0, box["x"] - margin),
            "y": max(0.0, box["y"] + top - margin),
            "width": box["width"] + 2 * margin,
            "height": min(box["height"] + 2 * margin, HEIGHT),
        },
    )


def take_report(browser: Browser, folder: Folder, to: Path) -> None:
    """The first screen of the demo's report."""
    with opened(browser, folder.page("runs/demo")) as page:
        page.wait_for_timeout(1000)
        keep(page.screenshot(), to / "report.png")


def take_case(browser: Browser, folder: Folder, to: Path) -> None:
    """A success of the demo in the case browser."""
    identifier = folder.success("runs/demo", "near names", "closed_book")
    with opened(browser, f"{folder.page('runs/demo')}#case-{identifier}") as page:
        page.locator("#case-detail .prompt").first.wait_for()
        keep(framed(page, page.locator(".case-panes")), to / "case.png")


def take_review(browser: Browser, folder: Folder, to: Path) -> None:
    """A case of the review room, half judged."""
    room = (folder.path / "room.html").as_uri()
    folder.medstress("review", "runs/example", *SAMPLE, "--export", "room.html")
    with opened(browser, room, width=900) as page:
        enter(page, "Ada")
        for key in ("y", "y", "n"):
            page.keyboard.press(key)
        keep(page.screenshot(full_page=True), to / "review.png")


def enter(page: Page, rater: str) -> None:
    """Enter the review room under a name."""
    page.get_by_label("Your name or initials").fill(rater)
    page.get_by_role("button", name="Start").click()
    page.locator("#case-title").wait_for()


def main(arguments: argparse.Namespace) -> None:
    """Take the pictures that are wished for."""
    if not (arguments.demo / "run.sqlite").is_file():
        sys.exit(f"{arguments.demo}: no run folder; make it with: medstress demo --out runs/demo")
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        folder = Folder(Path(temporary), arguments.demo)
        if "review" in arguments.only:
            folder.medstress("run", "example.toml", "--out", "runs/example")
        for name, take in (
            ("report", take_report), ("case", take_case), ("review", take_review),
        ):  # fmt: skip
            if name in arguments.only:
                take(browser, folder, arguments.to)
    for name in arguments.only:
        for path in arguments.to.glob(f"{name}.*"):
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="finished folder of medstress demo")
    parser.add_argument("--to", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    main(parser.parse_args())
