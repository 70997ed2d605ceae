"""What significance tests of successes are computed from, and their families."""
