"""Running an experiment: trials, then analyses; resumed after any stop."""
