"""The attack: its contract, by hand, and in the real engine."""

from medstress_example.look_alike import LookAlike

from medstress.plugin import check_attack, drive, planted, small_run, tiny_questions, tiny_resources

ITEMS, RESOURCES = tiny_questions(3), tiny_resources()


def test_the_contract():
    check_attack(LookAlike(), ITEMS, RESOURCES)


def test_it_says_what_it_asks_next_and_stops_at_the_first_success():
    held = drive(LookAlike(), ITEMS[0], RESOURCES)
    assert len(held.queries) == 4
    assert held.pick is None
    second = held.queries[1]
    lost = drive(LookAlike(), ITEMS[0], RESOURCES, errs=lambda query: query == second)
    assert lost.queries == held.queries[:2]
    assert lost.pick == second.candidate


def test_a_model_that_reads_only_the_options_as_they_were_is_lost():
    victim = planted(ITEMS, lambda item, options: options != item.options)
    assert [row["verdict"] for row in small_run(LookAlike(), victim, ITEMS)] == ["flipped"] * 3
