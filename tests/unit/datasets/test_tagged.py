"""IOB files and rows of tokens become tagged texts; what is wrong is named by file and line."""

from __future__ import annotations

import json

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.sentences import in_iob2, read_labels, scheme_of
from medstress.datasets.sentences import load_iob
from medstress.datasets.source import DatasetOptions

GOOD = "Aspirin\tB-Chemical\nhelps\tO\n\nSalicylic\tB-Chemical\nacid\tI-Chemical\n"
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
BILOU = tuple(tuple(label.replace("E-", "L-").replace("S-", "U-") for label in s) for s in IOBES)
IO = tuple(tuple(label.removeprefix("B-").removeprefix("I-") for label in s) for s in IOB2)


def conll(labels, tokens=TOKENS):
    sentences = zip(tokens, labels, strict=True)
    return "\n".join(
        "".join(f"{t}\t{label}\n" for t, label in zip(*s, strict=True)) for s in sentences
    )


def read(path, **options):
    return load_iob(DatasetOptions(path=path, **options))


def refused(path, **options):
    with pytest.raises((DataError, UsageError)) as caught:
        read(path, **options)
    return str(caught.value)


def labels_of(loaded):
    return [item.labels for item in loaded.items]


@pytest.mark.parametrize(
    ("labels", "scheme"), [(IOB2, None), (IOBES, "iobes"), (BILOU, "iobes"), (IO, "io")]
)
def test_a_corpus_reads_alike_in_every_scheme(write, labels, scheme):
    items = read(write(conll(labels)), scheme=scheme).items
    assert [item.id for item in items] == ["1", "2", "3"]
    assert [item.tokens for item in items] == list(TOKENS)
    assert [item.labels for item in items] == list(IOB2)


def test_conll_columns_documents_line_ends_and_a_byte_order_mark_are_read(write):
    text = "\ufeff-DOCSTART- -X- O\r\n\r\nAspirin NN B-NP B-Chemical\r\nhelps VB O O\r\n"
    loaded = read(write(text))
    (item,) = loaded.items
    assert (item.tokens, item.labels) == (("Aspirin", "helps"), ("B-Chemical", "O"))
    assert item.metadata == {"document": "1"}
    assert loaded.notes == ()


def test_without_documents_a_line_says_what_intervals_take_for_independent(write):
    (note,) = read(write(GOOD)).notes
    assert "take sentences as independent; on BC5CDR that made intervals up to 2.2 times" in note
    rows = [{**ROW, "id": "1"}, {**ROW, "id": "2", "document": "a"}]
    (note,) = read(write("\n".join(map(json.dumps, rows)), "x.jsonl")).notes
    assert "x.jsonl: 1 of 2 sentences name no document, so intervals and tests take each" in note


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "an empty file; give a file with rows"),
        ("-DOCSTART-\n", "got none; give a file with rows"),
        ("a\tO\nb\n", "line 2: expected a token, a tab and a label, got 'b' alone"),
        ("a\tO\nb\tS-Drug\n", "line 2: expected an IOB label"),
        ("a\tO\n\nb\tI-Drug\n", "line 3: expected 'B-Drug'"),
        ("a b\tO\n", "line 1: expected a token without white space"),
        (b"a\tO\n\xff\tO\n", "line 2: expected UTF-8"),
        (GOOD.replace("\n", "\r"), "line 1: expected lines that end in LF or CR LF, found a CR"),
        ("a\t1\n", "line 1: expected a label, got the text '1'; give the names of numbers"),
        ("a\tB\nb\tI-Drug\n", "line 1: expected an IOB label (O, B-TYPE or I-TYPE), got 'B'"),
    ],
)
def test_a_bad_line_is_named_with_what_to_do(write, text, where):
    assert where in refused(write(text))


def test_labels_are_repaired_where_asked_and_it_is_said(write):
    path = write("-DOCSTART- O\n\na\tO\nb\tI-Drug\nc\tI-Drug\nd\tI-Disease\n")
    loaded = read(path, on_bad_labels="repair")
    assert labels_of(loaded) == [("O", "B-Drug", "I-Drug", "B-Disease")]
    assert loaded.notes == (
        f"{path}: repaired 2 labels that continued or ended no entity (an I- becomes B-), the "
        "first in line 4",
    )
    assert "got 'X-Drug'" in refused(write("a\tX-Drug\n"), on_bad_labels="repair")
    # An entity without its end tag, before O and before another, and an end tag without its entity.
    path = write("a\tB-Drug\nb\tI-Drug\nc\tO\n\nd\tB-Drug\ne\tB-Drug\nf\tE-Drug\ng\tE-Drug\n")
    assert "line 3: expected 'I-Drug' or 'E-Drug'" in refused(path, scheme="iobes")
    loaded = read(path, scheme="iobes", on_bad_labels="repair")
    first, second = labels_of(loaded)
    assert (first, second) == (("B-Drug", "I-Drug", "O"), ("B-Drug", "B-Drug", "I-Drug", "B-Drug"))
    assert loaded.notes[0] == (
        f"{path}: repaired 3 labels that continued no entity (it begins there) or left one open "
        "(it ends before), the first in line 3"
    )


