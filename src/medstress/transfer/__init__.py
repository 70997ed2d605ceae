"""Successes asked of other victims and of other items: transfer and universality."""
