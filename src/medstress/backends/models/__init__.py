"""Local models: files, weights, tokens, and what all ways of running them share."""
