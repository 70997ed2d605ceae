"""DiscreteZOO: a gradient estimated from a few names, and the name that it points to."""
