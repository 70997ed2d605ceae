"""IOB, rows of tokens and PubTator become tagged texts; what is wrong is named by file and line."""

from __future__ import annotations

import json

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.passages import sentence_spans
from medstress.datasets import bc5cdr, iob, pubtator
from medstress.datasets.source import DatasetOptions

GOOD = "Aspirin\tB-Chemical\nhelps\tO\n\nSalicylic\tB-Chemical\nacid\tI-Chemical\n"
TITLE = "1|t|Aspirin helps.\n"
ABSTRACT = "1|a|It cures pain. No fever.\n"


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="rows.tsv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def read(path, module=iob, **options):
    return module.load(DatasetOptions(path=path, **options))


def refused(path, module=iob, **options):
    with pytest.raises((DataError, UsageError)) as caught:
        read(path, module, **options)
    return str(caught.value)


def test_sentences_are_parted_by_empty_lines_and_numbered(write):
    first, second = read(write(GOOD)).items
    assert (first.id, first.tokens, first.labels) == (
        "1",
        ("Aspirin", "helps"),
        ("B-Chemical", "O"),
    )
    assert (second.id, len(second.entities)) == ("2", 1)


def test_conll_columns_documents_line_ends_and_a_byte_order_mark_are_read(write):
    text = "\ufeff-DOCSTART- -X- O\r\n\r\nAspirin NN B-NP B-Chemical\r\nhelps VB O O\r\n"
    (item,) = read(write(text)).items
    assert (item.tokens, item.labels) == (("Aspirin", "helps"), ("B-Chemical", "O"))
    assert item.metadata == {"document": "1"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ""),
        (
            "a\tO\nb\n",
            "'b'",
        ),
        (
            "a\tO\nb\tS-Drug\n",
            "'S-Drug'",
        ),
        (
            "a\tO\n\nb\tI-Drug\n",
            "'B-Drug'",
        ),
        (
            "a b\tO\n",
            "'a b'",
        ),
        (
            b"a\tO\n\xff\tO\n",
            "",
        ),
    ],
)
def test_a_bad_iob_line_is_named_with_what_to_do(write, text, where, said):
    path = write(text)
    said(refused(path), where)


def test_labels_are_repaired_where_asked_and_it_is_said(write):
    path = write("a\tO\nb\tI-Drug\nc\tI-Drug\nd\tI-Disease\n")
    loaded = read(path, on_bad_labels="repair")
    assert loaded.items[0].labels == ("O", "B-Drug", "I-Drug", "B-Disease")
    assert loaded.notes == (
        f"{path}: repaired 2 labels that continued or ended no entity (an I- becomes B-), the "
        "first in line 2",
    )


def test_repairing_makes_no_label_of_what_is_none(write):
    assert "got 'X-Drug'" in refused(write("a\tX-Drug\n"), on_bad_labels="repair")


def test_a_bad_sentence_can_be_left_out_and_is_said(write):
    path = write(GOOD + "\nlost\n")
    loaded = read(path, on_bad_row="skip")
    assert len(loaded.items) == 2
    assert loaded.skipped[0].startswith(f"{path}, line 7: expected a token, a tab and a label")


def test_an_unknown_way_to_treat_labels_is_refused(write, said):
    with pytest.raises(UsageError) as caught:
        DatasetOptions(path=write(GOOD), on_bad_labels="mend")
    said(str(caught.value), "on_bad_labels", "'error'", "'repair'")


def test_pubtator_abstracts_become_sentences_with_their_entities(write):
    mentions = "1\t0\t7\tAspirin\tChemical\tD1\n1\t24\t28\tpain\tDisease\t-1\n1\tCID\tD1\tD2\n"
    loaded = read(write(TITLE + ABSTRACT + mentions, "x.txt"), pubtator)
    assert [item.id for item in loaded.items] == ["1.1", "1.2", "1.3"]
    assert loaded.items[0].labels == ("B-Chemical", "O", "O")
    assert loaded.items[1].tokens == ("It", "cures", "pain", ".")
    assert loaded.items[1].labels == ("O", "O", "B-Disease", "O")
    chemicals = read(write(TITLE + ABSTRACT + mentions, "x.txt"), pubtator, types=("Chemical",))
    assert [len(item.entities) for item in chemicals.items] == [1, 0, 0]


def test_entities_that_do_not_fit_tokens_are_counted(write):
    mentions = "1\t0\t3\tAsp\tChemical\n1\t0\t7\tAspirin\tChemical\n1\t24\t27\tpai\tDisease\n"
    loaded = read(write(TITLE + ABSTRACT + mentions, "x.txt"), pubtator)
    assert [len(item.entities) for item in loaded.items] == [1, 1, 0]
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        "1 entities overlap others and were left out",
        "1 entities begin or end inside a token and were widened to all of it",
    ]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("1\t0\t7\taspirin\tChemical\n", "line 3"),
        ("1\t0\tChemical\n", "line 3"),
        ("2|a|Lost.\n", "line 3"),
        ("\nlost\n", "line 4"),
    ],
)
def test_a_bad_pubtator_line_is_named(write, line, where, said):
    said(refused(write(TITLE + ABSTRACT + line, "x.txt"), pubtator), where)


