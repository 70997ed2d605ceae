"""`medstress figures`, and a recipe's name where a file is expected."""

import tomllib


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


def test_an_experiment_is_written_by_a_dry_run_but_never_over_a_file(medstress, bench, tmp_path):
    path = tmp_path / "mine.toml"
    command = ("run", bench.write(), "--dry-run", "--to", path)
    told = medstress(*command)
    assert told.code == 0, told.err
    assert told.out.endswith(f"experiment: {path}   next: medstress run {path}\n")
    assert tomllib.loads(path.read_text("utf-8"))["experiment"]
    path.write_text("edited", encoding="utf-8")
    told = medstress(*command)
    assert told.code == 2
    assert told.err.startswith(f"medstress: --to {path}: it exists already")
    assert path.read_text("utf-8") == "edited"
