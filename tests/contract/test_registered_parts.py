"""Everything that is registered keeps the contract of its kind."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from fault_server import FaultServer
from medstress.attacks.attacked import AttackedArm
from medstress.attacks.noise import NoiseResources
from medstress.attacks.protocol import make_attack
from medstress.attacks.samplers import SUMMARIES as SAMPLERS
from medstress.backends.mock import MockBackend
from medstress.backends.options import BackendOptions
from medstress.core import registry
from medstress.core.attacked import FIELD, AttackSet, Selection, StoredArm
from medstress.core.calls import Call, Choose, Decoding, Generate, Generated, Message, Rank, Score
from medstress.core.items import FOLLOW_UP, TEXTS, Mention
from medstress.core.resources import Passages
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit
from medstress.entities.vocabularies import NamePairs
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.reading import PARSERS
from medstress.tasks.templates import load_template, shipped_prompts
from medstress.testing import (
    ScriptedBackend,
    check_attack,
    check_backend,
    check_task,
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
SALIENT = {"victim_span": "saliency"}
ATTACKS: dict[str, list[dict[str, Any]]] = {
    "entity_substitution": [
        {"sampler": "random", "budget": 20},
        {"n": 200, "budget": 1},
        {"sampler": "farthest", "budget": 5},
        {"sampler": "random", "budget": 6, "victim_span": "random"},
        {"sampler": "nearest", "budget": 6, **SALIENT},
        {"sampler": "exhaustive", "variants": "mark", **SALIENT},
        {"n": -3, "choices": "as_published", "goal": "C"},
        {"n": 5, "choices": "as_released", **SALIENT},
        {"sampler": "nearest", "max_edit_distance": {"tokens": 2}},
        {"sampler": "nearest", "max_edit_distance": 7, "unreadable_is_success": True},
    ],
    "discrete_zoo": [
        {},
        {"budget": 20, "similarity_threshold": -0.5, "word_ranking": "importance"},
        {"budget": 20, "answers": "hard", "candidates": 2},
        {"choices": "as_published", "budget": 20},
        {"choices": "as_released", "budget": 20},
    ],
    "medfuzz": [
        {"attempts": 1, "exemplars": 0},
        {"attempts": 2, "template": "misinformation"},
        {"attempts": 3, "goal": "C", "attack_all": True},
    ],
    "no_op": [{"budget": 12}],
    "repeat": [{"budget": 12}],
    "neutral_insertion": [{}, {"budget": 8, "sentences": 3}],
    "paraphrase": [{"budget": 8}],
    "same_type": [{"budget": 20}],
    "option_shuffle": [{"budget": 25}],
    "passage_swap": [{}, {"distractor": "B"}],
    "passage_distractor": [{}, {"budget": 1}, {"says": "contradicting"}],
    "passage_other": [{}],
    "passage_none": [{}],
    "option_order": [{}, {"orders": "random", "budget": 8}],
    "none_of_the_others": [{}, {"replaces": "distractor"}],
    "options_only": [{}],
    "context_removed": [{}],
    "brand_generic": [{"pairs": BRANDS}, {"to": "generic", "field": "options", "pairs": TURNED}],
    "lasa": [{"pairs": LOOK_ALIKES, "budget": 9}],
    "fabricated_detail": [{}, {"kind": "sign", "mitigation": True}],
    "false_statement": [{}, {"options": "all", "framing": "authority", "kinds": ["exception"]}],
    "challenge": [{}, {"framings": ["neutral"]}],
}
LETTERS = ("swap_noise", "keyboard_noise", "case_noise", "hyphen_noise", "ocr_noise")
NOISES = {
    **{name: {"scope": "all"} for name in (*LETTERS, "non_entity_noise")},
    "synonym": {},
    "abbreviation": {},
}
SEARCHES = [(name, {}) for name in NOISES] + [
    (name, {"search": search, "budget": 5})
    for name in ("swap_noise", "synonym")
    for search in ("greedy", "random")
]
READING = tuple(
    replace(
        item,
        passage=f"Case {i} is rare. It is treated with {item.key_text.upper()}. Once "
        f"{ITEMS[(i + 1) % len(ITEMS)].option('D')} was used.",
    )
    for i, item in enumerate(ITEMS)
)
SENTENCES: list[Any] = [
    *TaggedText(
        id="s",
        tokens=("patients", "took", "aspirin", "or", "vitamin", "C", "daily"),
        labels=("O", "O", "B-Drug", "O", "B-Drug", "I-Drug", "O"),
    ).units(),
    SentencePair(id="p", text_a="patients took aspirin", text_b="they were better", score=2.0),
]
MARKED = (Mention(field="passage", start=14, end=23, type="T121"),)
TABLE = {"aspirin": (("acetylsalicylic", "acid"),), "vitamin c": (("ascorbate",),)}
NEED_MODELS = {"transformers", "llama_cpp", "spacy", "sentence_transformers"}
"""Back ends checked elsewhere: real models in tests/models, tiny ones in tests/local_models."""


def test_every_registered_attack_is_checked_with_every_sampler():
    # `none` asks nothing; `attacked` is checked below.
    assert ATTACKS.keys() | NOISES.keys() | {"none", "attacked"} == registry.ATTACKS.keys()
    samplers = {keys.get("sampler", "pdws") for keys in ATTACKS["entity_substitution"]}
    assert samplers == SAMPLERS.keys()


@pytest.mark.parametrize(
    ("name", "keys"), [(name, keys) for name, rows in ATTACKS.items() for keys in rows], ids=str
)
def test_an_attack_keeps_its_contract(name, keys):
    attack, items, more = make_attack(name, keys), ITEMS, {}
    resources = tiny_resources()
    if name == "medfuzz":
        resources = replace(resources, roles={"attacker": Decoding(), "judge": Decoding()})
        more = {"may_edit": ("context",), "reply": _attacker}
    if attack.fields & set(TEXTS):
        items = READING
        resources = replace(resources, passages=Passages.of(item.passage for item in READING))
        more = {"may_edit": attack.fields & set(TEXTS)}
    if attack.is_probe:
        more = {"may_edit": (*TEXTS, FOLLOW_UP, "key", "distractors")}
    if name == "option_shuffle":
        more = {"may_edit": ("key", "distractors")}
    if name == "fabricated_detail":
        items = tuple(replace(item, context="A patient comes in.") for item in ITEMS)
    check_attack(attack, items, resources, **more)


def _attacker(call):
    turns = [{"role": turn.role, "content": turn.content} for turn in call.prompt]
    if turns[0]["role"] == "system":
        speak = scripted_attacker(ITEMS, ["He works as a clerk.", "He is a teacher.", "!Gone."])
    else:
        speak = scripted_judge(ITEMS, doubts="teacher")
    return Generated(text=speak([turns])[0])


def test_stored_edits_keep_the_contract():
    stored = StoredArm(
        label="random",
        spec={"name": "entity_substitution", "budget": 3, "goal": "untargeted"},
        is_blind=True,
        changes_evidence=False,
        fields=("A", "B"),
        seeds=(0,),
        n_repeats=1,
        most=2,
    )
    arms = AttackSet(hash="h", source={"victim": "m"}, selection=Selection.ALL, arms=(stored,))

    def entry(item):
        letters = item.letters.replace(item.key, "")[:2]
        edits = [Edit(field=x, start=0, end=1, replacement=f"changed{x}") for x in letters]
        queries = [{"edits": [asdict(edit)]} for edit in edits]
        return {"arm": "random", "seed": 0, "repeat": 0, "queries": queries}

    items = [replace(item, metadata={FIELD: [entry(item)]}) for item in ITEMS]
    check_attack(AttackedArm(stored=stored, set=arms, budget=2), items, tiny_resources())


@pytest.mark.parametrize(("name", "search"), SEARCHES)
def test_noise_keeps_its_contract(name, search):
    attack = make_attack(name, {**NOISES[name], **search})
    table = {getattr(attack, "table", ""): TABLE}
    mentions = {"patients took aspirin": ((14, 21, "Drug"),), "they were better": ()}
    check_attack(attack, SENTENCES, NoiseResources(replacements=table, mentions=mentions))
    items = [replace(item, passage="Patients took vitamin C.", mentions=MARKED) for item in ITEMS]
    for field, may_edit in {
        "question": ("context", "stem"),
        "passage": ("passage",),
        "options": ("key", "distractors"),
    }.items():
        attack = make_attack(name, {**NOISES[name], **search, "field": field})
        check_attack(attack, items, NoiseResources(replacements=table), may_edit=may_edit)


CALLS: list[Call] = [
    *(Choose(f"prompt {i}", "ABCD") for i in range(7)),
    Score("p", (" A", " B", " C")),
    Score("p", (" A",), first_token=True),
    Rank("p", ("one", "two", "three")),
    Generate("p"),
    Generate((Message("user", "p"),), Decoding(temperature=1.0)),
]


def test_the_mock_keeps_its_contract():
    check_backend(MockBackend(3), CALLS)


def test_a_function_keeps_its_contract(tmp_path):
    scores = "{'scores': dict(A=1, B=2, C=0, D=0)}"
    (tmp_path / "v.py").write_text(f"def f(prompts):\n    return [{scores} for _ in prompts]\n")
    options = BackendOptions(target="v.py:f", base=tmp_path, batch_size=4)
    check_backend(registry.load("backends", "python")(options), CALLS[:7])


def test_the_scripted_back_end_keeps_its_contract():
    check_backend(ScriptedBackend(batch_size=4), CALLS)


def test_a_server_keeps_its_contract():
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
