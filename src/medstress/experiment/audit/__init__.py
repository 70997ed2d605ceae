"""Check a run folder against itself, and pack it so that others can."""
