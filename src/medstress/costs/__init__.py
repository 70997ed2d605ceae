"""What an experiment can cost at most, before a model is asked."""
