"""What a new plug-in may be called, and that nothing is overwritten."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.scaffolding import commands
from medstress.scaffolding.commands import commands_for
from medstress.scaffolding.names import KINDS, names_for
from medstress.scaffolding.package import write_package


def test_all_names_come_from_one() -> None:
    names = names_for("attack", "look-alike")
    assert (names.name, names.of_class, names.package, names.group) == (
        "look_alike",
        "LookAlike",
        "medstress-look-alike",
        "medstress.attacks",
    )


@pytest.mark.parametrize(
    ("kind", "given", "hint"),
    [
        ("atack", "mine", "'attack'"),
        ("attack", "LookAlike", "medstress new attack look_alike)"),
        ("attack", "look alike", "medstress new attack look_alike)"),
        ("attack", "2fast", "medstress new attack look_alike)"),
        ("attack", "_mine", "medstress new attack mine)"),
        ("attack", "../mine", "medstress new attack mine)"),
        ("attack", "mïne", "'mïne'"),
        ("attack", "", "''"),
        ("attack", "a" * 41, "40"),
        ("attack", "medfuzz", "'medfuzz'"),
        ("backend", "mock", "'mock'"),
        ("dataset", "medqa", "'medqa'"),
        ("dataset", "json", "medstress new dataset my_json)"),
        ("attack", "lambda", "'lambda'"),
        ("attack", "setup", "medstress new attack my_setup)"),
        ("backend", "conftest", "medstress new backend my_conftest)"),
        ("dataset", "test_me", "medstress new dataset my_test_me)"),
    ],
)
def test_other_names_are_refused_with_a_command_to_type(
    kind: str, given: str, hint: str, said: Callable[..., None]
) -> None:
    with pytest.raises(UsageError) as refused:
        names_for(kind, given)
    said(str(refused.value), hint, "(type: medstress new ")


@pytest.mark.parametrize("name", ["medstress", "numpy"])
def test_no_installed_module_is_hidden(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        names_for("backend", name)
    assert str(Path(name) / "__init__.py") in str(refused.value)
    assert f"(type: medstress new backend my_{name})" in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_has_an_entry_point_and_needs_nothing_from_an_index(
    kind: str, tmp_path: Path
) -> None:
    written = write_package(names_for(kind, "my_own"), tmp_path / "new" / "er")
    assert {"pyproject.toml", "README.md", "my_own.py", "test_my_own.py"} < set(written)
    assert {path.name for path in (tmp_path / "new" / "er").iterdir()} == set(written)
    project = tomllib.loads((tmp_path / "new" / "er" / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dependencies"] == []
    (entry,) = project["project"]["entry-points"][f"medstress.{kind}s"].items()
    assert entry[0] == "my_own"
    assert entry[1].startswith("my_own:")
    for name in written:
        assert "$" not in (tmp_path / "new" / "er" / name).read_text("utf-8")


def test_nothing_is_overwritten(tmp_path: Path, said: Callable[..., None]) -> None:
    names = names_for("attack", "my_own")
    (tmp_path / "notes.txt").write_text("kept", encoding="utf-8")
    with pytest.raises(UsageError) as full:
        write_package(names, tmp_path)
    said(str(full.value), "medstress new attack my_own --to DIR")
    with pytest.raises(UsageError) as no_folder:
        write_package(names, tmp_path / "notes.txt")
    said(str(no_folder.value), "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text("utf-8") == "kept"


def test_nothing_is_written_through_a_link(tmp_path: Path, said: Callable[..., None]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError) as refused:
        write_package(names_for("attack", "my_own"), tmp_path / "link")
    said(str(refused.value), "link")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_commands_name_the_python_of_medstress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands.sys, "executable", "/some where/bin/python3")
    monkeypatch.setattr(commands.shutil, "which", lambda _: "/usr/bin/python")
    install, test = commands_for(Path("medstress-mine"))
    assert install.startswith("'/some where/bin/python3' -m pip install --no-build-isolation ")
    assert test == "'/some where/bin/python3' -m pytest medstress-mine"
    monkeypatch.setattr(commands.shutil, "which", lambda _: "/some where/bin/python")
    assert commands_for(Path("x"))[1] == "python -m pytest x"


def test_where_setuptools_is_old_pip_fetches_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "version", lambda _: "65.5.0")
    install, _ = commands_for(Path("medstress-mine"))
    assert install.endswith(" -m pip install --editable 'medstress-mine[test]'")