def test_a_type_that_no_entity_has_is_refused_with_a_suggestion(write):
    path = write(TITLE + ABSTRACT + "1\t0\t7\tAspirin\tChemical\n", "x.txt")
    assert "did you mean 'Chemical'? (types in the file: Chemical)" in refused(
        path, pubtator, types=("Chemicals",)
    )


def test_sentences_end_neither_at_abbreviations_nor_inside_entities():
    text = "Seen by Dr. Who (vs. placebo, P. 3) in U. Then? Yes! A 2. B drug."
    found = [text[a:b] for a, b in sentence_spans(text)]
    assert found == ["Seen by Dr. Who (vs. placebo, P. 3) in U. Then?", "Yes!", "A 2.", "B drug."]
    assert len(sentence_spans(text, [(text.index("2."), len(text) - 1)])) == 3


def test_rows_of_tokens_are_tagged_texts(write):
    tokens = {"id": 4, "tokens": ["a", "b"], "ner_tags": ["B-Drug", "O"]}
    (item,) = read(write(json.dumps(tokens), "x.jsonl"), iob).items
    assert (item.id, item.labels) == ("4", ("B-Drug", "O"))
    path = write(json.dumps([tokens]), "x.json")
    (item,) = read(path, iob).items
    assert (item.id, item.labels) == ("4", ("B-Drug", "O"))
    assert "does not accept the key 'documents'" in refused(path, iob, documents=path)


def test_positions_of_labels_need_their_names(write):
    tokens = {"id": 4, "tokens": ["a"], "ner_tags": [1]}
    says = refused(write(json.dumps(tokens), "x.jsonl"), iob)
    assert "expected label names, or positions in the list of names that the file declares" in says


def test_rows_of_no_known_layout_are_refused(write):
    says = refused(write('{"word": "a"}', "x.jsonl"), iob)
    assert "line 1: expected the fields tokens and labels or ner_tags or tags, got word" in says


def test_bc5cdr_is_a_folder_with_a_file_for_each_split(write, tmp_path):
    write(GOOD, "devel.tsv")
    assert len(read(tmp_path, bc5cdr, split="dev").items) == 2
    assert "choose a split of it with split = 'train'" in refused(tmp_path, bc5cdr)
    assert "has no file test.tsv or test.txt" in refused(tmp_path, bc5cdr, split="test")
    assert "did you mean 'test'" in refused(tmp_path, bc5cdr, split="tset")
    assert "no entity has the type 'Chemcal'" in refused(
        tmp_path, bc5cdr, split="dev", types=("Chemcal",)
    )


def test_several_splits_of_bc5cdr_are_read_one_after_the_other(write, tmp_path):
    write(GOOD, "train.tsv")
    write("-DOCSTART- O\n\nHeparin\tB-Chemical\n", "devel.tsv")
    both = read(tmp_path, bc5cdr, split="train+dev")
    assert [item.id for item in both.items] == ["train-1", "train-2", "devel-1"]
    assert [item.tokens[0] for item in both.items] == ["Aspirin", "Salicylic", "Heparin"]
    assert [item.metadata.get("document") for item in both.items] == [None, None, "devel-1"]
    turned = read(tmp_path, bc5cdr, split="devel+train")
    assert [item.id for item in turned.items] == ["devel-1", "train-1", "train-2"]
    alone = {read(tmp_path, bc5cdr, split=split).source_hash for split in ("train", "devel")}
    assert len({both.source_hash, turned.source_hash, *alone}) == 4


def test_what_is_said_of_one_split_is_said_of_several(write, tmp_path):
    write("z\tO\n\na\tO\nb\n", "train.tsv")
    write(GOOD + "\nc\tI-Drug\n", "devel.tsv")
    loaded = read(tmp_path, bc5cdr, split="train+devel", on_bad_row="skip", on_bad_labels="repair")
    assert [item.id for item in loaded.items] == ["train-1", "devel-1", "devel-2", "devel-3"]
    (skipped,), (note,) = loaded.skipped, loaded.notes
    assert "train.tsv, line 4: expected a token" in skipped
    assert "devel.tsv: repaired 1 labels that continued or ended no entity" in note


