"""Functions as victims: nobody is given the answers of another, nor of what it was before."""

import shutil

import pytest

from medstress.api.run import run
from medstress.core.errors import StoreError, UsageError

RIGHT = """
import re
def answer(prompts):
    return ["ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4] for prompt in prompts]
"""
WRONG = RIGHT.replace("% 4]", "% 4 - 1]")
HELPED = "import helper\ndef answer(prompts):\n    return helper.answer(prompts)\n"
LAZY = "def answer(prompts):\n    import helper\n    return helper.answer(prompts)\n"
ERRS = RIGHT.replace(
    "% 4] for prompt in prompts]",
    "% 4] if 'ulo' not in prompt or prompt.count('zumab') == 4 else 'none' for prompt in prompts]",
)
"""Right about the questions as they are, unreadable about an edited one."""


@pytest.fixture
def small(bench, workbench):
    """Five questions, of which four are attacked, and a cache."""
    bench.write_items(workbench.questions(5))
    bench.tables["experiment"].update(seeds=[0], cache="shared")
    bench.tables["attack"] = [bench.attack("random", budget=3, unreadable_is_success=True)]
    return bench


def victims(bench, *targets, **given):
    bench.tables["victim"] = [
        {"name": f"v{i}", "backend": "python", "target": target, **given}
        for i, target in enumerate(targets)
    ]


def source(bench, name, text):
    path = bench.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def accuracies(finished):
    return {row["victim"]: row["accuracy"]["value"] for row in finished.summary()["results"]}


def asr(finished):
    (row,) = finished.summary()["results"]
    return row["asr"]["value"]


def n_computed(finished):
    return finished.summary()["performance"]["calls"]


def test_a_version_goes_with_its_file(small, said):
    """Another file is refused; a copy, and one that is moved and mended, are the same."""
    source(small, "model.py", RIGHT)
    victims(small, "model.py:answer", version="1")
    run(small.write(), small.out)
    source(small, "sub/model.py", WRONG)
    victims(small, "sub/model.py:answer", version="1")
    with pytest.raises(UsageError) as caught:
        run(small.write(), small.root / "other")
    said(str(caught.value), "model 'v0'", "sub/model.py", "the cache", "version '1'")
    victims(small, "sub/model.py:answer", version="2")
    assert accuracies(run(small.write(), small.root / "other")) == {"v0": 0.0}
    source(small, "copy/model.py", RIGHT)
    victims(small, "copy/model.py:answer", version="1")
    assert n_computed(run(small.write(), small.root / "copied")) == 0
    (small.root / "copy" / "model.py").rename(small.root / "copy" / "gone.py")
    source(small, "moved/model.py", RIGHT + "# moved, then mended\n")
    victims(small, "moved/model.py:answer", version="1")
    assert n_computed(run(small.write(), small.root / "moved-run")) == 0


@pytest.mark.parametrize(
    ("given", "what"), [({"version": "1"}, "version '1'"), ({}, "the same source")]
)
def test_functions_that_cannot_be_told_apart_are_refused(small, given, what, said):
    source(small, "a/model.py", RIGHT)
    source(small, "b/model.py", WRONG if given else RIGHT)
    victims(small, "a/model.py:answer", "b/model.py:answer", **given)
    with pytest.raises(UsageError) as caught:
        run(small.write(), small.out)
    said(str(caught.value), "model 'v0' and model 'v1'", "'b/model.py:answer'", what)
    if not given:  # what differs in content is told apart without a version
        source(small, "b/model.py", WRONG)
        assert accuracies(run(small.write(), small.out)) == {"v0": 1.0, "v1": 0.0}


def test_two_modules_of_one_name_are_refused(small, said):
    for name in "ab":
        source(small, f"{name}/of_{name}.py", LAZY)
        source(small, f"{name}/helper.py", RIGHT)
    victims(small, "a/of_a.py:answer", "b/of_b.py:answer")
    with pytest.raises(UsageError) as caught:
        run(small.write(), small.out)
    said(str(caught.value), "model 'v0' and model 'v1'", "'helper'", "/b/helper.py")


def test_a_changed_helper_is_asked_everything_again(small):
    """The same cache, another helper.py, the target's own file as it was."""
    source(small, "mine.py", LAZY)
    source(small, "helper.py", RIGHT)
    victims(small, "mine.py:answer")
    before = run(small.write(), small.root / "before")
    assert asr(before) == 0
    source(small, "helper.py", ERRS)
    with pytest.raises(StoreError, match=r"changed \(the weights, settings or code of mine"):
        run(small.write(), small.root / "before")
    after = run(small.write(), small.root / "after")
    assert asr(after) == 1
    assert n_computed(after) > 4
    assert after.summary()["performance"]["calls_from_cache"] == 0
    source(small, "helper.py", RIGHT)
    again = run(small.write(), small.root / "again")
    assert (asr(again), n_computed(again)) == (0, 0)


def test_a_project_that_was_moved_keeps_its_cache_and_its_runs(small):
    source(small, "models/mine.py", HELPED)
    source(small, "models/helper.py", RIGHT)
    victims(small, "models/mine.py:answer")
    n_before = n_computed(run(small.write(), small.out))
    moved = small.root / "moved"
    moved.mkdir()
    for name in ("models", "shared", "run", "items.jsonl", "names.txt", "experiment.toml"):
        shutil.move(small.root / name, moved / name)
    resumed = run(moved / "experiment.toml", moved / "run")
    assert n_computed(resumed) == n_before > 0
    fresh = run(moved / "experiment.toml", moved / "other")
    assert n_computed(fresh) == 0
