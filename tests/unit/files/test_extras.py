"""What is said where packages of an extra are missing, too old or damaged."""

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from medstress.core.errors import UsageError
from medstress.files import damaged, extras
from medstress.files.extras import (
    base_fault,
    importing,
    lacking_of,
    requirements,
)

DECLARED = [
    "numpy>=1.26",
    "noprobase>=1; sys_platform == 'nowhere'",
    'torch>=2.4; extra == "transformers"',
    'tok_enizers>=1; extra == "transformers"',
    'peft>=0.21; extra == "adapters"',
    'medstress[transformers]; extra == "adapters"',
    'solver>=0.11; sys_platform == "nowhere" and extra == "solver"',
]


@pytest.fixture
def installed(monkeypatch):
    """Plays what is installed, name to version."""
    found = {"numpy": "2.0", "torch": "2.5", "tok_enizers": "1.0", "peft": "0.21"}

    def version(name: str) -> str:
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(extras, "version", version)
    monkeypatch.setattr(extras, "requires", lambda _: DECLARED)
    monkeypatch.setattr(damaged, "find_spec", lambda name: found.get(name))
    return found


def told(error: BaseException, extra: str = "transformers") -> str:
    with pytest.raises(UsageError) as caught, importing("the part", extra):
        raise error
    return str(caught.value)


def test_an_extra_brings_what_is_its_own_here_and_that_of_extras_that_it_names(installed):
    assert list(requirements()) == ["numpy"]
    assert list(requirements("adapters")) == ["peft", "torch", "tok_enizers"]
    assert requirements("solver") == {}
    del installed["torch"]
    installed["peft"] = "0.20.3"
    assert lacking_of("adapters") == ["peft is 0.20.3, medstress needs >=0.21", "torch is missing"]


def test_nothing_installed_is_a_missing_extra(installed):
    installed.clear()
    assert told(ModuleNotFoundError("No module named 'torch'", name="torch")) == (
        "the part is not installed; install it with: pip install 'medstress[transformers]'"
    )


@pytest.mark.parametrize(
    ("lacks", "error", "expected"),
    [
        ("tok_enizers", ImportError("tok_enizers is needed"), "tok_enizers is missing"),
        (None, ModuleNotFoundError("No module", name="deeper.part"), "deeper is missing"),
        (
            "torch 1.13",
            ImportError("cannot import name 'x'"),
            "torch is 1.13, medstress needs >=2.4",
        ),
    ],
)
def test_a_part_is_named_with_the_command_that_completes_the_extra(
    lacks, error, expected, installed
):
    name, _, number = (lacks or "").partition(" ")
    installed.pop(name, None)
    installed |= {name: number} if number else {}
    assert told(error) == (
        f"the part: the extra `transformers` is installed only in part ({expected}); complete it "
        "with: pip install 'medstress[transformers]'"
    )


def test_a_damaged_package_is_installed_anew(installed, monkeypatch, tmp_path):
    (tmp_path / "damaged_one").mkdir()
    (tmp_path / "damaged_one" / "__init__.py").write_text(
        "raise OSError('libgomp.so.1: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(extras, "packages_distributions", lambda: {"damaged_one": ["damaged-1"]})
    with pytest.raises(UsageError) as caught, importing("the part", "transformers"):
        import damaged_one  # type: ignore[import-not-found]  # noqa: F401
    assert str(caught.value).endswith(
        "(libgomp.so.1: cannot open shared object file); complete it with: "
        "pip install --force-reinstall damaged-1"
    )
    sys.modules.pop("damaged_one", None)


def test_medstress_without_a_package_of_its_own_is_no_bug(installed):
    absent = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    assert base_fault(absent) is None  # all is there: something else is wrong
    del installed["numpy"]
    assert base_fault(ValueError("numpy")) is None
    assert str(base_fault(absent)) == (
        "medstress is installed only in part (numpy is missing); complete it with: "
        "pip install medstress"
    )


def test_a_folder_of_sources_needs_no_metadata(monkeypatch):
    def absent(_: str) -> list[str]:
        raise PackageNotFoundError

    monkeypatch.setattr(extras, "requires", absent)
    monkeypatch.setattr(damaged, "find_spec", lambda _: None)
    monkeypatch.setattr("importlib.metadata.version", absent)
    assert (requirements("transformers"), lacking_of("transformers")) == ({}, [])
    # pip would ask an index for a package of that name.
    assert told(ModuleNotFoundError(name="torch")).endswith(
        "install it with: pip install 'PATH_OF_WHEEL_OR_CHECKOUT[transformers]'"
    )