# -- labels without a type, and numbers -----------------------------------------------------------
BARE = (("B", "I", "O"), ("O", "B"))
WORDS = (("folic", "acid", "helps"), ("take", "aspirin"))


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (BARE, None),
        ((("B", "E", "O"), ("O", "S")), "iobes"),
        ((("B", "L", "O"), ("O", "U")), "iobes"),
        ((("I", "I", "O"), ("O", "I")), "io"),
    ],
)
def test_labels_without_a_type_are_of_the_type_that_tag_names(write, labels, scheme):
    path = write(conll(labels, WORDS))
    assert labels_of(read(path, scheme=scheme, tag="Drug")) == [
        ("B-Drug", "I-Drug", "O"),
        ("O", "B-Drug"),
    ]
    assert read(path, scheme=scheme).items[1].labels == ("O", "B-Entity")


def test_a_tag_is_one_word_and_for_labels_without_a_type_alone(write):
    for tag in ("a drug", "B-Drug"):
        assert f"one word such as Drug, got {tag!r}" in refused(write(conll(BARE, WORDS)), tag=tag)
    says = refused(write(conll(IOB2)), tag="Drug")
    assert "the labels here are B-Chemical, B-Disease, I-Chemical, I-Disease, O; leave" in says
    says = refused(write(conll(BARE, WORDS)), scheme="io")
    assert 'scheme = "io" expects' in says
    assert "got 'B'" in says
    assert "leave out scheme" in says
    assert 'set scheme = "iobes"' in refused(write("a\tB\nb\tE\n"), scheme="io")


@pytest.mark.parametrize("name", ["rows.tsv", "rows.jsonl"])
def test_whole_numbers_are_labels_by_the_names_that_are_given(write, name):
    numbers = ((1, 2, 0), (0, 1))
    rows = [{"tokens": w, "ner_tags": n} for w, n in zip(WORDS, numbers, strict=True)]
    path = write(
        conll(numbers, WORDS) if name == "rows.tsv" else "\n".join(map(json.dumps, rows)), name
    )
    found = labels_of(read(path, names=("O", "B-Drug", "I-Drug")))
    assert found == [("B-Drug", "I-Drug", "O"), ("O", "B-Drug")]
    assert labels_of(read(path, names=("O", "B", "I"), tag="Drug")) == found
    assert 'as in names = ["O", "B-Drug", "I-Drug"]' in refused(path)
    assert "a number from 0 to 1, as names has 2 labels, got the" in refused(
        path, names=("O", "B-Drug")
    )


# -- rows of tokens -------------------------------------------------------------------------------
ROW = {"id": 4, "tokens": ["a", "b"], "ner_tags": ["B-Drug", "O"], "pmid": 7}


def test_rows_of_tokens_are_tagged_texts_of_the_document_that_a_column_names(write):
    for path in (write(json.dumps(ROW), "x.jsonl"), write(json.dumps([ROW]), "x.json")):
        (item,) = read(path, documents="pmid").items
        assert (item.id, item.labels) == ("4", ("B-Drug", "O"))
        assert item.metadata == {"document": "7"}
        assert read(path).items[0].metadata == {}
    assert "row 1: expected the column 'pimd', which documents names" in refused(
        path, documents="pimd"
    )
    assert "write a line -DOCSTART- before each" in refused(write(GOOD), documents="pmid")
    path = write(json.dumps({**ROW, "document": {"a": 1}}), "x.jsonl")
    assert "field 'document': expected the name of a document, got the object" in refused(path)


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"tokens": ["a", None], "ner_tags": ["O", "O"]}, "'tokens': expected a list of texts"),
        ({"tokens": ["a"], "ner_tags": [True]}, "token 1: expected a label, got the value True"),
        ({"tokens": ["a", "b"], "ner_tags": ["O", "I-Drug"]}, "token 2: expected 'B-Drug'"),
        ({"tokens": ["a"], "ner_tags": ["O", "O"]}, "expected a label for each of 1 tokens"),
        ({"tokens": "a", "ner_tags": ["O"]}, "'tokens': expected a list of texts"),
        ({"word": "a"}, "expected the fields tokens and labels or ner_tags or tags, got word"),
    ],
)
def test_a_bad_row_is_named(write, row, where):
    assert where in refused(write(json.dumps([row]), "x.json"))


