"""The texts of shipped prompts, to show or to write to a folder for editing."""

from __future__ import annotations

from pathlib import Path

from medstress.core.errors import UsageError, did_you_mean
from medstress.files.writing import Access, write_text
from medstress.tasks.prompt_sets import shipped_sets, texts_of
from medstress.tasks.templates import SUFFIX, load_template, shipped_prompts


def prompt_texts(name: str) -> dict[str, str]:
    """Return file -> text of a shipped prompt or a set of prompts.

    Raises:
        UsageError: no prompt has this name.
    """
    if name in shipped_sets():
        return texts_of(name)
    known = [*shipped_prompts(), *shipped_sets()]
    if name not in known:
        raise UsageError(
            f"list prompts {name}: no prompt has this name{did_you_mean(name, known)}"
        ).with_command("medstress list prompts")
    return {f"{name}{SUFFIX}": load_template(name).source}


def write_prompts(texts: dict[str, str], folder: Path) -> None:
    """Write files to a new folder.

    Raises:
        UsageError: the folder exists already or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            write_text(folder / file, text, Access.ORDINARY)
    except FileExistsError:
        raise UsageError(
            f"--to {folder}: it exists already; choose another name, or remove it"
        ) from None
    except OSError as error:
        raise UsageError(f"--to {folder}: cannot write it: {error.strerror}") from error
