"""Vocabularies, name variants, synonyms, embeddings, and the perturbation sets they make."""
