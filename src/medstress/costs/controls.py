"""Count the queries of control arms, which ask the same beside attacks with equal budget."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.controls.same_type import RandomNames
from medstress.core.hashing import content_hash


class SharedControls:
    """The queries and checks of control arms that are known to be needed.

    Arms of one control draw the same variants of an item with the same seed and repeat, so that
    the longest holds the others. Its checks are shared by arms with the same goal.
    """

    def __init__(self) -> None:
        self._queries: dict[Hashable, int] = {}
        self._checked: set[Hashable] = set()

    def add(
        self,
        arm: ControlArm,
        place: Hashable,
        seeds: Sequence[int],
        n: int,
        *,
        n_checks: int,
    ) -> int:
        """Return how many queries an arm adds on one item, over all its seeds and repeats.

        Args:
            arm: the arm.
            place: its group and item.
            seeds: the seeds of the experiment.
            n: the most queries of one trial.
            n_checks: flip checks of a success.
        """
        traits, added = arm.traits, 0
        draws = content_hash({**arm.spec(), "budget": None, "control_of": None})
        # Conversations are the attack's own, and so are the spans that get random names.
        depends = traits.in_turns or isinstance(arm.control, RandomNames)
        of = content_hash({**arm.of.spec(), "budget": None} if depends else None)
        for seed in (0,) if traits.deterministic else seeds:
            for repeat in range(traits.repeats):
                drawn = (draws, of, place, seed, repeat)
                added += max(0, n - self._queries.get(drawn, 0))
                self._queries[drawn] = max(n, self._queries.get(drawn, 0))
                checked = (*drawn, str(traits.goal), traits.unreadable_is_success)
                if n and checked not in self._checked:
                    self._checked.add(checked)
                    added += n_checks
        return added
