"""Vocabularies, name variants, synonyms, embeddings, and the perturbation sets made of them."""
