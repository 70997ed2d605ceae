"""`medstress figures`, `medstress recipe`, and a recipe's name where a file is expected."""

from __future__ import annotations

import pytest

from medstress import recipes


@pytest.mark.release
def test_figures_of_one_s_own_are_written_with_captions_beside_them(medstress, finished, tmp_path):
    out = tmp_path / "new" / "figures"
    told = medstress("figures", finished.out, "--out", out, "--format", "svg, png,svg")
    assert (told.code, told.err) == (0, "")
    names = {path.name for path in out.iterdir()}
    assert names == {
        *("index.md", "figures.tex", "results.tex", "results.csv", "results.md"),
        *(f"accuracy.{end}" for end in ("svg", "png", "csv", "txt", "tex")),
        *(f"budget.{end}" for end in ("svg", "png", "csv", "txt", "tex")),
    }
    lines = told.out.splitlines()
    assert lines[-1] == f"figures: {out / 'index.md'}"
    # Every file that is named is there, and no other.
    named = {name for line in lines[:-1] for name in line.rpartition(": ")[2].split(", ")}
    assert named | {"index.md", "figures.tex"} == names


@pytest.mark.release
def test_the_layout_of_a_paper_says_what_the_run_lacks(medstress, finished, tmp_path):
    told = medstress(
        "figures", finished.out, "--out", tmp_path, "--format", "svg", "--paper", "xian2025"
    )
    assert told.code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"table1.tex", "table1.csv", "figure4.svg", "figure4.txt", "index.md"} <= names
    assert "Figure 4, scaling with the budget: figure4.csv, figure4.svg, figure4.txt" in told.out
    assert all(line.startswith("not made: ") for line in told.err.splitlines())
    assert "not made: Figure 2, the two regimes: needs PDWS with 3 values of n" in told.err
    for paper, needs in (
        ("medfuzz2024", "needs the attack medfuzz"),
        ("araujo2020", "needs tagged"),
    ):
        told = medstress("figures", finished.out, "--out", tmp_path / paper, "--paper", paper)
        assert (told.code, needs in told.err) == (0, True)
        assert {path.name for path in (tmp_path / paper).iterdir()} == {"index.md", "figures.tex"}


def test_an_unknown_paper_is_named_with_its_likeliest_neighbour(
    medstress, finished, tmp_path, said
):
    told = medstress("figures", finished.out, "--out", tmp_path / "f", "--paper", "xian2052")
    assert (told.code, told.out) == (2, "")
    said(told.err, "'xian2052'", "'xian2025'")
    assert not (tmp_path / "f").exists()


def test_figures_need_a_known_format_and_a_folder_to_write_into(
    medstress, finished, tmp_path, said
):
    told = medstress("figures", finished.out, "--out", tmp_path / "f", "--format", "pgn")
    assert (told.code, told.out) == (2, "")
    said(told.err, "'pgn'", "'png'")
    told = medstress("figures", finished.out, "--out", tmp_path / "f", "--format", ",")
    assert (told.code, told.out) == (2, "")
    assert not (tmp_path / "f").exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    told = medstress("figures", finished.out, "--out", tmp_path / "file", "--format", "svg")
    assert told.code == 2
    assert told.err.startswith(f"medstress: cannot write into {tmp_path / 'file'}: ")
    assert told.err.endswith("give another --out\n")


def test_labels_of_other_scripts_are_written_and_latex_stays_ascii(bench, medstress, tmp_path):
    bench.tables["attack"] = [{**bench.attack("random", budget=3), "label": "随机 ж"}]
    assert bench.run() == 0
    out = tmp_path / "figures"
    told = medstress("figures", bench.out, "--out", out, "--format", "svg")
    assert told.code == 0
    assert "随机" in (out / "results.csv").read_text("utf-8")
    for page in out.glob("*.tex"):
        assert page.read_bytes().isascii(), page.name
    assert "?? ?" in (out / "results.tex").read_text("ascii")


@pytest.mark.release
def test_figures_replace_their_own_files_and_no_others(
    medstress, finished, tmp_path, monkeypatch, said
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for empty in ("", " "):
        told = medstress("figures", finished.out, "--out", empty, "--format", "svg")
        assert (told.code, told.out) == (2, "")
        said(told.err, "--out")
    assert not list(here.iterdir())
    (here / "results.csv").write_text("mine", encoding="utf-8")
    (here / "index.md").write_text("# My notes\n", encoding="utf-8")
    told = medstress("figures", finished.out, "--out", here, "--format", "svg")
    assert (told.code, told.out) == (2, "")
    said(told.err.replace(str(here), "FOLDER"), "results.csv")
    assert {path.name for path in here.iterdir()} == {"results.csv", "index.md"}
    assert (here / "results.csv").read_text(encoding="utf-8") == "mine"
    for _ in range(2):
        told = medstress("figures", finished.out, "--out", here / "new", "--format", "svg")
        assert (told.code, told.err) == (0, "")


def test_a_recipe_is_printed_or_written_but_never_over_a_file(medstress, tmp_path):
    told = medstress("recipe", "xian2025-table1")
    assert (told.code, told.err) == (0, "")
    assert told.out == recipes.text_of("xian2025-table1")
    path = tmp_path / "mine.toml"
    told = medstress("recipe", "xian2025-table1", "--to", path)
    assert (told.code, told.out) == (0, f"recipe: {path}   next: medstress run {path}\n")
    path.write_text("edited", encoding="utf-8")
    told = medstress("recipe", "xian2025-table1", "--to", path)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"medstress: --to {path}: it exists already")
    assert path.read_text("utf-8") == "edited"


@pytest.mark.parametrize("arguments", [["recipe", "xian2025-tabel1"], ["run", "xian2025-tabel1"]])
def test_a_misspelt_recipe_is_named_with_its_likeliest_neighbour(
    medstress, arguments, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    told = medstress(*arguments)
    assert (told.code, told.out) == (2, "")
    assert "did you mean 'xian2025-table1'?" in told.err
    assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_is_switched_off_may_name_what_is_not_built(medstress, bench):
    table = {"name": "of_tomorrow", "label": "later", "use": False}
    bench.tables["attack"].append(table)
    told = medstress("run", bench.write(), "--out", bench.out, "--dry-run")
    assert (told.code, told.err) == (0, "")
    table["use"] = True
    told = medstress("run", bench.write(), "--out", bench.out, "--dry-run")
    assert told.code == 2
    assert "unknown attack 'of_tomorrow'" in told.err
