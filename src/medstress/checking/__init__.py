"""Measures checkers: how often they place two names, and how often they are right."""
