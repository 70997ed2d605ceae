"""Against what people use today: the same prompts and model through other tools, one by one.

Our run comes first: attackable questions, drugs and diseases replaced by eight names each. The
prompts that it consumed are then asked of the same weights by

* a plain loop over padded batches with transformers,
* lm-evaluation-harness, with the prompts as a task,
* TextAttack's loop, with a wrapper around transformers and the changed prompts as transformations,
* llama.cpp's server with its prompt cache, from the GGUF file of the model.

What a user of each writes is in benchmarks/peers/. Every tool runs in a process of its own, with as
many threads; lm-evaluation-harness and TextAttack (which wants transformers 4) in environments of
their own, with torch and transformers in each, which the options or MEDSTRESS_LM_EVAL_PYTHON and
MEDSTRESS_TEXTATTACK_PYTHON name:

    python benchmarks/against.py --items 16 --lm-eval lm-env/bin/python --work FOLDER

A tool that FOLDER has already is not measured again with the same settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import at_least, plainly
from consumed import arguments

HERE = Path(__file__).resolve().parent
OURS = "medstress"
TOOLS = (OURS, "hf", "lm_eval", "textattack", "llama_cpp")


def model_folder(model: str, work: Path) -> Path:
    """The model's weights and tokenizer, described so that transformers 4 and 5 both read them."""
    from medstress.backends.models.model_files import find_model
    from medstress.backends.options import BackendOptions

    found, folder = Path(find_model(BackendOptions(model=model)).location), work / "model"
    folder.mkdir(parents=True, exist_ok=True)
    for file in found.iterdir():
        linked = folder / file.name
        linked.unlink(missing_ok=True)
        if file.name not in ("config.json", "tokenizer_config.json"):
            linked.symlink_to(file)
    config = json.loads((found / "config.json").read_text("utf-8"))
    # transformers 4 looks for it here, and takes 10,000 where it is not.
    config |= {"rope_theta": config.get("rope_parameters", {}).get("rope_theta", 10_000.0)}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    settings = json.loads((found / "tokenizer_config.json").read_text("utf-8"))
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


def gguf_of(model: str) -> str:
    """The model's GGUF file."""
    from medstress.backends.models.model_files import find_gguf
    from medstress.backends.options import BackendOptions

    return str(find_gguf(BackendOptions(model=model)))


def interpreters(given: Any) -> dict[str, str | None]:
    """Tool -> the Python that has it; None where it could not be had."""
    found: dict[str, str | None] = dict.fromkeys(TOOLS, sys.executable)
    found |= {"lm_eval": given.lm_eval, "textattack": given.textattack}
    if find_spec("xllamacpp") is None:
        found["llama_cpp"] = None
    return found


ABSENT = {
    "lm_eval": "no interpreter that has it was named (--lm-eval, or MEDSTRESS_LM_EVAL_PYTHON)",
    "textattack": "no interpreter that has it was named (--textattack, or "
    "MEDSTRESS_TEXTATTACK_PYTHON)",
    "llama_cpp": "xllamacpp is not installed: pip install xllamacpp",
}


def run_tool(python: str, told: Mapping[str, Any], work: Path) -> list[dict[str, Any]]:
    """One tool in its interpreter; what it measured, or a line that says why not."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(told["threads"]),
        "HF_HOME": str(work / "hf"),
        **dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH")])
        ),
    }
    command = [python, str(HERE / "against_timed.py"), json.dumps(told)]
    with (work / f"{told['tool']}.log").open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, check=False
            )
        except OSError as error:
            return [{"could_not": f"its interpreter does not start: {error.strerror}"}]
    if done.returncode:
        said = (work / f"{told['tool']}.log").read_text("utf-8", "replace").strip().splitlines()
        return [{"could_not": f"it ended with {done.returncode}: {(said or ['nothing said'])[-1]}"}]
    return [json.loads(line) for line in done.stdout.splitlines()]


def measured(given: Any, work: Path) -> Iterator[dict[str, Any]]:
    """Every tool on every set, ours first; what the work folder has already stays."""
    work.mkdir(parents=True, exist_ok=True)
    keys = ("data", "items", "budget", "model", "batch_size", "dtype", "answer_by", "early_stop")
    settings = {key: getattr(given, key) for key in keys} | {"data": str(given.data)}
    told = {
        "settings": settings,
        "sets": {name: str(work / name) for name in given.datasets},
        "threads": given.threads,
        "model": str(model_folder(given.model, work)),
    }
    ours: dict[str, Any] = {}
    for tool, python in interpreters(given).items():
        if python is None:
            yield {"tool": tool, "could_not": ABSENT[tool]}
            continue
        kept = work / f"{tool}.json"
        before = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
        if before.get("told") == told:
            lines = before["lines"]
        else:
            asked = {**told, "tool": tool}
            if tool == "llama_cpp":
                asked["gguf"] = gguf_of(given.model)
            lines = run_tool(python, asked, work)
            if not any("could_not" in line for line in lines):
                kept.write_text(json.dumps({"told": told, "lines": lines}), "utf-8")
                if tool == OURS:  # the others were asked another set
                    for other in TOOLS[1:]:
                        (work / f"{other}.json").unlink(missing_ok=True)
        if tool == OURS:
            if any("could_not" in line for line in lines):
                raise OSError(f"our own run failed; see {work / 'medstress.log'}")
            ours = {line["dataset"]: line for line in lines}
        yield from beside(lines, ours, tool, given.threads)


def beside(
    lines: Sequence[Mapping[str, Any]], ours: Mapping[str, Any], tool: str, threads: int
) -> Iterator[dict[str, Any]]:
    """What is printed of a tool: rates, tokens, and the letters that agree with ours.

    `apart`: by how much our log probability of our letter is above that of theirs, at most.
    """
    for line in lines:
        if "could_not" in line:
            yield {"tool": tool, **line}
            continue
        known, letters = ours[line["dataset"]], line["letters"]
        agree = sum(letters[prompt] == known["letters"].get(prompt) for prompt in letters)
        scored = [(known["scores"].get(prompt, {}), letter) for prompt, letter in letters.items()]
        apart = max(
            (max(one.values()) - one[letter] for one, letter in scored if letter in one),
            default=0.0,
        )
        yield {
            "tool": tool,
            "version": line["version"],
            "dataset": line["dataset"],
            "queries": len(letters),
            "seconds": round(line["seconds"], 2),
            "queries_per_second": round(len(letters) / line["seconds"], 2),
            "tokens_forwarded": line["tokens_forwarded"],
            "tokens_unique": known["tokens_unique"],
            "tokens_of_all_prompts": known["tokens_of_all_prompts"],
            "letters_agree": agree,
            "apart": round(apart, 3),
            "threads": threads,
        }


def main() -> None:
    """Print one JSON line a tool and set."""
    parser = arguments(__doc__, n_items=16)
    for tool in ("lm_eval", "textattack"):
        name = f"MEDSTRESS_{tool.upper()}_PYTHON"
        parser.add_argument(
            f"--{tool.replace('_', '-')}",
            metavar="PYTHON",
            default=os.environ.get(name),
            help=f"an interpreter that has it, torch and transformers; default: ${name}",
        )
    parser.add_argument("--work", type=Path, help="what is measured stays here; default: nowhere")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=at_least(1), default=cores, help="of each tool")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for line in measured(given, (given.work or Path(folder)).resolve()):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(plainly(main))
