"""Wires the parts: from an experiment file to a run folder, and back to numbers."""
