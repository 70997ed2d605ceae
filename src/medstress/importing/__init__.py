"""Logs of other evaluation tools, read as runs."""
