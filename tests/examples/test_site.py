"""The pages that the site is built from: every one in its menu, every link inside them."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MENU = (ROOT / "mkdocs.yml").read_text("utf-8")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "pages"
    load("site_pages").lay_out(out)
    return out


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text("utf-8"), flags=re.M | re.S)
    yield from (target for target in LINK.findall(text) if "://" not in target)


def test_the_menu_has_every_page_once(laid_out: Path) -> None:
    named = re.findall(r"^ +- [^#].*: (\S+\.md)$", MENU, re.MULTILINE)
    assert len(named) == len(set(named))
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert docs <= set(named)
    assert [name for name in named if not (laid_out / name).is_file()] == []


def test_every_link_of_the_laid_out_pages_stays_inside_and_leads_somewhere(laid_out: Path) -> None:
    pages = sorted(laid_out.rglob("*.md"))
    brought = [page for page in pages if page.is_relative_to(laid_out / "repository")]
    assert len(brought) > 5
    dead = [
        (page.relative_to(laid_out).as_posix(), target)
        for page in pages
        for target in links(page)
        if not (there := (page.parent / target).resolve()).is_file()
        or not there.is_relative_to(laid_out)
    ]
    assert dead == []


def test_a_notebook_is_a_page_with_its_code(laid_out: Path) -> None:
    page = (laid_out / "repository/notebooks/own_model.md").read_text("utf-8")
    assert page.startswith("# ")
    assert "```python\n" in page
    assert "](../../victims.md" in page


def test_bars_in_code_stand_without_their_backslash(laid_out: Path) -> None:
    assert "\\|" in (ROOT / "docs/data.md").read_text("utf-8")
    assert "tab or `|` |" in (laid_out / "data.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["README.md", "tutorial.md", "first-steps.md", "quickstart.md"])
def test_the_first_commands_fit_a_screen_of_1280_pixels(page: str) -> None:
    """86 columns; what is longer is cut and scrolls."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"^```\n(medstress .*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines
    assert [line for line in lines if len(line) > 86] == []


def test_pages_and_theme_load_nothing_from_elsewhere() -> None:
    """What is built is looked at by `make release-check`."""
    texts = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")]
    outside = r"!\[[^\]]*\]\(https?:|<(?:img|script|link|iframe)[^>]*https?:"
    assert [found for text in texts for found in re.findall(outside, text)] == []
    assert re.search(r"^  font: false$", MENU, re.MULTILINE)
    assert "repo_url" not in MENU
    assert "analytics" not in MENU


def test_what_would_be_loaded_from_elsewhere_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    check = load("site_check")
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">read</a> <script src="site.js"></script>', "utf-8"
    )
    assert check.loaded_from_elsewhere(tmp_path) == []
    (tmp_path / "b.html").write_text('<link rel=stylesheet href="//fonts.test/css">', "utf-8")
    (tmp_path / "c.html").write_text("<script defer src=https://cdn.test/a.js></script>", "utf-8")
    (tmp_path / "d.css").write_text("a{background:url('https://img.test/a.png')}", "utf-8")
    found = check.loaded_from_elsewhere(tmp_path)
    assert [each.partition(":")[0] for each in found] == ["b.html", "c.html", "d.css"]
    assert check.left_as_markdown(tmp_path) == []
    (tmp_path / "e.html").write_text("<article><p>So:\n- one</p><code>`</code></article>", "utf-8")
    (found,) = check.left_as_markdown(tmp_path)
    assert found.startswith("e.html: - in")


class Answering(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_link_that_leads_nowhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pages are followed before a release: tests ask nobody."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    check = load("site_check")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}"
        told = {status: check.dead(f"{here}/{status}") for status in (200, 403, 404, 410)}
        server.shutdown()
    assert told == {200: None, 403: None, 404: "status 404", 410: "status 410"}
    assert "refused" in check.dead(f"{here}/200")
    monkeypatch.setattr(check, "dead", lambda address: "gone" if "semver" in address else None)
    dead, n_answered, n_links = check.dead_links()
    assert dead
    assert all("semver" in each and each.endswith(": gone") for each in dead)
    assert n_answered == n_links - len(dead) > 5


@pytest.mark.parametrize(
    ("said", "told"), [("no route", "not followed: "), ("status 404", "FAILED: ")]
)
def test_links_are_not_followed_only_where_no_server_answers(
    said: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    release_check, site_check = load("release_check"), load("site_check")
    monkeypatch.setitem(sys.modules, "site_check", site_check)
    monkeypatch.setattr(site_check, "dead", lambda _: said)
    monkeypatch.setattr("sys.argv", ["release_check.py", "--only", "links"])
    assert release_check.main() == (told == "FAILED: ")
    assert told in capsys.readouterr().out
