"""One corpus written in IOB2, IOBES, IO and brat reads to the same entities; types are renamed."""

from __future__ import annotations

import json

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.label_schemes import in_iob2, read_labels, scheme_of
from medstress.datasets import bc5cdr, brat, iob, pubtator
from medstress.datasets.source import DatasetOptions

TEXT = "Severe chest pain\nHe took aspirin and folic acid. It helped.\n"
ANN = (
    "T1\tDisease 0 17\tSevere chest pain\n"
    "T2\tChemical 26 33\taspirin\n"
    "R1\tTreats Arg1:T2 Arg2:T1\nA1\tNegated T1\n#1\tAnnotatorNotes T1\tsure\n"
    "N1\tReference T2 MeSH:D001241\taspirin\n*\tEquiv T2 T3\n"
    "T3\tChemical 38 48\tfolic acid\n"
)
TOKENS = (
    ("Severe", "chest", "pain"),
    ("He", "took", "aspirin", "and", "folic", "acid", "."),
    ("It", "helped", "."),
)
IOB2 = (
    ("B-Disease", "I-Disease", "I-Disease"),
    ("O", "O", "B-Chemical", "O", "B-Chemical", "I-Chemical", "O"),
    ("O", "O", "O"),
)
IOBES = (
    ("B-Disease", "I-Disease", "E-Disease"),
    ("O", "O", "S-Chemical", "O", "B-Chemical", "E-Chemical", "O"),
    ("O", "O", "O"),
)
IO = tuple(tuple(label.removeprefix("B-").removeprefix("I-") for label in s) for s in IOB2)
BILOU = tuple(tuple(label.replace("E-", "L-").replace("S-", "U-") for label in s) for s in IOBES)


def conll(labels):
    sentences = zip(TOKENS, labels, strict=True)
    return "\n".join(
        "".join(f"{t}\t{label}\n" for t, label in zip(*s, strict=True)) for s in sentences
    )


@pytest.fixture
def folder(tmp_path):
    """A brat folder with two documents, one of them in a subfolder."""
    (tmp_path / "corpus" / "more").mkdir(parents=True)
    (tmp_path / "corpus" / "a.txt").write_bytes(TEXT.encode())
    (tmp_path / "corpus" / "a.ann").write_text(ANN, "utf-8")
    (tmp_path / "corpus" / "more" / "b.txt").write_text("Nothing here.", "utf-8")
    (tmp_path / "corpus" / "more" / "b.ann").write_text("", "utf-8")
    (tmp_path / "corpus" / "annotation.conf").write_text("[entities]\nChemical\n", "utf-8")
    return tmp_path / "corpus"


def read(module, path, **options):
    return module.load(DatasetOptions(path=path, **options))


def refused(module, path, **options):
    with pytest.raises((DataError, UsageError)) as caught:
        read(module, path, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("labels", "scheme"), [(IOB2, None), (IOBES, "iobes"), (BILOU, "iobes"), (IO, "io")]
)
def test_a_corpus_reads_alike_in_every_scheme(tmp_path, labels, scheme):
    path = tmp_path / "rows.tsv"
    path.write_text(conll(labels), "utf-8")
    items = read(iob, path, scheme=scheme).items
    assert [item.tokens for item in items] == list(TOKENS)
    assert [item.labels for item in items] == list(IOB2)


def test_brat_reads_to_the_same_sentences(folder):
    loaded = read(brat, folder)
    assert [item.id for item in loaded.items] == ["a.1", "a.2", "a.3", "more/b.1"]
    assert [item.tokens for item in loaded.items[:3]] == list(TOKENS)
    assert [item.labels for item in loaded.items[:3]] == list(IOB2)
    assert [item.metadata["document"] for item in loaded.items] == ["a", "a", "a", "more/b"]


def test_entities_in_parts_and_over_line_ends_take_what_stands_between(folder):
    text = "left and right\nkidney failed"
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_text("T1\tOrgan 0 4;15 21\tleft kidney\n", "utf-8")
    loaded = read(brat, folder)
    assert loaded.items[0].labels == ("B-Organ", "I-Organ", "I-Organ", "I-Organ", "O")
    assert any("1 entities are discontinuous" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("T1\tChemical 26 33\tparacetamol", "line 1"),
        ("T1\tChemical 26\taspirin", "line 1"),
        ("T1 Chemical 26 33 aspirin", "line 1"),
        ("\nC1 whatever", "line 2"),
    ],
)
def test_a_bad_line_of_brat_is_named(folder, line, where, said):
    (folder / "a.ann").write_text(line, "utf-8")
    said(refused(brat, folder), where)
    loaded = read(brat, folder, on_bad_row="skip")
    assert [item.id for item in loaded.items] == ["more/b.1"]
    assert "a.ann" in loaded.skipped[0]


