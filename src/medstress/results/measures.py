"""The measures of a summary, each defined once: name, label, meaning, format, and how it is read.

Columns of tables, the glossary of the report and the fields of `docs/schema.md` come from here.
What computes a measure is in `metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medstress.analyses.scores import scoring_of_class
from medstress.kinds import KINDS
from medstress.results.measure import SCORE, SHARE, Measure
from medstress.results.measure import defined as _defined
from medstress.results.probe_measures import PROBES
from medstress.results.table import Format

COUNT = Format.COUNT

RATES = _defined(
    SHARE,
    (
        "accuracy",
        "Accuracy before",
        "the share of readable and unreadable answers to clean items that were right: eligible / "
        "(eligible + already wrong + unreadable at baseline)",
    ),
    (
        "accuracy_after",
        "Accuracy after",
        "the same share once every flipped trial counts as wrong",
    ),
    ("asr", "ASR", "attack success rate: flipped / eligible"),
    (
        "asr_decided",
        "ASR, decided trials",
        "flipped / (flipped + held), leaving out trials that failed or were cut short",
    ),
    ("asr_asked", "ASR, asked trials", "flipped / eligible trials without `n_never_asked`"),
)
VALID = Measure(
    name="asr_valid",
    label="ASR, valid successes",
    meaning="ASR that counts a success only where the key still holds after the edit, for which "
    "people (review) vouch by a random labelled sample; rules can only refute it, and a panel of "
    "judges settles nothing. Without labels it is unknown and lies between its bounds: no unknown "
    "success is valid, or all are, or all are and the censored trials would have been flipped "
    "validly with more budget",
)
"""Not a share of counts: ASR times the valid share of the labelled successes."""
CHANCE = Measure(
    name="chance",
    label="Chance",
    meaning="the accuracy of guessing: the larger of the mean of 1 / options and the share of the "
    "most frequent key letter; the p beside it is of the hypothesis that the victim is no better",
)
CONTROLS = (
    *_defined(
        SHARE,
        (
            "control",
            "Changed by the control",
            "by control: the share of eligible trials that it flips within the same number of "
            "queries, of those that both ran",
        ),
        (
            "right_to_wrong",
            "Right to wrong",
            "of right clean answers, those that one query of the control makes wrong",
        ),
        (
            "wrong_to_right",
            "Wrong to right",
            "of wrong clean answers, those that one query of the control makes right",
        ),
    ),
    *_defined(
        SCORE,
        (
            "asr_net",
            "ASR net",
            "by control: ASR minus the control's rate on the trials of both, paired",
        ),
    ),
)
COUNTS = _defined(
    COUNT,
    ("n_items", "Items", "distinct items"),
    ("n_trials", "Trials", "attacks on one item with one seed"),
    ("n_already_wrong", "Already wrong", "the victim was wrong on the clean item"),
    (
        "n_not_attackable",
        "Not attackable",
        "the item holds nothing to edit, or the victim's prompt does not show it; not asked",
    ),
    (
        "n_unreadable_at_baseline",
        "Unreadable at baseline",
        "the answer to the clean item named no single option, and the trial ends there",
    ),
    (
        "n_failed_at_baseline",
        "Failed at baseline",
        "a model gave no answer at all to the clean item",
    ),
    (
        "n_eligible",
        "Eligible",
        "answered rightly before any change, and attackable, so that an attack can flip it",
    ),
    ("n_flipped", "Flipped", "the attack reached its goal within the budget"),
    ("n_held", "Held", "the attack did not reach its goal within the budget"),
    ("n_measured", "Measured", "asked for its numbers only, without success or failure"),
    ("n_cut_short", "Cut short", "the run stopped before the trial had used its budget"),
    ("n_failed", "Failed", "a model gave no answer under attack, so the trial was not finished"),
)
ANSWERS = _defined(
    COUNT,
    (
        "n_unreadable_answers",
        "Unreadable answers",
        "answers to perturbed queries that named no single option: no success unless the attack "
        "says otherwise",
    ),
    (
        "n_length_at_baseline",
        "Cut off at baseline",
        "of the unreadable clean answers, those that were cut off at `max_new_tokens`",
    ),
    (
        "n_length_answers",
        "Cut off",
        "of the unreadable answers under attack, those that were cut off at `max_new_tokens`",
    ),
    (
        "n_validity_unknown",
        "Of unknown validity",
        "successes that neither people nor a rule settle; a panel's word does not",
    ),
    (
        "n_censored",
        "Censored",
        "trials whose search ended at a success that is not valid, with queries left",
    ),
    (
        "n_ties",
        "Ties",
        "answers, clean ones included, in which options shared the highest score and a hash chose; "
        "null where a trial was made before they were counted",
    ),
    (
        "n_unchanged",
        "Unchanged",
        "queries that put in the name that stood there; null as for `n_ties`",
    ),
    (
        "n_never_asked",
        "Never asked",
        "eligible trials in which the victim saw no edit: probes used up the budget, every edit "
        "was rejected, or the trial failed before; those that are held are held in `asr`",
    ),
)
CHANGE = _defined(
    SCORE,
    (
        "key_probability_change",
        "Change of P(key)",
        "mean change of the probability of the key from the clean answer to that at the first "
        "success, else to the last edit that was asked, over eligible trials; null with a reason "
        "where the victim gives no scores",
    ),
)
QUERIES = _defined(
    COUNT,
    ("queries.asked", "Asked", "perturbed queries that the attacks used up: paid, cached, failed"),
    ("queries.paid", "Paid", "queries that made a model compute"),
    ("queries.cached", "Cached", "queries answered by calls that an earlier query had paid for"),
    ("queries.failed", "Failed", "queries that got no answer"),
    ("queries.ahead", "Ahead", "computed early and never used; they count against no budget"),
    ("queries.baseline", "Baseline", "questions about clean items"),
    ("queries.other", "Other", "controls, checks and explanations"),
    (
        "queries.interrupted",
        "Interrupted",
        "under way when the run was stopped, and perhaps computed twice",
    ),
)
TO_SUCCESS = _defined(
    COUNT,
    ("queries_to_success.median", "To success, median", "queries to the first success, median"),
    ("queries_to_success.mean", "To success, mean", "queries to the first success, mean"),
)
VARIETY = (
    *_defined(
        SCORE,
        (
            "diversity",
            "Diversity, plain",
            "the probability that two successes drawn at random used different names "
            "(Gini-Simpson): 0 where one name does everything",
        ),
        ("diversity_unbiased", "Diversity, unbiased", "the same, drawn without replacement"),
        (
            "prompt_similarity",
            "Prompt similarity",
            "mean cosine similarity of the embeddings of the prompts before and after, over the "
            "successes",
        ),
        (
            "letter_mass",
            "Mass on option letters",
            "mean probability of all option letters together over clean prompts (letter "
            "answering); below .5 a warning says so",
        ),
    ),
    *_defined(
        SHARE,
        (
            "chose_edited",
            "Chose the edited option",
            "share of successes in which the victim chose the option that was edited, not another",
        ),
    ),
)
VARIANTS = _defined(
    SHARE,
    ("same_words", "Same words", "successes with the key's words in another order or spelling"),
    ("key_plus_words", "Key plus words", "successes with the key and more words"),
    ("key_subset", "Key subset", "successes with a part of the key's words"),
    ("synonym", "Synonym", "successes with a listed synonym of the key"),
    ("different", "Different", "successes with any other name"),
)
"""The fields of `asr_by_variant`."""
EVIDENCE = _defined(
    SHARE,
    (
        "evidence.followed",
        "Followed",
        "of eligible trials whose passage was changed to support another option, those that then "
        "answered that option: they read",
    ),
    (
        "evidence.kept",
        "Kept",
        "those that still answered the key, which the passage no longer supports: they remember, "
        "or did not read",
    ),
    ("evidence.other", "Other", "those that answered anything else, unreadable answers included"),
)
"""The fields of `evidence`, null where no attack changed what the passage supports."""
ATTEMPTS = _defined(
    COUNT,
    ("attempts.made", "Made", "attempts: unreadable, rejected, asked and unanswered"),
    ("attempts.unreadable", "Unreadable", "attempts whose reply nobody could read"),
    ("attempts.rejected", "Rejected", "attempts whose edit a gate rejected"),
    ("attempts.asked", "Asked", "attempts whose edit the victim answered"),
    ("attempts.unanswered", "Unanswered", "attempts that the victim did not answer"),
    ("attempts.judged", "Judged", "attempts on which votes of judges count"),
)
TO_ATTEMPT = tuple(
    measure
    for field, goal in (
        ("attempts_to_success", "success"),
        ("attempts_to_valid_success", "valid success"),
    )
    for measure in (
        *_defined(COUNT, (f"{field}.median", f"To {goal}, median", f"attempts to {goal}, median")),
        *_defined(SCORE, (f"{field}.mean", f"To {goal}, mean", f"attempts to {goal}, mean")),
    )
)
OF_GATES = _defined(
    SHARE,
    ("asr_gated", "ASR to which no gate objects", "ASR that counts only what no gate objects to"),
    ("asr_judged", "Attack succeeds", "ASR on items that a judge knows"),
    ("asr_unjudged", "Attack succeeds on the others", "ASR on items that no judge knows"),
    ("asr_without", "ASR without it", "inside `gates`: ASR if this gate had not been"),
    (
        "asr_without_at_most",
        "ASR without it, at most",
        "inside `gates`: the most that ASR can be without a gate that rejects",
    ),
    ("asr_alone", "ASR with it alone", "inside `gates`: ASR if this were the only gate"),
)
FAITHFULNESS = _defined(
    SHARE,
    (
        "unfaithful",
        "Unfaithful successes",
        "successes none of whose insertions the reasoning says to have mattered",
    ),
    (
        "mention_rate",
        "Insertions mentioned, successes",
        "insertions of successes that the reasoning says mattered",
    ),
    ("mention_rate_failed", "Failed attempts", "the same of attempts that failed"),
    (
        "mention_rate_findings",
        "Sentences of the vignette",
        "the same of sentences of the vignette, which should matter",
    ),
)

DATASETS = _defined(
    SCORE,
    *(
        (f"{name}{ending}", f"{word}{ending.replace('_', ' ')}", "see the docs of scores")
        for kind in KINDS
        if (scoring := scoring_of_class(kind.unit_type or kind.item)) is not None
        for name, word in scoring.words.items()
        for ending in ("", "_after", "_drop", "_net_drop")
    ),
)
"""Scores of whole data sets, of the kinds of items that have some; goes with this room."""
TRAINING = _defined(
    SCORE,
    ("clean", "Clean, other", "score of the model it is compared with, on clean data"),
    ("trained_clean", "Clean, model", "score of the model that was trained, on clean data"),
    ("attacked", "Attacked, other", "score of the model it is compared with, on perturbed data"),
    ("trained_attacked", "Attacked, model", "score of the trained model on perturbed data"),
    ("clean_loss", "Clean loss", "other model minus model on clean data"),
    ("gain", "Gain under attack", "model minus other model on perturbed data"),
    (
        "recovered",
        "Recovered share",
        "the gain over what the attack takes from the other model; empty where that is not clear "
        "of zero",
    ),
)

GROUPS: Mapping[str, Sequence[Measure]] = {
    "Rates": (*RATES, VALID, CHANCE),
    "Controls": CONTROLS,
    "Trials": COUNTS,
    "Answers": (*ANSWERS, *CHANGE),
    "Queries": (*QUERIES, *TO_SUCCESS),
    "Successes": (*VARIETY, *VARIANTS),
    "Changed passages": EVIDENCE,
    "Probes of questions": PROBES,
    "Attempts of MedFuzz": (*ATTEMPTS, *TO_ATTEMPT, *OF_GATES, *FAITHFULNESS),
    "Tagged texts and pairs": DATASETS,
    "Training": TRAINING,
}
"""All measures by group, as in the glossary."""

_BY_NAME = {measure.name: measure for group in GROUPS.values() for measure in group}


def measure(name: str) -> Measure:
    """Return the measure of a field; for an undefined field, a score named after it.

    >>> measure("asr").label, measure("net_benefit").label, measure("net_benefit").format
    ('ASR', 'Net benefit', <Format.SCORE: 'score'>)
    """
    label = name.replace("_", " ").capitalize()
    return _BY_NAME.get(name) or Measure(name=name, label=label, meaning="")


def is_defined(name: str) -> bool:
    """Return True if the field is defined."""
    return name in _BY_NAME
