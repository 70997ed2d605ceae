"""Curves: success against the budget, the exponent n and the size of the victim."""
