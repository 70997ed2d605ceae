"""PubTator, brat and BC5CDR become tagged sentences of documents, each mention where it stands."""

from __future__ import annotations

from collections import Counter

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.text import sentence_spans, tokenise
from medstress.datasets import named, standoff
from medstress.datasets.sentences import load_iob
from medstress.datasets.source import DatasetOptions

FILE = "x.txt"
TITLE = "1|t|Aspirin helps.\n"
ABSTRACT = "1|a|It cures pain. No fever.\n"
IOB = "Aspirin\tB-Chemical\nhelps\tO\n\nSalicylic\tB-Chemical\nacid\tI-Chemical\n"
TEXT = "Severe chest pain\nHe took aspirin and folic acid. It helped.\n"
ANN = (
    "T1\tDisease 0 17\tSevere chest pain\n"
    "T2\tChemical 26 33\taspirin\n"
    "R1\tTreats Arg1:T2 Arg2:T1\nA1\tNegated T1\n#1\tAnnotatorNotes T1\tsure\n"
    "N1\tReference T2 MeSH:D001241\taspirin\n*\tEquiv T2 T3\n"
    "T3\tChemical 38 48\tfolic acid\n"
)
SENTENCES = {
    "Severe chest pain": "B-Disease I-Disease I-Disease",
    "He took aspirin and folic acid .": "O O B-Chemical O B-Chemical I-Chemical O",
    "It helped .": "O O O",
}
MARK = b"\xef\xbb\xbf"


@pytest.fixture
def folder(write):
    """A brat folder with two documents, one of them in a subfolder."""
    write(TEXT, "corpus/a.txt")
    write(ANN, "corpus/a.ann")
    write("Nothing here.", "corpus/more/b.txt")
    write("", "corpus/more/b.ann")
    return write("[entities]\nChemical\n", "corpus/annotation.conf").parent


LOAD = {
    "pubtator": standoff.load_pubtator,
    "brat": standoff.load_brat,
    "bc5cdr": named.load_bc5cdr,
    "iob": load_iob,
}


def read(name, path, **options):
    return LOAD[name](DatasetOptions(path=path, **options))


def refused(name, path, **options):
    with pytest.raises((DataError, UsageError)) as caught:
        read(name, path, **options)
    return str(caught.value)


def sentences(loaded):
    return {" ".join(item.tokens): " ".join(item.labels) for item in loaded.items}


# -- PubTator -------------------------------------------------------------------------------------
def test_pubtator_abstracts_become_sentences_with_their_entities(write):
    mentions = "1\t0\t7\tAspirin\tChemical\tD1\n1\t24\t28\tpain\tDisease\t-1\n1\tCID\tD1\tD2\n"
    path = write(TITLE + ABSTRACT + mentions)
    loaded = read("pubtator", path)
    assert [item.id for item in loaded.items] == ["1.1", "1.2", "1.3"]
    assert {item.metadata["document"] for item in loaded.items} == {"1"}
    assert sentences(loaded) == {
        "Aspirin helps .": "B-Chemical O O",
        "It cures pain .": "O O B-Disease O",
        "No fever .": "O O O",
    }
    chemicals = read("pubtator", path, types=("Chemical",))
    assert [len(item.entities) for item in chemicals.items] == [1, 0, 0]
    assert "did you mean 'Chemical'? (types in the file: Chemical, Disease)" in refused(
        "pubtator", path, types=("Chemicals",)
    )


def test_relations_with_any_number_of_columns_are_no_entities(write):
    """As in CDR (4 columns), BioRED (5), and with further ones; ids of genes are numbers."""
    relations = (
        "1\tCID\tD1\tD2\n1\tAssociation\tD1\t672\tNovel\n1\tCause\t12\t34\tNo\tx\ty\n1\tBind\t672\n"
    )
    loaded = read("pubtator", write(TITLE + ABSTRACT + "1\t0\t7\tAspirin\tDrug\n" + relations))
    assert [len(item.entities) for item in loaded.items] == [1, 0, 0]


