"""Drives attacks: budget, order, cache, batches, journal; the attacks themselves do no I/O."""
