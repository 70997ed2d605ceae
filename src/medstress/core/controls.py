"""Names of the controls that may stand beside an attack on questions."""

CONTROLS = ("repeat", "no_op", "same_type", "neutral_insertion", "paraphrase", "option_shuffle")
"""As in `[experiment] controls`; the arm beside an attack is labelled `<attack> / <control>`."""

MEANINGS = {
    "repeat": "when the same prompt is asked again",
    "no_op": "when only white space, punctuation or letter case move",
    "same_type": "when random names of the type stand there",
    "neutral_insertion": "when sentences that do not matter are put in",
    "paraphrase": "when the question is put in other words",
    "option_shuffle": "when the options stand in another order",
}
"""What each does, as a sentence says it."""