def test_entities_that_do_not_fit_tokens_are_counted(write):
    mentions = "1\t0\t3\tAsp\tChemical\n1\t0\t7\tAspirin\tChemical\n1\t24\t27\tpai\tDisease\n"
    mentions += "1\t8\t17\thelps. It\tOther\n"
    loaded = read("pubtator", write(TITLE + ABSTRACT + mentions))
    assert [len(item.entities) for item in loaded.items] == [1, 1, 0]
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        "1 of 4 entities overlap others and were left out",
        "1 of 4 entities cross the border of a passage and were left out",
        "1 of 4 entities begin or end inside a word and were widened to all of it",
    ]


@pytest.mark.parametrize(
    ("text", "mention"), [("아스피린은 약이다.", "아스피린"), ("Die Aspirinallergie.", "Aspirin")]
)
def test_a_file_whose_entities_mostly_end_inside_words_is_refused(write, text, mention):
    at = text.index(mention)
    line = f"1\t{at}\t{at + len(mention)}\t{mention}\tDrug\n"
    assert "1 of 1 entities begin or end inside a word" in refused(
        "pubtator", write(f"1|t|{text}\n{line}")
    )


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("1\t0\t7\taspirin\tChemical\n", "line 3: expected 'aspirin' at [0, 7), got 'Aspirin'"),
        ("1\t0\tChemical\n", "line 3: expected ID, start, end, mention and type"),
        ("1\t-1\t7\tAspirin\tChemical\n", "line 3: expected ID, start, end, mention and type"),
        ("1\tx0\t7\tAspirin\tChemical\n", "line 3: expected ID, start, end, mention and type"),
        ("1\tx\ty\tcures\tChemical\n", "line 3: expected ID, start, end, mention and type"),
        ("2|a|Lost.\n", "line 3: expected one abstract of document '1'"),
        ("1|a|Second.\n", "line 3: expected one abstract of document '1'"),
        ("\nlost\n", "line 4: expected a title ID|t|TEXT, got 'lost'"),
        ("2\t0\t7\tAspirin\tChemical\n", "line 3: expected an entity of document '1', got one of"),
    ],
)
def test_a_bad_pubtator_line_is_named_and_its_document_can_be_left_out(write, line, where):
    path = write(f"{TITLE}{ABSTRACT}{line}\n3|t|Pain fell.\n")
    assert where in refused("pubtator", path)
    loaded = read("pubtator", path, on_bad_row="skip")
    assert loaded.items[-1].id == "3.1"
    assert where in loaded.skipped[0]


def test_a_folder_of_pubtator_files_is_read_as_one(write):
    write(TITLE, "pub/a.txt")
    folder = write("2|t|Pain fell.\n", "pub/b.PubTator").parent
    write("not one of them", "pub/readme.txt")
    assert [item.id for item in read("pubtator", folder).items] == ["1.1", "2.1"]
    assert "got none; give the folder" in refused("pubtator", folder.parent)


# -- brat -----------------------------------------------------------------------------------------
def test_brat_reads_to_sentences_of_a_folder_or_of_one_file(folder):
    loaded = read("brat", folder)
    assert [item.id for item in loaded.items] == ["a.1", "a.2", "a.3", "more/b.1"]
    assert [item.metadata["document"] for item in loaded.items] == ["a", "a", "a", "more/b"]
    assert sentences(loaded) == SENTENCES | {"Nothing here .": "O O O"}
    for name in ("a.txt", "a.ann"):
        assert sentences(read("brat", folder / name)) == SENTENCES


@pytest.mark.parametrize("shift", [0, 1])
def test_a_byte_order_mark_is_no_word_and_may_count_as_a_character(folder, shift):
    """Brat counts it in its offsets, other programs do not."""
    (folder / "a.txt").write_bytes(MARK + TEXT.encode())
    moved = ANN.replace("0 17", f"{shift} {17 + shift}")
    for start, end in ((26, 33), (38, 48)):
        moved = moved.replace(f"{start} {end}", f"{start + shift} {end + shift}")
    (folder / "a.ann").write_bytes(MARK + moved.encode())
    assert sentences(read("brat", folder / "a.txt")) == SENTENCES
    (folder / "a.ann").write_text("T1\tDisease 5 9\tpain\n", "utf-8")
    assert "expected 'pain' at 5 9, got 'e ch'" in refused("brat", folder)


