"""Functions of the user's as victims."""