def test_offsets_of_brat_count_line_ends_as_they_are(folder):
    text = TEXT.replace("\n", "\r\n")
    (folder / "a.txt").write_bytes(text.encode())
    assert "got" in refused(brat, folder)
    moved = ANN.replace("26 33", "27 34").replace("38 48", "39 49")
    (folder / "a.ann").write_text(moved, "utf-8")
    assert [item.labels for item in read(brat, folder).items[:3]] == list(IOB2)


def test_a_text_without_annotations_a_file_and_an_empty_folder_are_refused(folder, tmp_path):
    assert "expected path = a folder" in refused(brat, folder / "a.txt")
    assert "needs the key 'path'" in refused(brat, None)
    (tmp_path / "empty").mkdir()
    assert "found no .txt file" in refused(brat, tmp_path / "empty")
    (folder / "a.ann").unlink()
    assert "a.ann is missing beside it" in refused(brat, folder)


def test_entities_side_by_side_are_one_in_io_and_two_elsewhere():
    two = ["B-Drug", "B-Drug"]
    assert read_labels(two, "iob2").labels == ("B-Drug", "B-Drug")
    assert read_labels(["S-Drug", "S-Drug"], "iobes").labels == ("B-Drug", "B-Drug")
    assert read_labels(["Drug", "Drug"], "io").labels == ("B-Drug", "I-Drug")


@pytest.mark.parametrize(
    ("labels", "scheme", "place", "where"),
    [
        (["O", "Drug"], "iob2", 1, "'Drug'"),
        (["B-Drug", "O"], "iobes", 1, "'I-Drug'"),
        (["O", "B-Drug"], "iobes", 1, "'B-Drug'"),
        (["O", "E-Drug"], "iobes", 1, "'S-Drug'"),
        (["B-Drug", "E-Gene"], "iobes", 1, "'I-Drug'"),
        (["B-"], "iobes", 0, "expected an IOBES label"),
        (["a b"], "io", 0, "expected an IO label"),
    ],
)
def test_what_a_scheme_does_not_allow_is_named(labels, scheme, place, where, said):
    read = read_labels(labels, scheme)
    said(read.complaint, where)
    assert read.place == place


@pytest.mark.parametrize(
    ("labels", "repaired"),
    [
        (["B-Drug", "O"], ("B-Drug", "O")),
        (["O", "E-Drug"], ("O", "B-Drug")),
        (["B-Drug", "E-Gene", "I-Gene"], ("B-Drug", "B-Gene", "B-Gene")),
    ],
)
def test_labels_of_iobes_are_repaired_where_asked(labels, repaired):
    read = read_labels(labels, "iobes", repair=True)
    assert read.labels == repaired
    assert read.repaired


def test_the_scheme_of_a_model_is_told_from_its_labels():
    assert scheme_of(["O", "B-Drug", "I-Drug"]) == "iob2"
    assert scheme_of(["O", "I-Drug"]) == "iob2"
    assert scheme_of(["O", "B-Drug", "I-Drug", "E-Drug", "S-Drug"]) == "iobes"
    assert scheme_of(["O", "Drug", "B-cell"]) is None
    assert scheme_of(["O", "Drug"]) == "io"
    assert scheme_of(["LABEL_0", "LABEL_1"]) is None
    assert in_iob2(["I-Drug", "O", "E-Drug", "S-Drug"], "iobes") == (
        *("B-Drug", "O", "B-Drug", "B-Drug"),
    )


def test_types_are_renamed_merged_and_left_out(tmp_path, folder):
    path = tmp_path / "rows.tsv"
    path.write_text(conll(IOB2), "utf-8")
    for module, where in ((iob, path), (brat, folder)):
        merged = read(module, where, types={"Chemical": "Thing", "Disease": "Thing"})
        assert {e.type for item in merged.items for e in item.entities} == {"Thing"}
        assert sum(len(item.entities) for item in merged.items) == 3
        renamed = read(module, where, types={"Chemical": "Drug"})
        assert {e.type for item in renamed.items for e in item.entities} == {"Drug", "Disease"}
        dropped = read(module, where, types={"Disease": "O"})
        assert {e.type for item in dropped.items for e in item.entities} == {"Chemical"}
        kept = read(module, where, types=("Disease",))
        assert {e.type for item in kept.items for e in item.entities} == {"Disease"}
        assert "did you mean 'Chemical'" in refused(module, where, types={"Chemicals": "Drug"})
        assert "a one-word name" in refused(module, where, types={"Chemical": "a drug"})


