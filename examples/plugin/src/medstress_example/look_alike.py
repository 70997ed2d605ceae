"""Look-alike names: a distractor gets the names that are spelt most like the right answer."""

from rapidfuzz.distance import JaroWinkler

from medstress.plugin import Attack, Predict, ask, copy_case, distractor_spans, parameters


@parameters
class LookAlike(Attack):
    """Replace the first entity of the distractors by names spelt like the right answer."""

    name = "look_alike"
    needs = frozenset({"names"})
    fields = frozenset({"options"})
    is_random = False

    budget: int = 4
    """Perturbed queries an item."""

    def obstacle(self, item, resources):
        """Why this item cannot be attacked, or None."""
        if not distractor_spans(item, resources):
            return f"no wrong option mentions an entity of type {resources.group}"
        if resources.perturbations.allowed(item).size == 0:
            return "no name of the vocabulary may replace it"
        return None

    def run(self, item, rng, resources):
        """Ask the likest name first; stop at the first success."""
        span, table = distractor_spans(item, resources)[0], resources.perturbations
        original, key = item.option(span.field)[span.start : span.end], item.key_text.casefold()
        names = sorted(table.names[i] for i in table.allowed(item))
        names.sort(key=lambda name: -JaroWinkler.similarity(key, name.casefold()))
        clean = item.candidate()
        queries = [Predict(clean.edit(span, copy_case(name, original))) for name in names]
        for i, query in enumerate(queries[: self.budget]):
            (answer,) = yield from ask([query], then=queries[i + 1 : self.budget])
            if answer.reached_goal:
                return query.candidate
        return None
