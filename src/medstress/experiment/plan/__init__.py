"""From a checked experiment to everything that a run needs."""
