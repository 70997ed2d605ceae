"""Makes a release: version, changelog, checks, wheel and sdist, tag. Publishes nothing.

    python scripts/release.py 0.3.0              # a commit, the checks on it, dist/, the tag
    python scripts/release.py 0.3.0 --checked    # the checks have passed on this commit

Before, the changelog's first section is `## [Unreleased]`, everything is committed, and
`make release-check` has installed what is needed. Call it again after a check failed and was
mended: what is done is not done twice.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

from packaging.version import Version

from release_check import ROOT, Failed, build, examine, run

VERSION, CHANGELOG, CITATION = (
    ROOT / name for name in ("src/medstress/version.py", "CHANGELOG.md", "CITATION.cff")
)
CHECKS = ("test", "kills", "release-check")
"""What `make` has to pass on the commit that gets the tag."""


def release(version: str, checks: tuple[str, ...]) -> None:
    """Write the version, commit, check, build into `dist` and tag.

    Raises:
        Failed: says what is in the way.
    """
    (before,) = re.findall(r'__version__ = "(.+)"', VERSION.read_text("utf-8"))
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or Version(version) < Version(before):
        raise Failed(f"version {version!r}: expected MAJOR.MINOR.PATCH, not below {before}")
    if changed := run("git", "status", "--porcelain").strip():
        raise Failed(f"there are uncommitted changes: {changed.splitlines()[0].strip()}")
    if run("git", "tag", "--list", f"v{version}").strip():
        raise Failed(f"the tag v{version} exists already")
    if version != before:
        write(version, before)
    # The same commit gives the same bytes.
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    print(examine(*build(ROOT / "dist")))
    for check in checks:
        if subprocess.run(["make", check], cwd=ROOT, check=False).returncode:
            raise Failed(f"make {check} failed: mend it, commit, and call this again")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"medstress {version}")


def write(version: str, before: str) -> None:
    """Write the version wherever it is, and commit."""
    day = datetime.now(UTC).date().isoformat()
    for path, old, new in (
        (CHANGELOG, r"\A((?:(?!## ).*\n)*)## \[Unreleased\]", rf"\1## [{version}] - {day}"),
        (
            CITATION,
            r"(?m)^version: .*\n(date-released: .*\n)?",
            f"version: {version}\ndate-released: {day}\n",
        ),
        (VERSION, f'"{re.escape(before)}"', f'"{version}"'),
    ):
        text, n = re.subn(old, new, path.read_text("utf-8"), count=1)
        if not n:
            run("git", "checkout", "--", ".")
            raise Failed(f"{path.name}: expected {old!r}")
        path.write_text(text, "utf-8")
    run("git", "commit", "--quiet", "--all", "--message", f"Version {version}")


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--checked", action="store_true", help="the checks passed on this commit")
    args = parser.parse_args()
    try:
        release(args.version, () if args.checked else CHECKS)
    except Failed as error:
        print(f"FAILED: {error}")
        return 1
    print(f"tagged v{args.version}; nothing was pushed or uploaded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
