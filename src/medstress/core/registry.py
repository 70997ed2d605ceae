"""Registry of attacks, back ends and data sets, loaded on use; plug-ins join by entry points."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from traceback import walk_tb
from typing import Any

from medstress.core.calls import Backend, BackendTraits
from medstress.core.errors import MedstressError, UsageError, did_you_mean, is_panic, reason


@dataclass(frozen=True, slots=True)
class Entry:
    """One installed part."""

    target: str
    """`module:attribute`, imported only when used."""
    summary: str
    """One line for `medstress list`."""


ATTACKS = {
    "entity_substitution": Entry(
        "medstress.attacks.entity_substitution:EntitySubstitution",
        "replace one entity of a distractor by another of its type (Xian et al.)",
    ),
    "discrete_zoo": Entry(
        "medstress.attacks.discrete_zoo.attack:DiscreteZoo",
        "the same, led by a gradient estimated from a few names (Berger et al., Xian et al.)",
    ),
    "none": Entry("medstress.attacks.unasked:Unasked", "no attack: the clean answers alone"),
    "medfuzz": Entry(
        "medstress.attacks.medfuzz.attack:MedFuzz",
        "a language model edits the item until the victim errs (Ness et al.)",
    ),
}
ATTACKS |= {
    "no_op": Entry(
        "medstress.attacks.controls.harmless:NoOp",
        "control: white space, a full stop, quotation marks, letter case; no meaning changes",
    ),
    "repeat": Entry(
        "medstress.attacks.controls.harmless:Repeat",
        "control: the same prompt again, as a call of its own",
    ),
    "neutral_insertion": Entry(
        "medstress.attacks.controls.harmless:NeutralInsertion",
        "control: sentences more that bear on no question",
    ),
    "paraphrase": Entry(
        "medstress.attacks.controls.paraphrase:Paraphrase",
        "control: the same facts in other words, at least a fifth of them changed",
    ),
    "option_shuffle": Entry(
        "medstress.attacks.controls.harmless:OptionShuffle",
        "control: the options in another order",
    ),
    "same_type": Entry(
        "medstress.attacks.controls.same_type:SameType",
        "control: random names of the type in the span of an attack",
    ),
    "passage_swap": Entry(
        "medstress.attacks.passages:PassageSwap",
        "the passage names a distractor where it named the key",
    ),
    "passage_distractor": Entry(
        "medstress.attacks.passages:PassageDistractor",
        "one more sentence in the passage, about a distractor, true or contradicting",
    ),
    "passage_other": Entry(
        "medstress.attacks.passages:PassageOther", "the passage of another question of the data set"
    ),
    "passage_none": Entry(
        "medstress.attacks.passages:PassageNone", "the question without its passage"
    ),
    "option_order": Entry(
        "medstress.attacks.probes:OptionOrder", "probe: the options in other orders"
    ),
    "none_of_the_others": Entry(
        "medstress.attacks.probes:NoneOfTheOthers",
        'probe: "none of the other answers" in place of the key (Bedi et al.)',
    ),
    "options_only": Entry(
        "medstress.attacks.probes:OptionsOnly", "probe: the options without the question"
    ),
    "context_removed": Entry(
        "medstress.attacks.probes:ContextRemoved", "probe: the stem without its context"
    ),
    "brand_generic": Entry(
        "medstress.attacks.probes:BrandGeneric",
        "probe: brands for generic names, or the reverse (Gallifant et al.)",
    ),
    "lasa": Entry(
        "medstress.attacks.probes:Lasa",
        "probe: a name that looks or sounds like the key's, as distractor",
    ),
    "fabricated_detail": Entry(
        "medstress.attacks.probes:FabricatedDetail",
        "probe: a test, sign or disease that does not exist, in the case (Omar et al.)",
    ),
    "false_statement": Entry(
        "medstress.attacks.probes:FalseStatement",
        "probe: a false sentence in favour of a distractor (Zhou et al.)",
    ),
    "challenge": Entry(
        "medstress.attacks.probes:Challenge",
        "probe: the victim's answer is doubted once (Laban et al.)",
    ),
}
ATTACKS["attacked"] = Entry(
    "medstress.attacks.attacked:Attacked", "the edits that came with a data set of name attacked"
)
_SENTENCES = "medstress.attacks.noise"
ATTACKS |= {
    "swap_noise": Entry(
        f"{_SENTENCES}:SwapNoise",
        "entities and pairs: two inner letters of a word change places (Araujo et al.)",
    ),
    "keyboard_noise": Entry(
        f"{_SENTENCES}:KeyboardNoise",
        "entities and pairs: a letter becomes its neighbour on a keyboard (Araujo et al.)",
    ),
    "synonym": Entry(
        f"{_SENTENCES}:Synonym",
        "entities and pairs: another name of an entity, or a related one (Araujo et al.)",
    ),
    "case_noise": Entry(f"{_SENTENCES}:CaseNoise", "entities and pairs: words in other case"),
    "hyphen_noise": Entry(
        f"{_SENTENCES}:HyphenNoise", "entities and pairs: hyphens and spaces lost or put in"
    ),
    "ocr_noise": Entry(
        f"{_SENTENCES}:OcrNoise", "entities and pairs: characters that look alike in a scan"
    ),
    "abbreviation": Entry(
        f"{_SENTENCES}:Abbreviation", "entities and pairs: abbreviated or spelt out"
    ),
    "non_entity_noise": Entry(
        f"{_SENTENCES}_control:NonEntityNoise",
        "control of a noise: as many words changed, none in an entity",
    ),
}
BACKENDS = {
    "transformers": Entry(
        "medstress.backends.local.transformers:open_backend",
        "local models read by Hugging Face transformers, decoder-only and encoder-decoder",
    ),
    "openai": Entry(
        "medstress.backends.openai:open_backend",
        "any OpenAI-compatible server (OpenAI, vLLM, llama.cpp, Ollama, TGI); extra: openai",
    ),
    "llama_cpp": Entry(
        "medstress.backends.llama_cpp:open_backend",
        "GGUF files through llama.cpp, in process; extra: llama-cpp",
    ),
    "python": Entry(
        "medstress.backends.python:open_backend",
        "a function of yours: module:function or file.py",
    ),
    "spacy": Entry(
        "medstress.backends.spacy:open_backend", "a spaCy pipeline, for entities; extra: spacy"
    ),
    "sentence_transformers": Entry(
        "medstress.backends.local.encoders:open_sentence_backend",
        "bi-encoders (cosine of sentence vectors) and cross-encoders, for sentence pairs",
    ),
    "mock": Entry(
        "medstress.backends.mock:open_backend", "an instant victim that hashes its prompt"
    ),
    "scripted": Entry(
        "medstress.backends.scripted:open_backend",
        "replies from a file of yours: the first pattern found in the prompt decides",
    ),
}
DATASETS = {
    "sample": Entry("medstress.datasets.sample:load", "the questions that come with medstress"),
    "csv": Entry("medstress.datasets.questions:load_csv", "your questions as CSV"),
    "tsv": Entry("medstress.datasets.questions:load_tsv", "your questions as TSV"),
    "xlsx": Entry(
        "medstress.datasets.questions:load_xlsx", "your questions in an Excel file; extra: xlsx"
    ),
    "jsonl": Entry(
        "medstress.datasets.questions:load_jsonl",
        "your questions, one JSON object a line or a JSON list",
    ),
    "parquet": Entry("medstress.datasets.questions:load_parquet", "your questions as parquet"),
    "attacked": Entry(
        "medstress.datasets.attacked:load",
        "what medstress export --table attacked wrote: questions with edits",
    ),
    "medqa": Entry("medstress.datasets.medqa:load", "MedQA-USMLE, four options (Jin et al. 2021)"),
    "medmcqa": Entry("medstress.datasets.medmcqa:load", "MedMCQA (Pal et al. 2022)"),
    "bc5cdr": Entry("medstress.datasets.bc5cdr:load", "BC5CDR, chemicals and diseases (NER)"),
    "biosses": Entry("medstress.datasets.biosses:load", "BIOSSES, similarity of sentences"),
    "iob": Entry(
        "medstress.datasets.iob:load", "your tagged sentences: IOB and CoNLL files, rows of tokens"
    ),
    "pubtator": Entry("medstress.datasets.pubtator:load", "your annotated PubTator abstracts"),
    "brat": Entry("medstress.datasets.brat:load", "your texts annotated with brat: .txt and .ann"),
    "pairs": Entry("medstress.datasets.pairs:load", "your scored pairs of texts, any table"),
    "hub": Entry(
        "medstress.datasets.hub:load",
        "a data set of the Hugging Face hub, or a folder that `datasets` saved",
    ),
}
KINDS: dict[str, dict[str, Entry]] = {
    "attacks": ATTACKS,
    "backends": BACKENDS,
    "datasets": DATASETS,
    "kinds": {},  # those that come with medstress are in `medstress.kinds`
}


_plug_ins: dict[str, str] = {}
"""Top-level module of a loaded plug-in -> what messages call the plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Where in a plug-in an error was raised."""

    plug_in: str
    """What messages call it: its name and the package it comes from."""
    file: Path
    """The source file."""
    line: int
    """From 1."""


def installed(kind: str) -> dict[str, Entry]:
    """Return all entries of a kind, plug-ins included, sorted by name."""
    found = dict(KINDS[kind])
    groups = {f"medstress.{kind}": ""}
    if kind == "datasets":  # a kind of items brings its reader
        groups["medstress.kinds"] = ".read"
    for group, attribute in groups.items():
        for point in entry_points(group=group):
            dist = point.dist.name if point.dist else "an unknown package"
            entry = Entry(f"{point.value}{attribute}", f"plug-in from {dist}")
            found.setdefault(point.name, entry)
    return dict(sorted(found.items()))


def is_installed(kind: str, name: str) -> bool:
    """Return whether an entry has this name."""
    return name in KINDS[kind] or name in installed(kind)


def unknown_name(kind: str, name: str) -> UsageError:
    """Return the error for a name that no entry has, with the nearest name, else with all."""
    entries = installed(kind)
    near = did_you_mean(name, entries)
    hint = near or f" (installed: {', '.join(entries)})"
    error = UsageError(f"unknown {kind[:-1]} {name!r}{hint}")
    return error if near else error.with_command(f"medstress list {kind}")


def load(kind: str, name: str) -> Any:
    """Import one entry.

    Raises:
        UsageError: nothing with this name is installed, or it cannot be imported.
    """
    if name in KINDS[kind]:  # before the plug-ins, which take long to list
        module, _, attribute = KINDS[kind][name].target.partition(":")
        return getattr(import_module(module), attribute)
    entries = installed(kind)
    if name not in entries:
        raise unknown_name(kind, name)
    entry = entries[name]
    module, _, attribute = entry.target.partition(":")
    plug_in = f"{kind[:-1]} {name!r}, the {entry.summary}"
    _plug_ins[module.partition(".")[0]] = plug_in
    try:
        return attrgetter(attribute)(import_module(module))
    except MedstressError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception | SystemExit) and not is_panic(error):
            raise
        raise UsageError(
            f"{plug_in}: importing {entry.target} raised {_described(error)}"
            f"{_at_import(error, module)}; {_remedy(error)}"
        ) from error


def place_of(error: BaseException) -> Raised | None:
    """Find the last line of a plug-in that an error went through; None if there is none."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in _plug_ins:
            return Raised(plug_in=_plug_ins[module], file=Path(frame.f_code.co_filename), line=line)
    return None


