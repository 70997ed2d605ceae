"""The Python interface: run, tune, train, attack one item, read a run."""
