"""Runs attacks: budgets, order, cache, batches, journal. Attacks do no I/O."""
