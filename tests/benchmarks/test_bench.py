"""What the benchmarks make of their numbers."""

from __future__ import annotations

import argparse
import doctest
import importlib.util
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from medstress.api.run import run
from medstress.core.calls import Score, Scored

Script = Callable[[str], ModuleType]

EQUAL = {
    "dtype": "float32",
    "answer_by": "letter",
    "prompts": 2000,
    "different_letters": 0,
    "largest_difference": 2e-5,
    "smallest_margin": 0.01,
}


def part(*lines: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "command": "python benchmarks/x.py",
        "date": "2026-01-02 03:04 UTC",
        "load_average": [0.5, 0.4, 0.3],
        "status": "done",
        "lines": list(lines),
        **more,
    }


def result(**parts: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "command": "make bench",
        "date": "2026-01-02 03:04 UTC",
        "load_average": [0.5, 0.4, 0.3],
        "machine": {"cpu": "Abacus 9", "cores": 2, "memory_gb": 15.6, "os": "Linux"},
        "versions": {"python": "3.11.7"},
        "parts": parts,
    }


def points(seconds: list[float], axis: str = "items") -> list[dict[str, Any]]:
    return [
        {
            "axis": axis,
            "x": 100 * 2**i,
            "runs": 3,
            "process_seconds": spent,
            "fastest_run_seconds": spent + 0.5 * i,
            "largest_resident_mb": 100.0 + i,
        }
        for i, spent in enumerate(seconds)
    ]