def test_types_hold_for_pubtator_rows_and_the_folder_of_bc5cdr(tmp_path):
    name = {"Chemical": "Drug"}
    text = "1|t|Aspirin helps.\n1|a|It does.\n1\t0\t7\tAspirin\tChemical\tD1\n"
    (tmp_path / "a.pubtator").write_text(text, "utf-8")
    row = {"tokens": ["Aspirin", "helps"], "ner_tags": ["S-Chemical", "O"]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), "utf-8")
    (tmp_path / "devel.tsv").write_text("Aspirin\tB-Chemical\n", "utf-8")
    read_ = (
        read(pubtator, tmp_path / "a.pubtator", types=name),
        read(iob, tmp_path / "a.jsonl", types=name, scheme="iobes"),
        read(bc5cdr, tmp_path, split="devel", types=name),
    )
    assert [loaded.items[0].labels[0] for loaded in read_] == ["B-Drug"] * 3


def test_comments_are_no_tokens_but_a_hash_sign_may_be_one(tmp_path):
    path = tmp_path / "rows.conll"
    text = (
        "# sent_id = 1\n# text = Aspirin # helps\nAspirin NN B-Drug\n# NN O\n#\tO\n\n"
        "# only a comment\n\n#begin document (x); part 000\nNo O\n"
    )
    path.write_text(text, "utf-8")
    first, second = read(iob, path).items
    assert (first.tokens, first.labels) == (("Aspirin", "#", "#"), ("B-Drug", "O", "O"))
    assert (second.id, second.tokens) == ("2", ("No",))
    path.write_text("# a comment of words\nAspirin Drug\n# O\n", "utf-8")
    (item,) = read(iob, path, scheme="io").items
    assert item.tokens == ("Aspirin", "#")


@pytest.mark.parametrize("gap", ["\t", " ", " NN "])
@pytest.mark.parametrize("scheme", ["iob2", "iobes", "io"])
@pytest.mark.parametrize(
    "comment",
    [
        "# Depletion of B-cell",
        "# levels of the vitamin O",
        "# text = Levels of I-131",
        "# newdoc",
        "# I-131",
        "#newdoc id B-cell",
        "# source\tPMID 123",
        "# source\tB-cell",
        "#a\tb\tc\td\tO",
    ],
)
def test_a_comment_is_told_by_its_columns_and_its_label(tmp_path, comment, scheme, gap):
    begin = {"iob2": "B-Drug", "iobes": "S-Drug", "io": "Drug"}[scheme]
    lines = [comment, f"Aspirin{gap}{begin}", f"#{gap}O", "", comment, f"#{gap}{begin}", comment]
    path = tmp_path / "rows.conll"
    path.write_text("\n".join(lines), "utf-8")
    first, second = read(iob, path, scheme=scheme).items
    assert (first.tokens, first.labels) == (("Aspirin", "#"), ("B-Drug", "O"))
    assert (second.tokens, second.labels) == (("#",), ("B-Drug",))


def test_a_hash_sign_with_a_wrong_label_within_a_sentence_is_named(tmp_path, said):
    path = tmp_path / "rows.conll"
    path.write_text("Aspirin\tB-Drug\n#\tX\n", "utf-8")
    with pytest.raises(DataError) as caught:
        read(iob, path)
    said(str(caught.value), "line 2")
    path.write_text("#\tB-Mark\nNo\tO\n", "utf-8")  # a type that stands nowhere else
    assert read(iob, path).items[0].tokens == ("#", "No")


@pytest.mark.parametrize("ending", ["iob", "jsonl"])
@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["B-Drug", "I-Drug", "O"], "leave out scheme, or write 'I-B-Drug'"),
        (["B-Drug", "O", "B-Gene"], "got 'B-Drug'"),
        (["B-Drug", "E-Drug", "S-Drug"], 'set scheme = "iobes"'),
        (["I-Drug", "I-Drug", "O"], None),
        (["I-B-cell", "O", "I-B-cell"], None),
        (["B-cell", "O", "Drug"], None),
        (["O", "O", "O"], None),
    ],
)
def test_labels_with_prefixes_are_no_types_in_io(tmp_path, labels, says, ending):
    path = tmp_path / f"rows.{ending}"
    if ending == "iob":
        path.write_text("".join(f"w{n}\t{label}\n" for n, label in enumerate(labels)), "utf-8")
    else:
        path.write_text(json.dumps({"tokens": ["a", "b", "c"], "tags": labels}), "utf-8")
    if says is None:
        assert len(read(iob, path, scheme="io").items[0].labels) == 3
    else:
        with pytest.raises(DataError, match='scheme = "io" expects') as refused:
            read(iob, path, scheme="io")
        assert says in str(refused.value)
        assert str(path) in str(refused.value)