def test_a_mention_over_a_line_end_keeps_its_sentence_and_one_in_parts_is_left_out(folder):
    text = "left and right\nkidney failed"
    (folder / "a.txt").write_bytes(text.encode())
    for right in ("9 21", "9 14;15 21"):  # brat itself writes the second
        (folder / "a.ann").write_text(
            f"T1\tOrgan 0 4;15 21\tleft kidney\nT2\tOrgan {right}\tright kidney\n", "utf-8"
        )
        loaded = read("brat", folder)
        assert loaded.items[0].labels == ("O", "O", "B-Organ", "I-Organ", "O")
        assert any(
            note.endswith("1 of 2 entities are discontinuous and were left out")
            for note in loaded.notes
        )
    (folder / "a.ann").write_text("T1\tOrgan 0 4;15 21\tleft kidney\n", "utf-8")
    why = "1 of 1 entities are discontinuous and were left out; no other entity was found"
    assert refused("brat", folder).endswith(why)


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
    said(refused("brat", folder), where)
    loaded = read("brat", folder, on_bad_row="skip")
    assert [item.id for item in loaded.items] == ["more/b.1"]
    assert "a.ann" in loaded.skipped[0]


# -- sentences and tokens -------------------------------------------------------------------------
def test_sentences_end_neither_at_abbreviations_nor_inside_entities():
    text = "Seen by Dr. Who (vs. placebo, P. 3) in U. Then? Yes! A 2. B drug."
    found = [text[a:b] for a, b in sentence_spans(text)]
    assert found == ["Seen by Dr. Who (vs. placebo, P. 3) in U. Then?", "Yes!", "A 2.", "B drug."]
    assert len(sentence_spans(text, [(text.index("2."), len(text) - 1)])) == 3


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("患者服用阿司匹林5mg后发热", "患 者 服 用 阿 司 匹 林 5mg 后 发 热"),
        ("TNF-α阻害剤（5mg）", "TNF - α 阻 害 剤 （ 5mg ）"),
        ("ガン\u3099とﾊﾞﾝ", "ガ ン\u3099 と ﾊﾞ ﾝ"),
        ("ผู้ป่วยกินaspirin", "ผู้ ป่ ว ย กิ น aspirin"),
        ("한국어 약", "한국어 약"),
    ],
)
def test_text_without_spaces_has_a_token_a_character(text, tokens):
    assert tokenise(text) == tuple(tokens.split())


def test_chinese_abstracts_have_sentences_and_entities_of_their_own(write):
    title, abstract = "阿司匹林治疗头痛。", "患者发热！是否服用阿司匹林？“有效。”随后好转。"
    whole = f"{title} {abstract}"
    lines = [f"1|t|{title}", f"1|a|{abstract}"]
    for name, type_ in (("阿司匹林", "Drug"), ("头痛", "Disease"), ("发热", "Disease")):
        at = whole.index(name)
        lines.append(f"1\t{at}\t{at + len(name)}\t{name}\t{type_}")
    loaded = read("pubtator", write("\n".join(lines)))
    assert loaded.notes == ()
    assert [e.type for item in loaded.items for e in item.entities] == ["Drug", *["Disease"] * 2]
    assert ["".join(item.tokens) for item in loaded.items] == [
        *(title, "患者发热！", "是否服用阿司匹林？", "“有效。”", "随后好转。")
    ]


