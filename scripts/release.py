"""Makes a release: version, changelog, checks, wheel and sdist, tag. Publishes nothing.

    python scripts/release.py 0.3.0              # a commit, the checks on it, dist/, the tag
    python scripts/release.py 0.3.0 --checked    # `make test` and `make release-check` have passed

Before, the changelog's first section is `## [Unreleased]`, everything is committed, and the group
`release` is installed, as `make release-check` does. It may be called again after a check has
failed and was mended: what is done is not done twice. Exit code 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

from packaging.version import Version

from clean_environments import ROOT, Failed, run
from package_check import build, examine

VERSION = ROOT / "src" / "medstress" / "version.py"
CHANGELOG = ROOT / "CHANGELOG.md"
CITATION = ROOT / "CITATION.cff"
CHECKS = ("test", "kills", "release-check")
"""What `make` has to pass on the commit that gets the tag."""


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


def release(version: str, checks: tuple[str, ...]) -> None:
    """Write the version, commit, check, build into `dist` and tag.

    Raises:
        Failed: says what is in the way.
    """
    now = re.search(r'__version__ = "(.+)"', VERSION.read_text("utf-8"))
    assert now is not None
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or Version(version) < Version(now[1]):
        raise Failed(f"version {version!r}: expected MAJOR.MINOR.PATCH, not below {now[1]}")
    if dirty := git("status", "--porcelain").strip():
        raise Failed(f"there are uncommitted changes: {dirty.splitlines()[0].strip()}")
    if git("tag", "--list", f"v{version}").strip():
        raise Failed(f"the tag v{version} exists already")
    if version != now[1]:
        write(version, now[1])
    # The same commit gives the same bytes.
    os.environ["SOURCE_DATE_EPOCH"] = git("log", "-1", "--format=%ct").strip()
    for told in examine(*build(ROOT / "dist")):
        print(told)
    for check in checks:
        if subprocess.run(["make", check], cwd=ROOT, check=False).returncode:
            raise Failed(f"make {check} failed: mend it, commit, and call this again")
    git("tag", "--annotate", f"v{version}", "--message", f"medstress {version}")


def write(version: str, before: str) -> None:
    """Write the version wherever it stands and commit it.

    Raises:
        Failed: the changelog is not as it has to be before a release; nothing is changed.
    """
    day = datetime.now(UTC).date().isoformat()
    changelog, citation = CHANGELOG.read_text("utf-8"), CITATION.read_text("utf-8")
    head = re.search(r"^## .*", changelog, re.MULTILINE)
    if head is None or head[0] != "## [Unreleased]":
        raise Failed(f"{CHANGELOG.name}: expected the first section to be `## [Unreleased]`")
    CHANGELOG.write_text(changelog.replace(head[0], f"## [{version}] - {day}", 1), "utf-8")
    citation = re.sub(r"^date-released: .*\n", "", citation, flags=re.MULTILINE)
    dated = f"version: {version}\ndate-released: {day}"
    CITATION.write_text(re.sub(r"^version: .*$", dated, citation, flags=re.MULTILINE), "utf-8")
    VERSION.write_text(VERSION.read_text("utf-8").replace(f'"{before}"', f'"{version}"'), "utf-8")
    git("commit", "--quiet", "--all", "--message", f"Version {version}")


def git(*arguments: str) -> str:
    """Run git in the repository and return what it prints."""
    return run(["git", *arguments], f"git {arguments[0]}", cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
