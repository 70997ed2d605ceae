"""Makes a release: version, changelog, checks, wheel and sdist, tag. Publishes nothing.

    python scripts/release.py 0.2.0 --dry-run    # all but checks and tag, in a clone
    python scripts/release.py 0.2.0              # here: a commit, the checks on it, dist/, the tag
    python scripts/release.py 0.2.0 --checked    # `make test` and `make release-check` have passed

Before, the changelog's first section is `## [Unreleased]`, everything is committed, and the group
`release` is installed, as `make release-check` does. It may be called again after a check has
failed and was mended: what is done is not done twice. Exit code 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from clean_environments import Failed, run
from package_check import build, examine

ROOT = Path(__file__).resolve().parents[1]
VERSION = Path("src/medstress/version.py")
CHANGELOG = Path("CHANGELOG.md")
CITATION = Path("CITATION.cff")
CHECKS = (("make", "test"), ("make", "release-check"))
"""What has to pass on the commit that gets the tag."""


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="in a clone; no checks, no tag")
    parser.add_argument("--checked", action="store_true", help="the checks passed on this commit")
    args = parser.parse_args()
    try:
        check_version(args.version, current(ROOT), (ROOT / CHANGELOG).read_text("utf-8"))
        check_ready(args.version)
        if args.dry_run:
            with tempfile.TemporaryDirectory() as clone:
                _git(ROOT, "clone", "--quiet", "--shared", str(ROOT), clone)
                make(Path(clone), args.version)
                left = ", ".join(map(" ".join, CHECKS))
                print(f"left out: {left}, the tag {tag(args.version)}")
            return 0
        make(ROOT, args.version)
        for command in () if args.checked else CHECKS:
            print(" ".join(command), flush=True)
            if subprocess.run(command, cwd=ROOT, check=False).returncode:
                raise Failed(f"{' '.join(command)} failed: mend it, commit, and call this again")
        _git(ROOT, "tag", "--annotate", tag(args.version), "--message", f"medstress {args.version}")
    except Failed as error:
        print(f"FAILED: {error}")
        return 1
    print(f"tagged {tag(args.version)}; nothing was pushed or uploaded")
    return 0


def make(root: Path, version: str) -> None:
    """Write the version, commit, and build into `dist`, where other versions may lie."""
    if current(root) != version:
        write(root, version)
        print(_git(root, "show", "--stat", "--format=%s").strip())
    # The same commit gives the same bytes.
    os.environ["SOURCE_DATE_EPOCH"] = _git(root, "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as made:
        wheel, sdist = build(Path(made), root)
        for told in examine(wheel, sdist, root):
            print(told)
        out = root / "dist"
        out.mkdir(exist_ok=True)
        for built in (wheel, sdist):
            shutil.copyfile(built, out / built.name)


def write(root: Path, version: str) -> None:
    """Write the version wherever it stands and commit it.

    Raises:
        Failed: the changelog is not as it has to be before a release; nothing is changed.
    """
    day = datetime.now(UTC).date().isoformat()
    was = {path: (root / path).read_text("utf-8") for path in (VERSION, CHANGELOG, CITATION)}
    texts = {
        VERSION: was[VERSION].replace(f'"{current(root)}"', f'"{version}"'),
        CHANGELOG: dated(was[CHANGELOG], version, day),
        CITATION: cited(was[CITATION], version, day),
    }
    for path, text in texts.items():
        (root / path).write_text(text, "utf-8")
    _git(root, "commit", "--quiet", "--all", "--message", f"Version {version}")


def check_version(version: str, now: str, changelog: str) -> None:
    """Refuse what is no version of a release, an earlier one, or one that was never written down.

    Raises:
        Failed: says what was expected.
    """
    number = r"(0|[1-9]\d*)"
    if not re.fullmatch(rf"{number}\.{number}\.{number}", version):
        raise Failed(f"version {version!r}: expected MAJOR.MINOR.PATCH, such as 0.2.0")
    if Version(version) < Version(now):
        raise Failed(f"version {version}: the code is at {now} already")
    first = re.search(r"^## .*", changelog, re.M)
    is_dated = first is not None and first[0].startswith(f"## [{version}] - ")
    if version == now and not is_dated:
        raise Failed(
            f"version {version}: the code has it, but the first section of {CHANGELOG} is not "
            f"`## [{version}] - DAY`; release a later version"
        )


def check_ready(version: str) -> None:
    """Refuse to begin where something is in the way.

    That is: tools that are not installed, uncommitted changes, a tag of this name.

    Raises:
        Failed: names what is in the way.
    """
    if lacks := [name for name in ("build", "twine") if find_spec(name) is None]:
        raise Failed(f"{', '.join(lacks)} not installed: pip install --group release")
    if dirty := _git(ROOT, "status", "--porcelain").strip():
        raise Failed(f"there are uncommitted changes: {dirty.splitlines()[0].strip()}")
    if _git(ROOT, "tag", "--list", tag(version)).strip():
        raise Failed(f"the tag {tag(version)} exists already")


def dated(changelog: str, version: str, day: str) -> str:
    """Return the changelog with its first section named after the version.

    Raises:
        Failed: the first section is not `[Unreleased]`, or says nothing.
    """
    found = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    first = re.search(r"^## .*", changelog, re.M)
    if found is None or first is None or first.start() != found.start():
        raise Failed(f"{CHANGELOG}: expected the first section to be `## [Unreleased]`")
    if not re.search(r"^- ", found[1], re.M):
        raise Failed(f"{CHANGELOG}: the section [Unreleased] says nothing")
    return f"{changelog[: found.start()]}## [{version}] - {day}\n{changelog[found.start(1) :]}"


def cited(citation: str, version: str, day: str) -> str:
    """Return CITATION.cff with the version and the day of its release."""
    text = re.sub(r"^date-released: .*\n", "", citation, flags=re.M)
    return re.sub(r"^version: .*$", f"version: {version}\ndate-released: {day}", text, flags=re.M)


def current(root: Path) -> str:
    """Return the version that the code has."""
    found = re.search(r'__version__ = "(.+)"', (root / VERSION).read_text("utf-8"))
    assert found is not None
    return found[1]


def tag(version: str) -> str:
    """Return the name of a version's tag."""
    return f"v{version}"


def _git(root: Path, *arguments: str) -> str:
    return run(["git", *arguments], f"git {arguments[0]}", cwd=root)


if __name__ == "__main__":
    sys.exit(main())