# -- types ----------------------------------------------------------------------------------------
def test_types_are_renamed_merged_and_left_out(folder, write):
    iob = "\n\n".join(
        "\n".join(f"{t}\t{x}" for t, x in zip(s.split(), labels.split(), strict=True))
        for s, labels in SENTENCES.items()
    )
    for name, path in (("iob", write(iob, "x.iob")), ("brat", folder)):

        def types(wanted, name=name, path=path):
            return [e.type for item in read(name, path, types=wanted).items for e in item.entities]

        assert types({"Chemical": "Thing", "Disease": "Thing"}) == ["Thing"] * 3
        assert types({"Chemical": "Drug"}) == ["Disease", "Drug", "Drug"]
        assert types({"Disease": "O"}) == ["Chemical"] * 2
        assert types(("Disease",)) == ["Disease"]
        assert "did you mean 'Chemical'" in refused(name, path, types={"Chemicals": "Drug"})
        assert "a one-word name" in refused(name, path, types={"Chemical": "a drug"})


# -- BC5CDR ---------------------------------------------------------------------------------------
def test_bc5cdr_is_a_folder_with_a_file_for_each_split_pubtator_before_iob(write, tmp_path):
    write(IOB, "devel.tsv")
    assert len(read("bc5cdr", tmp_path, split="dev").items) == 2
    assert "got 0 (devel.tsv); choose one with split" in refused("bc5cdr", tmp_path, split="test")
    assert "did you mean 'test'" in refused("bc5cdr", tmp_path, split="tset")
    assert "no entity has the type 'Chemcal'" in refused(
        "bc5cdr", tmp_path, split="dev", types=("Chemcal",)
    )
    write(TITLE + ABSTRACT, "CDR_DevelopmentSet.PubTator.txt")
    write(TITLE, "CDR_TestSet.PubTator.txt")
    write("This is the corpus.", "README.txt")
    loaded = read("bc5cdr", tmp_path, split="dev")
    assert [item.metadata for item in loaded.items] == [{"document": "1"}] * 3
    assert "expected one file of" in refused("bc5cdr", tmp_path)
    assert "does not accept the key 'scheme'" in refused(
        "bc5cdr", tmp_path, split="dev", scheme="io"
    )


def test_bioc_is_answered_with_its_converter_under_any_name(write, tmp_path):
    json_file = write('{"documents": [{"passages": []}]}', "x.json")
    assert "the package bconv" in refused("brat", json_file)
    json_file.unlink()
    write("<collection><source/></collection>", "CDR_TestSet.BioC.xml")
    assert "the package bconv" in refused("bc5cdr", tmp_path, split="test")


def test_several_splits_of_bc5cdr_are_read_one_after_the_other(write, tmp_path):
    write(IOB + "\nc\tI-Drug\n", "train.tsv")
    write("-DOCSTART- O\n\nHeparin\tB-Chemical\n\na\tO\nb\n", "devel.tsv")
    options = {"on_bad_row": "skip", "on_bad_labels": "repair"}
    both = read("bc5cdr", tmp_path, split="train+dev", **options)
    assert [item.id for item in both.items] == ["train-1", "train-2", "train-3", "devel-1"]
    assert [item.tokens[0] for item in both.items] == ["Aspirin", "Salicylic", "c", "Heparin"]
    assert [item.metadata.get("document") for item in both.items] == [*[None] * 3, "devel-1"]
    assert "devel.tsv, line 6: expected a token" in both.skipped[0]
    assert "train.tsv: repaired 1 label that continued or ended no entity" in both.notes[0]
    turned = read("bc5cdr", tmp_path, split="devel+train", **options)
    assert [item.id for item in turned.items] == ["devel-1", "train-1", "train-2", "train-3"]
    alone = [
        read("bc5cdr", tmp_path, split=split, **options).source_hash for split in ("train", "devel")
    ]
    assert len({both.source_hash, turned.source_hash, *alone}) == 4


def test_a_document_with_many_lines_and_mentions_is_read_in_linear_time():
    n = 20_000  # with a loop over all mentions at every line, hours
    text = "Fever.\n" * n
    mentions = [(7 * i, 7 * i + 5, "Sign") for i in range(n)]
    document = standoff.Document(
        id="1", text=text, passages=range(0, len(text), 7), mentions=mentions
    )
    items = list(standoff.tagged_sentences(document, tally := Counter()))
    assert len(items) == n
    assert {item.labels for item in items} == {("B-Sign", "O")}
    assert tally == Counter(kept=n)
