"""Paired comparisons: of two runs in which one thing differs, or of two arms of one run."""