@pytest.mark.parametrize(
    ("split", "where"),
    [
        (
            "train+tset",
            "dataset 'bc5cdr'",
        ),
        ("train+", "'train+'"),
        ("train+train", "dataset 'bc5cdr'"),
        ("dev+validation", "'dev+validation'"),
        ("train+test", ""),
    ],
)
def test_splits_that_cannot_be_joined_are_refused(write, tmp_path, split, where, said):
    write(GOOD, "train.tsv")
    write(GOOD, "devel.tsv")
    said(refused(tmp_path, bc5cdr, split=split), where)


def test_a_single_file_holds_one_split(write):
    path = write(GOOD, "train.tsv")
    assert len(read(path, bc5cdr, split="train").items) == 2
    assert refused(path, bc5cdr, split="train+devel") == (
        f"dataset 'bc5cdr': {path} is a single file and holds one split; give the folder with the "
        "files of train+devel"
    )


SPLITS = {"train": (4560, 118170), "devel": (4581, 117453), "test": (4797, 124750)}
ENTITIES = {
    "chem": {"train": 5203, "devel": 5347, "test": 5385},
    "disease": {"train": 4182, "devel": 4246, "test": 4424},
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", ENTITIES)
def test_bc5cdr_has_the_published_counts(published, kind, split):
    folder = published(f"ner/bc5cdr_{kind}/{split}.tsv").parent
    items = read(folder, bc5cdr, split=split).items
    assert (len(items), sum(len(item.tokens) for item in items)) == SPLITS[split]
    assert sum(len(item.entities) for item in items) == ENTITIES[kind][split]


@pytest.mark.parametrize(
    ("split", "n_diseases"), [("train", 4182), ("devel", 4244), ("test", 4424)]
)
def test_pubtator_bc5cdr_has_the_same_tokens_and_nearly_the_same_sentences(
    published, split, n_diseases
):
    path = published(f"ner/bc5cdr_pubtator/{split}.txt")
    items = read(path, bc5cdr).items
    n_sentences, n_tokens = SPLITS[split]
    assert sum(len(item.tokens) for item in items) == n_tokens
    assert abs(len(items) - n_sentences) <= 12
    types = [entity.type for item in items for entity in item.entities]
    assert types.count("Chemical") == ENTITIES["chem"][split]
    assert types.count("Disease") == n_diseases


def test_old_line_ends_are_refused_and_not_read_as_one_token(write):
    says = refused(write(GOOD.replace("\n", "\r")))
    assert "line 1: expected lines that end in LF or CR LF, found a CR inside a line; save" in says


def test_a_file_of_marks_alone_has_no_rows(write):
    says = refused(write("-DOCSTART-\n"))
    assert says.endswith("got none; give a file with rows")


def test_an_entity_of_another_document_is_refused(write):
    says = refused(write(TITLE + ABSTRACT + "2\t0\t7\tAspirin\tChemical\tD1\n"), pubtator)
    assert "line 3: expected an entity of document '1', got one of '2'; move it below" in says


def test_a_token_row_with_a_lone_inside_label_says_what_to_do(write):
    rows = [{"tokens": ["a", "b"], "ner_tags": ["O", "I-Drug"]}]
    path = write(json.dumps(rows), "rows.json")
    assert "row 1: token 2: expected 'B-Drug'" in refused(path, iob)
    assert 'set on_bad_labels = "repair"' in refused(path, iob)
    (note,) = read(path, iob, on_bad_labels="repair").notes
    assert note.endswith("the first in row 1")


def test_tokens_that_are_missing_are_refused(write):
    rows = [{"tokens": ["a", None], "ner_tags": ["O", "O"]}]
    assert "got a null; fix the row" in refused(write(json.dumps(rows), "r.json"), iob)


def test_an_empty_json_file_is_called_empty(write):
    assert refused(write("", "rows.json"), iob).endswith("an empty file; give a file with rows")


DOCUMENTS = """7|t|Methods. Results.
7|a|Objective: aspirin was given. Pain fell.

8|t|Heparin in rats.
8|a|Objective: heparin was given. Pain rose. No bleeding occurred.

9|t|Pain fell.
9|a|Nothing else.
"""


def sentences(*texts):
    """In IOB, each word and mark a token."""
    return "\n\n".join("\n".join(f"{w}\tO" for w in text.split()) for text in texts) + "\n"


def documents_of(loaded):
    return [item.metadata.get("document") for item in loaded.items]


def test_the_documents_of_sentences_are_looked_up_where_the_user_names_them(write):
    known = write(DOCUMENTS, "documents.txt")
    # The documents stand in another order; "Objective :" and "Pain fell ." begin or end several.
    path = write(
        sentences(
            "Pain fell .", "Nothing else .",
            "Heparin in rats .", "Objective :", "heparin was given .", "Pain ro", "se .",
            "No bleeding occurred .",
            "Methods . Results .", "Objective :", "aspirin was given .", "Pain fell .",
        )
    )  # fmt: skip
    loaded = read(path, documents=known)
    assert documents_of(loaded) == ["9"] * 2 + ["8"] * 6 + ["7"] * 4
    assert loaded.notes == ()
    assert loaded.source_hash != read(path).source_hash
    assert documents_of(read(path)) == [None] * 12
    assert [item.hash for item in loaded.items] == [item.hash for item in read(path).items]


def test_sentences_may_be_missing_and_one_that_may_be_of_several_documents_is_of_none(write):
    known = write(DOCUMENTS, "documents.txt")
    between = write(sentences("Heparin in rats .", ".", "Objective :", "Pain rose ."))
    assert documents_of(read(between, documents=known)) == ["8", "8", "8", "8"]
    apart = write(sentences("Nothing else .", "Objective :", "Methods . Results ."), "apart.tsv")
    loaded = read(apart, documents=known)
    assert documents_of(loaded) == ["9", None, "7"]
    assert loaded.notes == (
        f"{apart}: 1 sentences are in several documents of {known}; their document stays unknown",
    )


def test_a_sentence_of_no_document_is_refused_and_named(write):
    known = write(DOCUMENTS, "documents.txt")
    path = write(sentences("Pain fell .", "Heparin in mice .", "Cats slept ."))
    assert refused(path, documents=known) == (
        f"{path}: 2 of 3 sentences are in no document of {known}; the first is sentence '2', "
        "'Heparin in mice .'; set the key 'documents' to the file that the sentences come from, "
        "or leave it out"
    )
    assert "expected documents in PubTator format, got none" in refused(
        path, documents=write("\n", "empty.txt")
    )
    assert "there is no file" in refused(path, documents=known.parent / "documnts.txt")


def test_documents_that_are_named_take_the_place_of_marks(write):
    known = write(DOCUMENTS, "documents.txt")
    path = write("-DOCSTART- O\n\n" + sentences("Pain fell .", "Nothing else ."))
    assert documents_of(read(path)) == ["1", "1"]
    assert documents_of(read(path, documents=known)) == ["9", "9"]


def test_each_split_of_bc5cdr_has_the_documents_of_its_own_file(write, tmp_path):
    write(sentences("Heparin in rats ."), "train.tsv")
    write(sentences("Pain fell .", "Nothing else ."), "devel.tsv")
    folder = tmp_path / "pubtator"
    folder.mkdir()
    for split in ("train", "devel"):
        (folder / f"{split}.txt").write_text(DOCUMENTS)
    both = read(tmp_path, bc5cdr, split="train+devel", documents=folder)
    assert documents_of(both) == ["train-8", "devel-9", "devel-9"]
    one = read(tmp_path, bc5cdr, split="devel", documents=folder / "devel.txt")
    assert documents_of(one) == ["9", "9"]
    (folder / "devel.txt").unlink()
    assert "has no file devel.txt or devel.pubtator" in refused(
        tmp_path, bc5cdr, split="devel", documents=folder
    )


@pytest.mark.parametrize("module", [pubtator, bc5cdr], ids=lambda module: module.__name__)
def test_files_that_name_their_documents_take_no_others(write, module):
    path = write(TITLE + ABSTRACT, "a.txt")
    assert "does not accept the key 'documents'" in refused(path, module, documents=path)


@pytest.mark.release
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", ENTITIES)
def test_every_sentence_of_bc5cdr_has_its_document(published, kind, split):
    """By sentence numbers: whole documents, one after the other, as PubTator's file holds them."""
    folder = published(f"ner/bc5cdr_{kind}/{split}.tsv").parent
    known = published(f"ner/bc5cdr_pubtator/{split}.txt")
    loaded = read(folder, bc5cdr, split=split, documents=known.parent)
    found = documents_of(loaded)
    assert loaded.notes == ()
    runs = [name for name, before in zip(found, [None, *found], strict=False) if name != before]
    assert len(runs) == len(set(runs)) == 500
    letters: dict[str, str] = {}
    for item, name in zip(loaded.items, found, strict=True):
        letters[name] = letters.get(name, "") + "".join(item.tokens)
    theirs: dict[str, str] = {}
    for item in read(known, pubtator).items:
        name = item.metadata["document"]
        theirs[name] = theirs.get(name, "") + "".join(item.tokens)
    assert letters == theirs


def test_sentences_that_stand_nearly_everywhere_cost_no_endless_comparing(write):
    """Two documents of 20,000 equal letters each, and as many sentences of one letter."""
    text = "a " * 20_000
    known = write(f"1|t|{text}\n\n2|t|{text}\n", "documents.txt")
    loaded = read(write(sentences(*["a"] * 20_000)), documents=known)
    assert "20,000 sentences are in several documents" in loaded.notes[0]
