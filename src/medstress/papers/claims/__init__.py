"""The claims of Xian et al. (2025) tested on a run: effects, verdicts, and their table."""
