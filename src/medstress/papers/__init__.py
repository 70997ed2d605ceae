"""The tables, figures and claims of the papers, from what a run holds."""
