"""What the package needs, extras and their own needs included, is under permissive licences."""

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

OF_CUDA = {"cuda-toolkit"}
"""Named by torch's builds for NVIDIA's GPUs; its licence is NVIDIA's, and no metadata say so."""
COPYLEFT = re.compile(r"GPL|General Public", re.IGNORECASE)


def needed(name: str, extras: frozenset[str], seen: dict[str, set[str]]) -> None:
    """Collect the installed distributions that one needs, by name, with their extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    new = {"", *extras} - seen.get(key, set())
    if not new:
        return
    try:
        requires = distribution(name).requires or ()
    except PackageNotFoundError:  # of another system, or an extra that is not installed here
        return
    seen.setdefault(key, set()).update(new)
    for text in requires:
        one = Requirement(text)
        if any(one.marker is None or one.marker.evaluate({"extra": extra}) for extra in new):
            needed(one.name, frozenset(one.extras), seen)


def licence(name: str) -> str:
    about = distribution(name).metadata
    classifiers = (c for c in about.get_all("Classifier") or () if c.startswith("License"))
    named = (about.get("License-Expression"), (about.get("License") or "")[:100], *classifiers)
    return "; ".join(filter(None, named))


def test_nothing_that_is_installed_for_a_user_is_under_the_gpl() -> None:
    extras = frozenset(distribution("medstress").metadata.get_all("Provides-Extra") or ())
    seen: dict[str, set[str]] = {}
    needed("medstress", extras, seen)
    assert {"numpy", "torch", "openai"} <= seen.keys()
    assert not {"unidecode", "krippendorff"} & seen.keys()
    assert {name: text for name in seen if COPYLEFT.search(text := licence(name))} == {}
    assert {name for name in seen if not licence(name)} <= OF_CUDA
