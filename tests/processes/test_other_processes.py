"""What other processes make is what this one makes."""

import subprocess
import sys

NAMES = ["asthma", "status asthmaticus", "scurvy", "rickets", "vitamin D deficiency"]


def test_ngram_distances_are_the_same_in_every_process():
    code = (
        "from medstress.entities.embeddings import SparseNames; "
        f"v = SparseNames({NAMES!r}); "
        f"print([v.distances(name).tolist() for name in {NAMES!r}])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_processes_that_embed_the_same_names_at_once_do_not_disturb_each_other(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path))
    vectors = tmp_path / "glove.txt"
    words = {word for name in NAMES for word in name.split()}
    vectors.write_text("".join(f"{word} {len(word)} 1\n" for word in sorted(words)))
    code = (
        "from medstress.entities.embeddings import Embedder; import hashlib; "
        f"names = {NAMES!r} * 40; v = Embedder({str(vectors)!r}).vectors(names); "
        "print(hashlib.sha256(v.tobytes()).hexdigest())"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)
    ]
    printed = {process.communicate()[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(printed) == 1
    assert [file.suffix for file in (tmp_path / "vectors").iterdir()] == [".npy"]
