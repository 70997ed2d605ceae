"""Probes of questions: variants that a reliable victim answers alike, and one idea each."""
