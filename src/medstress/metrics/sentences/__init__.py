"""Scores of tagged texts and of pairs: F1, correlation, recovery."""
