"""Attacks that ask for the names in a text get them in every group."""

from __future__ import annotations

from medstress.attacks import EntitySubstitution, NoOp, Paraphrase
from medstress.attacks.controls.arm import control_arm
from medstress.experiment.plan.parts import AttackPart, free_group, with_names

PDWS = EntitySubstitution(n=-2.0)


def test_names_are_found_where_a_control_of_any_attack_asks_for_them() -> None:
    groups = free_group([AttackPart(label="n", attack=NoOp(), is_labelled=False)])
    arm = control_arm(Paraphrase(), PDWS)
    with_control = [
        AttackPart(label="e", attack=PDWS, is_labelled=False),
        AttackPart(label="e / paraphrase", attack=arm, is_labelled=False),
    ]
    (without,) = with_names(groups, with_control[:1])
    assert without.resources.names_in is None
    (found,) = with_names(groups, with_control)
    assert found.resources.names_in is not None
    assert found.resources.names_in("He takes Warfarin daily.") == ["Warfarin"]
