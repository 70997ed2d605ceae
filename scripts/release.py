"""Makes a release: version, changelog, citation, a commit, wheel and sdist in `dist`, the tag.

    make test kills release-check
    python scripts/release.py 0.3.0

Before, the changelog's first section is `## [Unreleased]` and everything is committed. Publishes
nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime

from release_check import ROOT, build, contents, run


def release(version: str) -> None:
    """Write the version, commit, build and tag; exits with a sentence where something is wrong."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"version {version!r}: expected MAJOR.MINOR.PATCH")
    if subprocess.check_output(("git", "status", "--porcelain"), cwd=ROOT):
        sys.exit("there are uncommitted changes")
    day = datetime.now(UTC).date().isoformat()
    texts: dict[str, str] = {}
    for name, old, new in (
        ("CHANGELOG.md", r"(?m)^## \[Unreleased\]$", f"## [{version}] - {day}"),
        ("CITATION.cff", r"(?m)^version: .*", f"version: {version}"),
        ("CITATION.cff", r"(?m)^date-released: .*", f"date-released: {day}"),
        ("src/medstress/version.py", r'"\d.*"', f'"{version}"'),
    ):
        text = texts.get(name) or (ROOT / name).read_text("utf-8")
        texts[name], n = re.subn(old, new, text)
        if n != 1:
            sys.exit(f"{name}: expected {old!r} once, found it {n} times")
    for name, text in texts.items():
        (ROOT / name).write_text(text, "utf-8")
    run("git", "commit", "--quiet", "--all", "--message", f"Version {version}")
    # The same commit gives the same bytes.
    time = subprocess.check_output(("git", "log", "-1", "--format=%ct"), cwd=ROOT, text=True)
    os.environ["SOURCE_DATE_EPOCH"] = time.strip()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    contents(build(ROOT / "dist"))
    run("git", "tag", "--annotate", f"v{version}", "--message", f"medstress {version}")
    print(f"tagged v{version}; nothing was pushed or uploaded")


if __name__ == "__main__":
    release(*sys.argv[1:])
