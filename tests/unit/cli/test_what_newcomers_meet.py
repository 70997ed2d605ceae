"""Refusals that a newcomer meets first: what they say, and the command at their end."""

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.files.writing import DATABASE


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Call a command in an empty folder; return what it says on standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        assert medstress_cli(list(words)) == 2
        return capsys.readouterr().err.strip()

    return call


@pytest.mark.parametrize(
    ("name", "content"),
    [("random.csv", bytes(range(128, 256))), ("empty.csv", b""), ("bare.jsonl", b'{"id": "a"}\n')],
)
def test_the_same_command_is_for_when_the_file_is_mended(told, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert told("check", name).endswith(f"; once mended: medstress check {name}")


def test_a_file_in_another_encoding_is_told_with_the_command_that_reads_it(told, tmp_path):
    text = "question,A,B,answer\nMénière?,x,y,A\n"
    (tmp_path / "l.csv").write_bytes(text.encode("latin-1"))
    assert told("check", "l.csv").endswith(
        "; next: medstress check l.csv --set dataset.encoding=cp1252"
    )


@pytest.mark.parametrize(
    "words", [("check", "nope.csv"), ("run", "--data", "nope.csv", "--model", "mock")]
)
def test_a_file_is_not_near_by_its_ending_alone(told, tmp_path, words):
    (tmp_path / "e.csv").touch()
    assert "did you mean" not in told(*words)
    (tmp_path / "nop.csv").touch()
    assert "did you mean 'nop.csv'? Next: medstress " in told(*words)


def test_an_answer_that_is_no_option_is_told_with_its_line(told, tmp_path):
    (tmp_path / "z.csv").write_text("question,A,B,answer\nWhich?,Warfarin,Codeine,Z\n", "utf-8")
    says = told("check", "z.csv")
    assert "got the text 'Z' in line 2; fix the answers, or name their column" in says
    assert says.endswith("; once mended: medstress check z.csv")


def test_a_run_of_a_folder_elsewhere_is_named_only_where_it_is_the_only_one(
    told, tmp_path_factory, tmp_path
):
    there, here = tmp_path_factory.mktemp("there"), tmp_path / "runs"
    for folder in (there / "theirs", there / "others", here / "first", here / "last"):
        folder.mkdir(parents=True)
        (folder / DATABASE).touch()
    assert told("summary", str(there)).endswith(f"; next: medstress summary {there / 'NAME'}")
    assert told("summary", "runs").endswith("; next: medstress summary runs/NAME")


def test_a_setting_that_run_does_not_take_is_told_where_it_stands():
    with pytest.raises(ms.UsageError) as error:
        ms.run(data="sample", model="mock", flip_check=False)
    assert "overrides=['experiment.flip_check=false']" in str(error.value)
    with pytest.raises(TypeError, match="flip_chek"):
        ms.run(data="sample", model="mock", flip_chek="sample")
