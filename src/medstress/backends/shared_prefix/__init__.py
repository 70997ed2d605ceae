"""Log probabilities of many texts with a common prefix, which is read once (README)."""
