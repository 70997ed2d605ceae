"""Packages whose metadata are there, but whose files are gone or cut short."""

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import medstress as ms
from medstress.core.errors import UsageError
from medstress.files.damaged import culprit, is_damaged, reinstall_command
from medstress.files.extras import base_fault, importing, not_there

CODE = "def load():\n    return 1\n"
MENDED = "files of thing-pkg are missing or damaged); complete it with: pip install"
COMMAND = "pip install --force-reinstall thing-pkg==1.5"
Damage = Callable[[Path], object]


def _cut_short(package: Path) -> None:
    (package / "__init__.py").write_text("def x(:", "utf-8")


def _emptied(package: Path) -> None:
    (package / "__init__.py").write_text("", "utf-8")


def _gone(package: Path) -> None:
    (package / "__init__.py").unlink()
    package.rmdir()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package `thing_pkg`, and what pip recorded of it."""
    place = tmp_path / "thing_pkg"
    place.mkdir()
    (place / "__init__.py").write_text(CODE, "utf-8")
    info = tmp_path / "thing_pkg-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: thing-pkg\nVersion: 1.5\n", "utf-8"
    )
    (info / "RECORD").write_text(
        f"thing_pkg/__init__.py,sha256=x,{len(CODE)}\n"
        "thing_pkg/tests/test_it.py,sha256=x,7\n../../bin/thing.py,,9\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield place
    sys.modules.pop("thing_pkg", None)


@pytest.mark.parametrize("damage", [_gone, _cut_short, _emptied])
def test_a_damaged_package_of_an_extra_is_installed_anew(package, damage):
    assert not is_damaged("thing-pkg")  # tests may be left out, scripts are elsewhere
    damage(package)
    assert is_damaged("thing-pkg")
    with pytest.raises(UsageError) as caught, importing("the part", "figures"):
        import_module("thing_pkg").load()
    assert str(caught.value) == (
        "the part: the extra `figures` is installed only in part "
        f"({MENDED.rpartition(': ')[0]}: {COMMAND}"
    )
    assert caught.value.command == COMMAND


@pytest.mark.parametrize("damage", [_gone, _cut_short, _emptied])
def test_a_damaged_package_of_the_base_is_no_bug(package, damage):
    damage(package)
    try:
        import_module("thing_pkg").load()
    except Exception as error:  # noqa: BLE001 - each damage raises another
        told = str(base_fault(error))
    assert told == f"medstress is installed only in part ({MENDED.rpartition(': ')[0]}: {COMMAND}"


def test_an_error_in_a_package_that_is_whole_is_not_its_damage(package):
    with pytest.raises(AttributeError) as caught:
        _ = import_module("thing_pkg").lode
    assert culprit(caught.value) is None
    assert base_fault(caught.value) is None


def test_a_module_that_is_not_found_is_gone_or_not_installed(package):
    assert "is not installed" in str(not_there("the part", "figures", "thing_pkg"))
    _gone(package)
    assert str(not_there("the part", "figures", "thing_pkg")).endswith(COMMAND)


def test_a_build_of_ones_own_is_named_without_its_version(package):
    found = package.parent / "thing_pkg-1.5.dist-info" / "METADATA"
    found.write_text(found.read_text("utf-8").replace("1.5", "1.5+cpu"), "utf-8")
    assert reinstall_command("thing-pkg") == "pip install --force-reinstall thing-pkg"


def test_python_without_a_package_of_the_base_is_one_sentence(monkeypatch):
    def fails(_: str) -> None:
        raise ModuleNotFoundError("No module named 'nowhere_numpy'", name="nowhere_numpy")

    monkeypatch.setattr(ms, "import_module", fails)
    with pytest.raises(UsageError, match=r"installed only in part .*pip install"):
        _ = ms.Run


def test_the_doctor_comes_without_the_packages_of_the_base():
    absent = "torch numpy scipy rapidfuzz jinja2 pydantic rich platformdirs"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent.split()}))\n"
        "from medstress.cli.app import medstress_cli; sys.exit(medstress_cli(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "figures: " in done.stdout
