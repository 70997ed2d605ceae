"""Modules of the user's own that a file imports: found without running it, and imported anew."""

import sys
import sysconfig
from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.core.functions import is_installed, load_function, load_module, local_imports


@pytest.fixture(autouse=True)
def as_before():
    """Neither path nor modules of one test are there in the next."""
    path, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - known:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str] | None = None, **more: str) -> None:
    """Source files by their paths without suffix."""
    for name, text in {**(files or {}), **more}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def found(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.syspath_prepend(folder)
    write(folder, target=text)
    return list(local_imports(folder / "target.py"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import one", ["one", "three", "two"]),
        ("def answer(prompts):\n    import two", ["one", "three", "two"]),
        ("from one import two", ["one", "three", "two"]),
        ("import pack.deep.low", ["pack", "pack.deep", "pack.deep.low", "pack.near"]),
        ("from pack import deep", ["pack", "pack.deep"]),
        ("from pack.deep import low as x", ["pack", "pack.deep", "pack.deep.low", "pack.near"]),
        ("from pack import *", ["pack", "pack.deep", "pack.near"]),
        ("import bare.part", ["bare.part"]),
        ("try:\n    import three\nexcept ImportError:\n    pass", ["three"]),
        ("import os, json, numpy, medstress, no_such_module", []),
        ("import broken", ["broken"]),
        ("import one.two.three", ["one", "three", "two"]),
    ],
)
def test_what_a_file_imports_is_followed_from_module_to_module(tmp_path, monkeypatch, text, names):
    files = {
        "one": "import two\nimport numpy as np",
        "two": "def later():\n    import three\n    import one",
        "three": "",
        "unused": "",
        "broken": "def (",
        "bare/part": "",
        "pack/__init__": "",
        "pack/near": "",
        "pack/deep/__init__": "",
        "pack/deep/low": "from ..near import x",
    }
    write(tmp_path, files)
    assert found(tmp_path, text, monkeypatch) == names


def test_installed_packages_and_python_itself_are_no_modules_of_the_users(tmp_path):
    import numpy

    assert is_installed(Path(numpy.__file__))
    assert is_installed(Path(sysconfig.get_path("stdlib")) / "json" / "__init__.py")
    assert is_installed(Path(__file__).parents[3] / "src") is False
    (tmp_path / "elsewhere" / "thing-1.dist-info").mkdir(parents=True)
    assert is_installed(tmp_path / "elsewhere" / "thing.py")
    assert is_installed(tmp_path / "elsewhere" / "thing" / "__init__.py")
    assert not is_installed(tmp_path / "mine" / "thing.py")


def test_a_module_beside_a_file_can_be_imported_and_no_longer_once_it_is_closed(tmp_path):
    write(
        tmp_path,
        target="import beside\ndef answer():\n    import later\n    return beside.x, later.x",
        beside="x = 1",
        later="x = 2",
    )
    before = list(sys.path)
    answer, loaded = load_function("target.py:answer", tmp_path, "python victim")
    assert answer() == (1, 2)
    assert list(loaded.imports) == ["beside", "later"]
    loaded.close()
    assert sys.path == before


@pytest.mark.parametrize("target", ["pack/deep/it.py:answer", "pack.deep.it:answer"])
def test_a_file_that_imports_by_dots_is_a_part_of_its_package(tmp_path, target):
    low = "from ..near import x\ndef answer():\n    from . import low\n    return x, low.y"
    files = {"pack/__init__": "", "pack/near": "x = 1", "pack/deep/__init__": ""}
    write(tmp_path, {**files, "pack/deep/it": low, "pack/deep/low": "y = 2"})
    answer, loaded = load_function(target, tmp_path, "python victim")
    assert answer() == (1, 2)
    names = ["pack", "pack.deep", "pack.deep.it", "pack.deep.low", "pack.near"]
    assert list(loaded.imports) == names


def test_a_file_that_imports_by_dots_beyond_any_package_is_refused(tmp_path):
    write(tmp_path, target="from ..................................... import x")
    with pytest.raises(UsageError, match=r"^python victim: "):
        load_module("target.py:answer", tmp_path, "python victim")


def test_modules_that_changed_are_imported_anew_with_all_that_took_from_them(tmp_path):
    # Same size, same second: Python's own compiled copies would be taken for the new text.
    write(
        tmp_path,
        target="import one\ndef answer():\n    return one.x, one.n",
        one="from two import x, n",
        two="x, n = 1, []",
    )
    answer, first = load_function("target.py:answer", tmp_path, "python victim")
    again, second = load_function("target.py:answer", tmp_path, "python victim")
    assert again()[1] is answer()[1], "what did not change is imported once"
    first.close()
    second.close()
    write(tmp_path, two="x, n = 2, []")
    assert load_function("target.py:answer", tmp_path, "python victim")[0]()[0] == 2
    write(tmp_path, target="import one\ndef answer():\n    return 'x', 'y'")
    assert load_function("target.py:answer", tmp_path, "python victim")[0]() == ("x", "y")


def test_modules_of_one_name_in_two_folders_are_not_taken_for_each_other(tmp_path):
    text = "import beside\ndef answer():\n    return beside.x"
    for name, x in (("a", 1), ("b", 2), ("c", None)):
        write(tmp_path / name, {"target": text, **({"beside": f"x = {x}"} if x else {})})
    for name, x in (("a", 1), ("b", 2), ("a", 1)):
        answer, loaded = load_function("target.py:answer", tmp_path / name, "python victim")
        assert answer() == x
        loaded.close()
    with pytest.raises(UsageError, match="No module named 'beside'"):
        load_module("target.py:answer", tmp_path / "c", "python victim")


def test_a_folder_that_the_file_itself_adds_is_searched(tmp_path):
    adds = "import sys\nsys.path.append(__file__[:-9] + 'lib')\n"
    text = adds + "import added_folder\ndef answer():\n    return added_folder.x"
    write(tmp_path, {"target": text, "lib/added_folder": "x = 4"})
    answer, loaded = load_function("target.py:answer", tmp_path, "python victim")
    assert (answer(), list(loaded.imports)) == (4, ["added_folder"])


@pytest.mark.parametrize("target", [":x", "a..b:x", "a.*:x"])
def test_what_is_no_module_name_is_refused_in_one_sentence(tmp_path, target):
    before = list(sys.path)
    with pytest.raises(UsageError, match=r"^python victim: "):
        load_module(target, tmp_path, "python victim")
    assert sys.path == before
