"""What is said where packages of an extra are missing, too old or damaged."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

import medstress as ms
from medstress.core import extras
from medstress.core.errors import UsageError
from medstress.core.extras import base_fault, importing, lacking_of, not_there, requirements

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
    versions = {"numpy": "2.0", "torch": "2.5", "tok_enizers": "1.0", "peft": "0.21"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(extras, "version", version)
    monkeypatch.setattr(extras, "requires", lambda _: DECLARED)
    return versions


def sentence(error: BaseException) -> str:
    with pytest.raises(UsageError) as caught, importing("the part", "transformers"):
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
    assert sentence(ModuleNotFoundError("No module named 'torch'", name="torch")) == (
        "the part is not installed; install it with: pip install 'medstress[transformers]'"
    )
    assert "is not installed" in str(not_there("the part", "transformers", "torch"))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({"tok_enizers": None}, "tok_enizers is missing"), ({"torch": "1.13"}, "torch is 1.13, ")],
)
def test_a_part_is_named_with_the_command_that_completes_the_extra(installed, changed, expected):
    for name, number in changed.items():
        installed.pop(name)
        installed |= {name: number} if number else {}
    told = sentence(ImportError("cannot import name 'x'"))
    assert f"the extra `transformers` is installed only in part ({expected}" in told
    assert told.endswith("complete it with: pip install 'medstress[transformers]'")


def test_a_package_that_cannot_be_imported_is_named(installed):
    told = sentence(OSError("libgomp.so.1: no such file"))
    assert "installed only in part (libgomp.so.1: no such file)" in told


def test_medstress_without_a_package_of_its_own_is_no_bug(installed):
    absent = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    assert base_fault(absent) is None  # all is there: something else is wrong
    del installed["numpy"]
    assert base_fault(ValueError("numpy")) is None
    assert str(base_fault(absent)) == (
        "medstress is installed only in part (numpy is missing); complete it with: "
        "pip install medstress"
    )


def test_python_without_a_package_of_the_base_is_one_sentence(monkeypatch):
    def fails(_: str) -> None:
        raise ModuleNotFoundError("No module named 'nowhere_numpy'", name="nowhere_numpy")

    monkeypatch.setattr(ms, "import_module", fails)
    with pytest.raises(UsageError, match=r"installed only in part .*pip install"):
        _ = ms.Run


def test_the_doctor_comes_without_the_packages_of_the_base():
    absent = "torch numpy scipy rapidfuzz jinja2 polars rich platformdirs"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent.split()}))\n"
        "from medstress.cli.app import medstress_cli; sys.exit(medstress_cli(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "figures: " in done.stdout
