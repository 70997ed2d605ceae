"""The tables and figures of the papers, from what a run holds."""
