"""Shapley values of the words of a prompt, before and after an attack."""
