"""How a shard ends is said in full: what failed, which limit stopped it, what is not decided."""

from __future__ import annotations

from medstress.api.run import Run, merge
from medstress.audit.verify import verify_folder


def test_a_merged_run_is_complete_though_its_criteria_were_decided_early(bench, workbench, capsys):
    bench.write_items(workbench.questions(100))
    bench.tables["victim"] = bench.tables["victim"][:1]
    bench.tables["attack"] = [bench.attack("random", budget=1)]
    bench.tables["experiment"] |= {"stop_when": "decided"}
    bench.tables["require"] = [{"metric": "asr", "max_high": 0.9}]
    assert bench.run() in (0, 3)
    at_once = Run(bench.out).summary()
    folders = [bench.root / str(number) for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    merged = merge(folders, bench.root / "merged")
    capsys.readouterr()
    bench.run(out=merged.folder)
    told, found = capsys.readouterr().out, merged.summary()
    assert at_once["experiment"]["decided"]["saved_trials"] > 0
    assert found["experiment"]["complete"] is True
    assert found["root"] is not None
    assert "Stopped early" not in told
    for name in ("met", "bounds"):
        assert found["requirements"][0][name] == at_once["requirements"][0][name]
    assert verify_folder(merged.folder).holds
