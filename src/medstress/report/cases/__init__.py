"""The cases of a run: what happened in each trial, as a record for page, server and terminal."""
