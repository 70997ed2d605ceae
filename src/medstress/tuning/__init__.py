"""Choosing the exponent n on a tuning split, then the report on the rest."""
