"""The scripts that check the package and make a release."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASED = "# Changelog\n\nWords.\n\n## [0.2.0] - 2026-12-01\n\n- One.\n"
LATER = "# Changelog\n\n## [Unreleased]\n\n- Two.\n\n"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The modules release and package_check."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield import_module("release"), import_module("package_check")
    for name in (
        "release",
        "release_check",
        "package_check",
        "version_check",
        "clean_environments",
    ):
        sys.modules.pop(name, None)


def test_the_first_section_of_the_changelog_gets_version_and_day(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    release, _ = scripts
    text = "# Changelog\n\n## [Unreleased]\n\n- One.\n\n## [0.1.0] - 2026-01-01\n\n- Zero.\n"
    assert release.dated(text, "0.2.0", "2026-12-01") == text.replace(
        "[Unreleased]", "[0.2.0] - 2026-12-01"
    )
    for bad, why in (
        (text.replace("- One.", ""), "says nothing"),
        (text.replace("[Unreleased]", "[0.2.0] - Unreleased"), "expected the first section"),
        ("## [0.3.0]\n\n" + text, "expected the first section"),
    ):
        with pytest.raises(release.Failed, match=why):
            release.dated(bad, "0.2.0", "2026-12-01")


def test_the_citation_is_of_the_version_and_its_day(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    release, _ = scripts
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    once = release.cited(text, "0.2.0", "2026-12-01")
    assert "\nversion: 0.2.0\ndate-released: 2026-12-01\n" in once
    again = release.cited(once, "0.2.1", "2026-12-02")
    assert again == once.replace("0.2.0", "0.2.1").replace("12-01", "12-02")


@pytest.mark.parametrize(
    "version", ["0.2", "v0.2.0", "0.2.0-rc1", "0.2.0rc1", "0.2.0.1", "0.02.0", "next", "0.1.9"]
)
def test_what_is_no_later_version_is_refused(
    version: str, scripts: tuple[ModuleType, ModuleType]
) -> None:
    release, _ = scripts
    with pytest.raises(release.Failed, match=r"expected MAJOR|at 0\.2\.0 already"):
        release.check_version(version, "0.2.0", RELEASED)
    release.check_version("0.2.0", "0.2.0", RELEASED)  # goes on after a check that failed


def test_a_version_that_was_never_written_down_gets_no_tag(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    release, _ = scripts
    for text in (RELEASED.replace("[0.2.0] - 2026-12-01", "[Unreleased]"), "", LATER + RELEASED):
        with pytest.raises(release.Failed, match=r"first section of CHANGELOG\.md is not"):
            release.check_version("0.2.0", "0.2.0", text)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository with all that a release writes."""
    for path, text in (
        ("src/medstress/version.py", '__version__ = "0.1.0"\n'),
        ("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- One.\n"),
        ("CITATION.cff", "version: 0.1.0\n"),
        ("scripts/generate_docs.py", ""),
        (".gitignore", "dist\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    for command in ("init -q", "config user.email a@b.c", "config user.name A", "add -A"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "-qm", "First"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "text"),
    [("CHANGELOG.md", "# Changelog\n"), ("scripts/generate_docs.py", "raise SystemExit(1)\n")],
)
def test_a_release_that_is_refused_changes_nothing(
    path: str, text: str, checkout: Path, scripts: tuple[ModuleType, ModuleType]
) -> None:
    release, _ = scripts
    (checkout / path).write_text(text, "utf-8")
    subprocess.run(["git", "commit", "-qam", "Second"], cwd=checkout, check=True)
    with pytest.raises(release.Failed):
        release.make(checkout, "0.2.0")
    assert release.current(checkout) == "0.1.0"
    assert release._git(checkout, "status", "--porcelain") == ""


def test_another_version_in_dist_is_not_in_the_way(
    checkout: Path, scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    release, package_check = scripts
    (checkout / "dist").mkdir()
    (checkout / "dist" / "medstress-0.1.0-py3-none-any.whl").write_text("old", "utf-8")

    def played(command: list[str], what: str, *_: object, **__: object) -> str:
        folder = Path(command[command.index("--outdir") + 1])
        for end in ("-py3-none-any.whl", ".tar.gz"):
            (folder / f"medstress-0.2.0{end}").write_text(what, "utf-8")
        return ""

    def run(command: list[str], *rest: object, **changed: str) -> object:
        return "" if "twine" in command else really(command, *rest, **changed)

    really = release._run
    monkeypatch.setattr(package_check, "run", played)
    monkeypatch.setattr(release, "examine", lambda *_: ())
    monkeypatch.setattr(
        release,
        "_run",
        lambda command, *a, **k: "" if "twine" in command else run(command, *a, **k),
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    release.make(checkout, "0.2.0")
    assert sorted(path.name for path in (checkout / "dist").iterdir()) == [
        "medstress-0.1.0-py3-none-any.whl",
        "medstress-0.2.0-py3-none-any.whl",
        "medstress-0.2.0.tar.gz",
    ]


def test_what_builds_is_looked_for_before_anything_is_written(
    scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    release, _ = scripts
    monkeypatch.setattr(release, "find_spec", lambda name: None if name == "build" else name)
    with pytest.raises(release.Failed, match=r"build not installed: pip install '\.\[release\]'"):
        release.check_ready("9.0.0")


@pytest.mark.parametrize("flags", [["--extras", "nosuch"], ["--python", "3.99"]])
def test_an_extra_or_python_that_is_none_is_refused_at_once(
    flags: list[str],
    scripts: tuple[ModuleType, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, package_check = scripts
    monkeypatch.setattr(sys, "argv", ["package_check.py", "installed", *flags])
    with pytest.raises(SystemExit) as caught:
        package_check.main()
    assert (caught.value.code, "invalid choice" in capsys.readouterr().err) == (2, True)


def test_the_changelog_and_the_citation_are_ready_for_the_next_release(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    release, _ = scripts
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if "## [Unreleased]" in text:  # not on the commit that is the release
        assert "## [9.0.0] - 2030-01-01" in release.dated(text, "9.0.0", "2030-01-01")
    assert f"version: {release.current(ROOT)}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("medstress/tests/test_core.py", b"", "belongs to no package"),
        ("medstress/run.sqlite", b"", "belongs to no package"),
        ("medstress/.env", b"", "belongs to no package"),
        ("medstress/data.tsv", b"x" * 2_000_001, "more than a table needs"),
        ("medstress/a.py", b"KEY = 'sk-" + b"a1" * 20 + b"'", "held a secret"),
        ("medstress/a.txt", b"-----BEGIN OPENSSH PRIVATE KEY", "held a secret"),
    ],
)
def test_what_belongs_to_no_package_is_found(
    name: str, data: bytes, why: str, scripts: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    _, package_check = scripts
    archive = tmp_path / "medstress-1.whl"
    archive.write_bytes(b"")
    kept = {"medstress/testing/tests.py": b""}
    package_check._check_files(archive, kept)
    with pytest.raises(package_check.Failed, match=why):
        package_check._check_files(archive, {**kept, name: data})


def test_every_floor_is_known_and_every_extra_is_resolved(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    _, package_check = scripts
    version_check = import_module("version_check")
    found = version_check.floors(version_check.FLOOR_EXTRAS)
    assert {"numpy", "pydantic", "matplotlib"} <= found.keys()
    assert all(number[0].isdigit() for number in found.values())
    resolved = {extra for line in package_check.TOGETHER for extra in line.split(",")}
    assert resolved == package_check.PROJECT["optional-dependencies"].keys() - {"dev", "release"}


def test_the_newest_versions_are_those_of_make_test(
    scripts: tuple[ModuleType, ModuleType],
) -> None:
    version_check = import_module("version_check")
    extras = re.findall(r"--editable '\.\[(.*?)\]'", (ROOT / "Makefile").read_text("utf-8"))
    assert any(set(each.split(",")) == set(version_check.NEWEST_EXTRAS) for each in extras)
    tested = version_check.tested_versions()
    same, older, later = f"scipy=={tested['scipy']}", "numpy==2.0", "ast-serialize==999"
    assert version_check.newer([same, older, later, "unknown==1"]) == [later]


def test_all_extras_are_tried_where_one_does_not_install(
    scripts: tuple[ModuleType, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, package_check = scripts
    release_check = import_module("release_check")

    def install(python: list[str], *what: str, **_: object) -> None:
        if "[ray]" in what[0]:
            raise package_check.Failed("no wheel")

    monkeypatch.setattr(package_check, "install", install)
    monkeypatch.setattr(package_check, "build", lambda made: (made / "medstress.whl", made))
    monkeypatch.setattr(package_check, "run", lambda *_, **__: "")
    monkeypatch.setattr(package_check, "environment", lambda: nullcontext(["python"]))
    monkeypatch.setattr(sys, "argv", ["release_check.py", "--only", "installed"])
    assert release_check.main() == 1
    told = capsys.readouterr().out
    assert told.count("one question asked and verified") == len(package_check.INSTALLED) - 1
    assert "  ray: FAILED: no wheel\n" in told
    assert told.endswith("FAILED: these failed: ray\n")