BIOC = '{"source": "x", "documents": [{"id": "1", "passages": [{"offset": 0}]}]}'
BIGBIO = {
    **{"id": "1", "document_id": "7", "events": [], "coreferences": [], "relations": []},
    "passages": [{"id": "2", "type": "title", "text": ["On aspirin"], "offsets": [[0, 10]]}],
    "entities": [{"id": "3", "type": "Drug", "text": ["aspirin"], "offsets": [[3, 10]]}],
}


@pytest.mark.parametrize(
    ("text", "name", "converter"),
    [
        (BIOC, "x.json", 'bconv.load("x.json", fmt="bioc_json")'),
        ("<?xml version='1.0'?><collection><source/></collection>", "x.iob", 'fmt="bioc_xml"'),
        (json.dumps(BIGBIO), "x.jsonl", "x.jsonl is BigBio, which"),
        (json.dumps([BIGBIO], indent=1), "x.json", "offsets_to_biluo_tags"),
        ('{"text": "a b", "entities": [[0, 1, "Drug"]]}', "x.jsonl", "offsets_to_biluo_tags"),
        ('{"text": "a b", "label": [[0,1,"Drug"]]}', "x.jsonl", "offsets_to_biluo_tags"),
        ('{"text": "a", "spans": [{"start": 0, "end": 1}]}', "x.jsonl", "offsets_to_biluo_tags"),
        ('{"text": "a", "ents": [{"start": 0, "end": 1}]}', "x.jsonl", "offsets_to_biluo_tags"),
        ('[["a b", {"entities": [[0, 1, "Drug"]]}]]', "x.json", "offsets_to_biluo_tags"),
        ('[{"result": [{"id": "a", "value": {"start": 0}}]}]', "x.json", "offsets_to_biluo_tags"),
    ],
)
def test_other_formats_are_answered_with_what_converts_them(write, text, name, converter):
    assert converter in refused(write(text, name))


# -- schemes --------------------------------------------------------------------------------------
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
    reading = read_labels(labels, scheme)
    said(reading.complaint, where)
    assert reading.place == place


@pytest.mark.parametrize(
    ("labels", "repaired"),
    [
        (["B-Drug", "O"], ("B-Drug", "O")),
        (["O", "E-Drug"], ("O", "B-Drug")),
        (["B-Drug", "E-Gene", "I-Gene"], ("B-Drug", "B-Gene", "B-Gene")),
    ],
)
def test_labels_of_iobes_are_repaired_where_asked(labels, repaired):
    reading = read_labels(labels, "iobes", repair=True)
    assert reading.labels == repaired
    assert reading.repaired


def test_the_scheme_of_a_model_is_told_from_its_labels():
    assert scheme_of(["O", "B-Drug", "I-Drug"]) == scheme_of(["O", "I-Drug"]) == "iob2"
    assert scheme_of(["O", "B-Drug", "I-Drug", "E-Drug", "S-Drug"]) == "iobes"
    assert scheme_of(["O", "Drug", "B-cell"]) is None
    assert scheme_of(["O", "Drug"]) == "io"
    assert scheme_of(["LABEL_0", "LABEL_1"]) is None
    assert (scheme_of(["O", "B", "I"]), scheme_of(["O", "U"])) == ("iob2", "iobes")
    # An E- that continues nothing is left to the reader, unless an I- would join two entities.
    assert in_iob2(["I-Drug", "O", "E-Drug", "S-Drug", "E-Drug", "I-Gene"], "iobes") == (
        *("I-Drug", "O", "I-Drug", "B-Drug", "B-Drug", "I-Gene"),
    )
    # Entities side by side are one in IO and two elsewhere.
    assert read_labels(["B-Drug", "B-Drug"], "iob2").labels == ("B-Drug", "B-Drug")
    assert read_labels(["S-Drug", "S-Drug"], "iobes").labels == ("B-Drug", "B-Drug")
    assert read_labels(["Drug", "Drug"], "io").labels == ("B-Drug", "I-Drug")


@pytest.mark.parametrize("gap", ["\t", " ", " NN "])
@pytest.mark.parametrize("comment", ["# levels of the vitamin O", "# newdoc", "# source\tB-cell"])
def test_a_comment_is_told_from_a_token_by_its_columns_and_its_label(write, comment, gap):
    lines = [comment, f"Aspirin{gap}B-Drug", f"#{gap}O", "", comment, f"#{gap}B-Drug", comment]
    first, second = read(write("\n".join(lines))).items
    assert (first.tokens, first.labels) == (("Aspirin", "#"), ("B-Drug", "O"))
    assert (second.tokens, second.labels) == (("#",), ("B-Drug",))
    assert "line 2" in refused(write("Aspirin\tB-Drug\n#\tX\n"))
