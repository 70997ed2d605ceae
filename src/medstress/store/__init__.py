"""The run folder: one SQLite file that every number and picture is a pure function of."""