def complaint(error: BaseException) -> str | None:
    """Say in one sentence which plug-in raised an error, and where; None if none did."""
    place = place_of(error)
    if place is None:
        return None
    return f"{place.plug_in}: {place.file}, line {place.line} raised {_described(error)}"


def fault_of(made: Any, base: type, traits: type) -> str | None:
    """Say why an object is not an attack or a back end, as far as its class shows.

    Args:
        made: an attack or a back end.
        base: what its class has to inherit.
        traits: the class of its `traits`.

    Returns:
        The end of a sentence whose subject is the object; None if nothing is wrong. An attribute
        with the name of a field, such as a parameter, must equal that field.
    """
    declared = getattr(made, "traits", None)
    moved = [
        each.name
        for each in fields(traits)
        if hasattr(made, each.name)
        and getattr(made, each.name) != getattr(declared, each.name, ...)
    ]
    if moved:
        given = ", ".join(f"{name}={getattr(made, name)!r}" for name in moved)
        return (
            f"sets {', '.join(moved)}, which medstress reads from its traits alone: write "
            f"traits = {traits.__name__}({given}{'' if declared is None else ', ...'})"
        )
    if not isinstance(made, base):
        return f"is no {base.__name__}: its class has to inherit medstress.plugin.{base.__name__}"
    if not isinstance(declared, traits):
        return f"has no traits: expected {traits.__name__}, got {declared!r}"
    return None


def open_backend(name: str, options: Any) -> Backend:
    """Open a back end with its options (`medstress.backends.options.BackendOptions`).

    Raises:
        UsageError: no back end has this name, it refuses its options, or it is no `Backend`.
    """
    backend = load("backends", name)(options)
    if fault := backend_fault(backend):
        raise UsageError(f"backend {name!r} {fault}")
    opened: Backend = backend
    return opened


def backend_fault(made: Any) -> str | None:
    """Say why an object is not a back end, or None; see `fault_of`."""
    return fault_of(made, Backend, BackendTraits)


def _described(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else reason(error)
    return f"{type(error).__name__}: {message}"


def _remedy(error: BaseException) -> str:
    """Say what to do about a plug-in that cannot be imported."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "medstress":
        return "import it from medstress.plugin, where every public name is"
    return "fix or remove that package"


def _at_import(error: BaseException, module: str) -> str:
    """Return file and line where importing a plug-in failed, as far as they are known."""
    place = place_of(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    if place is not None:
        return f" ({place.file}, line {place.line})"
    source = getattr(sys.modules.get(module), "__file__", None)
    return f" ({source})" if source else ""
