"""Everything that is registered keeps the contract of its kind."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from fault_server import FaultServer
from medstress.attacks import DiscreteZoo, EntitySubstitution, MedFuzz
from medstress.attacks.attacked import AttackedArm
from medstress.attacks.controls.harmless import NeutralInsertion, NoOp, OptionShuffle, Repeat
from medstress.attacks.controls.paraphrase import Paraphrase
from medstress.attacks.controls.same_type import SameType
from medstress.attacks.noise import NoiseResources
from medstress.attacks.passages import PassageDistractor, PassageNone, PassageOther, PassageSwap
from medstress.attacks.probes import (
    BrandGeneric,
    Challenge,
    ContextRemoved,
    FabricatedDetail,
    FalseStatement,
    Lasa,
    NoneOfTheOthers,
    OptionOrder,
    OptionsOnly,
    Probe,
)
from medstress.attacks.samplers import SAMPLERS
from medstress.backends.mock import MockBackend
from medstress.backends.options import BackendOptions
from medstress.core import registry
from medstress.core.attacked import FIELD, AttackSet, Selection, StoredArm
from medstress.core.calls import Call, Choose, Decoding, Generate, Generated, Message, Rank, Score
from medstress.core.items import FOLLOW_UP, TEXTS, Mention
from medstress.core.passages import Passages
from medstress.core.resources import PerturbationSet
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit
from medstress.entities.vocabularies import NamePairs
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.reading import PARSERS
from medstress.tasks.templates import load_template, shipped_prompts
from medstress.testing import (
    REPLACEMENTS,
    PerturbationTable,
    ScriptedBackend,
    check_attack,
    check_backend,
    check_task,
    errs_on_any_change,
    errs_on_cue,
    errs_on_names,
    never_errs,
    scripted_attacker,
    scripted_judge,
    tiny_questions,
    tiny_resources,
)

ITEMS = tiny_questions(3)

BRANDS = NamePairs(
    (("Nexodrel", "Abrotine"), ("Ovaquine", "Abrotine"), ("Rez", "Fuxapril"), ("Lux", "Kuvramil"))
)
TURNED = NamePairs(tuple((generic, brand) for brand, generic in BRANDS.rows))
LOOK_ALIKES = NamePairs((("Abrotine", "Abrotane"), ("Fluxapril", "Fuxapril")))

ATTACKS: dict[str, list[Any]] = {
    "entity_substitution": [
        EntitySubstitution(sampler="random", budget=100),
        EntitySubstitution(sampler="pdws", n=200, budget=1),
        EntitySubstitution(sampler="farthest", budget=5),
        EntitySubstitution(sampler="exhaustive"),
        EntitySubstitution(sampler="random", budget=6, victim_span="random"),
        EntitySubstitution(sampler="nearest", budget=6, victim_span="saliency"),
        EntitySubstitution(sampler="exhaustive", victim_span="saliency", variants="mark"),
        EntitySubstitution(n=-3, choices="as_published", goal="C"),
        EntitySubstitution(sampler="random", choices="as_released"),
        EntitySubstitution(n=5, choices="as_released", victim_span="saliency"),
        EntitySubstitution(sampler="nearest", max_edit_distance={"tokens": 2}),
        EntitySubstitution(sampler="nearest", max_edit_distance=7, unreadable_is_success=True),
    ],
    "discrete_zoo": [
        DiscreteZoo(),
        DiscreteZoo(budget=100, similarity_threshold=-0.5, word_ranking="importance"),
        DiscreteZoo(budget=20, answers="hard", candidates=2),
        DiscreteZoo(choices="as_published", budget=20),
        DiscreteZoo(choices="as_released", budget=20),
    ],
    "medfuzz": [
        MedFuzz(),
        MedFuzz(attempts=1, exemplars=0),
        MedFuzz(attempts=2, template="misinformation"),
        MedFuzz(attempts=3, goal="C", attack_all=True),
    ],
    "no_op": [NoOp(budget=1), NoOp(budget=40)],
    "repeat": [Repeat(budget=40)],
    "neutral_insertion": [NeutralInsertion(), NeutralInsertion(budget=40, sentences=3)],
    "paraphrase": [Paraphrase(), Paraphrase(budget=40)],
    "same_type": [SameType(budget=40)],
    "option_shuffle": [OptionShuffle(budget=40)],
    "passage_swap": [PassageSwap(), PassageSwap(distractor="B")],
    "passage_distractor": [
        PassageDistractor(),
        PassageDistractor(budget=1),
        PassageDistractor(says="contradicting"),
    ],
    "passage_other": [PassageOther()],
    "passage_none": [PassageNone()],
    "option_order": [OptionOrder(), OptionOrder(orders="random", budget=30)],
    "none_of_the_others": [NoneOfTheOthers(), NoneOfTheOthers(replaces="distractor")],
    "options_only": [OptionsOnly()],
    "context_removed": [ContextRemoved()],
    "brand_generic": [
        BrandGeneric(pairs=BRANDS),
        BrandGeneric(to="generic", field="options", pairs=TURNED),
    ],
    "lasa": [Lasa(pairs=LOOK_ALIKES), Lasa(pairs=LOOK_ALIKES, budget=50)],
    "fabricated_detail": [FabricatedDetail(), FabricatedDetail(kind="sign", mitigation=True)],
    "false_statement": [
        FalseStatement(),
        FalseStatement(options="all", framing="authority", kinds=["exception"]),
    ],
    "challenge": [Challenge(), Challenge(framings=["neutral"])],
}
STORED = StoredArm(
    label="random",
    control=None,
    spec={"name": "entity_substitution", "budget": 3, "goal": "untargeted"},
    is_blind=True,
    changes_evidence=False,
    fields=("A", "B"),
    seeds=(0,),
    n_repeats=1,
    most=2,
)
SET = AttackSet(hash="h", source={"victim": "m"}, selection=Selection.ALL, arms=(STORED,))
ATTACKS["attacked"] = [AttackedArm(stored=STORED, set=SET, budget=budget) for budget in (1, 2)]
WITH_EDITS = tuple(
    replace(
        item,
        metadata={
            FIELD: [
                {
                    "arm": "random",
                    "seed": 0,
                    "repeat": 0,
                    "queries": [
                        {
                            "edits": [
                                asdict(Edit(field=x, start=0, end=1, replacement=f"changed{n}"))
                            ]
                        }
                        for n, x in enumerate(item.letters.replace(item.key, "")[:2])
                    ],
                }
            ]
        },
    )
    for item in ITEMS
)
READING = tuple(
    replace(
        item,
        passage=f"Case {i} is rare. It is treated with {item.key_text.upper()}. Once "
        f"{ITEMS[(i + 1) % len(ITEMS)].option('D')} was used.",
    )
    for i, item in enumerate(ITEMS)
)
PASSAGES = Passages.of(item.passage for item in READING)
SENTENCE_ATTACKS = (
    "swap_noise",
    "keyboard_noise",
    "synonym",
    "case_noise",
    "hyphen_noise",
    "ocr_noise",
    "abbreviation",
    "non_entity_noise",
)
NEED_MODELS = {"transformers", "llama_cpp", "spacy", "sentence_transformers"}
"""Back ends checked elsewhere: real models in tests/models, tiny ones in tests/local_models."""
SENTENCES: list[Any] = [
    *TaggedText(
        id="s",
        tokens=("patients", "took", "aspirin", "or", "vitamin", "C", "daily"),
        labels=("O", "O", "B-Drug", "O", "B-Drug", "I-Drug", "O"),
    ).units(),
    SentencePair(id="p", text_a="patients took aspirin", text_b="they were better", score=2.0),
]
ATTACK_OF = {name: registry.load("attacks", name)() for name in SENTENCE_ATTACKS}
MARKED = (Mention(field="passage", start=14, end=23, type="T121"),)
TABLE = {"aspirin": (("acetylsalicylic", "acid"),), "vitamin c": (("ascorbate",),)}


def test_every_registered_attack_is_checked_with_every_sampler():
    # `none` asks nothing.
    elsewhere = {*SENTENCE_ATTACKS, "none"}
    assert ATTACKS.keys() | elsewhere == registry.ATTACKS.keys()
    assert {attack.sampler for attack in ATTACKS["entity_substitution"]} == SAMPLERS.keys()


@pytest.mark.parametrize(
    "attack", [attack for arms in ATTACKS.values() for attack in arms], ids=repr
)
def test_an_attack_keeps_its_contract(attack):
    resources, more = tiny_resources(), {}
    if isinstance(attack, MedFuzz):
        resources = replace(resources, roles={"attacker": Decoding(), "judge": Decoding()})
        more = {"may_edit": ("context",), "reply": _attacker}
    if attack.fields & set(TEXTS):
        resources = replace(resources, passages=PASSAGES)
        more = {"may_edit": attack.fields & set(TEXTS)}
    if isinstance(attack, Probe):
        more = {"may_edit": (*TEXTS, FOLLOW_UP, "key", "distractors")}
    if isinstance(attack, OptionShuffle):
        more = {"may_edit": ("key", "distractors")}
    items = READING if attack.fields & set(TEXTS) else ITEMS
    if isinstance(attack, FabricatedDetail):
        items = tuple(replace(item, context="A patient comes in.") for item in ITEMS)
    check_attack(
        attack, WITH_EDITS if isinstance(attack, AttackedArm) else items, resources, **more
    )


def _attacker(call: Generate) -> Generated:
    turns = [{"role": turn.role, "content": turn.content} for turn in call.prompt]
    if turns[0]["role"] == "system":
        speak = scripted_attacker(ITEMS, ["He works as a clerk.", "He is a teacher.", "!Gone."])
    else:
        speak = scripted_judge(ITEMS, doubts="teacher")
    return Generated(text=speak([turns])[0])


@pytest.mark.parametrize("search", ["none", "greedy", "random"])
@pytest.mark.parametrize("name", SENTENCE_ATTACKS)
def test_an_attack_on_sentences_keeps_its_contract(name, search):
    keys = {} if name in ("synonym", "abbreviation") else {"scope": "all"}
    budget = 1 if search == "none" else 5
    attack = registry.load("attacks", name)(search=search, budget=budget, **keys)
    resources = NoiseResources(
        replacements={getattr(attack, "table", ""): TABLE},
        mentions={"patients took aspirin": ((14, 21, "Drug"),), "they were better": ()},
    )
    check_attack(attack, SENTENCES, resources)


@pytest.mark.parametrize("search", ["none", "greedy", "random"])
@pytest.mark.parametrize("name", SENTENCE_ATTACKS)
def test_noise_on_questions_keeps_its_contract(name, search):
    keys = {} if name in ("synonym", "abbreviation") else {"scope": "all"}
    budget = 1 if search == "none" else 5
    resources = NoiseResources(replacements={getattr(ATTACK_OF[name], "table", ""): TABLE})
    items = [replace(item, passage="Patients took vitamin C.", mentions=MARKED) for item in ITEMS]
    for field, may_edit in {
        "question": ("context", "stem"),
        "passage": ("passage",),
        "options": ("key", "distractors"),
    }.items():
        attack = registry.load("attacks", name)(search=search, budget=budget, field=field, **keys)
        check_attack(attack, items, resources, may_edit=may_edit)


def test_an_attack_keeps_its_contract_on_a_vocabulary_of_one_name():
    resources = tiny_resources(PerturbationTable(["mirozide"]))
    check_attack(EntitySubstitution(sampler="random", budget=8), ITEMS, resources)
    check_attack(DiscreteZoo(budget=8), ITEMS, resources)


CALLS: list[Call] = [
    *(Choose(f"prompt {i}", "ABCD") for i in range(7)),
    Score("p", (" A", " B", " C")),
    Score("p", (" A",), first_token=True),
    Rank("p", ("one", "two", "three")),
    Generate("p"),
    Generate((Message("user", "p"),), Decoding(temperature=1.0)),
]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_mock_keeps_its_contract(batch_size):
    check_backend(MockBackend(batch_size), CALLS)


@pytest.mark.parametrize(
    "value", ["'A'", "{'answer': 'C'}", "{'scores': dict(A=1, B=2, C=0, D=0)}"]
)
def test_a_function_keeps_its_contract(tmp_path, value):
    (tmp_path / "v.py").write_text(f"def f(prompts):\n    return [{value} for _ in prompts]\n")
    options = BackendOptions(target="v.py:f", base=tmp_path, batch_size=4)
    check_backend(registry.load("backends", "python")(options), CALLS[:7])


@pytest.mark.parametrize(
    "victim",
    [
        never_errs(ITEMS),
        errs_on_any_change(ITEMS),
        errs_on_cue(ITEMS, "zide"),
        errs_on_names(ITEMS, REPLACEMENTS),
    ],
)
def test_planted_victims_are_functions_for_the_python_back_end(victim):
    from medstress.backends.python import wrap_function
    from medstress.core.items import Candidate
    from medstress.tasks.multiple_choice import listing

    template = load_template("qstab")
    calls = [Choose(listing(template, Candidate(item=item)), item.letters) for item in ITEMS]
    backend = wrap_function(victim)
    check_backend(backend, calls)
    assert [reply.answer for reply in backend.answer(calls)] == [i.key for i in ITEMS]  # type: ignore[union-attr]


def test_the_scripted_back_end_keeps_its_contract():
    check_backend(ScriptedBackend(batch_size=4), CALLS)


def test_a_server_keeps_its_contract():
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    told = {"p": "B", "r": "C", "s": "B"}
    calls: list[Call] = [
        *(Score(prompt, (" A", " B", " C"), first_token=True) for prompt in told),
        Score((Message("user", "p"),), ("A", "B", "C"), first_token=True),
        *(Score(f"Question {i}?", (" aspirin", " warfarin sodium")) for i in range(3)),
        Generate("p"),
        Generate((Message("user", "r"),), Decoding(temperature=1.0)),
    ]
    with FaultServer(answer=lambda prompt: told.get(prompt, "A")) as server:
        options = BackendOptions(model=server.model, base_url=server.url, max_in_flight=2)
        backend = registry.load("backends", "openai")(options)
        check_backend(backend, calls)
        backend.close()
    assert len(server.log) == 5 * len(calls)


def test_every_registered_back_end_is_checked():
    asked = registry.BACKENDS.keys() - {"recorded"}  # which answers nothing
    assert {"mock", "openai", "python", "scripted"} | NEED_MODELS == asked


LISTING = ("qstab", "medmcqa", "chat", "untagged", "open_book", "open_book_chat")
TASKS = [
    *((AnswerBy.LETTER, prompt, {}) for prompt in LISTING),
    *(
        (AnswerBy.TEXT, prompt, {"text_score": score})
        for prompt in ("cloze", "qstab", "chat", "open_book_cloze")
        for score in TextScore
    ),
    *((AnswerBy.GENERATE, "qstab", {"parser": parser}) for parser in PARSERS),
    *((AnswerBy.CHOICE, prompt, {}) for prompt in ("qstab", "medmcqa", "chat", "cloze")),
    *((AnswerBy.HEAD, prompt, {}) for prompt in ("question", "cloze")),
]


@pytest.mark.parametrize(("answer_by", "prompt", "given"), TASKS)
def test_a_task_keeps_its_contract(answer_by, prompt, given):
    task = MultipleChoice(template=load_template(prompt), answer_by=answer_by, **given)
    check_task(task, ITEMS)


def test_every_prompt_way_of_answering_and_parser_is_checked():
    assert {prompt for _, prompt, _ in TASKS} == set(shipped_prompts())
    assert {answer_by for answer_by, _, _ in TASKS} == set(AnswerBy)


def test_the_table_is_a_perturbation_set():
    table: PerturbationSet = PerturbationTable([*REPLACEMENTS, "ABROTINE", "far"])
    item = ITEMS[0]
    assert item.key_text == "Abrotine"
    allowed = [table.names[i] for i in table.allowed(item)]
    assert allowed == [*REPLACEMENTS, "far"]
    assert table.distances("x").tolist() == sorted(table.distances("x"))
    assert table.variant_class(item, "abrotine ") == "same_words"
    assert table.variant_class(item, "far") == "different"
    vectors = table.vectors_of(np.arange(len(table.names)))
    assert vectors.shape == (len(table.names), table.vector("any text").shape[0])
    assert vectors[-1] == pytest.approx(table.vector("far"))
    assert table.cosines(table.vector("far")) == pytest.approx(vectors @ table.vector("far"))
    assert table.vector("any text") @ table.vector("any text") == pytest.approx(1)
