"""Files come to be beside their place: whole or not at all, through no link, with a chosen mode."""

import os
import resource
import signal
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from medstress.core.writing import (
    PlaceTaken,
    atomic_stream,
    cache_dir,
    create_in_place,
    make_folder,
    make_private,
    write_bytes,
    write_text,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[0o000, 0o077], ids=oct)
def umask(request):
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


@contextmanager
def disk_of(n_bytes: int):
    """No file may grow beyond so many bytes: what a full disk looks like to a process."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, told)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    with atomic_stream(page) as stream:
        stream.write(b"new")
        assert page.read_text() == "old"
    assert page.read_text() == "new"
    assert names(tmp_path) == ["report.html"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, error):
    page = tmp_path / "report.html"
    page.write_text("old")

    def write_half() -> None:
        with atomic_stream(page) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert page.read_text() == "old"
    assert names(tmp_path) == ["report.html"]


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    with disk_of(10_000), pytest.raises(OSError, match="too large"):
        write_bytes(page, b"x" * 20_000)
    assert names(tmp_path) == ["report.html"]
    assert page.read_text() == "old"


def test_files_are_their_owners_whatever_the_umask(tmp_path, umask):
    write_text(tmp_path / "sheet.csv", "text")
    write_text(tmp_path / "recipe.toml", "text", ordinary=True)
    assert mode(tmp_path / "sheet.csv") == 0o600
    assert mode(tmp_path / "recipe.toml") == 0o666 & ~umask


def test_beside_a_run_whoever_may_read_the_run_may_read_the_file(tmp_path):
    (tmp_path / "run.sqlite").touch()
    (tmp_path / "run.sqlite").chmod(0o640)
    write_text(tmp_path / "report.html", "text")
    assert mode(tmp_path / "report.html") == 0o640


@pytest.mark.parametrize("write", [write_text, lambda path, _: create_in_place(path)])
@pytest.mark.parametrize("is_dangling", [True, False])
def test_no_link_is_written_through(tmp_path, write, is_dangling):
    outside = tmp_path / "outside"
    if not is_dangling:
        outside.write_text("mine")
    link = tmp_path / "report.html"
    link.symlink_to(outside)
    with pytest.raises(PlaceTaken, match="it is a link"):
        write(link, "text")
    assert link.is_symlink()
    assert outside.exists() is not is_dangling
    assert is_dangling or outside.read_text() == "mine"


def test_a_linked_folder_above_is_normal_and_a_linked_folder_itself_is_refused(tmp_path):
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "large-disk")
    make_folder(tmp_path / "runs" / "first")
    write_text(tmp_path / "runs" / "report.html", "text")
    assert (tmp_path / "large-disk" / "report.html").read_text() == "text"
    with pytest.raises(PlaceTaken, match="it is a link"):
        make_folder(tmp_path / "runs")


def test_pipes_devices_and_folders_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", Path(os.devnull)):
        with pytest.raises(PlaceTaken):
            write_text(path, "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_folder_that_a_library_filled_is_made_private_and_its_links_stay(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "model"
    outside.write_text("mine")
    outside.chmod(0o644)
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling" / "config.json").touch(0o644)
    (folder / "link").symlink_to(outside)
    make_private(folder)
    assert [mode(folder), mode(folder / "1_Pooling")] == [0o700, 0o700]
    assert mode(folder / "1_Pooling" / "config.json") == 0o600
    assert mode(outside) == 0o644


def test_the_users_cache_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("MEDSTRESS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    old = tmp_path / "cache" / "medstress" / "answers"
    old.mkdir(parents=True)
    old.chmod(0o755)
    assert cache_dir("answers") == old
    assert [mode(old), mode(cache_dir("vectors")), mode(old.parent)] == [0o700] * 3


def test_a_cache_folder_that_was_shared_on_purpose_stays_so(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "shared"))
    (tmp_path / "shared" / "models").mkdir(parents=True)
    (tmp_path / "shared" / "models").chmod(0o775)
    assert [mode(cache_dir("models")), mode(cache_dir("answers"))] == [0o775, 0o700]