@pytest.mark.parametrize("name", ["growth", "equality", "progress", "bench", "bounds", "consumed"])
def test_examples_in_the_scripts_hold(script: Script, name: str) -> None:
    found = doctest.testmod(script(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_linear_time_has_the_ratio_one_whatever_a_run_costs_anyway(script: Script) -> None:
    growth = script("growth").growth
    assert growth(points([1.0, 2.0, 4.0]))["marginal_ratio"] == 1.0
    assert growth(points([2.0, 3.0, 5.0]))["marginal_ratio"] == 1.0
    assert growth(points([1.0, 4.0, 16.0]))["marginal_ratio"] == 2.0
    assert growth(points([11.0, 14.0, 26.0]))["marginal_ratio"] == 2.0
    assert growth(points([1.0, 2.0, 3.0]))["marginal_ratio"] == 0.5
    assert growth(points([1.0, 2.0, 2.0]))["marginal_ratio"] is None
    assert growth(points([2.0, 1.0, 2.0]))["marginal_ratio"] is None
    # 1.0, 2.5 and 5.0 seconds.
    assert growth(points([1.0, 2.0, 4.0]))["of_whole_runs"] == 0.833


def test_points_may_come_in_any_order(script: Script) -> None:
    growth = script("growth").growth
    forward = points([1.0, 2.1, 3.9])
    assert growth(forward[::-1]) == growth(forward)
    assert growth(forward)["memory_ratio"] == 1.02


def test_a_line_is_found_with_its_slope_and_how_well_it_fits(script: Script) -> None:
    fit = script("growth").fit
    assert fit([0, 1, 2], [1, 3, 5]) == {"slope": 2.0, "intercept": 1.0, "r_squared": 1.0}
    assert fit([1, 2, 3], [1, 0, 1])["r_squared"] == 0.0
    assert fit([1, 2], [3, 3])["r_squared"] == 1.0


def test_the_plot_has_a_panel_of_time_and_one_of_memory_for_each_axis(
    script: Script, tmp_path: Path
) -> None:
    file = tmp_path / "images" / "growth.svg"
    script("growth").draw(points([1, 2, 4]) + points([1, 2], axis="victims"), file)
    root = ElementTree.parse(file).getroot()
    names = [element.attrib.get("id", "") for element in root.iter()]
    assert {"axes_1", "axes_4"} <= set(names)
    assert "axes_5" not in names
    text = file.read_text("utf-8")
    assert "victims" in text
    assert "#0072b2" in text


def test_no_point_lies_outside_its_panel(script: Script) -> None:
    figure = script("growth").plotted(points([1, 2, 4]) + points([9, 90], axis="victims"))
    assert len(figure.axes) == 4
    for axes in figure.axes:
        low, high = axes.get_ylim()
        shown = [value for line in axes.lines for value in line.get_ydata()]
        assert low == 0.0
        assert max(shown) <= high


def test_a_score_that_is_no_number_differs_from_everything(script: Script) -> None:
    found = script("equality").compare([((-1.0, float("nan")), (-1.0, -2.0))])
    assert found.largest == float("inf")


def test_of_a_call_that_is_asked_again_the_first_answer_is_compared(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    equality, values = script("equality"), iter((-1.0, -2.0))

    def answer(backend: object, calls: list[Score]) -> list[Scored]:
        return [Scored(log_probs=(next(values),), n_tokens=(1,)) for _ in calls]

    monkeypatch.setattr(equality.TransformersBackend, "answer", answer)
    call, order = Score("?", (" A",)), list[Score]()
    with equality.overheard(order) as heard:
        for _ in range(2):
            equality.TransformersBackend.answer(object(), [call])
    assert (heard, order) == ({call: (-1.0,)}, [call, call])


def test_the_benchmark_on_a_gpu_runs_on_a_tiny_model(script: Script) -> None:
    gpu = script("gpu")
    given = argparse.Namespace(
        tiny=True, items=2, candidates=2, instruction=5, question=9, batch=4, peak_tflops=1.0
    )
    line, prompts = gpu.measure(given, "cpu", gpu.TINY)
    assert (line["queries"], line["sharing_path"]) == (6, "tree")
    assert sum(map(len, prompts["prompts"])) == line["tokens_of_all_prompts"]
    assert line["bare_per_sharing"] > 0
    assert 0 < line["tokens_forwarded"] <= line["tokens_of_all_prompts"]
    assert all(line[f"{way}_utilisation"] >= 0 for way in ("sharing", "plain", "transformers"))


def test_vllm_is_asked_the_same_prompts_in_its_own_interpreter(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm.py").write_text(
        "import json, pathlib\n__version__ = '9'\n"
        "class SamplingParams:\n    def __init__(self, **_): pass\n"
        "class LLM:\n"
        "    def __init__(self, model, **_):\n"
        "        read = (pathlib.Path(model) / 'config.json').read_text()\n"
        "        assert json.loads(read)['architectures'] == ['LlamaForCausalLM']\n"
        "    def generate(self, prompts, _):\n"
        "        print([one['prompt_token_ids'] for one in prompts])\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    gpu, prompts = script("gpu"), {"warm": [[1]], "prompts": [[2, 3], [4]]}
    found = gpu.by_vllm(sys.executable, gpu.TINY, prompts)
    assert (found["vllm_version"], found["vllm_seconds"] >= 0) == ("9", True)
    assert gpu.by_vllm(None, gpu.TINY, prompts)["vllm_could_not"].endswith("named (--vllm)")
    failed = gpu.by_vllm(sys.executable, gpu.TINY, {"warm": []})
    assert failed == {"vllm_could_not": "it ended with 1"}


def test_letters_and_log_probabilities_are_compared_prompt_by_prompt(script: Script) -> None:
    found = script("equality").compare([((-1.0, -2.0), (-1.0, -2.5)), ((-1.0, -2.0), (-3.0, -2.0))])
    assert (found.prompts, found.letters, found.largest, found.margin) == (2, 1, 2.0, 1.0)


def test_needed_tokens_leave_out_what_is_known_unless_a_call_comes_again(script: Script) -> None:
    pytest.importorskip("transformers", reason="needs the extra transformers")
    n_needed = script("padding").n_needed

    def words(text: str, **_: Any) -> dict[str, list[str]]:
        return {"input_ids": text.split()}

    first, second = (Score("a b c", (" x y", last)) for last in (" z", " w"))
    letters = Score("a b", (" A", " B"), first_token=True)
    counts = [
        n_needed(calls, words) for calls in ([first], [first, second], [first] * 2, [letters])
    ]
    assert counts == [6, 7, 12, 3]


def test_consumed_calls_are_those_of_the_ledger(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    done = run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0], "flip_check": False},
            "dataset": {"name": "sample", "limit": 4},
            "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
            "victim": {"backend": "mock", "answer_by": "letter"},
            "attack": {"name": "entity_substitution", "sampler": "random", "budget": 3},
        },
        tmp_path / "run",
    )
    done.export("exchanges", tmp_path / "e.jsonl")
    rows = map(json.loads, (tmp_path / "e.jsonl").read_text("utf-8").splitlines())
    asked = {row["prompt"] for row in rows if row["purpose"] != "ahead"}
    found = script("consumed").consumed_calls(tmp_path / "run")
    assert {call.prompt for of_item in found.values() for call in of_item} == asked


def test_the_least_sure_answers_have_the_smallest_margins(script: Script) -> None:
    class Reader:
        def items(self) -> dict[int, tuple[str, Any]]:
            return {i: ("train", argparse.Namespace(id=f"q{i}")) for i in range(3)}

        def trials(self) -> list[argparse.Namespace]:
            scores = [[-3.0, -0.5, -1.0], None, [-0.5, -9.0, -4.5]]
            return [
                argparse.Namespace(item=i, result={"before": ["B", found]} if found else {})
                for i, found in enumerate(scores)
            ]

    assert dict(script("consumed").margins_of(Reader())) == {"q0": 0.5, "q2": 4.0}


@pytest.mark.parametrize(
    ("change", "fine"),
    [
        ({}, True),
        ({"different_letters": 1}, False),
        ({"largest_difference": 2e-4}, False),
        ({"dtype": "bfloat16", "different_letters": 5, "largest_difference": 0.2}, True),
    ],
)
def test_only_float32_has_to_be_equal(script: Script, change: dict[str, Any], fine: bool) -> None:
    assert script("equality").equal({**EQUAL, **change}) is fine


def test_the_experiment_survives_toml(script: Script, tmp_path: Path) -> None:
    given = script("overhead").experiment(tmp_path)
    assert tomllib.loads(script("progress").as_toml(given)) == given


def test_a_target_is_met_only_on_as_many_prompts_as_it_names(script: Script) -> None:
    targets = script("bench_targets").targets
    few, many = (targets({"equality": part({**EQUAL, "prompts": n})}) for n in (1999, 2000))
    assert [one.met for one in few] == [False, True]
    assert [one.met for one in many] == [True, True]


def test_every_part_has_a_title_and_every_table_a_part(script: Script) -> None:
    page, names = script("bench_page"), {one.name for one in script("bench").PARTS}
    assert set(page.TITLES) == names
    assert set(page.COLUMNS) == names - {"growth", "against", "gpu"}


def test_the_committed_page_is_that_of_the_committed_results(script: Script) -> None:
    bench = script("bench")
    told = script("bench_page").render(json.loads(bench.RESULTS.read_text("utf-8")))
    assert bench.PAGE.read_text("utf-8") == told, "run: python benchmarks/bench.py --page-only"


def test_a_missed_target_is_said_on_the_page(script: Script) -> None:
    line = {"queries": 40, "display_share": 0.031, "shown_per_quiet": [0.98, 1.05], "repeats": 2}
    page = script("bench_page").render(result(progress=part(line)))
    assert "0 of 1 targets are met." in page
    assert "the rest of a run | < 2 % | 3.1 % (shown / quiet 0.98 to 1.05) | **no** |" in page


def test_the_page_names_machine_command_date_and_what_was_left_out(script: Script) -> None:
    page = script("bench_page").render(
        result(
            start=part({"help_seconds": 0.2, "import_seconds": 0.1}),
            gpu=part(status="skipped", reason="this machine has no CUDA device"),
        )
    )
    for told in ("Abacus 9, 2 cores, 15.6 GB", "`make bench`", "2026-01-02 03:04 UTC", "3.11.7"):
        assert told in page
    assert "* GPU: skipped, this machine has no CUDA device." in page
    assert "Not measured: this machine has no CUDA device." in page
    assert "## Where the time goes" in page
    assert "<!-- baselines -->\nNot measured.\n<!-- /baselines -->" in page


BASELINE = {
    "dataset": "medqa",
    "dtype": "float32",
    "queries": 100,
    "ours_per_bare": 1.2,
    "ours_per_bare_of_each_run": [1.31, 1.25],
    "ours_queries_per_second": 4.25,
    "times_published": 20.5,
    "times_full": 61.0,
    "threads": 2,
}


def test_wall_time_is_held_against_each_baseline(script: Script) -> None:
    found = script("bench_targets").targets({"baselines": part(BASELINE)})
    assert [(one.asked, one.measured, one.met) for one in found] == [
        ("≤ 1.15", "1.200 (whole runs 1.280, 1.250 to 1.310)", False),
        ("≥ 60", "61", True),
    ]
    page = script("bench_page").render(result(baselines=part(BASELINE)))
    assert "| MedQA | float32 | 100 | 1.2 | 1.31, 1.25 | 4.25 | 20.5 | 61.0 | 2 |" in page


def test_of_each_batch_the_fastest_time_counts(script: Script) -> None:
    baselines = script("baselines")
    runs = [
        baselines.Between(n_tokens=[9, 0], ours=[2.0, 0.1], bare=[1.0, 0.0], elsewhere=0.3),
        baselines.Between(n_tokens=[9, 0], ours=[1.1, 0.2], bare=[3.0, 0.0], elsewhere=0.5),
    ]
    found = baselines.fastest(runs)
    assert (found.ours, found.bare, found.elsewhere) == ([1.1, 0.1], [1.0, 0.0], 0.3)
    assert found.ratio == pytest.approx(1.5)
    runs[1].n_tokens = [8, 1]
    with pytest.raises(ValueError, match="same batches"):
        baselines.fastest(runs)


def test_every_part_says_on_which_processor_it_ran(script: Script) -> None:
    page = script("bench_page").render(result(baselines=part(BASELINE, cpu="Abacus 8")))
    assert "2026-01-02 03:04 UTC, Abacus 8, load 0.5." in page


def test_a_run_without_the_slow_baselines_promises_nothing_about_them(script: Script) -> None:
    line = {key: value for key, value in BASELINE.items() if not key.startswith("times_")}
    (found,) = script("bench_targets").targets({"baselines": part(line)})
    assert "bare loop" in found.what
    page = script("bench_page").render(result(baselines=part(line)))
    assert "| MedQA | float32 | 100 | 1.2 | 1.31, 1.25 | 4.25 | 2 |" in page


def test_memory_is_flat_while_the_longest_run_goes_on(script: Script) -> None:
    lines = [
        {
            "queries": n,
            "queries_per_process_second": rate,
            "early_resident_mb": 100,
            "largest_resident_mb": memory,
        }
        for n, rate, memory in ((1_000_000, 21_000, 130), (20_000, 9_000, 100))
    ]
    rate, memory = script("bench_targets").targets({"overhead": part(*lines)})
    assert (rate.measured, rate.met) == ("21,000", True)
    assert (memory.measured, memory.met) == ("1.30", False)
    assert "1,000,000 queries per that after the first 20,000" in memory.what


def test_items_of_the_benchmark_on_a_gpu_are_distinct(script: Script) -> None:
    gpu = script("gpu")
    given = argparse.Namespace(instruction=3, question=20, candidates=2)
    # Below zero are those that warm up.
    prompts = [gpu.item_calls(seed, given, 50)[0].prompt for seed in range(-9, 12)]
    assert len(set(prompts)) == len(prompts)


def test_a_gpu_measured_elsewhere_is_named(script: Script) -> None:
    line = {
        "device": "Accelerator 9",
        "parameters": 6_738_415_616,
        "dtype": "bfloat16",
        "items": 64,
        "queries": 576,
        "sharing_path": "tree",
        "sharing_queries_per_second": 400.0,
        "sharing_tokens_per_second": 90_000.5,
        "sharing_tflops": 300,
        "bare_tokens_per_second": 30_000.0,
        "bare_per_sharing": 1.04,
        "vllm_could_not": "no interpreter",
        "sharing_times_plain": 3.5,
        "sharing_times_transformers": 3.25,
    }
    page = script("bench_page").render(result(gpu=part(line, status="elsewhere")))
    assert "6.7 billion parameters in bfloat16 on Accelerator 9" in page
    assert "| sharing | 400.0 | 90,000.5 | 300 | – |" in page
    assert "| bare | – | 30,000.0 | – | – |" in page
    assert "A bare loop forwards 1.04 times as many tokens a second." in page
    assert "vLLM could not be had: no interpreter." in page
    assert "on another machine" in page


def test_a_point_of_growth_has_the_fastest_time_of_each_piece_and_the_largest_memory(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    growth, asked = script("growth"), []
    told = [([1.0, 2.0], 200), ([4.0, 4.1], 250), ([1.5, 1.0], 210), ([4.0, 4.0], 240)]
    runs = iter(told)

    def apart(command: list[str]) -> dict[str, Any]:
        asked.append(json.loads(command[-1])["items"])
        pieces, memory = next(runs)
        spent = {"process_seconds": sum(pieces), "pieces": pieces}
        return {"queries": 9, "largest_resident_mb": memory, **spent}

    monkeypatch.setattr(growth, "measured_apart", apart)
    found = growth.measured("items", [10, 20], 2)
    assert asked == [10, 20] * 2
    assert [(one["x"], one["runs"]) for one in found] == [(10, 2), (20, 2)]
    assert [one["process_seconds"] for one in found] == [2.0, 8.0]
    assert [one["fastest_run_seconds"] for one in found] == [2.5, 8.0]
    assert [one["largest_resident_mb"] for one in found] == [210, 250]


def test_pieces_of_a_run_are_the_same_calls_whenever_progress_is_told(script: Script) -> None:
    pieces = script("growth").pieces
    # A millisecond a call, and a second before the first.
    often = [(n, 1 + n / 1000) for n in range(0, 12_500, 500)]
    seldom = [(n, 1 + n / 1000) for n in (700, 4_400, 9_100, 12_000)]
    assert pieces(often, 0.0, 14.0) == pytest.approx([5.0, 4.0, 5.0])
    assert pieces(seldom, 0.0, 14.0)[1:] == pytest.approx([4.0, 5.0])
    assert pieces([(500, 1.5)], 0.0, 2.0) == [2.0]


def test_growth_is_linear_where_pieces_and_whole_runs_say_so(script: Script) -> None:
    growth, targets = script("growth").growth, script("bench_targets").targets

    def time_of(*seconds: float) -> Any:
        return targets({"growth": part(growth(points(list(seconds))))})[0]

    assert time_of(1.0, 2.0, 4.0).met
    assert not time_of(1.0, 2.0, 4.8).met
    assert not time_of(1.0, 2.0, 1.5).met
    assert time_of(1.0, 2.0, 1.5).measured == "too small to tell"
    dear = growth(points([1.0, 2.0, 4.0])) | {"of_whole_runs": 1.3}
    assert not targets({"growth": part(dear)})[0].met


def test_what_one_piece_measured_is_told_beside_larger_parts(script: Script) -> None:
    page, fitted = script("bench_page"), script("growth").growth(points([1.0, 2.0, 4.8]))
    found = result(growth=part(*points([1.0, 2.0, 4.8]), fitted)) | {"seconds": 700.4}
    assert "all in one piece" not in page.render(found)
    whole = page.in_one_piece(found)
    assert whole["targets"] == 2
    told = page.render(found | {"whole": whole})
    assert "| all in one piece | `make bench`, 2026-01-02 03:04 UTC, 700 s; 1 of 2 targets" in told
    assert "not met: CPU time a unit: items, 200 to 400 per 100 to 200: 1.40" in told


def test_what_a_benchmark_cannot_find_is_told_in_a_line(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    plainly = script("plainly").plainly

    def fail() -> None:
        raise FileNotFoundError(2, "No such file", "here")

    assert plainly(lambda: None) == 0
    assert plainly(fail) == 2
    assert capsys.readouterr().err.endswith(": [Errno 2] No such file: 'here'\n")


def test_growth_is_shown_with_its_plot(script: Script) -> None:
    fitted = script("growth").growth(points([1.0, 2.0, 4.0]))
    page = script("bench_page").render(result(growth=part(*points([1, 2, 4]), fitted)))
    assert "](images/growth.svg)" in page
    assert "| items | 100 to 400 | 10 | 1.0 | 1.0 | 0.833 | 3 | 100.0, 102.0 | 1.02 |" in page


def test_a_part_without_its_data_is_skipped_with_a_reason(script: Script, tmp_path: Path) -> None:
    bench = script("bench")
    chosen = next(one for one in bench.PARTS if one.name == "equality")
    given = argparse.Namespace(data=tmp_path, arguments={}, full=False)
    found = bench.run_part(chosen, given, 60.0)
    assert (found["status"], found["lines"]) == ("skipped", [])
    assert "published data are not here" in found["reason"]


def test_a_part_is_skipped_when_no_time_is_left(script: Script, tmp_path: Path) -> None:
    bench = script("bench")
    given = argparse.Namespace(data=tmp_path, arguments={}, full=False)
    found = bench.run_part(bench.Part(name="start"), given, 0.0)
    assert (found["status"], found["reason"]) == ("skipped", "the time was used up")


@pytest.mark.parametrize(
    ("then", "status", "reason", "exit_code"),
    [
        ("import time\ntime.sleep(120)", "cut short", "the time was used up", None),
        ("raise SystemExit(3)", "failed", "exit code 3", 3),
    ],
)
def test_a_part_that_does_not_finish_keeps_what_it_printed(
    then: str,
    status: str,
    reason: str,
    exit_code: int | None,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = script("bench")
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "part.py").write_text(f"print('{{\"a\": 1}}', flush=True)\n{then}\n")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    given = argparse.Namespace(data=tmp_path, arguments={}, full=False)
    found = bench.run_part(bench.Part(name="part"), given, 10.0)
    assert (found["status"], found["reason"], found["exit_code"]) == (status, reason, exit_code)
    assert found["lines"] == [{"a": 1}]


def test_what_was_measured_elsewhere_is_put_in_and_stays(script: Script, tmp_path: Path) -> None:
    bench = script("bench")
    file = tmp_path / "gpu.jsonl"
    file.write_text(json.dumps({"device": "X"}) + "\n")
    after = bench.added(result(start=part()), [bench.measured_elsewhere(f"gpu={file}")])
    assert after["parts"]["gpu"]["lines"] == [{"device": "X"}]


@pytest.mark.parametrize(
    ("earlier", "found", "stays", "well"),
    [
        ("done", "failed", True, False),
        ("elsewhere", "skipped", True, True),
        ("elsewhere", "done", False, True),
        ("cut short", "failed", False, False),
        (None, "skipped", False, True),
    ],
)
def test_what_was_measured_stays_until_it_is_measured_anew(
    earlier: str | None,
    found: str,
    stays: bool,
    well: bool,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = script("bench")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(bench, "write", written.append)
    anew = part(status=found, reason="so it went", lines=[{"anew": True}])
    monkeypatch.setattr(bench, "run_part", lambda *_: anew)
    known = part(status=earlier, reason="", lines=[{"anew": False}])
    given = argparse.Namespace(only=["start"], minutes=1, full=False, data=tmp_path)
    assert bench.measure(given, result(start=known) if earlier else {}) == well
    assert written[-1]["parts"]["start"]["lines"] == [{"anew": not stays}]


def test_a_run_of_everything_without_the_data_erases_nothing_and_says_so_first(
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = script("bench")
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(bench, "no_gpu", lambda _: None)
    before = json.loads((Path(bench.__file__).parent / "results" / "bench.json").read_text("utf-8"))
    (tmp_path / "bench.json").write_text(json.dumps(before), "utf-8")
    n_targets = len(script("bench_targets").targets(before["parts"]))
    ran: list[str] = []

    def found(part: Any, given: Any, seconds: Any) -> dict[str, Any]:
        if reason := part.missing(given.data):
            return {"status": "skipped", "reason": reason, "lines": []}
        ran.append(part.name)
        told = capsys.readouterr().err
        assert len(ran) > 1 or all(
            f"{name} will be skipped: the published data are not here" in told
            for name in ("prefix_sharing", "padding", "baselines", "equality")
        )
        return {**before["parts"][part.name], "status": "done", "date": "anew"}

    monkeypatch.setattr(bench, "run_part", found)
    monkeypatch.setattr("sys.argv", ["bench.py", "--data", str(tmp_path / "none")])
    assert bench.main() == 0
    after = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert {"start", "overhead", "growth"} <= set(ran)
    assert after["parts"]["start"]["date"] == "anew"
    for name in ("prefix_sharing", "padding", "baselines", "equality"):
        assert after["parts"][name] == before["parts"][name]
    assert after.get("whole") == before.get("whole")
    assert len(script("bench_targets").targets(after["parts"])) == n_targets


@pytest.mark.parametrize("name", ["prefix_sharing", "padding", "baselines", "equality"])
def test_a_benchmark_looks_for_its_data_before_it_works(
    name: str,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MEDSTRESS_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    with pytest.raises(SystemExit) as stopped:
        script(name).main()
    assert stopped.value.code == 2
    assert "the published data are not here" in " ".join(capsys.readouterr().err.split())


def test_lines_of_another_version_are_refused_in_one_sentence(
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = script("bench")
    file, results = tmp_path / "gpu.jsonl", tmp_path / "bench.json"
    file.write_text('{"a": 1}\n')
    results.write_text(json.dumps(result(start=part())))
    monkeypatch.setattr(bench, "RESULTS", results)
    monkeypatch.setattr("sys.argv", ["bench.py", "--add", f"gpu={file}"])
    assert bench.main() == 2
    assert "gpu: lines of another version cannot be shown: " in capsys.readouterr().err
    assert json.loads(results.read_text()) == result(start=part())


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("start", ["--repeats", "0"], "expected a whole number, at least 1, not '0'"),
        ("sampling", ["--items", "none"], "expected a whole number, at least 1, not 'none'"),
        ("sampling", ["--names", "5"], "8 different names cannot be drawn from 5"),
        ("gpu", ["--tiny", "--question", "1"], "expected a whole number, at least 2, not '1'"),
        ("gpu", ["--tiny", "--peak-tflops", "0"], "expected a number above 0, not '0'"),
        ("growth", ["--items", "5", "9"], "--items: expected 3 or more different numbers"),
        ("growth", ["--items", "5", "9", "5"], "--items: expected 3 or more different numbers"),
        ("bench", ["--minutes", "nan"], "expected a number above 0, not 'nan'"),
        ("bench", ["--add", "gpu"], "expected PART=FILE.jsonl with one of start, overhead"),
        ("bench", ["--add", "nonsense=file"], "with one of start, overhead"),
        ("bench", ["--add", "gpu=missing.jsonl"], "missing.jsonl cannot be read: "),
        ("bench", ["--arguments", "[]"], 'expected JSON as {"sampling": "--items 10"}'),
        ("bench", ["--arguments", '{"gpus": ""}'], "with some of start, overhead"),
        ("bench", ["--arguments", '{"gpu": "\'"}'], "is no command: No closing quotation"),
    ],
)
def test_what_a_benchmark_cannot_do_is_refused_in_one_sentence(
    name: str,
    arguments: list[str],
    told: str,
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", [f"{name}.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        script(name).main()
    assert stopped.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_file_without_results_is_not_put_in(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "gpu.jsonl"
    file.write_text("Traceback\n")
    with pytest.raises(argparse.ArgumentTypeError, match="no line of JSON"):
        script("bench").measured_elsewhere(f"gpu={file}")


def test_the_victim_of_the_overhead_is_found_without_the_other_scripts() -> None:
    file = Path(__file__).resolve().parents[2] / "benchmarks" / "overhead.py"
    assert str(file.parent) not in sys.path
    spec = importlib.util.spec_from_file_location("victim", file)
    assert spec is not None
    assert spec.loader is not None
    victim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(victim)
    assert victim.always_a(["one", "two"]) == [{"answer": "A"}] * 2
