"""Explanations: token-wise Shapley values of prompts before and after an attack."""
